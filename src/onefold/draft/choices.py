"""What is chosen for a dataset: each choice made once, from those before it."""

from __future__ import annotations

from onefold.draft.apply import Append, Log, Upsert, draft_apply
from onefold.draft.evidence import Column, header_columns, key_columns, together, unnamed_parts, value_columns, weigh
from onefold.draft.fields import contents_of, draft_fields
from onefold.draft.identity import Found, find_business_key, find_message_id, producer_headers, resent
from onefold.draft.sample import Sample
from onefold.draft.values import Message, Opened
from onefold.errors import NoDraftError


class Choices:
    """The choices for one dataset, each made once from those before it."""

    def __init__(self, name: str, sample: Sample, opened: Opened, *, several: bool = False) -> None:
        self.name, self.sample, self.opened, self.several = name, sample, opened, several
        messages = opened.messages
        self.fields = draft_fields(messages)
        if not self.fields.declared:
            left = ", ".join(f"{field!r} ({reason})" for field, reason in self.fields.left_out[:5])
            problem = f"the values have no field that can be declared{': ' + left if left else ''}"
            raise NoDraftError(name, sample.place, problem, "Fields need names of letters, digits and _.")
        self.headers = header_columns(messages)
        self.producer = producer_headers(self.headers)
        self.applied = self._apply(messages)
        if isinstance(self.applied, Upsert):
            reason = "the part of the key has this column"
            self.fields = self.fields.without(self.applied.key_names, reason)
        # A tombstone is a message only where it deletes.
        self.kept = [one for one in messages if one.value is not None or self.deletes]
        self.contents = contents_of(self.kept, self.fields.declared)
        self.columns = self._value_columns(self.kept)
        self.message_id = find_message_id(header_columns(self.kept), self.columns, self.contents)
        self.business_key = self._business_key()

    @property
    def deletes(self) -> bool:
        """Whether a tombstone is a message."""
        return isinstance(self.applied, Upsert) and self.applied.tombstones > 0

    def _value_columns(self, messages: list[Message]) -> list[Column]:
        return value_columns(messages, {field.name: field.read_as for field in self.fields.declared if field.scalar})

    def _apply(self, messages: list[Message]) -> Upsert | Append:
        headers = [one for one in self.headers if not self.producer or one.name not in self.producer]
        log = Log(
            key=key_columns(messages, self.opened.key_format),
            unnamed=unnamed_parts(messages, self.opened.key_format),
            headers=headers,
            fields=self._value_columns(messages),
            partitions=[(one.record.topic, one.record.partition) for one in messages],
            contents=contents_of(messages, self.fields.declared),
            nulls=[one.value is None and one.record.key is not None for one in messages],
            exact=self.sample.exact,
            several=self.several,
        )
        own = find_message_id([], log.fields, log.contents)
        applied = draft_apply(log, own.expressions[0] if own else "")
        if isinstance(applied, Upsert) and not self.fields.without(applied.key_names, "").declared:
            note = f"{applied.reason}; but the values hold nothing beside the parts of the key"
            return Append("the values hold nothing beside the parts of the key", (note,))
        return applied

    def _business_key(self) -> Found | None:
        if isinstance(self.applied, Upsert):
            return None
        found = find_business_key(self.columns, self.contents, self.name)
        if found or self.message_id or self.sample.exact:
            return found
        named = {field.name: field for field in self.fields.declared if field.scalar and field.required}
        whole = [one for one in self.columns if one.name in named]
        if not whole:
            problem = "layout connect has no exact positions, and no header or field tells messages apart"
            raise NoDraftError(self.name, self.sample.place, problem, "Let the producer send an id.")
        evidence = weigh(together(whole), self.contents)
        reason = f"NOTHING TELLS MESSAGES APART: equal content is taken for the same message ({evidence})"
        return Found(tuple(one.expression for one in whole), reason, evidence)

    @property
    def sent_again(self) -> int:
        """Records that only the business key knows again."""
        if not (self.message_id and self.business_key):
            return 0
        by_name = {one.expression: one for one in [*self.columns, *header_columns(self.kept)]}
        parts = [by_name[expression] for expression in self.business_key.expressions]
        return resent(parts, by_name[self.message_id.expressions[0]].cells, self.contents)

    def rejected(self) -> int:
        """The records of the sample that the draft itself would reject."""
        of_fields = {id(self.opened.messages[index]) for index in self.fields.rejected}
        nulls = {id(one) for one in self.opened.messages if one.value is None and not self.deletes}
        columns = {one.expression: one for one in [*self.columns, *key_columns(self.kept, self.opened.key_format)]}
        columns |= {one.expression: one for one in header_columns(self.kept)}
        deciding = set(self._deciding())
        empty = {
            id(message)
            for expression, column in columns.items()
            if expression in deciding
            for message, cell in zip(self.kept, column.cells, strict=True)
            if cell is None
        }
        return self.sample.unreadable + self.opened.problems.total() + len(of_fields | nulls | empty)

    def _deciding(self) -> tuple[str, ...]:
        if isinstance(self.applied, Upsert):
            return (*self.applied.key, *(one[one.find("(") + 1 :].rstrip(")") for one in self.applied.version))
        if self.business_key and (self.sent_again or not self.message_id):
            return self.business_key.expressions
        return self.message_id.expressions if self.message_id else ()

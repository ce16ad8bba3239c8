"""What is chosen for a dataset: each choice made once, from those before it."""

from __future__ import annotations

from collections.abc import Sequence

from onefold.draft.absences import describe_absences
from onefold.draft.apply import Append, Log, Upsert, draft_apply
from onefold.draft.differences import Differences, find_differences
from onefold.draft.entries import counted, scalar
from onefold.draft.evidence import Column, header_columns, key_columns, together, unnamed_parts, value_columns, weigh
from onefold.draft.fields import contents_of, draft_fields
from onefold.draft.identity import (
    Found,
    find_business_key,
    find_cloud_event,
    find_message_id,
    named_ids,
    producer_headers,
    resent,
)
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
        headers = header_columns(self.kept)
        self._by_expression = {
            column.expression: column
            for column in [*headers, *self.columns, *key_columns(self.kept, opened.key_format)]
        }
        self.event = find_cloud_event(headers, self.columns, self.contents)
        self.message_id = self._event_id() if self.event else find_message_id(headers, self.columns, self.contents)
        self.business_key = self._business_key()

    @property
    def deletes(self) -> bool:
        """Whether a tombstone is a message."""
        return isinstance(self.applied, Upsert) and self.applied.deletes

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
            compacted=self.sample.compacted,
        )
        own = find_cloud_event([], log.fields, log.contents) or find_message_id([], log.fields, log.contents)
        applied = draft_apply(log, " and ".join(own.expressions) if own else "")
        if isinstance(applied, Upsert) and not self.fields.without(applied.key_names, "").declared:
            note = f"{applied.reason}; but the values hold nothing beside the parts of the key"
            return Append("the values hold nothing beside the parts of the key", (note,))
        return applied

    def _event_id(self) -> Found | None:
        """Mode upsert: the id of CloudEvents alone, if no two sources share one; for a copy that is sent again is
        known by key, content and message id."""
        assert self.event
        source, id_ = self.event.expressions
        sources = [str(cell) for cell in self._by_expression[source].cells]
        shared = weigh(self._by_expression[id_].cells, sources).clashing
        if shared or not isinstance(self.applied, Upsert):
            return None
        reason = f"{self.event.reason}. A message id is one expression, and no id is of two sources in the sample"
        return Found((id_,), reason, self.event.evidence)

    def _business_key(self) -> Found | None:
        if self.event and not self.message_id:
            return self.event
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
    def drafted_business_key(self) -> Found | None:
        """The business key, if it folds what no message id does."""
        return self.business_key if self.sent_again or not self.message_id else None

    @property
    def sent_again(self) -> int:
        """Records that only the business key knows again."""
        if not (self.message_id and self.business_key):
            return 0
        parts = [self._by_expression[expression] for expression in self.business_key.expressions]
        return resent(parts, self._by_expression[self.message_id.expressions[0]].cells, self.contents)

    def rejected(self) -> int:
        """The records of the sample that the draft itself would reject."""
        of_fields = {id(self.opened.messages[index]) for index in self.fields.rejected}
        nulls = {id(one) for one in self.opened.messages if one.value is None and not self.deletes}
        deciding = set(self._deciding())
        empty = {
            id(message)
            for expression, column in self._by_expression.items()
            if expression in deciding
            for message, cell in zip(self.kept, column.cells, strict=True)
            if cell is None
        }
        return self.sample.unreadable + self.opened.problems.total() + len(of_fields | nulls | empty)

    def differences(self, expressions: Sequence[str]) -> Differences:
        """What differs between messages of which all these are equal; nothing where one is of the log itself."""
        columns = [self._by_expression[text] for text in expressions if text in self._by_expression]
        if not columns or len(columns) < len(expressions):
            return Differences(())
        return find_differences(together(columns), self.kept, self.fields.declared)

    @property
    def key_and_version(self) -> tuple[str, ...]:
        """Mode upsert: what key and version are read from."""
        if not isinstance(self.applied, Upsert):
            return ()
        return (*self.applied.key, *(one[one.find("(") + 1 :].rstrip(")") for one in self.applied.version))

    def unfit_id(self) -> str:
        """A sentence on what has the name of a message id, with contents that differ only in times; or nothing."""
        if self.message_id or self.event:
            return ""
        times = {field.name for field in self.fields.declared if field.is_time}
        for what, column in named_ids(header_columns(self.kept), self.columns):
            evidence = weigh(column.cells, self.contents)
            if evidence.consistent or not evidence.always or column.expression in self.key_and_version:
                continue
            differences = self.differences([column.expression])
            proposal = differences.proposal(self.key_and_version)
            if proposal and times.issuperset(name for name, _ in differences.counts):
                clashing = f"{evidence.clashing} of {counted(evidence.distinct, 'value')} of {what} {column.name}"
                said = f"{clashing} have several contents, {differences}"
                return f"perhaps: message_id: {scalar(column.expression)}, and {proposal}: {said}"
        return ""

    def absences(self) -> str:
        """Mode upsert: a sentence on fields that later records of a key leave out; or nothing."""
        if not isinstance(self.applied, Upsert):
            return ""
        keys = together([self._by_expression[expression] for expression in self.applied.key])
        return describe_absences(keys, self.kept, self.fields.declared)

    def _deciding(self) -> tuple[str, ...]:
        if isinstance(self.applied, Upsert):
            return self.key_and_version
        if self.drafted_business_key:
            return self.drafted_business_key.expressions
        return self.message_id.expressions if self.message_id else ()

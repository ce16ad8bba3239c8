"""What is chosen for a dataset: each choice made once, from those before it."""

from __future__ import annotations

from collections.abc import Sequence

from onefold.dataset.envelopes import Envelope
from onefold.dataset.expressions import parse, paths
from onefold.draft.absences import describe_absences
from onefold.draft.apply import Append, Log, Upsert, draft_apply, key_of_changes, upsert_of_changes
from onefold.draft.changes import Changes
from onefold.draft.differences import Differences, find_differences
from onefold.draft.entries import counted, scalar
from onefold.draft.evidence import (
    Cell,
    Column,
    attribute_columns,
    header_columns,
    key_columns,
    together,
    unnamed_parts,
    value_columns,
    weigh,
)
from onefold.draft.fields import contents_of, draft_fields
from onefold.draft.identity import (
    Found,
    doubt,
    find_business_key,
    find_cloud_event,
    find_message_id,
    named_ids,
    partial_ids,
    producer_headers,
)
from onefold.draft.message import Message
from onefold.draft.messages import count_unproved, find_copies, sequences_in_partitions, sequences_of
from onefold.draft.sample import Sample
from onefold.draft.values import Opened
from onefold.errors import NoDraftError

_ADD_AN_ID = (
    "Let the producer send an id of the message (a header such as message-id, exported with the records), or let the "
    "connector add each record's partition and offset to its value (Connect's transform InsertField), or export in a "
    "layout that has offsets (kcat, aiven, parquet, segments). If equal fields do mean one message, write the dataset "
    "file yourself, with these fields as identity.business_key."
)
_MOST_NAMED = 5


class Choices:
    """The choices for one dataset, each made once from those before it."""

    def __init__(self, name: str, sample: Sample, opened: Opened, *, several: bool = False) -> None:
        self.name, self.sample, self.opened, self.several = name, sample, opened, several
        messages = opened.messages
        self.changes = opened.changes if opened.changes and opened.changes.envelope is Envelope.DEBEZIUM else None
        self.fields = draft_fields(messages, opened.known)
        if not self.fields.declared:
            left = ", ".join(f"{field!r} ({reason})" for field, reason in self.fields.left_out[:5])
            problem = f"the values have no field that can be declared{': ' + left if left else ''}"
            raise NoDraftError(name, sample.place, problem, "Fields need names of letters, digits and _.")
        self.producer = producer_headers(header_columns(messages))
        self.headers = [*header_columns(messages), *attribute_columns(messages)]
        self.applied = self._apply(messages)
        if isinstance(self.applied, Upsert):
            reason = "the part of the key has this column"
            self.fields = self.fields.without(self.applied.key_names, reason)
        # A tombstone is a message only where it deletes.
        self.kept = [message for message in messages if message.value is not None or self.deletes]
        self.contents = contents_of(self.kept, self.fields.declared)
        self.columns = self._value_columns(self.kept)
        attributes = attribute_columns(self.kept)
        headers = [*header_columns(self.kept), *attributes]
        self._by_expression = {
            column.expression: column
            for column in [*headers, *self.columns, *key_columns(self.kept, opened.key_format)]
        }
        self._sequences = sequences_of(self.kept, self.producer)
        self.event = find_cloud_event(headers, self.columns, self.contents, self._sequences, attributes)
        self.message_id = (
            self._event_id() if self.event else find_message_id(headers, self.columns, self.contents, self._sequences)
        )
        if self.changes:  # an id in a row is that of a thing
            self.message_id = None
        self._marks = self._same_messages(headers)
        self.business_key = self._business_key()
        self.drafted_business_key = self._drafted_business_key()
        self.fields = self.fields.without_defaults(self._telling_fields())

    def _telling_fields(self) -> set[str]:
        """The fields by which messages, keys and versions differ."""
        found = [*self.key_and_version]
        for identity in (self.message_id, self.drafted_business_key):
            found += identity.expressions if identity else ()
        return {path.name for text in found for path in paths(parse(text)) if path.root == "value"}

    @property
    def deletes(self) -> bool:
        """Whether a tombstone is a message."""
        return isinstance(self.applied, Upsert) and self.applied.deletes

    def _value_columns(self, messages: list[Message]) -> list[Column]:
        return value_columns(messages, {field.name: field.read_as for field in self.fields.declared if field.scalar})

    def _apply(self, messages: list[Message]) -> Upsert | Append:
        headers = [header for header in self.headers if not self.producer or header.name not in self.producer]
        log = Log(
            key=key_columns(messages, self.opened.key_format),
            unnamed=unnamed_parts(messages, self.opened.key_format),
            headers=headers,
            fields=self._value_columns(messages),
            partitions=[(message.record.topic, message.record.partition) for message in messages],
            contents=contents_of(messages, self.fields.declared),
            nulls=[message.value is None and message.record.key is not None for message in messages],
            exact=self.sample.exact,
            several=self.several,
            compacted=self.sample.compacted,
        )
        if self.changes:
            return self._upsert_of_changes(log, self.changes)
        sequences = sequences_of(messages, self.producer)
        own = find_cloud_event([], log.fields, log.contents, sequences, attribute_columns(messages))
        own = own or find_message_id([], log.fields, log.contents, sequences)
        applied = draft_apply(log, " and ".join(own.expressions) if own else "")
        if isinstance(applied, Upsert) and not self.fields.without(applied.key_names, "").declared:
            note = f"{applied.reason}; but the values hold nothing but the parts of the key"
            return Append("the values hold nothing but the parts of the key", (note,))
        return applied

    def _upsert_of_changes(self, log: Log, changes: Changes) -> Upsert:
        """Upsert by the order of the log.

        Raises:
            NoDraftError: no offset orders the changes, or they have no key.
        """
        if not self.sample.exact:
            problem = "the values are changes of a database, and nothing in this layout orders them"
            advice = "Export in a layout that has offsets (kcat, aiven, parquet, segments), or read the live topic."
            raise NoDraftError(self.name, self.sample.place, problem, advice)
        key = key_of_changes(log)
        if key is None:
            problem = "the values are changes of a database, and their Kafka keys do not name the key of the table"
            advice = "Let the connector send keys (message.key.columns for a table without a primary key)."
            raise NoDraftError(self.name, self.sample.place, problem, advice)
        columns, reason = key
        return upsert_of_changes(log, columns, reason, changes)

    def _event_id(self) -> Found | None:
        """Mode upsert: source and id of CloudEvents; for a copy that is sent again is known by key, content and message
        id, and in mode append they are the business key."""
        return self.event if isinstance(self.applied, Upsert) else None

    def _same_messages(self, headers: Sequence[Column]) -> list[list[Cell]]:
        """Columns whose equal values say that two messages are the same: message ids, and sequences of producers."""
        ids = partial_ids(headers, self.columns, self.contents, self._sequences)
        marks = [column.cells for column in ids]
        if self.message_id:
            marks.append(together(self._columns_of(self.message_id.expressions)))
        sequences = sequences_in_partitions(self.kept, self._sequences)
        return [*marks, sequences] if weigh(sequences, self.contents).consistent else marks

    def _business_key(self) -> Found | None:
        """What may be the business key, whether it is drafted or only a comment."""
        if self.event and not self.message_id:
            return self.event
        if isinstance(self.applied, Upsert):
            return None
        return find_business_key(self.columns, self.contents, self.name, self._marks)

    def _drafted_business_key(self) -> Found | None:
        """The business key, if it folds nothing unproved, and nothing else is the identity.

        Raises:
            NoDraftError: an identity is needed, and there is none that folds nothing unproved.
        """
        if self.message_id:
            return None
        if self.business_key and not self.business_key.unproved:
            return self.business_key
        if self.sample.exact or isinstance(self.applied, Upsert):
            return None
        return self._whole_content()

    def _whole_content(self) -> Found:
        """All that a message holds, where no position is exact: only if that folds nothing unproved."""
        named = {field.name for field in self.fields.declared if field.scalar and field.required}
        whole = [column for column in self.columns if column.name in named]
        problem = "its layout has no exact positions, and no header or field tells messages apart"
        if not whole:
            raise NoDraftError(self.name, self.sample.place, problem, _ADD_AN_ID)
        cells = together(whole)
        evidence = weigh(cells, self.contents)
        if unproved := count_unproved(cells, self._marks):
            names = ", ".join(column.name for column in whole[:_MOST_NAMED])
            names += f" and {len(whole) - _MOST_NAMED} more fields" if len(whole) > _MOST_NAMED else ""
            repeated = f"{unproved} of {counted(len(cells), 'record')} {'repeats' if unproved == 1 else 'repeat'}"
            problem += f": {repeated} the {names} of an earlier record, and folding them could lose events"
            raise NoDraftError(self.name, self.sample.place, problem, _ADD_AN_ID)
        reason = f"NOTHING TELLS MESSAGES APART: equal content is taken for the same message ({evidence})"
        return Found(tuple(column.expression for column in whole), reason, evidence)

    def duplicates(self) -> int:
        """The records of the sample that are duplicates under the draft, as the gate counts them."""
        rejected = self._rejected_messages()
        preference = [index for index, message in enumerate(self.kept) if id(message) not in rejected]
        preference.sort(key=lambda index: _order(self.kept[index]))
        identities = [self._deciding()]
        if isinstance(self.applied, Upsert):
            preference.reverse()
            if self.message_id:
                identities.append((*self.applied.key, *self.message_id.expressions))
        copies = set[int]()
        for expressions in identities:
            if columns := self._columns_of(expressions):
                copies |= find_copies(together(columns), self.contents, preference)
        return len(copies) + self.sample.repeated

    def rejected(self) -> int:
        """The records of the sample that the draft itself would reject."""
        return self.sample.unreadable + self.opened.problems.total() + len(self._rejected_messages())

    def _rejected_messages(self) -> set[int]:
        """The messages, each as its `id()`, that the draft itself would reject."""
        of_fields = {id(self.opened.messages[index]) for index in self.fields.rejected}
        nulls = {id(message) for message in self.opened.messages if message.value is None and not self.deletes}
        deciding = set(self._deciding())
        empty = {
            id(message)
            for expression, column in self._by_expression.items()
            if expression in deciding
            for message, cell in zip(self.kept, column.cells, strict=True)
            if cell is None
        }
        return of_fields | nulls | empty

    def differences(self, expressions: Sequence[str]) -> Differences:
        """What differs between messages of which all these are equal; nothing if any of them is of the log itself."""
        columns = self._columns_of(expressions)
        return find_differences(together(columns), self.kept, self.fields.declared) if columns else Differences(())

    def _columns_of(self, expressions: Sequence[str]) -> list[Column]:
        """The columns of expressions; none where one of these is of the log itself."""
        columns = [self._by_expression[text] for text in expressions if text in self._by_expression]
        return columns if len(columns) == len(expressions) else []

    @property
    def key_and_version(self) -> tuple[str, ...]:
        """Mode upsert: what key and version are read from."""
        if not isinstance(self.applied, Upsert):
            return ()
        return (*self.applied.key, *(part[part.find("(") + 1 :].rstrip(")") for part in self.applied.version))

    def unfit_id(self) -> str:
        """A sentence on what has the name of a message id, and why it is not drafted: it may be made of the content,
        or contents of one differ, but only in times; or nothing."""
        if self.message_id or self.event:
            return ""
        times = {field.name for field in self.fields.declared if field.is_time}
        for what, column in named_ids(header_columns(self.kept), self.columns):
            evidence = weigh(column.cells, self.contents)
            if not evidence.always or column.expression in self.key_and_version:
                continue
            if evidence.consistent:
                why = doubt(column, evidence, self._sequences)
                fold = f"it would fold {evidence.repeated} of {counted(evidence.total, 'record')}"
                return f"perhaps: message_id: {scalar(column.expression)} ({fold}, but {why})"
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


def _order(message: Message) -> tuple[int, str, int, int]:
    """The place of a message in the total order of records."""
    record = message.record
    return (-1 if record.timestamp is None else record.timestamp, record.topic, record.partition, record.offset)

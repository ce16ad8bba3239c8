"""From a sample to a draft: every choice with its reason, in the order of a dataset file's keys."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

from onefold.dataset.envelopes import Envelope
from onefold.dataset.layouts import LAYOUTS
from onefold.dataset.names import of_the_log
from onefold.dataset.source import MARKERS
from onefold.dataset.types import parse_type
from onefold.dataset.value_formats import ValueFormat
from onefold.draft.apply import Append, Upsert
from onefold.draft.changes import Changes
from onefold.draft.choices import Choices
from onefold.draft.entries import Draft, Entry, counted, listed, mapped, scalar
from onefold.draft.fields import Field
from onefold.draft.identity import Found
from onefold.draft.readers import reader_of
from onefold.draft.registered import Asked
from onefold.draft.sample import Sample
from onefold.draft.schema_fields import described
from onefold.draft.spellings import find_spellings
from onefold.draft.values import open_sample
from onefold.errors import NoDraftError
from onefold.formats.text import shown

OF_THE_LOG = {"offset", "timestamp"}
RESENDS = (
    "no message id is declared, so every delivery is a version: what a producer sends again has a greater offset and "
    "timestamp, and counts as a newer version"
)
LATE_COPIES = (
    "what is sent again after another message of its key makes the batch red; in a later batch than the other it is "
    "not found, and counts as a newer version"
)
_RATE = 0.01
"""The gate's own limit for rejected records."""
_FEWEST_DUPLICATES, _MOST_DUPLICATES = 0.05, 0.5
"""Between these rates lies the drafted limit for duplicates."""
_MOST_NAMED = 20
_LONGEST_DESCRIPTION = 1_000


@dataclass(frozen=True, slots=True)
class Topics:
    """Live topics as the source."""

    connection: str
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Export:
    """An export as the source; `topic`: only the records of this topic."""

    path: str
    layout: str
    cluster: str | None = None
    topic: str | None = None


def draft_dataset(
    name: str, source: Topics | Export, sample: Sample, table: str | None = None, asked: Asked | None = None
) -> Draft:
    """The dataset `name`, as the sample of its source suggests; `asked`: the registry of the schemas that it names.

    Raises:
        NoDraftError: the values are no JSON objects, or name schemas that cannot be asked for; no field can be
            declared; or nothing tells messages apart.
    """
    topics = sorted({*sample.topics, *sample.others})
    if isinstance(source, Export) and not source.topic and len(topics) > 1:
        counts = Counter(record.topic for record in sample.records)
        seen = ", ".join(f"{topic} ({counts[topic] or 'none in the sample'})" for topic in topics[:_MOST_NAMED])
        seen += f" and {len(topics) - _MOST_NAMED} more" if len(topics) > _MOST_NAMED else ""
        advice = "Say which one with --topic: a filter lets only its records in."
        raise NoDraftError(name, sample.place, f"holds records of several topics: {seen}", advice)
    several = isinstance(source, Topics) and (len(source.topics) > 1 or source.topics[0].startswith("^"))
    choices = Choices(name, sample, open_sample(name, sample, asked), several=several)
    return _File(name, source, sample, choices).draft(table)


_WHICH_ROWS = (
    'where: "…" here says which rows readers see, by fields that change, such as a status; source.filter says which '
    "records belong to the table, by what never changes about a row"
)


class _File:
    """The file, key by key."""

    def __init__(self, name: str, source: Topics | Export, sample: Sample, choices: Choices) -> None:
        self.name, self.source, self.sample, self.choices = name, source, sample, choices

    def draft(self, table: str | None) -> Draft:
        """All entries in their order."""
        written = self.choices.opened.written
        doc = described(written.doc, _LONGEST_DESCRIPTION) if written else ""
        entries = [Entry(("name",), scalar(self.name)), Entry(("description",), scalar(doc) if doc else '""')]
        entries += [Entry(("owner",), '""'), *self._source(), *self._filter()]
        now = datetime.now(UTC)
        newest = min(self.sample.days[1], now) if self.sample.days else now
        entries.append(Entry(("schedule",), None, f'schedule: {{cron: "0 * * * *", start: {newest:%Y-%m-%d}}}'))
        spellings = find_spellings(self.choices.opened.messages, self.choices.opened.key_format)
        entries += [Entry(("key",), None, spelling) for spelling in spellings]
        entries.append(self._key())
        entries += self._value()
        entries += self._identity()
        entries += self._applying()
        target = table or f"{_namespace(self.sample.topics)}.{self.name}"
        if isinstance(self.choices.applied, Upsert):
            entries.append(Entry(("target",), None, _WHICH_ROWS))
        entries.append(Entry(("target",), mapped(table=scalar(target), buckets="8")))
        entries += self._quality()
        return Draft(self._head(), tuple(entries), tuple(filter(None, [self._other_types()])))

    def _head(self) -> tuple[str, ...]:
        sample = self.sample
        days = f", {sample.days[0]:%Y-%m-%d} to {sample.days[1]:%Y-%m-%d}" if sample.days else ""
        of = f"{len(sample.topics)} topics" if len(sample.topics) > 3 else ", ".join(sample.topics)
        where = f"{of}, {counted(sample.partitions, 'partition')}{days}"
        few = " Few records: the reasons are weak." if len(sample.records) < 100 else ""
        return (
            f"Drafted by `onefold init` from {counted(len(sample.records), 'record')}: {where}.{few}",
            *self._left_out(),
            "Every line is a guess with its reason: read it, mend it, take the comments out. Until the first run "
            "anything may change; after it, what can change a row takes `onefold rebuild`.",
            f"Next: onefold validate {self.name} --sample 1000",
        )

    def _left_out(self) -> list[str]:
        """What of an export is not in the sample."""
        sentences = []
        if self.sample.opened:
            opened, there = self.sample.opened
            sentences.append(f"They are from the end of what was written last: {opened} of {counted(there, 'object')}.")
        if unread := [key for key, _ in self.sample.unread]:
            more = f" and {len(unread) - _MOST_NAMED} more" if len(unread) > _MOST_NAMED else ""
            sentences.append(f"Not read, or not to the end: {', '.join(unread[:_MOST_NAMED])}{more}.")
        return sentences

    def _source(self) -> list[Entry]:
        source, sample = self.source, self.sample
        if isinstance(source, Topics):
            at = ("source", "kafka")
            return [
                Entry((*at, "connection"), scalar(source.connection)),
                Entry((*at, "topics"), listed(source.topics)),
            ]
        at = ("source", "exports")
        reader = reader_of(source.layout)
        unnamed = "" if source.cluster else "an export does not name its cluster: do it here, before the first run"
        entries = [
            Entry((*at, "path"), scalar(source.path)),
            Entry((*at, "layout"), source.layout, reader.reason if reader else ""),
            Entry((*at, "origin"), mapped(cluster=scalar(source.cluster or "kafka"), incarnation="1"), unnamed),
        ]
        if sample.exact:
            holes, why = _holes(sample, self.choices, source.layout)
            entries.append(Entry((*at, "holes"), holes, why))
        return entries

    def _filter(self) -> list[Entry]:
        """Which records belong to the dataset: a topic of the export, a table, a record type; and a note where events
        are of several types."""
        conditions, reasons, notes = list[str](), list[str](), list[Entry]()
        if (events := self.choices.opened.events) and len(events.types) > 1:
            [(first, _), *_] = counts = events.types.most_common(_MOST_NAMED)
            seen = ", ".join(f"{shown(name)} ({number})" for name, number in counts)
            note = f"events of several types: {seen}. If each has its own fields, write a dataset for each"
            condition = scalar(f"envelope.type = {_quoted(first)}")
            notes.append(Entry(("source", ""), None, f"{note}, with filter: {condition}"))
        if isinstance(self.source, Export) and self.source.topic:
            [word] = self._spelled("topic")
            conditions.append(f"{word} = {_quoted(self.source.topic)}")
            reasons.append("only this topic of the export")
        written = self.choices.opened.written
        if written and written.left_out and (name := next(iter(written.types))):
            conditions += [f"{word} = {_quoted(name)}" for word in self._spelled("schema.name")]
            reasons.append(self._other_types())
        tables = self.choices.changes.tables if self.choices.changes else Counter[str]()
        if len(tables) > 1:
            (table, count), *others = tables.most_common()
            seen = ", ".join(f"{name} ({number})" for name, number in others[:_MOST_NAMED])
            if conditions:
                note = f"changes of several tables: {table} ({count}), {seen}"
                notes.append(Entry(("source", ""), None, note))
            else:
                conditions.append(f"envelope.source.table = {_quoted(table)}")
                reasons.append(f"{count} changes are of this table; others are of {seen}, each a dataset of its own")
        if not conditions:
            return notes
        return [*notes, Entry(("source", "filter"), scalar(" and ".join(conditions)), "; ".join(reasons))]

    def _other_types(self) -> str:
        """A sentence on the record types of the sample that are not drafted; or nothing."""
        written = self.choices.opened.written
        if written is None or not written.left_out:
            return ""
        (name, count), *others = written.types.items()
        seen = ", ".join(f"{other or 'without a name'} ({number})" for other, number in others[:_MOST_NAMED])
        if not name:
            return (
                f"{counted(count, 'value')} of a type without a name; others are of {seen}: no filter can leave them "
                "out, and they will be rejected"
            )
        return f"{counted(count, 'value')} of type {name}; others are of {seen}, each a dataset of its own"

    def _key(self) -> Entry:
        opened = self.choices.opened
        more = {"registry": mapped(connection=scalar(opened.key_registry))} if opened.key_registry else {}
        return Entry(("key",), mapped(format=opened.key_format, **more), opened.key_reason)

    def _spelled(self, *expressions: str) -> list[str]:
        """Expressions that mean the same next to the declared fields."""
        types = {field.name: parse_type(field.type) for field in self.choices.fields.declared}
        return [of_the_log(expression, types) for expression in expressions]

    def _value(self) -> list[Entry]:
        entries = [Entry(("value", "format"), ValueFormat.JSON, self._unusable())]
        if written := self.choices.opened.written:
            why = "; ".join(filter(None, (written.reason, self._unusable())))
            registry = mapped(connection=scalar(written.connection))
            entries = [Entry(("value", "format"), written.format, why), Entry(("value", "registry"), registry)]
        if changes := self.choices.opened.changes:
            entries.append(Entry(("value", "envelope"), changes.envelope, _seen(changes)))
        if events := self.choices.opened.events:
            modes = {"structured": events.structured, "binary": events.binary}
            seen = " and ".join(f"{count} in {mode} mode" for mode, count in modes.items() if count)
            entries.append(Entry(("value", "envelope"), Envelope.CLOUDEVENTS, seen))
        at = ("value", "fields")
        entries += [Entry((*at, field.name), field.as_declared, field.reason) for field in self.choices.fields.declared]
        left = self.choices.fields.left_out
        entries += [Entry((*at, ""), None, f"left out: {name[:60]!r}: {why}") for name, why in left[:_MOST_NAMED]]
        if len(left) > _MOST_NAMED:
            entries.append(Entry((*at, ""), None, f"left out: {len(left) - _MOST_NAMED} more"))
        renamed = [(field.name, field.former) for field in self.choices.fields.declared if field.former]
        at = ("value", "renamed")
        return entries + [Entry((*at, name), listed(former), "aliases in the schema") for name, former in renamed]

    def _unusable(self) -> str:
        problems = [
            f"{count} {'is' if count == 1 else 'are'} {what}" for what, count in self.choices.opened.problems.items()
        ]
        return f"of {len(self.sample.records)} values {'; '.join(problems)}" if problems else ""

    def _identity(self) -> list[Entry]:
        notes, entries = [], []
        at = ("identity",)
        if self.choices.changes and not self.choices.changes.has_positions:
            note = (
                "the changes do not say where the connector read them, so a change that it sends again after a restart "
                "counts as a newer one: let ExtractNewRecordState add it (add.fields: op,source.lsn,source.sequence), "
                "and declare message_id: debezium.position"
            )
            return [Entry(at, None, note)]
        if self.choices.changes:
            why = "where the connector read a change: what it sends again after a restart is the same message"
            return [Entry((*at, "message_id"), "debezium.position", why)]
        found, business, drafted = (
            self.choices.message_id,
            self.choices.business_key,
            self.choices.drafted_business_key,
        )
        if found:
            why = self._with_differences(found)
            parts = self._spelled(*found.expressions)
            entries.append(Entry((*at, "message_id"), scalar(parts[0]) if len(parts) == 1 else listed(parts), why))
        if drafted:
            why = self._with_differences(drafted)
            entries.append(Entry((*at, "business_key"), listed(self._spelled(*drafted.expressions)), why))
        elif business and not (found and business.expressions == found.expressions):
            key = listed(self._spelled(*business.expressions))
            notes.append(f"perhaps, too: business_key: {key} ({self._fold_of(business)})")
        if not entries:
            notes.insert(0, self._no_identity())
        if unfit := self.choices.unfit_id():
            notes.append(unfit)
        if self.choices.producer:
            name, sequence = self.choices.producer
            notes.append(
                f"perhaps, too: producer: {{name: header.{name}, sequence: header.{sequence}}} (it names the reason of "
                "a retry, if a producer counts on when it is started again)"
            )
        return [Entry((*at,), None, note) for note in notes] + entries

    def _with_differences(self, found: Found) -> str:
        """Why an identity, and in what the contents of an identity differ where some have several."""
        differences = self.choices.differences(found.expressions)
        return "; ".join(filter(None, (found.reason, str(differences) if found.evidence.clashing else "")))

    def _fold_of(self, business: Found) -> str:
        """What a business key that is not drafted would fold."""
        if not business.unproved:
            return f"{business.reason}; none sent again under another message id in the sample"
        fold = f"it would fold {business.unproved} of {counted(business.evidence.total, 'record')}"
        if self.choices.message_id:
            return f"{fold} that have message ids of their own: right only if the application sent them again"
        return f"{fold}, and nothing else says that they are duplicates: each may be an event of its own"

    def _no_identity(self) -> str:
        if isinstance(self.choices.applied, Upsert):
            return "identity: no header or field is an id of the message; key and version decide"
        return (
            "identity: no header or field is an id of the message, so only the position decides: what is written or "
            "read twice is folded, what the producer sent twice is not"
        )

    def _applying(self) -> list[Entry]:
        applied, at = self.choices.applied, ("apply",)
        mode = "upsert" if isinstance(applied, Upsert) else "append"
        notes = [*applied.notes, self._policy_unknown(), self.choices.absences()]
        entries = [*(Entry(at, None, note) for note in notes if note), Entry((*at, "mode"), mode, applied.reason)]
        entries += [Entry((*at, ""), None, proposal) for proposal in self._proposals()]
        if isinstance(applied, Append):
            return entries
        entries.append(Entry((*at, "key"), listed(self._spelled(*applied.key)), applied.key_reason))
        parts = self._spelled(*applied.version)
        version = scalar(parts[0]) if len(parts) == 1 else listed(parts)
        differences = str(self.choices.differences(self.choices.key_and_version))
        why = "; ".join(filter(None, (applied.version_reason, differences)))
        entries.append(Entry((*at, "version", "from"), version, why))
        if OF_THE_LOG & {*applied.version} and not self.choices.changes:
            note = LATE_COPIES if self.choices.message_id else RESENDS
            entries.append(Entry((*at, "version", ""), None, note))
        if applied.deletes:
            entries.append(Entry((*at, "delete_when"), "tombstone", ""))
        elif flags := _delete_flags(self.choices.fields.declared):
            entries.append(Entry((*at, ""), None, f'perhaps: delete_when: "{flags}"'))
        return entries

    def _policy_unknown(self) -> str:
        """A note where it matters that the brokers do not tell whether they compact the topics."""
        if not self.sample.policy_unknown or self.choices.deletes:
            return ""
        return (
            f"cleanup.policy of the topic is unknown ({self.sample.policy_unknown}): if it is compacted, a null value "
            "deletes its key, and an upsert by the Kafka key with delete_when: tombstone is right"
        )

    def _proposals(self) -> list[str]:
        """What may make different contents of one identity, or of one key and version, equal."""
        choices = self.choices
        identities = [found.expressions for found in (choices.message_id, choices.drafted_business_key) if found]
        identities.append(choices.key_and_version)
        taken = {name.removeprefix("value.") for expressions in identities for name in expressions}
        proposals = (choices.differences(expressions).proposal(taken) for expressions in identities)
        return [f"perhaps, too: {proposal}" for proposal in dict.fromkeys(filter(None, proposals))]

    def _quality(self) -> list[Entry]:
        rejected, duplicates = self.choices.rejected(), self.choices.duplicates()
        total = len(self.sample.records) + self.sample.unreadable
        at = ("quality",)
        notes = []
        if self.sample.repeated:
            there = counted(self.sample.repeated, "record")
            note = f"{there} at a position that was there already: exports overlap, and what is read twice is folded"
            notes.append(Entry(at, None, note))
        limits = [_duplicate_rate(duplicates, total + self.sample.repeated)]
        if self.choices.changes:
            note = "no max_duplicate_rate: after a crash a connector sends again what it had sent since its last offset"
            limits = [Entry(at, None, note)]
        if rejected <= _RATE * total / 2:
            limits.append(Entry((*at, "max_rejected_rate"), str(_RATE)))
            return [*notes, *limits, Entry((*at, "max_conflicts"), "0")]
        if 2 * rejected > total:
            seen = self._unusable() or f"{rejected} lack a part of what keys or orders them, or have it of another type"
            problem = f"of {total} records {rejected} would be rejected: {seen}"
            raise NoDraftError(self.name, self.sample.place, problem, "Draft from a topic or export of one kind.")
        rate = min(0.5, math.ceil(2 * 100 * rejected / total) / 100)
        why = f"{rejected} of {total} records in the sample would be rejected; {_RATE} is the limit without this line"
        limits.append(Entry((*at, "max_rejected_rate"), str(rate), why))
        return [*notes, *limits, Entry((*at, "max_conflicts"), "0")]


def _quoted(text: str) -> str:
    """A text as an expression has it."""
    return "'{}'".format(text.replace("'", "''"))


def _seen(changes: Changes) -> str:
    """What the envelopes of a sample have besides rows."""
    found = [counted(changes.deletes, "delete")] if changes.deletes else []
    found += [f"{count} {reason}" for reason, count in sorted(changes.controls.items())]
    return f"{', '.join(found)} in the sample" if found else ""


def _duplicate_rate(duplicates: int, total: int) -> Entry:
    """The limit for duplicates: a wrong identity makes a batch red, rather than folding events away unseen.

    `total`: the records that the dataset wants, as the gate counts them.
    """
    limit = min(_MOST_DUPLICATES, max(_FEWEST_DUPLICATES, math.ceil(2 * 100 * duplicates / total) / 100))
    why = "no duplicates in the sample"
    if duplicates:
        verb = "is a duplicate" if duplicates == 1 else "are duplicates"
        bounds = f"{_FEWEST_DUPLICATES} at least, {_MOST_DUPLICATES} at most"
        why = f"{duplicates} of {counted(total, 'record')} in the sample {verb}; twice that, {bounds}"
    if duplicates > _MOST_DUPLICATES * total:
        why += ": a batch like the sample is red, for the identity may be wrong"
    return Entry(("quality", "max_duplicate_rate"), str(limit), why)


_FEW_ABORTED = 10
"""Missing offsets in a row that are still taken for the records of an aborted transaction."""


def _holes(sample: Sample, choices: Choices, layout: str) -> tuple[str, str]:
    there = len(sample.records)
    if not sample.missing:
        return "none", "no offset is missing in the sample; with none, an offset that is missing later is data loss"
    missing = f"{counted(sample.missing, 'offset')} missing between {there} that are there"
    markers_explain = "transactional" not in LAYOUTS[layout].refused_holes
    looks_compacted = bool(choices.opened.tombstones) and sample.missing > there // 4
    if isinstance(choices.applied, Upsert) and (looks_compacted or not markers_explain):
        return "compacted", f"{missing}: taken for what compaction took away; with none they are data loss"
    if not markers_explain:
        return "none", f"{missing}: data loss, and a run with them is red. Compacted, they suit mode upsert only"
    why = f"{missing}: taken for markers and aborted records; with none they are data loss"
    longest = sample.longest_hole
    if MARKERS < longest <= _FEW_ABORTED:
        return f"{{kind: transactional, longest: {longest}}}", f"{why}; {longest} in a row"
    if longest > MARKERS:
        why += (
            f". {longest} in a row are more than markers, and a run with them is red: if they are aborted records, "
            f"write {{kind: transactional, longest: {longest}}}"
        )
    return "transactional", why


def _namespace(topics: list[str]) -> str:
    """The first word of dotted topics, where it is a name."""
    first, dot, _ = topics[0].partition(".")
    word = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in first.lower())
    return word if dot and word[:1].isalpha() else "kafka"


def _delete_flags(fields: tuple[Field, ...]) -> str:
    for field in fields:
        if field.type.startswith("boolean") and field.name.lower() in ("deleted", "is_deleted", "isdeleted"):
            return field.name
    return ""

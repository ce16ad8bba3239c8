"""The words in which Onefold answers, each with its meaning: verdicts and reasons, actions, row states, levels, holes.

Report, command line, docs, gate and tests read them from here. A new reason is a member of `Reason` and a line of
`OUTCOMES`; without the line nothing can be imported.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class _Word(StrEnum):
    """A word with its meaning: text, wherever text is asked for."""

    meaning: str

    def __new__(cls, word: str, meaning: str = "") -> _Word:
        member = str.__new__(cls, word)
        member._value_ = word
        member.meaning = meaning
        return member


class Verdict(_Word):
    """What happened to a record in a batch, in the order in which they are shown."""

    APPLIED = "applied", "Its effect goes in with this batch."
    DUPLICATE = "duplicate", "The same message again; the row is there already."
    SUPERSEDED = "superseded", "Valid, but a newer version is there."
    CONFLICT = "conflict", "Same identity or version, other content: a person has to look."
    HELD = "held", "Waits in the table for its predecessor."
    REJECTED = "rejected", "Cannot be used; quarantined with its bytes, position and reason."
    FILTERED = "filtered", "Declared as not wanted by the dataset file."
    SKIPPED = "skipped", "Skipped by a recorded decision."
    ABORTED = "aborted", "Of a transaction that was aborted."
    CONTROL = "control", "A marker, a tombstone that only follows its delete, or a connector's own record."


class Reason(StrEnum):
    """Why a record has its verdict. Some reasons belong to several verdicts: `OUTCOMES` has each pair."""

    INSERT = "insert"
    UPDATE = "update"
    REPLACE = "replace"
    DELETE = "delete"
    HIDE = "hide"
    ADD = "add"
    FOLDED = "folded"
    POSITION = "position"
    PRODUCER = "producer"
    MESSAGE_ID = "message_id"
    BUSINESS_KEY = "business_key"
    KEY_VERSION = "key_version"
    LATE_COPY = "late_copy"
    IN_BATCH = "in_batch"
    STORED = "stored"
    SAME_VERSION = "same_version"
    BACKWARDS = "backwards"
    INCONSISTENT_POSITION = "inconsistent_position"
    SAME_IDENTITY = "same_identity"
    INCOMPARABLE_VERSION = "incomparable_version"
    EARLIER_DELIVERY = "earlier_delivery"
    VERSION_GAP = "version_gap"
    OPEN_TRANSACTION = "open_transaction"
    UNDECODABLE = "undecodable"
    SCHEMA_NOT_FOUND = "schema_not_found"
    TOO_LARGE = "too_large"
    MISSING_FIELD = "missing_field"
    WRONG_TYPE = "wrong_type"
    UNAVAILABLE_VALUE = "unavailable_value"
    UNKNOWN_SCHEMA = "unknown_schema"
    NULL_KEY = "null_key"
    KEY_MISMATCH = "key_mismatch"
    NULL_VERSION = "null_version"
    VERSION_AHEAD = "version_ahead"
    NULL_IDENTITY = "null_identity"
    NULL_VALUE = "null_value"
    BEFORE_FIRST = "before_first"
    WRONG_STEP = "wrong_step"
    FORGOTTEN = "forgotten"
    FILTER = "filter"
    DECISION = "decision"
    TRANSACTION = "transaction"
    MARKER = "marker"
    TOMBSTONE = "tombstone"
    SERVICE = "service"
    TRUNCATE = "truncate"
    SCHEMA_CHANGE = "schema_change"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A verdict with one of its reasons, and what follows from them."""

    verdict: Verdict
    reason: Reason
    meaning: str
    covered: bool = True
    """Whether its position counts as processed: what comes there again is a duplicate."""
    wanted: bool = True
    """Whether the rates of the gate count it: as one of the records that the dataset wants."""
    plain: bool = False
    """Whether its detail holds no text of the record (but behind `found`), and is shown where columns are masked."""

    @property
    def quarantined(self) -> bool:
        """Whether it keeps its bytes and can be replayed."""
        return self.verdict is Verdict.REJECTED and not self.covered


def _outcomes() -> dict[tuple[Verdict, Reason], Outcome]:
    v, r = Verdict, Reason
    rejected: dict[str, bool] = {"covered": False}
    plain: dict[str, bool] = {"covered": False, "plain": True}
    listed = [
        Outcome(v.APPLIED, r.INSERT, "a key that was not in the table"),
        Outcome(v.APPLIED, r.UPDATE, "a newer version of a row"),
        Outcome(
            v.APPLIED,
            r.REPLACE,
            "takes the place of a row of the same version, as the dataset or a recorded decision says",
        ),
        Outcome(v.APPLIED, r.DELETE, "deletes its key, and remembers the version"),
        Outcome(v.APPLIED, r.HIDE, "a newer version of a row, which `target.where` hides from readers"),
        Outcome(v.APPLIED, r.ADD, "adds to its row's sum"),
        Outcome(v.APPLIED, r.FOLDED, "a link of an unbroken chain of versions"),
        Outcome(v.DUPLICATE, r.POSITION, "the same position once more"),
        Outcome(v.DUPLICATE, r.PRODUCER, "the same producer sequence once more"),
        Outcome(v.DUPLICATE, r.MESSAGE_ID, "the same message id at another position"),
        Outcome(v.DUPLICATE, r.BUSINESS_KEY, "the same business key under another message id"),
        Outcome(v.DUPLICATE, r.KEY_VERSION, "the same version of the key, with equal content"),
        Outcome(
            v.DUPLICATE,
            r.LATE_COPY,
            "a message that was sent again after another message of its key: it changes no row",
        ),
        Outcome(v.SUPERSEDED, r.IN_BATCH, "a newer version is in this batch"),
        Outcome(v.SUPERSEDED, r.STORED, "the table has a newer version"),
        Outcome(v.SUPERSEDED, r.SAME_VERSION, "lost a tie of equal versions, as the dataset declares"),
        Outcome(
            v.SUPERSEDED,
            r.BACKWARDS,
            "a newer version of its key lies earlier in the same partition: a counter that began again, a source "
            "restored from a backup, or a late retry",
        ),
        Outcome(
            v.CONFLICT,
            r.INCONSISTENT_POSITION,
            "two contents at one position: the export or the log was altered; in Jepsen's words inconsistent offsets",
        ),
        Outcome(v.CONFLICT, r.SAME_VERSION, "one version of a key, two contents"),
        Outcome(v.CONFLICT, r.SAME_IDENTITY, "one identity, two contents"),
        Outcome(
            v.CONFLICT,
            r.INCOMPARABLE_VERSION,
            "it does not compare with another record of its key: only offsets of two partitions would decide",
        ),
        Outcome(
            v.CONFLICT,
            r.EARLIER_DELIVERY,
            "an earlier delivery of the message that the row shows: another message is the row now, and its content is "
            "no longer at hand",
        ),
        Outcome(v.HELD, r.VERSION_GAP, "the version before it has not come yet"),
        Outcome(
            v.HELD,
            r.OPEN_TRANSACTION,
            "its transaction is neither committed nor aborted yet; it is judged when that is known",
            covered=False,
        ),
        Outcome(v.REJECTED, r.UNDECODABLE, "the bytes are not in the declared format", **rejected),
        Outcome(
            v.REJECTED,
            r.SCHEMA_NOT_FOUND,
            "the schema registry did not know the schema that it names; replay it when the schema is registered",
            **plain,
        ),
        Outcome(v.REJECTED, r.TOO_LARGE, "larger than allowed", **plain),
        Outcome(v.REJECTED, r.MISSING_FIELD, "a required field is absent", **plain),
        Outcome(v.REJECTED, r.WRONG_TYPE, "a field is not of its declared type, exactly", **plain),
        Outcome(
            v.REJECTED,
            r.UNAVAILABLE_VALUE,
            "the connector did not have the value of a field that the change left as it was",
            **plain,
        ),
        Outcome(v.REJECTED, r.UNKNOWN_SCHEMA, "it has fields that the dataset file does not name", **rejected),
        Outcome(v.REJECTED, r.NULL_KEY, "there is no key", **rejected),
        Outcome(v.REJECTED, r.KEY_MISMATCH, "the Kafka key and the field of the same name differ", **rejected),
        Outcome(v.REJECTED, r.NULL_VERSION, "there is no version", **rejected),
        Outcome(
            v.REJECTED,
            r.VERSION_AHEAD,
            "its version is a time that lies too far after its own log timestamp: its key would keep it for ever",
            **rejected,
        ),
        Outcome(v.REJECTED, r.NULL_IDENTITY, "a part of the deciding identity is null", **rejected),
        Outcome(
            v.REJECTED,
            r.NULL_VALUE,
            "there is no value, and the dataset file does not say what that means; no row is changed",
            **plain,
        ),
        Outcome(v.REJECTED, r.BEFORE_FIRST, "its version is below the first one of a key", **rejected),
        Outcome(v.REJECTED, r.WRONG_STEP, "its version is not the next after the one it expects", **rejected),
        Outcome(v.REJECTED, r.FORGOTTEN, "its key was forgotten by decision", wanted=False),
        Outcome(v.FILTERED, r.FILTER, "the dataset file says that it is not wanted", wanted=False),
        Outcome(v.SKIPPED, r.DECISION, "a person decided that it is covered and not used", wanted=False),
        Outcome(v.ABORTED, r.TRANSACTION, "the producer took it back", wanted=False),
        Outcome(v.CONTROL, r.MARKER, "the end of a transaction", wanted=False),
        Outcome(
            v.CONTROL,
            r.TOMBSTONE,
            "a null value behind the delete, or before the newer record, that made its key's row",
            wanted=False,
        ),
        Outcome(
            v.CONTROL, r.SERVICE, "a record of the connector's own: a heartbeat, a transaction's border", wanted=False
        ),
        Outcome(
            v.CONTROL, r.TRUNCATE, "a table was emptied in the database, which no record can do here", wanted=False
        ),
        Outcome(v.CONTROL, r.SCHEMA_CHANGE, "a change of the database's schema", wanted=False),
    ]
    found = {(outcome.verdict, outcome.reason): outcome for outcome in listed}
    assert {reason for _, reason in found} == set(Reason), "each reason has a meaning"
    assert {verdict for verdict, _ in found} == set(Verdict), "each verdict has a reason"
    return found


OUTCOMES = _outcomes()


def outcome_of(verdict: str, reason: str) -> Outcome:
    """What a verdict with its reason means, as documents have the two.

    Raises:
        ValueError: there is no such word.
        KeyError: the verdict has no such reason.
    """
    return OUTCOMES[Verdict(verdict), Reason(reason)]


def meaning_of(verdict: str, reason: str = "") -> str:
    """What a verdict, or one of its reasons, means; nothing for a word that another release gave."""
    try:
        return outcome_of(verdict, reason).meaning if reason else Verdict(verdict).meaning
    except (ValueError, KeyError):
        return ""


class Action(_Word):
    """What a record does to a row of the table."""

    INSERT = "insert", "a new row"
    UPDATE = "update", "a changed row"
    REMOVE = "remove", "a row that goes: it is a link now, a better one takes its place, or nothing is left to add up"
    WAKE = "wake", "a held row that becomes the head of its chain"
    UNPLACE = "unplace", "a row that stays as it is and becomes placeless: a copy of it is in another partition"
    LOWER = "lower", "a row whose message was delivered earlier than the table knew: its version goes down"
    ENTER = "enter", "a new entry of the ledger"
    EXCHANGE = "exchange", "a smaller record of the same message takes the entry's place"


class Scope(_Word):
    """Against what a record was judged."""

    IN_BATCH = "in_batch", "its own batch"
    STORED = "stored", "the published table"


class RowState(_Word):
    """The `_state` of a row of the state table."""

    LIVE = "live", "readers see it; in mode increment it is a sum"
    DELETED = "deleted", "the key is deleted"
    HIDDEN = "hidden", "the newest version of a key, which `target.where` hides from readers"
    HELD = "held", "a version above a gap"
    ENTRY = "entry", "a message in the ledger"
    MESSAGE = "message", "the first delivery of a message, where deliveries decide; next to the row of its key"
    QUARANTINED = "quarantined", "a rejected record; it has no key"


class Level(_Word):
    """An identity level: by what two records are taken for the same message. From narrow to wide."""

    POSITION = "position", "cluster, topic, incarnation, partition and offset"
    PRODUCER = "producer", "the producer's session and its sequence, within a partition"
    MESSAGE_ID = "message_id", "an id that the sender gave the message"
    BUSINESS_KEY = "business_key", "fields that name the thing itself"
    KEY_VERSION = "key_version", "the row's key and its version (mode upsert)"

    @property
    def words(self) -> str:
        """As text for people."""
        return self.replace("_", " ")


DECIDABLE = (Reason.SAME_IDENTITY, Reason.SAME_VERSION)
"""Reasons of conflicts of which an operator may accept the winner; the others are against a law."""

NO_ROWS = (Reason.TOMBSTONE, Reason.SERVICE, Reason.TRUNCATE, Reason.SCHEMA_CHANGE)
"""Reasons of `control` that a value is no row for, by itself."""

DECLARED_LEVELS = (Level.PRODUCER, Level.MESSAGE_ID, Level.BUSINESS_KEY)
"""The levels that a dataset file may declare under `identity`, narrow to wide; the position is always one."""


class Finding(_Word):
    """What two records show together. It changes no verdict."""

    IDENTITY_REUSED = "identity_reused", "A narrow identity is that of two messages."
    PERIOD_MOVED = "period_moved", "An identity is in two periods of `identity.within`."


class HoleKind(_Word):
    """Why an offset has no landed record."""

    CONTROL = "control", "the marker of a transaction"
    ABORTED = "aborted", "a record of an aborted transaction"
    TRANSACTIONAL = "transactional", "a marker or an aborted record: the export does not show which"
    COMPACTED = "compacted", "removed by the topic's cleaner"
    RETENTION = "retention", "expired before it was read"
    TRUNCATED = "truncated", "cut off the end of the log before it was read"
    DELETED = "deleted", "the topic was deleted before it was read"
    LOG_GAP = "log_gap", "a contiguous read did not see it"

    @property
    def lost(self) -> bool:
        """Whether it may have been a record that nothing has read."""
        return self in (HoleKind.RETENTION, HoleKind.TRUNCATED, HoleKind.DELETED)


LOST = tuple(kind for kind in HoleKind if kind.lost)


class LogStatus(_Word):
    """What the log says of a record's transaction; a record that counts has none."""

    ABORTED = "aborted", "of a transaction that was aborted"
    CONTROL = "control", "the marker that ends a transaction"
    OPEN = "open", "of a transaction that no known marker ends"

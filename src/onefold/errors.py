"""Every error that Onefold raises on purpose, named for what the caller does next.

`TerminalError`: the same call will fail again until somebody changes something; never retried.
`TransientError`: the same call may go through later; retried with backoff.
`UnknownOutcomeError`: the call may have taken effect; look first, never just retry.

Each class takes fields, keeps them, and composes one message: what, where, what was kept, what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, ClassVar


def nearest(name: str, known: Iterable[str]) -> str:
    """` (did you mean …?)`, or the names that there are."""
    listed = sorted(known)
    close = difflib.get_close_matches(name, listed, n=1, cutoff=0.6)
    return f" (did you mean {close[0]}?)" if close else f" (there are {', '.join(listed)})"


class OnefoldError(Exception):
    """The root. `exit_code` is what the command line ends with (see `onefold --help`)."""

    exit_code: ClassVar[int] = 1

    def sentence(self) -> str:
        """The message, composed from the fields."""
        return type(self).__name__

    def __str__(self) -> str:
        return self.sentence()

    def __reduce__(self) -> tuple[Any, ...]:
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        return type(self), tuple(getattr(self, name) for name in names)


class TerminalError(OnefoldError):
    """Trying again changes nothing."""


class TransientError(OnefoldError):
    """Trying again may help."""


class UnknownOutcomeError(OnefoldError):
    """It may have happened: look before doing it again."""


class OneBatchError(TerminalError):
    """One batch could not be folded, mostly for what it holds: other batches are tried all the same."""


def _cut(text: str, length: int) -> str:
    """A text that a file may have made long, as an error repeats it."""
    return text if len(text) <= length else f"{text[:length]}…"


@dataclass(eq=False)
class InvalidDatasetError(TerminalError):
    """A dataset file does not say what it must."""

    exit_code: ClassVar[int] = 2
    file: str
    line: int | None
    key: str
    problem: str

    @property
    def complaint(self) -> str:
        """What is wrong, and where; what happens now depends on who asked."""
        where = f"{self.file}:{self.line}" if self.line else self.file
        key = f" {_cut(self.key, 200)}:" if self.key else ""
        return f"{where}:{key} {_cut(self.problem, 2_000)}"

    def sentence(self) -> str:
        return f"{self.complaint}. Nothing was run."


@dataclass(eq=False)
class NotSupportedYetError(InvalidDatasetError):
    """A key of the dataset file is known, but what it asks for is not built yet."""

    @property
    def complaint(self) -> str:
        """What is not built yet, and where it is asked for."""
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.key}: not_supported_yet: {self.problem}"


@dataclass(eq=False)
class UnknownDatasetError(TerminalError):
    """No dataset file has that name."""

    exit_code: ClassVar[int] = 2
    name: str
    folder: str
    known: tuple[str, ...]

    def sentence(self) -> str:
        known = ", ".join(self.known) or "none"
        return f"no dataset {self.name!r} in {self.folder} (there: {known})"


@dataclass(eq=False)
class UsageError(TerminalError):
    """The command or the settings ask for something that cannot be."""

    exit_code: ClassVar[int] = 2
    problem: str

    def sentence(self) -> str:
        return self.problem


@dataclass(eq=False)
class ChangesUnknownError(TerminalError):
    """What changed since a batch is unknown, or could only be answered wrongly."""

    exit_code: ClassVar[int] = 2
    dataset: str
    since: str
    problem: str

    def sentence(self) -> str:
        return (
            f"{self.dataset}: what changed since {self.since} is unknown: {self.problem}. Nothing was read. "
            f"Read everything again (`onefold changes {self.dataset}` without --since) and go on from there."
        )


@dataclass(eq=False)
class ChangedDatasetError(TerminalError):
    """The dataset file means something else, or Onefold lays out tables otherwise, than what was published with."""

    exit_code: ClassVar[int] = 2
    dataset: str
    changed: tuple[str, ...]
    fields: tuple[str, ...]
    published: str
    table: str

    @property
    def complaint(self) -> str:
        """What changed, and what is published; what happens now depends on who asked."""
        fields = f" ({'; '.join(self.fields)})" if self.fields else ""
        return (
            f"{self.dataset}: the dataset has changed in {', '.join(self.changed)}{fields}: "
            f"{self.table} is published as generation {self.published}, of the dataset as it was"
        )

    @property
    def advice(self) -> str:
        """How to go on."""
        return f"Take the change back, or fold all landed records again: onefold rebuild {self.dataset}."

    def sentence(self) -> str:
        return f"{self.complaint}. Nothing was run and the table is as it was. {self.advice}"


@dataclass(eq=False)
class TargetTakenError(TerminalError):
    """Two datasets name one target table."""

    exit_code: ClassVar[int] = 2
    dataset: str
    table: str
    owner: str

    def sentence(self) -> str:
        return (
            f"{self.dataset}: target.table {self.table} is the table of dataset {self.owner}. "
            "Nothing was written to it. Give this dataset a table of its own."
        )


@dataclass(eq=False)
class NothingToReadError(TerminalError):
    """An export folder that does not exist or holds nothing in the dataset's layout."""

    exit_code: ClassVar[int] = 2
    dataset: str
    place: str
    problem: str

    def sentence(self) -> str:
        return f"{self.dataset}: {self.place}: {self.problem}. Nothing was planned."


@dataclass(eq=False)
class NoDraftError(TerminalError):
    """No dataset file can be drafted from what lies there."""

    exit_code: ClassVar[int] = 2
    dataset: str
    place: str
    problem: str
    advice: str

    def sentence(self) -> str:
        return f"{self.dataset}: {self.place}: {self.problem}. No dataset file was written. {self.advice}"


@dataclass(eq=False)
class DatasetExistsError(TerminalError):
    """A dataset file would be written over another file."""

    exit_code: ClassVar[int] = 2
    dataset: str
    file: str

    def sentence(self) -> str:
        return (
            f"{self.file} is there already and was left as it is. Look at a draft with --dry-run, write over the file "
            f"with --force, or give the dataset another name than {self.dataset}."
        )


@dataclass(eq=False)
class UnknownTopicError(TerminalError):
    """The cluster has no such topic, or no topic that a pattern matches."""

    exit_code: ClassVar[int] = 2
    connection: str
    topic: str
    near: tuple[str, ...]

    def sentence(self) -> str:
        near = f" (did you mean {' or '.join(self.near)}?)" if self.near else ""
        what = "no topic matches" if self.topic.startswith("^") else "there is no topic"
        return f"{self.connection}: {what} {self.topic!r}{near}. Nothing was planned."


@dataclass(eq=False)
class ClusterRefusedError(TerminalError):
    """The cluster answers, but not to this user."""

    connection: str
    servers: str
    problem: str

    def sentence(self) -> str:
        return (
            f"{self.connection} ({self.servers}): {self.problem}. Nothing was read. Check the connection's user, "
            "password, certificates and rights (it needs DESCRIBE and READ on the topics, READ on groups that begin "
            "with onefold)."
        )


@dataclass(eq=False)
class ClientSettingsError(TerminalError):
    """The client settings of a connection are none: an unknown name, a wrong value, a certificate that is not there."""

    exit_code: ClassVar[int] = 2
    connection: str
    servers: str
    problem: str

    def sentence(self) -> str:
        return (
            f"{self.connection} ({self.servers}): a client setting of this connection cannot be used: {self.problem}. "
            f"No broker was asked, nothing was read. Mend or remove it where the connection is described: "
            f"onefold.toml ([kafka.{self.connection}]), ONEFOLD_KAFKA or AIRFLOW_CONN_{self.connection.upper()}; names "
            "and values are librdkafka's."
        )


@dataclass(eq=False)
class RegistryRefusedError(TerminalError):
    """A schema registry answers, but not to this user, or not what a registry says."""

    connection: str
    url: str
    problem: str

    def sentence(self) -> str:
        return (
            f"the schema registry {self.connection} ({self.url}): {self.problem}. No record was judged, and nothing "
            "was published. Check the connection's address, login and certificates; it needs the right to read schemas."
        )


@dataclass(eq=False)
class RegistryDiffersError(TerminalError):
    """A schema registry says of an id something else than it said before."""

    registry: str
    id: str
    kept: str

    def sentence(self) -> str:
        return (
            f"the schema registry {self.registry} says that schema {self.id} is another than the schema that is kept "
            f"in the lake ({self.kept}). Nothing was judged, and nothing was published: an id means one schema for "
            "ever. Was the registry set up again, or is the connection that of another registry? Then give it a name "
            "of its own (registry.name) and rebuild."
        )


@dataclass(eq=False)
class UnreadableStampError(OneBatchError):
    """A record of a live topic has a timestamp that Spark's client cannot take."""

    batch: str
    position: str
    timestamp: int

    def sentence(self) -> str:
        return (
            f"batch {self.batch}: the record at {self.position} is stamped {self.timestamp}, more milliseconds than "
            "Spark reads from a topic (a producer that stamps in nanoseconds?). Nothing of the batch was landed and "
            "the plan is kept. Land the topic's log segments or an export of it (source.exports), which may hold such "
            "stamps; message.timestamp.after.max.ms on the topic keeps further ones out."
        )


@dataclass(eq=False)
class LandedBytesMissingError(OneBatchError):
    """A manifest names an object that is not in the landing any more, or is not what it was."""

    exit_code: ClassVar[int] = 4
    batch: str
    object: str
    problem: str

    def sentence(self) -> str:
        return (
            f"batch {self.batch}: landed object {self.object}: {self.problem}. The published table is as "
            "it was. Restore the object from a backup of the lake; landed bytes never change."
        )


@dataclass(eq=False)
class LandingClearedError(OneBatchError):
    """The landed bytes of a batch are gone, by the landing's retention."""

    batch: str
    at: str

    def sentence(self) -> str:
        return (
            f"batch {self.batch}: its landed bytes were cleared on {self.at} by the landing's retention "
            "(`onefold maintain --landing`). What it published is as it was, and cannot be folded again."
        )


@dataclass(eq=False)
class ExportChangedError(OneBatchError):
    """An export object is not what the plan pinned."""

    batch: str
    object: str
    problem: str

    def sentence(self) -> str:
        return (
            f"batch {self.batch}: export object {self.object}: {self.problem}. Nothing of this batch was "
            "landed. An export must not rewrite objects: bring the pinned object back, or plan again "
            "from a folder that holds the new object (--export)."
        )


@dataclass(eq=False)
class ObjectTooLargeError(OneBatchError):
    """An object of a layout that is read whole exceeds what a task can hold."""

    object: str
    size: int
    limit: int

    @property
    def problem(self) -> str:
        """What is wrong with it."""
        return f"{self.size} bytes, of at most {self.limit}"

    def sentence(self) -> str:
        return (
            f"{self.object} has {self.size} bytes; this layout is read object by object, at most "
            f"{self.limit} bytes each. It is landed and kept, and nothing of its batch was published. Export its "
            "records again with a smaller flush size, read the place without it (onefold run DATASET --export PLACE), "
            "and let its batch go (onefold skip BATCH)."
        )


@dataclass(eq=False)
class UnreadableObjectError(OneBatchError):
    """A landed object is damaged, or not of the layout: how many records it should hold is unknown."""

    exit_code: ClassVar[int] = 4
    batch: str
    object: str
    problem: str

    def sentence(self) -> str:
        return (
            f"batch {self.batch}: export object {self.object} cannot be read: {self.problem}. It is landed and kept, "
            "and nothing of this batch was published, for records would be missing; other batches go on. Put a whole "
            "copy of it into the export and read the place again (onefold run DATASET --export PLACE): what is there "
            f"already is folded. Then let this batch go, which every run tries again: onefold skip {self.batch} "
            "--reason TEXT."
        )


@dataclass(eq=False)
class ExportColumnError(OneBatchError):
    """A Parquet object lacks a column that the dataset file maps, or has it with a type that cannot be read."""

    exit_code: ClassVar[int] = 2
    object: str
    column: str
    problem: str

    def sentence(self) -> str:
        return (
            f"{self.object}: column {self.column!r}: {self.problem}. It is landed and kept, and nothing of its batch "
            "was published. Name the right column in source.exports.columns; or take the object out of the export, "
            "read the place again (onefold run DATASET --export PLACE), and let its batch go (onefold skip BATCH)."
        )


@dataclass(eq=False)
class StepMissingError(TerminalError):
    """A step was asked for before the step that it builds on."""

    exit_code: ClassVar[int] = 2
    batch: str
    step: str
    needs: str

    def sentence(self) -> str:
        return f"batch {self.batch}: {self.step} needs {self.needs}, which has not run. Run it first."


@dataclass(eq=False)
class SumOverflowError(OneBatchError):
    """Mode increment: what a batch adds makes a sum larger than its column can hold."""

    dataset: str
    columns: str
    keys: tuple[str, ...]

    def sentence(self) -> str:
        return (
            f"{self.dataset}: {self.columns} would be larger than the column holds for {', '.join(self.keys)}. The "
            "published table is untouched, and the batch is landed and kept. Declare a decimal, or a wider decimal, in "
            f"value.fields and run onefold rebuild {self.dataset}; or leave the whole batch out (onefold skip)."
        )


@dataclass(eq=False)
class StaleGateError(TerminalError):
    """The gate judged another staging, branch or head than would be published."""

    batch: str
    attempt: str
    problem: str

    def sentence(self) -> str:
        return (
            f"batch {self.batch}, attempt {self.attempt}: {self.problem}. Nothing was published: "
            "clear downstream of dedup (or run the batch again)."
        )


@dataclass(eq=False)
class GateRedError(TerminalError):
    """Checks of the gate failed: the branch is kept, `main` is untouched."""

    exit_code: ClassVar[int] = 3
    dataset: str
    batch: str
    failed: tuple[str, ...]
    report: str
    decisions: tuple[str, ...] = ("release", "discard", "skip")
    """What can be decided of it."""
    ways_out: tuple[str, ...] = ()
    """What the dataset file can say so that a later batch is not red by the same."""
    corrected: str = ""
    """What to do if the batch corrects what is published."""

    def sentence(self) -> str:
        return (
            f"{self.dataset}: batch {self.batch} is red: {'; '.join(self.failed)}. The published table is "
            f"untouched, the batch is kept on its branch. Report: {self.report}. {self.advice()}"
        )

    def advice(self) -> str:
        """What a person can do."""
        advice = f"In the dataset file: {'; '.join(self.ways_out)}. " if self.ways_out else ""
        advice += f"{self.corrected} " if self.corrected else ""
        return f"{advice}{decide_by(self.dataset, self.batch, self.decisions)}"


@dataclass(eq=False)
class DataLossError(GateRedError):
    """Offsets are missing and nothing explains them."""

    exit_code: ClassVar[int] = 4

    def advice(self) -> str:
        return f"If what is missing can be had, bring it and run the batch again. {super().advice()}"


@dataclass(eq=False)
class AuditRedError(TerminalError):
    """Checks failed that were made again of a published batch. Nothing was changed: readers see it."""

    exit_code: ClassVar[int] = 3
    dataset: str
    batch: str
    failed: tuple[str, ...]
    report: str

    def sentence(self) -> str:
        return (
            f"{self.dataset}: batch {self.batch} is published, and judged again its gate is red: "
            f"{'; '.join(self.failed)}. Readers see it all the same; nothing was changed. Report: {self.report}. "
            f"`onefold prove {self.dataset}` compares the rows with the landed bytes, `onefold rollback "
            f"{self.dataset} --to BATCH` goes back before it."
        )


_MEANS = {
    "release": "publish it as it is",
    "discard": "back to landed, for the next run",
    "skip": "cover it, use nothing of it",
}


def decide_by(dataset: str, batch: str, decisions: tuple[str, ...]) -> str:
    """The sentence that names what a person can decide of a red batch, by some of release, discard and skip."""
    first, *others = decisions
    ways = [
        f"{first} {dataset} {batch} ({_MEANS.get(first, first)})",
        *(f"{other} ({_MEANS.get(other, other)})" for other in others),
    ]
    ways = [f"onefold {way}" for way in ways]
    listed = " or ".join([", ".join(ways[:-1]), ways[-1]]) if others else ways[0]
    return (
        "Mend the cause and run the batch again (in Airflow: clear its tasks from dedup on). Or decide it: "
        f"{listed}, {'each ' if others else ''}with --reason; in Airflow by the DAG onefold_decide."
    )


def take_out_by(dataset: str, batches: list[str]) -> str:
    """The sentence that names how published batches are taken out that another batch corrects."""
    named = " ".join(f"--without {batch}" for batch in batches)
    return (
        f"If what is published is wrong, and this batch is right, take it out: onefold rebuild {dataset} {named} "
        "--reason WHY; then run this batch again."
    )


def take_up_by(dataset: str, batch: str) -> str:
    """The sentence that names what an operator can decide of a batch that was rolled back."""
    return (
        f"Take it up: onefold run {dataset} --again {batch} (it is judged again; nothing that was decided before "
        f"counts). Or: onefold skip {dataset} {batch} (cover it, use nothing of it), onefold discard {dataset} {batch} "
        "(back to landed, for the next run), each with --reason; in Airflow by the DAG onefold_decide."
    )


@dataclass(eq=False)
class RolledBackError(OneBatchError):
    """A batch was rolled back: no run takes it up before an operator decides."""

    exit_code: ClassVar[int] = 2
    dataset: str
    batch: str
    decided: str

    def sentence(self) -> str:
        return (
            f"{self.dataset}: batch {self.batch} waits for an operator: {self.decided}. It is landed and kept, and was "
            f"not processed. {take_up_by(self.dataset, self.batch)}"
        )


@dataclass(eq=False)
class BatchesWaitError(TerminalError):
    """A run ended well, and earlier batches wait for an operator."""

    exit_code: ClassVar[int] = 3
    dataset: str
    batches: tuple[str, ...]

    def sentence(self) -> str:
        return (
            f"{self.dataset}: batches wait for an operator ({', '.join(self.batches)}). What is new was run. With "
            "--strict a run ends so until they are decided; why they wait and what to do is said above."
        )


@dataclass(eq=False)
class StaleError(TerminalError):
    """Nothing new was read at the live edge, and what the table has is older than the dataset file allows."""

    exit_code: ClassVar[int] = 3
    dataset: str
    edge: str
    newest: str
    age: str
    limit: str

    def sentence(self) -> str:
        return (
            f"{self.dataset}: stale: nothing new up to {self.edge}, and {self.newest}: {self.age} before, wanted at "
            f"most {self.limit} [freshness]. Nothing waits for a decision. Look for a producer or an export that "
            "stopped; quality.freshness is the limit."
        )


@dataclass(eq=False)
class ChangedDocumentError(TerminalError):
    """A document that published rows rest on is not what it was when they were published, or is gone."""

    exit_code: ClassVar[int] = 3
    dataset: str
    documents: tuple[str, ...]

    def sentence(self) -> str:
        shown = "; ".join(self.documents[:5])
        more = f" (and {len(self.documents) - 5} more)" if len(self.documents) > 5 else ""
        return (
            f"{self.dataset}: {shown}{more}. Onefold never changes such a document, so someone else did. Nothing was "
            f"published. Restore it from a backup or an earlier version of the object; `onefold prove {self.dataset} "
            "--chain` looks at all of them."
        )


@dataclass(eq=False)
class NotProvedError(TerminalError):
    """The published rows are not those of the landed bytes."""

    exit_code: ClassVar[int] = 3
    dataset: str
    table: str
    found: str
    document: str

    def sentence(self) -> str:
        return (
            f"{self.dataset}: {self.table} is not what its landed bytes say: {self.found}. Nothing was changed. The "
            f"proof: {self.document}. `onefold explain {self.dataset} --key` tells a key's records; `onefold rollback "
            f"{self.dataset} --to BATCH`, then `onefold run {self.dataset} --again LATER` with each later batch, folds "
            "these again."
        )


@dataclass(eq=False)
class NotRecoveredError(TerminalError):
    """The catalog has lost a table of which files are gone, too."""

    table: str
    missing: str
    count: int

    def sentence(self) -> str:
        more = f" (and {self.count - 1} more tables)" if self.count > 1 else ""
        return (
            f"{self.table}{more} cannot be recovered: no state of it has all its files; missing in the newest: "
            f"{self.missing}. What can be is listed. Bring the file back from a backup, or give the bucket back an "
            "earlier state as a whole, and run it again. What was landed is not touched."
        )


@dataclass(eq=False)
class RepeatedKeysError(TerminalError):
    """The published table holds keys more than once, which no publication lets through."""

    exit_code: ClassVar[int] = 3
    dataset: str
    table: str
    count: int
    keys: tuple[str, ...]

    def sentence(self) -> str:
        return (
            f"{self.dataset}: {self.count} keys have more than one live row in {self.table}, such as "
            f"{', '.join(self.keys)}. Nothing was cleared away, so its snapshots still tell since when. Find who "
            "writes to the table outside Onefold, then roll readers back with "
            f"`onefold rollback {self.dataset} --to BATCH`."
        )


@dataclass(eq=False)
class NotWaivableError(TerminalError):
    """A batch that cannot be released: checks are red that guard a law, or that could not be made."""

    exit_code: ClassVar[int] = 3
    dataset: str
    batch: str
    why: tuple[str, ...]

    def sentence(self) -> str:
        return (
            f"{self.dataset}: batch {self.batch} cannot be released: {'; '.join(self.why)}. Nothing was decided, the "
            "published table is as it was. Mend the cause and run the batch again, or discard or skip it."
        )


@dataclass(eq=False)
class DecidedMeanwhileError(TransientError):
    """Somebody else decided on the batch at the same time."""

    exit_code: ClassVar[int] = 5
    dataset: str
    batch: str

    def sentence(self) -> str:
        return (
            f"{self.dataset}: somebody else has just decided on batch {self.batch}. This decision was not recorded. "
            f"Look at onefold decisions {self.dataset}, then decide again if it is still needed."
        )


@dataclass(eq=False)
class ForeignCommitError(TerminalError):
    """`main`, or a branch, holds a snapshot that Onefold did not write."""

    exit_code: ClassVar[int] = 3
    table: str
    snapshot: int
    ref: str

    def sentence(self) -> str:
        return (
            f"{self.table}: snapshot {self.snapshot} on {self.ref} was not written by Onefold (foreign_commit). "
            f"Nothing was published. Roll {self.ref} back to the last snapshot that names a commit record."
        )


@dataclass(eq=False)
class ContentionError(TransientError):
    """Another writer moved `main` each time before this batch could."""

    exit_code: ClassVar[int] = 5
    table: str
    batch: str
    tries: int

    def sentence(self) -> str:
        return (
            f"{self.table}: main moved {self.tries} times while batch {self.batch} was being published. "
            "The batch is landed and staged; run it again."
        )


@dataclass(eq=False)
class ErasureDisturbedError(TransientError):
    """Somebody else is at work where keys are being erased."""

    exit_code: ClassVar[int] = 5
    dataset: str
    problem: str

    def sentence(self) -> str:
        return (
            f"{self.dataset}: the erasure has not ended: {self.problem}. What is erased stays erased. "
            "Run the same command again."
        )


@dataclass(eq=False)
class ClusterUnavailableError(TransientError):
    """The brokers do not answer."""

    connection: str
    servers: str
    problem: str

    def sentence(self) -> str:
        return (
            f"{self.connection} ({self.servers}): {self.problem}. What was landed before is kept; run the same "
            "command again when the brokers answer."
        )


@dataclass(eq=False)
class RegistryUnavailableError(TransientError):
    """A schema registry does not answer."""

    connection: str
    url: str
    problem: str

    def sentence(self) -> str:
        return (
            f"the schema registry {self.connection} ({self.url}) does not answer: {self.problem}. No record was "
            "judged, and nothing was published. Run it again."
        )


@dataclass(eq=False)
class NotSettledError(TransientError):
    """An interval that is not over, or not for long enough."""

    dataset: str
    end: str
    settled: str

    def sentence(self) -> str:
        return (
            f"{self.dataset}: the interval that ends at {self.end} can be read from {self.settled} on "
            "(schedule.settle). Nothing was planned; run it again then."
        )


@dataclass(eq=False)
class HeldBackError(TransientError):
    """An interval whose last records belong to a transaction that is open."""

    dataset: str
    instant: str
    held: tuple[str, ...]
    until: str

    def sentence(self) -> str:
        return (
            f"{self.dataset}: records before {self.instant} cannot be read yet: {'; '.join(self.held)}. Nothing was "
            "planned. Run it again when the transaction has ended; after "
            f"{self.until} (schedule.patience) it goes on without these records, and the next interval has them."
        )


@dataclass(eq=False)
class LandingInterruptedError(TransientError):
    """The topics could not be read to the end of the plan."""

    batch: str
    problem: str

    def sentence(self) -> str:
        return f"batch {self.batch}: {self.problem}. Nothing of it was landed, its plan is kept: run the batch again."


@dataclass(eq=False)
class LakeUnavailableError(TransientError):
    """The lake or the export cannot be read or written now."""

    place: str
    problem: str

    def sentence(self) -> str:
        return f"{self.place}: {self.problem}. What was written before is kept; run the same command again."


@dataclass(eq=False)
class CommitOutcomeUnknownError(UnknownOutcomeError):
    """The catalog did not answer a commit."""

    table: str
    attempt: str
    problem: str

    def sentence(self) -> str:
        return (
            f"{self.table}: the catalog did not confirm attempt {self.attempt} ({self.problem}). It may be "
            "published: run the batch again, which looks first."
        )


@dataclass(eq=False)
class SparkStepError(OneBatchError):
    """A Spark step ended without a result of its own. It is `of` a batch, or of a whole dataset."""

    step: str
    of: str
    problem: str

    def sentence(self) -> str:
        return (
            f"{self.of}: the Spark step {self.step} failed: {self.problem}. What is published is as it was; mend the "
            "cause and run it again."
        )


@dataclass(eq=False)
class SparkLostError(TransientError):
    """The Spark process ended without leaving a result: killed, out of memory, its cluster gone."""

    step: str
    batch: str
    last: tuple[str, ...] = ()

    def sentence(self) -> str:
        said = "".join(f"\n  {line}" for line in self.last)
        return (
            f"batch {self.batch}: the Spark process of {self.step} ended without leaving a result (killed, out of "
            "memory, or its master is gone). The published table is as it was; the step can be run again. "
            f"{f'Its last lines:{said}' if said else 'Its log may tell why.'}"
        )

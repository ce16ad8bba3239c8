"""Where every object of the lake lies: the one place that knows it.

sources/<source>/cuts|plans|manifests/…       what was planned and landed (a source is shared by datasets)
sources/<source>/looks/…                      what runs have seen of a live source
sources/<source>/erased/<batch>/…             which landed objects took the place of which, by a person's word
sources/<source>/rewritten/<batch>/…          which manifests name these objects since
sources/<source>/segments/<topic>-<n>/…       what the batch headers of landed log segments say
clusters/<cluster>/<topic>/<n>.json           the topic ids that a name has had
sources/<source>/landed/<batch>/<attempt>/…   the exported bytes, unchanged but for what was erased
datasets/<dataset>/<generation>/…             staging, attempts, commit records, reports, the shapes of its fields
datasets/<dataset>/decisions/<batch>/…        what people decided of it
datasets/<dataset>/approvals/…                what was asked in runs of Airflow, and who has answered
datasets/<dataset>/conflicts/<batch>/…        what lost the conflicts that its release accepted
datasets/<dataset>/forgotten/<batch>/…        which records are forgotten with it
datasets/<dataset>/erasures/…                 which keys people had erased
datasets/<dataset>/results/<batch>/…          how Spark's steps ended, for drivers in other processes
targets/<table>.json                          whose table it is
reports/<dataset>/<batch>.html|json           the newest account of a batch
histories/<dataset>.json                      its batches at a glance, for the overview
schemas/<registry>/<id>.json                  the schemas that landed records were written by
unknown_schemas/<registry>/<id>.json          that a registry did not know an id
warehouse/, catalog.db                        the Iceberg tables
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

from onefold.dataset import Dataset

HISTORIES = "histories/"
"""The prefix of the datasets' histories."""


def plans(source: str) -> str:
    """The prefix of a source's plans."""
    return f"sources/{source}/plans/"


def taken(dataset: str) -> str:
    """The prefix of the marks that name the plans which a dataset has taken up (a source is shared)."""
    return f"datasets/{dataset}/plans/"


def cuts(source: str) -> str:
    """The prefix of a source's cuts."""
    return f"sources/{source}/cuts/"


def cut(source: str, instant: datetime) -> str:
    """The key of the cut at an instant."""
    return f"{cuts(source)}{_in_utc(instant)}.json"


def looks(source: str) -> str:
    """The prefix of what runs have seen of a source."""
    return f"sources/{source}/looks/"


def look(source: str, instant: datetime) -> str:
    """The key of the look at an instant."""
    return f"{looks(source)}{_in_utc(instant)}.json"


def _in_utc(instant: datetime) -> str:
    """An instant as a name: names are in the order of their instants."""
    return f"{instant.astimezone(UTC):%Y%m%dT%H%M%S%fZ}"


def incarnation(cluster: str, topic: str, number: int) -> str:
    """The key of the document that says which topic id the n-th topic of a name had."""
    return f"clusters/{cluster}/{topic}/{number}.json"


def epochs(source: str) -> str:
    """The key of the document that says under which leader epochs a source was landed."""
    return f"sources/{source}/epochs.json"


def manifests(source: str) -> str:
    """The prefix of a source's manifests."""
    return f"sources/{source}/manifests/"


def manifest(source: str, batch: str) -> str:
    """The key of a landing's manifest."""
    return f"{manifests(source)}{batch}.json"


def landed_ranges(source: str) -> str:
    """The key of the document that says which offsets of a live source were landed."""
    return f"sources/{source}/landed_ranges.json"


def segments(source: str, topic: str, partition: int) -> str:
    """The prefix of the indexes of a partition's log segments."""
    return f"sources/{source}/segments/{topic}-{partition}/"


def cleared(source: str, batch: str) -> str:
    """The key of the document that says when a landing was cleared by its retention."""
    return f"sources/{source}/cleared/{batch}.json"


def erased(source: str) -> str:
    """The prefix of what was taken out of a source's landings, by batch."""
    return f"sources/{source}/erased/"


def rewritten(source: str, batch: str, digest: str) -> str:
    """The key of the document that says what became of a manifest, whose SHA-256 is given, by an erasure."""
    return f"sources/{source}/rewritten/{batch}/{digest}.json"


def landed(source: str, batch: str, attempt: str, name: str) -> str:
    """The key of a landed object."""
    return f"sources/{source}/landed/{batch}/{attempt}/{name}"


def generation(dataset: Dataset) -> str:
    """The key of the document that says which generation is published."""
    return f"datasets/{dataset.name}/generation.json"


def shape(dataset: str, generation: str, number: int) -> str:
    """The key of the document that says what fields a generation has had since its n-th change of them."""
    return f"datasets/{dataset}/{generation}/shapes/{number}.json"


def rebuild(dataset: Dataset) -> str:
    """The key of the document that says which generation is being folded again."""
    return f"datasets/{dataset.name}/rebuild.json"


def retired(dataset: Dataset, generation: str) -> str:
    """The key of the document that says when a generation stopped being the published generation."""
    return f"datasets/{dataset.name}/retired/{generation}.json"


def decisions(dataset: str) -> str:
    """The prefix of what people decided: of a batch below its name, of the table at the top."""
    return f"datasets/{dataset}/decisions/"


def marks(dataset: str) -> str:
    """The prefix of forget marks: of an attempt below its batch's name, pinned marks at the top."""
    return f"datasets/{dataset}/forgotten/"


def mark(dataset: str, batch: str, attempt: str) -> str:
    """The key of the mark that an attempt at forgetting has made."""
    return f"{marks(dataset)}{batch}/{attempt}.json"


def mark_identities(dataset: str, batch: str, attempt: str) -> str:
    """The key of the digests of the identities that a mark knows."""
    return f"{marks(dataset)}{batch}/{attempt}.identities"


def conflicts(dataset: str) -> str:
    """The prefix of decided conflicts: of an attempt below its batch's name, pinned documents at the top."""
    return f"datasets/{dataset}/conflicts/"


def decided_conflicts(dataset: str, batch: str, attempt: str) -> str:
    """The key of the conflicts that an attempt was published with, by a release."""
    return f"{conflicts(dataset)}{batch}/{attempt}.json"


def erasures(dataset: str) -> str:
    """The prefix of the decisions to erase keys."""
    return f"datasets/{dataset}/erasures/"


def results(dataset: str) -> str:
    """The prefix of what Spark's steps left for drivers in other processes."""
    return f"datasets/{dataset}/results/"


def proof(dataset: str, name: str) -> str:
    """The key of a proof's document."""
    return f"datasets/{dataset}/proofs/{name}.json"


def decision(dataset: Dataset, name: str) -> str:
    """The key of a decision that a person took on the table."""
    return f"{decisions(dataset.name)}{name}.json"


def decision_of(dataset: str, batch: str, number: int, ending: str = ".json") -> str:
    """The key of the n-th decision on a batch."""
    return f"{decisions(dataset)}{batch}/{number:04d}{ending}"


def approval(dataset: str, run: str) -> str:
    """The key of what a DAG run has asked, and of the answer."""
    return f"datasets/{dataset}/approvals/{_of_run(run)}.json"


def run(dataset: str, run: str) -> str:
    """The key of the document that says what a run has planned, whatever its name is made of."""
    return f"datasets/{dataset}/runs/{_of_run(run)}.json"


def _of_run(run: str) -> str:
    """A name for a run, whatever its own is made of."""
    return hashlib.sha256(run.encode()).hexdigest()[:32]


def target(table: str) -> str:
    """The key of the document that says whose a target table is."""
    return f"targets/{table}.json"


def of_batch(dataset: Dataset, batch: str) -> str:
    """The prefix of a batch's documents."""
    return f"datasets/{dataset.name}/{dataset.generation}/batches/{batch}"


def attempt(dataset: Dataset, batch: str, attempt: str, step: str) -> str:
    """The key of a step's result in one attempt."""
    return f"{of_batch(dataset, batch)}/attempts/{attempt}/{step}.json"


def latest(dataset: Dataset, batch: str) -> str:
    """The key of the newest attempt's upsert result, for commands that name no attempt."""
    return f"{of_batch(dataset, batch)}/latest.json"


def record(dataset: Dataset, attempt: str, generation: str | None = None) -> str:
    """The key of a commit record; its name is the attempt's."""
    return f"datasets/{dataset.name}/{generation or dataset.generation}/records/{attempt}.json"


def schemas(registry: str) -> str:
    """The prefix of the schemas that are kept of a registry."""
    return f"schemas/{registry}/"


def schema(registry: str, schema_id: str) -> str:
    """The key of a kept schema."""
    return f"{schemas(registry)}{schema_id}.json"


def unknown_schema(registry: str, schema_id: str) -> str:
    """The key of the document that says that a registry did not know an id."""
    return f"unknown_schemas/{registry}/{schema_id}.json"


def report(dataset: str, batch: str, ending: str) -> str:
    """The key of a batch's report."""
    return f"reports/{dataset}/{batch}.{ending}"


def report_of(dataset: Dataset, batch: str, ending: str) -> str:
    """The key of the same report, as the batch is folded into this generation."""
    return f"datasets/{dataset.name}/{dataset.generation}/reports/{batch}.{ending}"


def reports(dataset: str) -> str:
    """The prefix of a dataset's reports."""
    return f"reports/{dataset}/"


def history(dataset: str) -> str:
    """The key of a dataset's batches at a glance; all histories lie below one prefix, so that one listing tells
    which have changed."""
    return f"{HISTORIES}{dataset}.json"

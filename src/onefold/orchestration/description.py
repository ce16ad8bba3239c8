"""What a DAG says of itself, from its dataset file."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from onefold.dataset import Dataset
from onefold.orchestration.links import dataset_link
from onefold.vocabulary import Level

_DOC = """\
### {name}
{description}

| | |
| --- | --- |
| publishes | `{table}` |
| reads | `{place}` (layout {layout}){only} |
| same message | {deciding}{narrower} |
| mode | {mode} |
| schedule | {schedule} |
| owner | {owner} |

**Checks that must be green**: no key twice, no null key, every offset explained, no version going down,
{checks}.

A red gate fails the run: the published table stays as it was, the batch is kept, and the run's tab *Report* says
why. Mend the cause and clear the run from `dedup` on, or decide the batch by the DAG `onefold_decide`. Clearing a task
is safe: nothing is published twice. The past is a backfill. A run without a date reads everything new: empty
*Logical date* in the form that triggers it, or the run is the last interval's.{export}

[Its batches and charts]({link})
"""


def doc_of(dataset: Dataset) -> str:
    """The DAG's documentation, in Markdown."""
    narrower = [level for level in (Level.POSITION, *dataset.narrow) if level != dataset.deciding]
    return _DOC.format(
        name=dataset.name,
        description=dataset.description,
        table=dataset.target.table,
        place=dataset.source.place,
        layout=dataset.source.layout,
        only=f", only records with `{_cell(dataset.source.filter)}`" if dataset.source.filter else "",
        deciding=_deciding(dataset),
        narrower=f" (reasons named by {', '.join(narrower)})" if narrower else "",
        mode=dataset.apply.title + dataset.apply.sentence() + _shown(dataset),
        schedule=_schedule(dataset),
        owner=dataset.owner or "-",
        checks=", ".join(_checks(dataset)),
        export="" if dataset.source.kafka else " The parameter `export` reads one folder instead.",
        link=dataset_link(dataset.name),
    )


def _shown(dataset: Dataset) -> str:
    return f"; readers see rows with `{_cell(dataset.target.where)}`" if dataset.target.where else ""


def _deciding(dataset: Dataset) -> str:
    """The level that decides, and what it reads; of upsert the row of the mode says that."""
    identity = dataset.identity
    read = {
        Level.PRODUCER: [identity.producer.name, identity.producer.sequence] if identity.producer else [],
        Level.MESSAGE_ID: identity.message_parts,
        Level.BUSINESS_KEY: identity.business_key or [],
    }.get(dataset.deciding, [])
    parts = [*read, *([identity.within] if identity.within else [])]
    return dataset.deciding + (f": {', '.join(f'`{_cell(part)}`' for part in parts)}" if parts else "")


def _cell(text: str) -> str:
    """A text in a cell of a table in Markdown."""
    return " ".join(text.replace("|", "\\|").split())


def _percent(rate: float) -> str:
    return f"{round(rate * 100, 4):g} %"


def _schedule(dataset: Dataset) -> str:
    schedule = dataset.schedule
    if schedule is None:
        return "none: trigger it"
    start = schedule.start.astimezone(ZoneInfo(schedule.timezone))
    return f"`{schedule.cron}` {schedule.timezone}, from {start:%Y-%m-%d %H:%M} on; settled for {schedule.settle}"


def _checks(dataset: Dataset) -> list[str]:
    quality = dataset.quality
    found = [
        f"at most {_percent(dataset.max_rejected_rate)} rejected",
        f"at most {quality.max_conflicts} conflicts",
    ]
    if quality.max_duplicate_rate is not None:
        found.append(f"at most {_percent(quality.max_duplicate_rate)} duplicates")
    if quality.freshness is not None:
        found.append(f"newest record within {quality.freshness}")
    if quality.max_held is not None:
        found.append(f"at most {quality.max_held} held records")
    if quality.max_held_age is not None:
        found.append(f"no record held for more than {quality.max_held_age}")
    if quality.loss == "refused":
        found.append("no record gone before it was landed")
    return [*found, f"the suite `expectations/{quality.suite}`"] if quality.suite else found

"""`onefold init`: a first dataset file, with the reasons for every guess."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from onefold.cli.app import AsJson, app
from onefold.cli.console import NOTES, note, print_json, print_rows
from onefold.dataset import read_dataset
from onefold.dataset.declaration import DatasetName
from onefold.dataset.layouts import export_layouts
from onefold.dataset.sections import Registry, Target
from onefold.dataset.source import Kafka, Origin
from onefold.errors import DatasetExistsError, InvalidDatasetError, UsageError
from onefold.settings import Settings, load_settings

if TYPE_CHECKING:
    from onefold.draft import Asked, Export, Sample, Topics

_SAMPLE = "About so many records: the newest of a topic; of an export, those at the end of the objects written last"
_LAYOUT = f"One of {', '.join(export_layouts())}; else recognised from the objects"
_OPTIONS = {
    "name": "DATASET",
    "source.kafka.connection": "--connection",
    "source.kafka.topics": "--topic",
    "source.exports.path": "--export",
    "source.exports.layout": "--layout",
    "source.exports.origin.cluster": "--cluster",
    "source.filter": "--topic",
    "value.registry": "--registry",
    "target.table": "--table",
}
"""What says a key of the drafted file."""


@app.command()
def init(
    name: Annotated[str, typer.Argument(metavar="DATASET", help="Its name: the file will be datasets/DATASET.yaml")],
    topic: Annotated[
        list[str] | None, typer.Option(help="Read this live topic, or a pattern that starts with ^; may be repeated")
    ] = None,
    connection: Annotated[str, typer.Option(help="The Kafka connection of live topics")] = "kafka_default",
    export: Annotated[
        str | None, typer.Option(metavar="PLACE", help="Read this folder or s3://bucket/prefix/ instead")
    ] = None,
    layout: Annotated[str | None, typer.Option(help=_LAYOUT)] = None,
    cluster: Annotated[str | None, typer.Option(help="The name of the export's cluster, in positions")] = None,
    table: Annotated[str | None, typer.Option(metavar="NAMESPACE.NAME", help="The table that readers see")] = None,
    registry: Annotated[
        str, typer.Option(metavar="NAME", help="The connection of the schema registry whose schemas records name")
    ] = "registry_default",
    sample: Annotated[int, typer.Option(metavar="N", min=1, help=_SAMPLE)] = 1000,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the file; write nothing")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there")] = False,
    as_json: AsJson = False,
) -> None:
    """Draft a dataset file from a topic or an export: fields, key, identity, version, with the reasons as comments."""
    from onefold.draft import draft_dataset, text_of

    settings = load_settings()
    _check_usage(name, topic, export, layout, table)
    _check_values(name, topic or [], connection, export, cluster, table, registry)
    file = settings.datasets_folder / f"{name}.yaml"
    if file.exists() and not (force or dry_run):
        raise DatasetExistsError(name, str(file))
    with NOTES.status(f"{name}: reading what was written last"):
        if export:
            source, found = _of_export(settings, name, export, layout, cluster, topic[0] if topic else None, sample)
        else:
            source, found = _of_topics(settings, name, topic or [], connection, sample)
        draft = draft_dataset(name, source, found, table, _asked(settings, registry))
    for said in draft.notes:
        note(f"{name}: {said}")
    text = text_of(draft)
    _check_draft(text, file, name)
    if not dry_run:
        _write(file, text, name, force=force)
    rows = [{"key": entry.key, "drafted": entry.value, "why": entry.reason} for entry in draft.entries if entry.value]
    if as_json:
        print_json({"dataset": name, "file": str(file), "written": not dry_run, "choices": rows, "text": text})
    elif dry_run:
        typer.echo(text, nl=False)
    else:
        print_rows(f"{name}: drafted", [row for row in rows if row["why"]], "see the file")
        note(f"wrote {file}\nnext: onefold validate {name} --sample {sample}")


def _check_usage(
    name: str, topics: list[str] | None, export: str | None, layout: str | None, table: str | None
) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name):
        raise UsageError(f"{name!r} is no name of a dataset: small letters, digits and _, a letter first")
    if not (topics or export):
        raise UsageError("say what to read: --topic NAME, or --export PLACE")
    if export and topics and (len(topics) > 1 or topics[0].startswith("^")):
        raise UsageError("with --export, --topic names the topic of the export that is wanted")
    if layout and not export:
        raise UsageError("--layout belongs to --export")
    if layout and layout not in export_layouts():
        raise UsageError(f"no layout {layout!r} ({', '.join(export_layouts())})")
    if table and not re.fullmatch(r"[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*", table):
        raise UsageError(f"--table {table!r} is not namespace.name, in small letters")


def _check_values(
    name: str,
    topics: list[str],
    connection: str,
    export: str | None,
    cluster: str | None,
    table: str | None,
    registry: str,
) -> None:
    """Refuse what the dataset file would be refused for, before a record is read."""
    _check("DATASET", lambda: TypeAdapter(DatasetName).validate_python(name))
    _check("--table" if table else "DATASET, or --table", lambda: Target(table=table or f"kafka.{name}"))
    _check(f"--registry {registry!r}", lambda: Registry(connection=registry))
    if export:
        if cluster is not None:
            _check(f"--cluster {cluster!r}", lambda: Origin(cluster=cluster))
        return
    _check(f"--connection {connection!r}", lambda: Kafka(connection=connection, topics=["any"]))
    _check("--topic", lambda: Kafka(topics=topics))


def _check(option: str, made: Callable[[], object]) -> None:
    try:
        made()
    except ValidationError as error:
        problem = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise UsageError(f"{option}: {problem}. No dataset file was written.") from None


def _check_draft(text: str, file: Path, name: str) -> None:
    """Whatever else `validate` would refuse."""
    try:
        read_dataset(text, file)
    except InvalidDatasetError as error:
        said = f"{_OPTIONS[error.key]}: " if error.key in _OPTIONS else ""
        raise UsageError(
            f"{said}{name}: the drafted file would be refused at {error.key}: {error.problem}. No dataset file was "
            "written."
        ) from None


def _of_topics(
    settings: Settings, name: str, topics: list[str], connection: str, count: int
) -> tuple[Topics | Export, Sample]:
    from onefold.draft import Topics
    from onefold.draft.topics import newest_of_topics
    from onefold.kafka.cluster import Cluster
    from onefold.kafka.connection import client_settings

    cluster = Cluster(connection, client_settings(settings, connection))
    return Topics(connection, tuple(topics)), newest_of_topics(name, cluster, topics, count)


def _of_export(
    settings: Settings,
    name: str,
    place: str,
    layout: str | None,
    cluster: str | None,
    topic: str | None,
    count: int,
) -> tuple[Topics | Export, Sample]:
    from onefold.draft import Export
    from onefold.draft.exports import newest_of_export
    from onefold.lake import Lake
    from onefold.landing.places import check_place

    if "://" not in place and settings.path(place).is_file():
        raise UsageError(f"{place} is a file: name its folder, {Path(place).parent}/, whose objects are one source")
    check_place(settings, place)
    seen, found = newest_of_export(name, Lake(settings).store_at(place), count, layout, topic)
    for key, why in found.unread:
        note(f"{name}: {key}: {why}")
    return Export(f"{place.rstrip('/')}/", seen, cluster, topic), found


def _asked(settings: Settings, connection: str) -> Asked:
    from onefold.draft import Asked
    from onefold.schemas.client import open_registry

    return Asked(connection, lambda: open_registry(settings, Registry(connection=connection)))


def _write(file: Path, text: str, name: str, *, force: bool) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("w" if force else "x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        raise DatasetExistsError(name, str(file)) from None
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from None

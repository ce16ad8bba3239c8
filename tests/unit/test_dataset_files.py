"""Dataset files: every complaint names file, line and key; what is not built yet is said so, never ignored."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from onefold.dataset import Dataset, dataset_files, find_dataset, load_dataset
from onefold.errors import InvalidDatasetError, NotSupportedYetError, UnknownDatasetError

PROJECT = Path(__file__).parents[2]
ENTRIES = """\
name: entries
description: One row per transfer and account.
owner: payments
source:
  exports:
    path: exports/entries/
    layout: kcat
    origin: {cluster: prod, incarnation: 1}
    holes: transactional
  filter: "value.type = 'entry'"
schedule: {cron: "0 * * * *", start: 2026-01-01, settle: 10m}
key: {format: json}
value:
  format: json
  fields: {transfer: string, account: string, amount: "decimal(18,2)", type: "string?", at: timestamp}
identity:
  message_id: header.message-id
  business_key: [transfer, account]
apply:
  mode: append
target: {table: payments.entries, buckets: 8}
quality: {max_duplicate_rate: 0.30, freshness: 2h, suite: entries.yaml}
"""
UPSERT = """\
  mode: upsert
  key: [key.id]
  version: {from: long(header.version), guard: newer, tie: conflict}
  delete_when: tombstone
"""
CHAIN = UPSERT.replace("newer", "contiguous")
INCREMENT = ENTRIES.replace("  business_key: [transfer, account]\n", "").replace(
    "  mode: append\n", "  mode: increment\n  key: [key.id, account]\n  add: {balance: amount}\n"
)
Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a dataset file called `entries`."""

    def file(text: str) -> Path:
        place = tmp_path / "entries.yaml"
        place.write_text(text, encoding="utf-8")
        return place

    return file


def changed(old: str, new: str, text: str = ENTRIES) -> str:
    """The file with one thing changed; it must have been there once."""
    assert text.count(old) == 1, old
    return text.replace(old, new)


def line_of(text: str, part: str) -> int:
    """The first line that contains a part."""
    return text[: text.index(part)].count("\n") + 1


def test_the_example_is_read_whole(write: Write) -> None:
    dataset = load_dataset(write(ENTRIES))
    assert (dataset.deciding, dataset.levels) == ("business_key", ("position", "message_id", "business_key"))
    assert {name: str(kind) for name, kind in dataset.fields.items()} == {
        "transfer": "string", "account": "string", "amount": "decimal(18,2)", "type": "string?", "at": "timestamp",
    }  # fmt: skip
    assert dataset.schedule is not None
    assert dataset.schedule.start == datetime(2026, 1, 1, tzinfo=UTC)
    assert dataset.schedule.settle == timedelta(minutes=10)
    assert dataset.quality.freshness == timedelta(hours=2)


def test_an_upsert_with_tombstones_is_read(write: Write) -> None:
    dataset = load_dataset(write(changed("  mode: append\n", UPSERT)))
    assert (dataset.deciding, dataset.key_names) == ("key_version", ["id"])


@pytest.mark.parametrize("name", ["accounts", "account_entries", "orders", "page_views"])
def test_the_shipped_datasets_load(name: str) -> None:
    assert find_dataset(PROJECT / "datasets", name).name == name


def test_all_shipped_datasets_are_tested_here() -> None:
    assert [file.stem for file in dataset_files(PROJECT / "datasets")] == [
        "account_entries",
        "accounts",
        "orders",
        "page_views",
    ]


@pytest.mark.parametrize(
    ("old", "new", "key", "near"),
    [
        ("owner: payments", "ownr: payments", "ownr", "did you mean 'owner'?"),
        ("    layout: kcat", "    layuot: kcat", "source.exports.layuot", "did you mean 'layout'?"),
        ("{cluster: prod,", "{clustr: prod,", "source.exports.origin.clustr", "did you mean 'cluster'?"),
        ("  message_id: header", "  mesage_id: header", "identity.mesage_id", "did you mean 'message_id'?"),
        ("buckets: 8", "bukets: 8", "target.bukets", "did you mean 'buckets'?"),
        ("freshness: 2h", "fresh_within: 2h", "quality.fresh_within", "unknown key"),
        ("settle: 10m", "zzz: 10m", "schedule.zzz", "there are cron, timezone, start, settle"),
    ],
)
def test_an_unknown_key_is_an_error_with_the_nearest(write: Write, old: str, new: str, key: str, near: str) -> None:
    text = changed(old, new)
    with pytest.raises(InvalidDatasetError) as raised:
        load_dataset(write(text))
    error = raised.value
    assert not isinstance(error, NotSupportedYetError)
    assert (error.key, error.line) == (key, line_of(text, key.rpartition(".")[2] + ":"))
    assert near in error.problem
    assert f"entries.yaml:{error.line}: {key}: " in str(error)


def test_an_alias_is_offered_as_the_file_spells_it(write: Write) -> None:
    text = changed("  mode: append\n", changed("from:", "form:", UPSERT))
    with pytest.raises(InvalidDatasetError, match="did you mean 'from'"):
        load_dataset(write(text))


NOT_BUILT = [
    *[(f"layout {layout}", "", "layout: kcat", f"layout: {layout}", f"layout {layout}") for layout in ("avro",)],
    *[
        (f"format {format_}", "", "  format: json\n  fields", f"  format: {format_}\n  fields", re.escape(format_))
        for format_ in ("json+debezium", "avro+debezium", "protobuf+debezium")
    ],
    ("history", "", "mode: append", "mode: history\n  key: [account]", "history"),
]


@pytest.mark.parametrize(("old", "new", "said"), [row[2:] for row in NOT_BUILT], ids=[row[0] for row in NOT_BUILT])
def test_what_is_not_built_yet_says_so(write: Write, old: str, new: str, said: str) -> None:
    with pytest.raises(NotSupportedYetError, match=f"not_supported_yet: .*{said}") as raised:
        load_dataset(write(changed(old, new)))
    assert raised.value.exit_code == 2
    assert raised.value.line is not None


AVRO = "  format: avro\n  schema: schemas/entry.avsc\n  fields"
ENTRY = {"type": "record", "name": "Entry", "fields": [{"name": "account", "type": "string"}]}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (None, "schemas/entry.avsc: it cannot be read: No such file or directory"),
        ("{", "schemas/entry.avsc: it is no Avro schema: JSONDecodeError"),
        (
            '{"type": "recrod", "name": "E", "fields": []}',
            "it is no Avro schema: UnknownType .*recrod",
        ),
        ('"string"', "schemas/entry.avsc: its type is no record, and only records have fields"),
        (json.dumps(ENTRY), "schemas/entry.avsc: value.fields: .* is no field of the schema"),
        ("[" * 100_000, "schemas/entry.avsc: it (nests too deep|is no Avro schema)"),
        (" " * 1_000_001, "schemas/entry.avsc: it has 1,000,001 bytes, at most 1,000,000 are read"),
    ],
)
def test_a_schema_file_is_looked_at_with_the_dataset_file(write: Write, schema: str | None, said: str) -> None:
    file = write(changed("  format: json\n  fields", AVRO))
    (file.parent / "schemas").mkdir()
    if schema is not None:
        (file.parent / "schemas" / "entry.avsc").write_text(schema)
    with pytest.raises(InvalidDatasetError, match=said) as raised:
        load_dataset(file)
    assert (raised.value.key, raised.value.exit_code) == ("value.schema", 2)
    assert raised.value.line == line_of(file.read_text(), "schema:")


PROTOBUF = "  format: protobuf\n  schema: schemas/entry.proto\n  fields"
FIELDS_OF_ENTRY = "string transfer = 1; string account = 2; string amount = 3; string type = 4; string at = 5;"
ENTRY_PROTO = f"""syntax = "proto3"; package p; import "common/money.proto"; import "other.proto";
message Entry {{ {FIELDS_OF_ENTRY} Money money = 6; Other other = 7; }}"""
IMPORTED = {"common/money.proto": "message Money { int64 cents = 1; }", "schemas/other.proto": "message Other { }"}


@pytest.fixture
def entry(write: Write) -> Callable[..., Dataset]:
    """Loads the dataset with a `.proto` file, its imports next to it and in the folder of dataset files."""

    def load(text: str, settings: str = PROTOBUF) -> Dataset:
        file = write(changed("  format: json\n  fields", settings))
        for name, message in {**IMPORTED, "schemas/entry.proto": text}.items():
            (file.parent / name).parent.mkdir(exist_ok=True)
            given = message if message.startswith("syntax") else f'syntax = "proto3"; package p; {message}'
            (file.parent / name).write_text(given)
        return load_dataset(file)

    return load


def test_a_protobuf_schema_counts_by_what_it_says_of_the_message(entry: Callable[..., Dataset]) -> None:
    first = entry(ENTRY_PROTO)
    assert '"message":"p.Entry"' in first.schemas["value"]
    assert entry(f"{ENTRY_PROTO} // and a comment").generation == first.generation
    assert entry(f"{ENTRY_PROTO} message More {{}}", f"{PROTOBUF[:-8]}\n  message: p.Entry\n  fields").generation == (
        first.generation
    )
    assert entry(ENTRY_PROTO.replace("account = 2", "account = 9")).generation != first.generation


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("syntax = 7", "it is no Protobuf schema: (schemas/)?entry.proto:1"),
        (ENTRY_PROTO.replace("other.proto", "no.proto"), 'Import "no.proto" was not found'),
        (f"{ENTRY_PROTO} message More {{}}", r"say which in `message` \(p\.Entry, p\.More\)"),
        (ENTRY_PROTO.replace("account", "acount"), r"account is no field of p\.Entry \(did you mean acount\?\)"),
    ],
)
def test_a_protobuf_schema_is_looked_at_with_the_dataset_file(
    entry: Callable[..., Dataset], text: str, said: str
) -> None:
    with pytest.raises(InvalidDatasetError, match=said) as raised:
        entry(text)
    assert raised.value.key == "value.schema"


def test_s3_a_protobuf_schema_imports_nothing_from_outside(entry: Callable[..., Dataset], tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside.proto"
    outside.write_text('syntax = "proto3"; package p; message Secret {}')
    made = entry(ENTRY_PROTO)
    del made
    folder = next(tmp_path.rglob("schemas"))
    (folder / "link.proto").symlink_to(outside)
    with pytest.raises(InvalidDatasetError, match=r"link\.proto lies outside the folder of the dataset files"):
        entry(ENTRY_PROTO.replace("other.proto", "link.proto").replace("Other other = 7;", ""))


def test_only_protobuf_has_messages(write: Write) -> None:
    text = changed("  format: json\n  fields", "  format: json\n  message: p.Entry\n  fields")
    with pytest.raises(InvalidDatasetError, match="format json has no message"):
        load_dataset(write(text))


@pytest.mark.parametrize("schema", ["../entry.avsc", "/etc/passwd", "a//b", ".hidden"])
def test_s3_a_schema_file_lies_below_the_dataset_files(write: Write, schema: str) -> None:
    with pytest.raises(InvalidDatasetError, match=r"value\.schema"):
        load_dataset(write(changed("  format: json\n  fields", f"  format: avro\n  schema: {schema}\n  fields")))


def test_a_layout_without_the_messages_takes_no_format_with_a_schema(write: Write) -> None:
    text = changed("  format: json\n  fields", AVRO, changed("layout: kcat", "layout: connect"))
    text = changed("    holes: transactional\n", "", text)
    with pytest.raises(
        InvalidDatasetError, match="layout connect holds what the exporter made of the records"
    ) as raised:
        load_dataset(write(text))
    assert raised.value.key == "value.format"


def test_another_schema_is_another_meaning(write: Write) -> None:
    file = write(changed("  format: json\n  fields", AVRO))
    (file.parent / "schemas").mkdir()
    fields = [{"name": name, "type": "string"} for name in ("transfer", "account", "amount", "type", "at")]
    made = []
    for more in ([], [{"name": "added", "type": "long"}]):
        schema = {"type": "record", "name": "Entry", "fields": [*fields, *more]}
        (file.parent / "schemas" / "entry.avsc").write_text(json.dumps(schema))
        made.append(load_dataset(file).generation)
    assert made[0] != made[1]


def test_an_increment_publishes_its_key_and_what_is_added_to_it(write: Write) -> None:
    dataset = load_dataset(write(INCREMENT))
    assert (dataset.deciding, dataset.key_names, dataset.narrow) == ("message_id", ["message-id"], ())
    assert (dataset.row_key_names, dataset.published_columns) == (["id", "account"], ["id", "account", "balance"])
    assert {name: (field, str(kind)) for name, (field, kind) in dataset.apply.sums(dataset).items()} == {
        "balance": ("amount", "decimal(28,2)")
    }


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("  add: {balance: amount}\n", "", "increment needs a key, and add"),
        ("  key: [key.id, account]\n", "", "increment needs a key, and add"),
        ("{balance: amount}", "{balance: amont}", "names no field of value.fields"),
        ("{balance: amount}", "{balance: transfer}", "what is added is a field of type int, long or decimal"),
        ("{balance: amount}", "{balance: offset}", "what is added is a field of type int, long or decimal"),
        ("decimal(18,2)", "decimal(28,2)", "p at most 27"),
        ("{balance: amount}", "{Amount: amount}", "amount and Amount would be one column"),
        ("{balance: amount}", "{_balance: amount}", "Onefold's own"),
        (
            "  message_id: header.message-id\n",
            "  producer: {name: header.p, sequence: header.s}\n",
            "message id decides",
        ),
        ("  message_id", "  business_key: [transfer]\n  message_id", "message id decides"),
        ("  mode: increment\n", "  mode: increment\n  delete_when: tombstone\n", "no version or delete_when"),
        ("  message_id", "  within: day(at)\n  message_id", "not_supported_yet: identity.within in mode increment"),
    ],
)
def test_an_increment_that_cannot_be_is_refused(write: Write, old: str, new: str, said: str) -> None:
    with pytest.raises(InvalidDatasetError, match=re.escape(said)):
        load_dataset(write(changed(old, new, INCREMENT)))


def test_a_plain_mistake_is_reported_before_what_is_not_built(write: Write) -> None:
    text = changed("mode: append", "mode: history", changed("owner: payments", "ownr: payments"))
    with pytest.raises(InvalidDatasetError, match="ownr") as raised:
        load_dataset(write(text))
    assert not isinstance(raised.value, NotSupportedYetError)


WHERE = "buckets: 8}"
REFUSED = [
    (
        "rows of an append are hidden",
        WHERE,
        "buckets: 8, where: \"type = 'entry'\"}",
        "target.where",
        "only mode upsert hides rows, for in mode append no later record takes the place of a row",
    ),
    ("the name is another", "name: entries", "name: others", "name", "must be that of the file, 'entries'"),
    ("no name", "name: entries\n", "", "name", "must be that of the file"),
    ("no source", "    layout: kcat\n", "", "source.exports.layout", "Field required"),
    ("two sources", "  exports:\n", "  kafka: {topics: [t]}\n  exports:\n", "source", "one source: exports or kafka"),
    (
        "layout unknown",
        "layout: kcat",
        "layout: csv",
        "source.exports",
        "no layout 'csv' (kcat, connect, aiven, parquet, segments)",
    ),
    (
        "columns of kcat",
        "layout: kcat",
        "layout: kcat\n    columns: {key: k}",
        "source.exports",
        "belongs to layout parquet",
    ),
    (
        "encoding of kcat",
        "layout: kcat",
        "layout: kcat\n    encoding: {key: base64}",
        "source.exports",
        "belongs to layout aiven",
    ),
    (
        "a column's name",
        "layout: kcat",
        "layout: parquet\n    columns: {ofset: o}",
        "source.exports.columns.ofset",
        "did you mean 'offset'",
    ),
    ("holes unknown", "holes: transactional", "holes: many", "source.exports.holes", "none"),
    ("holes with a word that is none", "holes: transactional", "holes: {kind: many}", "source.exports.holes", "none"),
    (
        "a length of other holes",
        "holes: transactional",
        "holes: {kind: none, longest: 5}",
        "source.exports.holes",
        "longest belongs to kind transactional",
    ),
    (
        "no length",
        "holes: transactional",
        "holes: {kind: transactional, longest: 0}",
        "source.exports.holes.longest",
        "greater",
    ),
    ("holes of segments", "layout: kcat", "layout: segments", "source.exports", "hold markers and aborted records"),
    ("incarnation", "incarnation: 1", "incarnation: 0", "source.exports.origin.incarnation", "greater"),
    ("cluster", "cluster: prod", "cluster: 'a/b'", "source.exports.origin.cluster", "pattern"),
    ("format unknown", "  format: json\n  fields", "  format: xml\n  fields", "value", "no value format 'xml'"),
    ("type unknown", "account: string,", "account: text,", "value", "'text' is no field type"),
    ("decimal", "decimal(18,2)", "decimal(40,2)", "value", "1 to 38 digits"),
    ("decimal scale", "decimal(18,2)", "decimal(2,3)", "value", "1 to 38 digits"),
    ("type of a list", "account: string,", 'account: "list<text>",', "value", "'list<text>': 'text' is no field type"),
    ("keys of a map", "account: string,", 'account: "map<int, int>",', "value", "the keys of a map are string"),
    (
        "values of a map",
        "account: string,",
        'account: "map<string, int?>",',
        "value",
        "a value of a map is never absent",
    ),
    ("type of a map", "account: string,", 'account: "map<string>",', "value", "'map<string>' is no field type"),
    (
        "a map is a key",
        "account: string,",
        'account: "map<string, int>",',
        "identity.business_key",
        "declare the entry",
    ),
    ("json is a key", "account: string,", "account: json,", "identity.business_key", "account is a json; declare the"),
    ("binary is a key", "account: string,", "account: binary,", "identity.business_key", "declare it as string"),
    ("type cut off", "account: string,", 'account: "list<string",', "value", "'list<string' is no field type"),
    ("element", "account: string,", 'account: "list<string?>",', "value", "an element of a list is never absent"),
    ("parts", "account: string,", 'account: "struct<a: int, A: int>",', "value", "a and A would be one field"),
    ("deep", "account: string,", f'account: "{"list<" * 10}int{">" * 10}",', "value", "nests deeper than 10 levels"),
    ("deeper", "account: string,", f'account: "{"list<" * 9999}int{">" * 9999}",', "value", "nests deeper than 10"),
    ("a list is a key", "account: string,", 'account: "list<string>",', "identity.business_key", "account is a list"),
    ("a struct is a key", "account: string,", 'account: "struct<id: int>",', "identity.business_key", "is a struct"),
    (
        "no such part",
        "[transfer, account]",
        "[transfer.id, account]",
        "identity.business_key",
        "no such part of transfer",
    ),
    ("no such root", "header.message-id", "headers.message-id", "identity.message_id", "none of key, value, header"),
    ("own name", "account: string,", "_key: string,", "value", "names that start with _"),
    (
        "name is SQL",
        "account: string,",
        "'a b; drop': string,",
        "value.fields",
        'write a_b_drop: {type: "string", from: "a b; drop"}',
    ),
    ("no such unit", "account: string,", 'account: "timestamp(weeks)",', "value", "there is no timestamp(weeks)"),
    (
        "Base64 of a default",
        "account: string,",
        'account: {type: "decimal(9,2,base64)", default: "1.50"},',
        "value",
        "account: the default '1.50' is no decimal(9,2,base64)",
    ),
    ("no place", "account: string,", 'account: {type: string, from: "a..b"},', "value.fields", "is no name in the rec"),
    ("case", "account: string,", "Transfer: string, account: string,", "value.fields", "one column"),
    ("key format", "key: {format: json}", "key: {format: xml}", "key.format", "string"),
    ("cron", '"0 * * * *"', '"0 * * *"', "schedule.cron", "five cron fields"),
    ("cron words", '"0 * * * *"', '"@hourly"', "schedule.cron", "five cron fields"),
    ("cron range", '"0 * * * *"', '"99 * * * *"', "schedule.cron", "five cron fields"),
    ("start", "start: 2026-01-01", "start: soon", "schedule.start", "datetime"),
    ("settle", "settle: 10m", "settle: 600", "schedule.settle", "no duration"),
    ("timezone", "settle: 10m", "timezone: Europe/Berln", "schedule.timezone", "no time zone"),
    ("timezone path", "settle: 10m", "timezone: ../UTC", "schedule.timezone", "no time zone"),
    ("message id", "message_id: header.message-id", "message_id: 'long('", "identity.message_id", "cannot be read"),
    ("filter", "\"value.type = 'entry'\"", '"type = ="', "source.filter", "cannot be read"),
    ("filter field", "\"value.type = 'entry'\"", '"kind = 1"', "source.filter", "names no field of value.fields"),
    (
        "text and number",
        "\"value.type = 'entry'\"",
        '"header.x >= 3"',
        "source.filter",
        "'header.x >= 3' compares a string with a long; cast one of them, such as long(…)",
    ),
    (
        "key and number",
        "\"value.type = 'entry'\"",
        "\"key.id in ('a', 3)\"",
        "source.filter",
        "compares a string with a long",
    ),
    ("text and decimal", "\"value.type = 'entry'\"", '"header.x >= 3.5"', "source.filter", "such as double(…)"),
    (
        "text and instant",
        "\"value.type = 'entry'\"",
        "\"timestamp > '10:15'\"",
        "source.filter",
        "'10:15'\" compares a timestamp with a string; cast one of them, such as timestamp(…)",
    ),
    (
        "number and boolean",
        "\"value.type = 'entry'\"",
        '"amount = true"',
        "source.filter",
        "compares a decimal with a boolean",
    ),
    (
        "text and condition",
        "\"value.type = 'entry'\"",
        '"type = (amount > 1)"',
        "source.filter",
        "compares a string with a boolean",
    ),
    ("no condition", "\"value.type = 'entry'\"", '"header.x"', "source.filter", "takes a string for a condition"),
    (
        "no condition in one",
        "\"value.type = 'entry'\"",
        '"amount > 1 or not offset"',
        "source.filter",
        "takes a long for a condition",
    ),
    (
        "cast of a condition",
        "\"value.type = 'entry'\"",
        '"timestamp((amount > 1)) > timestamp"',
        "source.filter",
        "a boolean is no timestamp",
    ),
    (
        "long above 64 bits",
        "\"value.type = 'entry'\"",
        '"offset < 9223372036854775808"',
        "source.filter",
        "the whole number 9223372036854775808 has more than 64 bits",
    ),
    (
        "decimal of 39 digits",
        "\"value.type = 'entry'\"",
        '"amount < 0.999999999999999999999999999999999999999"',
        "source.filter",
        "has more than 38 digits",
    ),
    (
        "decimal rounded",
        "\"value.type = 'entry'\"",
        '"amount < 0.99999999999999999999999"',
        "source.filter",
        "compares a decimal(18,2) with a decimal(23,23), of which Spark would round one",
    ),
    (
        "decimal and long",
        "\"value.type = 'entry'\"",
        '"offset < 0.9999999999999999999"',
        "source.filter",
        "compares a long with a decimal(19,19)",
    ),
    ("business key", "[transfer, account]", "[transfer, acount]", "identity.business_key", "names no field"),
    ("business key empty", "[transfer, account]", "[]", "identity.business_key", "at least 1"),
    ("append with a key", "mode: append", "mode: append\n  key: [account]", "apply", "append takes no key"),
    ("within a number", "identity:\n", "identity:\n  within: day(amount)\n", "identity.within", "takes hour, day"),
    ("within text", "identity:\n", "identity:\n  within: day(header.at)\n", "identity.within", "takes hour, day"),
    ("within bare", "identity:\n", "identity:\n  within: at\n", "identity.within", "takes hour, day"),
    ("within arrival", "identity:\n", "identity:\n  within: day(timestamp)\n", "identity.within", "sent again"),
    ("within offset", "identity:\n", "identity:\n  within: day(offset)\n", "identity.within", "takes hour, day"),
    ("within nothing", "identity:\n", "identity:\n  within: day(att)\n", "identity.within", "names no field"),
    (
        "period elsewhere",
        "[transfer, account]",
        "[transfer, day(at)]",
        "identity.business_key",
        "identity.within alone",
    ),
    ("mode", "mode: append", "mode: replace", "apply", "no mode 'replace' (there are append, increment, upsert)"),
    ("near mode", "mode: append", "mode: upsrt", "apply", "no mode 'upsrt' (did you mean upsert?)"),
    ("mode left out", "  mode: append\n", "  compare: {except: [note]}\n", "apply", "it takes a mapping with a mode"),
    ("only a mode", "\n  mode: append\n", " append\n", "apply", "a mapping with a mode (append, upsert, increment)"),
    ("upsert bare", "mode: append", "mode: upsert\n  key: [account]", "apply", "upsert needs a key and a version"),
    ("add", "  mode: append\n", UPSERT + "  add: {amount: amount}\n", "apply", "add belongs to mode increment"),
    ("guard", "  mode: append\n", UPSERT.replace("newer", "older"), "apply.version.guard", "'contiguous'"),
    ("first", "  mode: append\n", UPSERT.replace("newer", "newer, first: 1"), "apply.version", "first belongs"),
    (
        "expects",
        "  mode: append\n",
        UPSERT.replace("newer", "newer, expected: offset"),
        "apply.version",
        "expected belongs",
    ),
    ("no version", "  mode: append\n", UPSERT.replace("from: long(header.version), ", ""), "apply", "from is missing"),
    (
        "expects text",
        "  mode: append\n",
        CHAIN.replace("from: long(header.version)", "expected: header.v"),
        "apply",
        "cast with",
    ),
    (
        "expects text next to a number",
        "  mode: append\n",
        CHAIN.replace("guard", "expected: header.v, guard"),
        "apply.version.expected",
        "'header.v': guard contiguous counts whole numbers",
    ),
    ("no next", "  mode: append\n", CHAIN.replace("long(header.version)", "timestamp"), "apply", "cast with"),
    ("of text", "  mode: append\n", CHAIN.replace("long(header.version)", "header.version"), "apply", "cast with"),
    ("of two", "  mode: append\n", CHAIN.replace("long(header.version)", "[amount, at]"), "apply", "no next version"),
    (
        "of none",
        "  mode: append\n",
        UPSERT.replace("long(header.version)", "[]"),
        "apply.version",
        "the weightiest first",
    ),
    (
        "no time",
        "  mode: append\n",
        UPSERT.replace("guard", "max_ahead: 1d, guard"),
        "apply.version.max_ahead",
        "none of long(header.version) is a timestamp or date",
    ),
    (
        "the log's own time",
        "  mode: append\n",
        UPSERT.replace("long(header.version), ", "timestamp, max_ahead: 1d, "),
        "apply.version.max_ahead",
        "of the record's own",
    ),
    ("backwards", "max_duplicate_rate: 0.30", "max_backwards_rate: 0.1", "quality.max_backwards_rate", "only versions"),
    ("held", "max_duplicate_rate: 0.30", "max_held_age: 1d", "quality.max_held_age", "only guard contiguous"),
    ("none held", "max_duplicate_rate: 0.30", "max_held: 0", "quality.max_held", "only guard contiguous"),
    ("tie", "  mode: append\n", UPSERT.replace("tie: conflict", "tie: maybe"), "apply.version.tie", "'conflict'"),
    ("table", "table: payments.entries", "table: entries", "target.table", "pattern"),
    ("table is SQL", "table: payments.entries", "table: 'a.b; drop'", "target.table", "pattern"),
    ("table taken", "payments.entries", "payments.entries__quarantine", "target.table", "those of rejected records"),
    ("buckets", "buckets: 8", "buckets: 0", "target.buckets", "greater"),
    ("rate", "max_duplicate_rate: 0.30", "max_duplicate_rate: 30", "quality.max_duplicate_rate", "less"),
    ("freshness", "freshness: 2h", "freshness: soon", "quality.freshness", "no duration"),
    ("suite leaves", "suite: entries.yaml", "suite: ../entries.yaml", "quality.suite", "pattern"),
    (
        "key taken",
        "  mode: append\n",
        UPSERT.replace("key.id", "header.account").replace("  delete_when: tombstone\n", ""),
        "apply.key",
        "would be one column; declare the field under another name, such as value_account: {type: …, from: account}",
    ),
    ("constant key", "  mode: append\n", UPSERT.replace("[key.id]", "[\"'eu'\", key.id]"), "apply.key", "is the same"),
    ("constant part", "[transfer, account]", "[\"'eu'\", account]", "identity.business_key", "is the same for"),
    ("constant id", "header.message-id", "\"'eu'\"", "identity.message_id", "is the same for every record"),
    ("constant call", "header.message-id", "\"lower('EU')\"", "identity.message_id", "is the same for every record"),
    (
        "constant producer",
        "  message_id:",
        "  producer: {name: header.p, sequence: \"'7'\"}\n  message_id:",
        "identity.producer.sequence",
        "is the same for every record",
    ),
    (
        "constant period",
        "[transfer, account]",
        "[transfer, account]\n  within: day(timestamp('2026-01-01'))",
        "identity.within",
        "is the same for every record",
    ),
    ("own column", "  mode: append\n", UPSERT.replace("key.id", "key._key"), "apply.key", "have a column _key"),
    ("own, large", "  mode: append\n", UPSERT.replace("key.id", "key._Version"), "apply.key", "a column _Version"),
    ("own scratch", "  mode: append\n", UPSERT.replace("key.id", "key._base_order"), "apply.key", "column _base_order"),
    ("own part", "  mode: append\n", UPSERT.replace("key.id", "key._Order_id"), "apply.key", "a column _Order_id"),
    ("own for a while", "  mode: append\n", UPSERT.replace("key.id", "key._new_id"), "apply.key", "a column _new_id"),
    ("long settle", "settle: 10m", "settle: 99999999999d", "schedule.settle", "too long a duration (at most 365000d)"),
    ("longer than days", "freshness: 2h", "freshness: 9999999d", "quality.freshness", "too long a duration"),
    ("longest", "freshness: 2h", f"freshness: {'9' * 5000}d", "quality.freshness", "no duration"),
    ("late start", "start: 2026-01-01", "start: 9999-12-31T23:59:59", "schedule.start", "the years 2 to 9899"),
]


def test_every_record_may_have_one_version_and_one_producer(write: Write) -> None:
    upsert = UPSERT.replace("long(header.version)", "'1'")
    producer = "  producer: {name: \"'p'\", sequence: header.n}\n  message_id:"
    text = changed("  mode: append\n", upsert).replace("  message_id:", producer)
    assert load_dataset(write(text)).narrow == ("producer", "message_id", "business_key")


def test_other_names_that_start_with_an_underscore_may_be_parts_of_the_key(write: Write) -> None:
    dataset = load_dataset(write(changed("  mode: append\n", UPSERT.replace("key.id", "key._id"))))
    assert dataset.published_columns[0] == "_id"


def test_a_name_of_onefolds_own_dags_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "onefold_decide.yaml"
    file.write_text(changed("name: entries", "name: onefold_decide"))
    with pytest.raises(InvalidDatasetError, match="names that begin with onefold_ are those of Onefold's own DAGs"):
        load_dataset(file)


@pytest.mark.parametrize(
    "text",
    [
        "long(header.x) >= 3 and header.x in ('3', '4')",
        "amount > 3 and amount < 9999999999999999.999 and double(amount) in (0.1, 2)",
        "partition = 0 and offset <= 9223372036854775807 and offset > -9223372036854775808",
        "at > timestamp and date(at) < at and at is not null and (account = 'a') = true",
        "not (key.id = lower(topic)) or boolean(header.b)",
    ],
)
def test_what_is_of_one_kind_may_be_compared(write: Write, text: str) -> None:
    assert load_dataset(write(changed("value.type = 'entry'", text))).source.filter == text


@pytest.mark.parametrize(
    ("old", "new", "key", "said"), [row[1:] for row in REFUSED], ids=[row[0].replace(" ", "-") for row in REFUSED]
)
def test_a_wrong_file_is_refused_at_its_key(write: Write, old: str, new: str, key: str, said: str) -> None:
    with pytest.raises(InvalidDatasetError) as raised:
        load_dataset(write(changed(old, new)))
    error = raised.value
    assert not isinstance(error, NotSupportedYetError)
    assert said in error.problem, error.problem
    assert error.key.startswith(key), error.key
    assert re.search(r"entries\.yaml(:\d+)?: ", str(error))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("[key.id]", "[account]"), "every key part from key"),
        (("[key.id]", "[key.id, account]"), "every key part from key"),
        (("long(header.version)", "long(amount)"), "version from header"),
        (("long(header.version)", "long(key.version)"), "version from header"),
        (
            ("from: long(header.version), guard: newer", "expected: long(amount), guard: contiguous"),
            "version from header",
        ),
    ],
)
def test_a_tombstone_holds_neither_value_nor_version(write: Write, change: tuple[str, str], said: str) -> None:
    upsert = changed(*change, UPSERT)
    with pytest.raises(InvalidDatasetError, match=f"apply.delete_when: tombstone needs (the )?{said}"):
        load_dataset(write(changed("  mode: append\n", upsert)))


COMPACTED = "holes: compacted"


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        (ENTRIES, "mode append"),
        (INCREMENT, "mode increment"),
        (changed("  mode: append\n", CHAIN), "mode upsert with guard contiguous"),
    ],
)
def test_a_mode_that_needs_every_record_refuses_holes_of_compaction(write: Write, text: str, mode: str) -> None:
    with pytest.raises(InvalidDatasetError, match=rf"{mode} needs every record.*Write none or transactional") as raised:
        load_dataset(write(changed("holes: transactional", COMPACTED, text)))
    assert (raised.value.key, raised.value.line) == ("source.exports.holes", line_of(text, "holes:"))


def test_the_newest_version_of_a_key_can_do_without_compacted_records(write: Write) -> None:
    upsert = changed("holes: transactional", COMPACTED, changed("  mode: append\n", UPSERT))
    source = load_dataset(write(upsert)).source
    assert (source.holes, source.longest_hole) == ("compacted", None)


def test_transactional_holes_may_be_as_long_as_the_file_says(write: Write) -> None:
    """How long they may be changes no row: the generation stays."""
    plain = load_dataset(write(ENTRIES))
    longer = load_dataset(write(changed("holes: transactional", "holes: {kind: transactional, longest: 500}")))
    assert [(quality.source.holes, quality.source.longest_hole) for quality in (plain, longer)] == [
        ("transactional", 2),
        ("transactional", 500),
    ]
    assert (plain.generation, plain.source_id) == (longer.generation, longer.source_id)


@pytest.mark.parametrize("guard", [UPSERT, CHAIN])
@pytest.mark.parametrize("where", ["type = 'entry'", "key.id = 'a' or amount > 3", "value.at is null"])
def test_a_condition_hides_rows_by_their_fields_and_their_key(write: Write, guard: str, where: str) -> None:
    text = changed("  mode: append\n", guard)
    shown = load_dataset(write(text.replace(WHERE, f'buckets: 8, where: "{where}"}}')))
    assert shown.target.where == where
    assert shown.generation != load_dataset(write(text)).generation, "another condition shows other rows"


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("header.type = 'entry'", "reads header.type, which rows do not keep"),
        ("header.type = 'entry'", "apply.key; write value.type"),
        ("id = 'a'", "reads id, which is no field of value.fields; write key.id"),
        ("tpye = 'entry'", "reads tpye, which no row has (did you mean type?)"),
        ("key.transfer = 'a'", "apply.key; write value.transfer"),
        ("partition = 1", "reads partition, which rows do not keep"),
        ("type", "takes a string? for a condition"),
    ],
)  # fmt: skip
def test_a_condition_on_what_no_row_keeps_is_refused_with_the_nearest_spelling(
    write: Write, where: str, said: str
) -> None:
    text = changed("  mode: append\n", UPSERT)
    with pytest.raises(InvalidDatasetError) as raised:
        load_dataset(write(text.replace(WHERE, f'buckets: 8, where: "{where}"}}')))
    assert said in raised.value.problem


@pytest.mark.parametrize(("mode", "filtered"), [("  mode: append\n", "type = 'a'"), (UPSERT, "header.a = 'a'")])
def test_a_limit_of_newer_records_belongs_to_a_filter_that_can_leave_some_out(
    write: Write, mode: str, filtered: str
) -> None:
    text = changed("  mode: append\n", mode, changed("value.type = 'entry'", filtered))
    with pytest.raises(InvalidDatasetError, match="max_filtered_newer: it counts in mode upsert"):
        load_dataset(write(changed("max_duplicate_rate: 0.30", "max_filtered_newer: 2", text)))


def test_rows_of_sums_are_not_hidden(write: Write) -> None:
    text = changed(WHERE, 'buckets: 8, where: "amount > 3"}', INCREMENT)
    with pytest.raises(InvalidDatasetError, match="only mode upsert hides rows, for in mode increment"):
        load_dataset(write(text))


def test_what_a_null_value_means_may_be_said_in_a_word(write: Write) -> None:
    upsert = changed("delete_when: tombstone", "delete_when: never", UPSERT)
    made = load_dataset(write(changed("  mode: append\n", upsert)))
    assert "apply.delete_when" not in dict(made.expressions())


def test_a_limit_of_rejected_deletes_belongs_to_what_deletes(write: Write) -> None:
    text = changed("max_duplicate_rate: 0.30", "max_rejected_deletes: 2")
    with pytest.raises(InvalidDatasetError, match="max_rejected_deletes: only mode upsert deletes"):
        load_dataset(write(text))


@pytest.mark.parametrize("version", ["offset", "timestamp", "long(header.version)", "[timestamp, offset]"])
def test_versions_that_a_tombstone_has(write: Write, version: str) -> None:
    upsert = changed("long(header.version)", version, UPSERT)
    assert load_dataset(write(changed("  mode: append\n", upsert))).apply.version


def test_inferred_positions_cannot_decide(write: Write) -> None:
    inexact = changed("layout: kcat", "layout: connect")
    assert load_dataset(write(inexact)).deciding == "business_key"
    bare = changed("identity:\n  message_id: header.message-id\n  business_key: [transfer, account]\n", "", inexact)
    with pytest.raises(InvalidDatasetError, match=r"identity: positions of layout connect are inferred"):
        load_dataset(write(bare))
    exact = changed("layout: connect", "layout: kcat", bare)
    assert load_dataset(write(exact)).deciding == "position"


def test_a_position_needs_no_bound(write: Write) -> None:
    bare = changed("  message_id: header.message-id\n  business_key: [transfer, account]\n", "  within: day(at)\n")
    with pytest.raises(InvalidDatasetError, match=r"identity\.within.*declare a wider identity"):
        load_dataset(write(bare))


def test_a_period_is_the_last_part_of_the_key_and_of_the_meaning(write: Write) -> None:
    bounded = load_dataset(write(changed("identity:\n", "identity:\n  within: day(at)\n")))
    assert bounded.key_names == ["transfer", "account", "at"]
    assert bounded.generation != load_dataset(write(ENTRIES)).generation


def test_a_tombstone_has_no_period_in_its_value(write: Write) -> None:
    upsert = changed("  mode: append\n", UPSERT)
    with pytest.raises(InvalidDatasetError, match=r"tombstone needs identity\.within from key"):
        load_dataset(write(changed("identity:\n", "identity:\n  within: day(at)\n", upsert)))
    held = load_dataset(write(changed("identity:\n", "identity:\n  within: day(date(key.at))\n", upsert)))
    assert held.key_names == ["id", "at"]


@pytest.mark.parametrize("part", ["rate", "double(header.rate)"])
def test_a_double_identifies_nothing(write: Write, part: str) -> None:
    text = changed("business_key: [transfer, account]", f"business_key: [transfer, {part}]")
    text = changed("at: timestamp}", "at: timestamp, rate: double}", text)
    with pytest.raises(InvalidDatasetError, match=r"identity\.business_key: '.*rate\)?' is a double"):
        load_dataset(write(text))


@pytest.mark.parametrize("version", ["offset", "timestamp"])
def test_an_inexact_layout_has_no_offset_and_no_timestamp_to_order_by(write: Write, version: str) -> None:
    upsert = changed("long(header.version)", version, UPSERT)
    text = changed("layout: kcat", "layout: connect", changed("  mode: append\n", upsert))
    with pytest.raises(InvalidDatasetError, match=f"layout connect carries no {version}"):
        load_dataset(write(text))


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (ENTRIES + "  odd\n indent: [\n", 23, "not YAML"),
        (ENTRIES + "owner: twice\n", 23, 'found duplicate key "owner"'),
        (changed("mode: append", "mode: append\n  mode: upsert"), 21, 'found duplicate key "mode"'),
        (ENTRIES + "---\nname: second\n", 23, "another document"),
        (ENTRIES + "# \x07\n", None, "not YAML"),
        ("", 1, "not a mapping"),
        ("- name: entries\n", 1, "not a mapping"),
        ("just text", 1, "not a mapping"),
    ],
)
def test_what_is_no_yaml_mapping_is_refused_with_its_line(write: Write, text: str, line: int | None, said: str) -> None:
    with pytest.raises(InvalidDatasetError) as raised:
        load_dataset(write(text))
    assert said in raised.value.problem
    assert raised.value.line == line


def test_an_unforeseen_error_of_a_check_is_reported_with_the_file(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unforeseen(_: object) -> None:
        raise KeyError("a")

    monkeypatch.setattr("onefold.dataset.model.check_declaration", unforeseen)
    with pytest.raises(InvalidDatasetError, match=r"entries\.yaml: cannot be checked: KeyError: 'a'"):
        load_dataset(write(ENTRIES))


def test_a_number_that_python_does_not_read_is_reported_with_the_file(write: Write) -> None:
    with pytest.raises(InvalidDatasetError, match=r"entries\.yaml: cannot be read: ValueError: .*digits"):
        load_dataset(write(changed("buckets: 8", f"buckets: {'9' * 5000}")))


def test_a_file_that_is_not_utf8_or_not_there_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "entries.yaml"
    with pytest.raises(InvalidDatasetError, match="cannot be read"):
        load_dataset(file)
    file.write_bytes(ENTRIES.encode() + b"# \xff\n")
    with pytest.raises(InvalidDatasetError, match="cannot be read"):
        load_dataset(file)


def test_keys_that_come_by_a_yaml_merge_are_checked_too(write: Write) -> None:
    assert load_dataset(write(changed("  mode: append", "  <<: {mode: append}"))).apply.mode == "append"
    with pytest.raises(InvalidDatasetError, match=r"apply\.nonsense: unknown key"):
        load_dataset(write(changed("  mode: append", "  <<: {mode: append, nonsense: 1}")))


def test_an_unknown_dataset_lists_those_that_are_there(write: Write) -> None:
    folder = write(ENTRIES).parent
    (folder / "accounts.yaml").write_text("name: accounts")
    with pytest.raises(UnknownDatasetError, match=r"no dataset 'entry' in .* \(there: accounts, entries\)"):
        find_dataset(folder, "entry")
    with pytest.raises(UnknownDatasetError):
        find_dataset(folder / "sub", "../entries")
    with pytest.raises(UnknownDatasetError, match=r"\(there: none\)"):
        find_dataset(folder / "nowhere", "entries")


LIVE = re.sub(r"  exports:\n(    .*\n)+", "  kafka: {connection: prod, topics: [payments.entries]}\n", ENTRIES)


def test_live_topics_are_a_source(write: Write) -> None:
    dataset = load_dataset(write(LIVE))
    assert dataset.source.kafka
    assert dataset.source.kafka.topics == ["payments.entries"]
    assert (dataset.source.layout, dataset.source.exact, dataset.source.place) == (
        "kafka",
        True,
        "prod: payments.entries",
    )
    assert load_dataset(write(LIVE.replace("connection: prod, ", ""))).source.place == "kafka_default: payments.entries"


def test_a_live_record_may_decide_by_its_offset(write: Write) -> None:
    upsert = UPSERT.replace("long(header.version)", "offset")
    assert load_dataset(write(LIVE.replace("  mode: append\n", upsert))).apply.version


@pytest.mark.parametrize(
    ("topics", "said"),
    [
        ("[]", "at least 1"),
        ("['a b']", "'a b' is no topic's name"),
        ("['..']", "is no topic's name"),
        ("['^pay(']", "is no regular expression"),
        ("[a, a]", "is listed twice"),
        ("entries", "list"),
    ],
)
def test_topics_are_names_or_patterns(write: Write, topics: str, said: str) -> None:
    with pytest.raises(InvalidDatasetError, match=said) as raised:
        load_dataset(write(LIVE.replace("[payments.entries]", topics)))
    assert raised.value.key.startswith("source.kafka.topics")
    assert raised.value.line == LIVE.splitlines().index("  kafka: {connection: prod, topics: [payments.entries]}") + 1


def test_a_source_is_shared_by_datasets_of_one_connection_and_the_same_topics(write: Write) -> None:
    def source(topics: str, connection: str = "prod") -> str:
        text = LIVE.replace("payments.entries]}", f"{topics}]}}").replace(
            "connection: prod", f"connection: {connection}"
        )
        return load_dataset(write(text)).source_id

    assert source("a, b") == source("b, a")
    assert len({source("a"), source("a, b"), source("a", "test")}) == 3
    assert re.fullmatch(r"pay_x-[0-9a-f]{8}", source("'^pay.*[x]'"))


PRODUCER = "identity:\n  producer: {name: header.p, sequence: header.s}\n"


def test_a_named_producer_is_narrower_than_a_message_id_and_decides_where_nothing_wider_is(write: Write) -> None:
    both = load_dataset(write(ENTRIES.replace("identity:\n", PRODUCER)))
    assert (both.deciding, both.narrow[0]) == ("business_key", "producer")
    head, _, rest = ENTRIES.partition("identity:\n")
    _, _, tail = rest.partition("apply:\n")
    alone = load_dataset(write(f"{head}{PRODUCER}apply:\n{tail}"))
    assert (alone.deciding, alone.narrow) == ("producer", ())
    assert alone.key_names == ["cluster", "topic", "incarnation", "partition", "p", "s"]
    assert alone.generation != both.generation


def test_a_limit_of_versions_needs_a_log_timestamp(dataset: Callable[..., Dataset]) -> None:
    inexact = {"exports": {"path": "e", "layout": "connect", "origin": {"cluster": "c"}}}
    apply = {"mode": "upsert", "key": ["id"], "version": {"from": "at", "max_ahead": "1d"}}
    given = {"value": {"fields": {"id": "string", "at": "timestamp"}}, "apply": apply, "identity": {}}
    assert dataset(**given).times_of_version == ["at"]
    with pytest.raises(ValueError, match="records of layout connect have no log timestamp"):
        dataset(**given, source=inexact)

"""Small logs with as many collisions as possible, and the batches that a log may arrive in."""

from __future__ import annotations

import itertools
import math
import os
import random
from dataclasses import dataclass, replace

from hypothesis import assume
from hypothesis import strategies as st

from onefold.dataset import Dataset
from tests.support.oracle import Decoded, Rules

POSITIONS = list(itertools.product(("a", "b"), ("t", "u"), (1, 2), (0, 1), (0, 1, 2)))
TIMESTAMPS = (None, -1, 1, 2)
KEYS = ("k", "k", "k", "l")
VERSIONS = (1, 1, 2, 3)
MESSAGE_IDS = BUSINESS_KEYS = (None, "1", "2")
PRODUCERS = (None, "p", "p")
CONTENTS = ("x", "y")
SENT = ("1", "2")
FATES = ("row", "row", "row", "row", "row", "delete", "rejected", "filtered")

_DOMAINS = (POSITIONS, TIMESTAMPS, KEYS, VERSIONS, PRODUCERS, MESSAGE_IDS, BUSINESS_KEYS, CONTENTS, FATES, SENT)
_RECORDS = math.prod(len(domain) for domain in _DOMAINS)
_STRIDE = 104_729
"""A prime: small numbers, which hypothesis likes, are spread over all the domains."""
assert math.gcd(_STRIDE, _RECORDS) == 1
TIMES = int(os.environ.get("ONEFOLD_TEST_CASES", "1"))
"""How many times as many small logs are drawn: 1 by day, 2 at night."""
ROUNDS = 4
"""Batches at most that a log arrives in; those of all cases with one number go through one Spark job."""

_UPSERT_KEYS = {"key": {"format": "json"}, "value": {"fields": {"v": "string?", "sent_at": "string?"}}}
_HIDES = {"target": {"table": "tests.things", "buckets": 2, "where": "v = 'x'"}}
_COMPARE = {"compare": {"except": ["sent_at"]}}
_PRODUCER = {"name": "header.p", "sequence": "header.s"}
_IDENTITY = {"producer": _PRODUCER, "message_id": "header.m", "business_key": ["header.b"]}


def _upsert(tie: str, guard: str = "newer", **more: object) -> dict[str, object]:
    version = {"from": "long(header.v)", "guard": guard, "tie": tie}
    apply = {"mode": "upsert", "key": ["key.id"], "version": version, "delete_when": "tombstone", **more}
    return {**_UPSERT_KEYS, "identity": _IDENTITY, "apply": apply}


KINDS: dict[str, dict[str, object]] = {
    "append by position": {},
    "append by producer": {"identity": {"producer": _PRODUCER}},
    "append by message_id": {"identity": {"message_id": "header.m"}},
    "append by business_key": {"identity": _IDENTITY},
    **{f"upsert, tie {tie}": _upsert(tie) for tie in ("conflict", "last", "first")},
    "append, sent_at excepted": {
        "value": {"fields": {"v": "string?", "sent_at": "string?"}},
        "identity": _IDENTITY,
        "apply": {"mode": "append", **_COMPARE},
    },
    "upsert, sent_at excepted": _upsert("conflict", **_COMPARE),
    **{f"upsert, tie {tie}, sent_at excepted": _upsert(tie, **_COMPARE) for tie in ("last", "first")},
    "upsert, rows hidden": _upsert("last") | _HIDES,
}
"""Both modes, every deciding level, every tie, and fields that do not count, as keys of a dataset file."""
CHAINS: dict[str, dict[str, object]] = {
    **{f"contiguous, tie {tie}": _upsert(tie, "contiguous") for tie in ("conflict", "last", "first")},
    "contiguous, sent_at excepted": _upsert("conflict", "contiguous", **_COMPARE),
    **{f"contiguous, tie {tie}, sent_at excepted": _upsert(tie, "contiguous", **_COMPARE) for tie in ("last", "first")},
    "contiguous, rows hidden": _upsert("last", "contiguous") | _HIDES,
}
"""Guard contiguous, with every tie, and with fields that do not count."""


SPLITS = tuple(
    split
    for count in (1, 2, 3)
    for split in itertools.product(range(count), repeat=3)  # the batch of each record
    if set(split) == set(range(count))
)
"""The 13 ways in which three records come in one, two or three batches, one after the other."""


def batches_of(log: tuple[Decoded, ...], split: tuple[int, ...]) -> tuple[tuple[Decoded, ...], ...]:
    """The batches of a split of a log."""
    places = range(max(split) + 1)
    return tuple(tuple(record for record, at in zip(log, split, strict=True) if at == place) for place in places)


@dataclass(frozen=True, slots=True)
class Arrival:
    """One log and one way in which it arrives. `exact`: the table knows positions that it has processed."""

    name: str
    log: tuple[Decoded, ...]
    batches: tuple[tuple[Decoded, ...], ...]
    exact: bool


def rules_of(dataset: Dataset) -> Rules:
    """What the oracle must know of a dataset."""
    version = dataset.apply.version
    tie = version.tie if version else "conflict"
    return Rules(
        dataset.apply.mode,
        dataset.deciding,
        tie,
        dataset.narrow,
        dataset.source.exact,
        dataset.apply.HOLDS,
        dataset.versions_by_delivery,
    )


def decoded(number: int, dataset: Dataset) -> Decoded:
    """The record with a number below `_RECORDS`: every combination of the domains has one."""
    drawn = []
    number = number * _STRIDE % _RECORDS
    for domain in _DOMAINS:
        number, index = divmod(number, len(domain))
        drawn.append(domain[index])
    position, timestamp, key, version, producer, message_id, business_key, content, fate, sent = drawn
    upsert = dataset.apply.mode == "upsert"
    deciding = {
        "position": position,
        "producer": producer and (producer, *position[:-1]),
        "message_id": message_id,
        "business_key": business_key,
        "key_version": key,
    }
    key = deciding[dataset.deciding]
    rejected = "undecodable" if fate == "rejected" else "null_identity" if key is None else None
    deleted = upsert and fate == "delete"
    return Decoded(
        position=position,
        timestamp=timestamp,
        key=key if rejected is None and fate != "filtered" else None,
        content="deleted" if deleted else content,
        sent=sent if dataset.excepted else "",
        version=version if upsert else None,
        producer=producer if "producer" in rules_of(dataset).narrow else None,
        message_id=message_id if "message_id" in rules_of(dataset).narrow else None,
        business_key=business_key if "business_key" in rules_of(dataset).narrow else None,
        deleted=deleted,
        hidden=dataset.where is not None and content == "y" and not deleted,
        rejected=rejected,
        filtered=fate == "filtered" and rejected is None,
    )


def cases(number: int, largest: int = 8) -> st.SearchStrategy[list[tuple[list[int], int]]]:
    """`number` cases (times `TIMES`): record numbers of a log, and a seed for the ways in which it arrives."""
    number *= TIMES
    log = st.lists(st.integers(0, _RECORDS - 1), min_size=1, max_size=largest)
    return st.lists(st.tuples(log, st.integers(0, 2**32 - 1)), min_size=number, max_size=number)


def varied(drawn: list[tuple[list[int], int]]) -> None:
    """Hypothesis begins with the simplest drawing, many times one log: Spark's time is too dear for it."""
    assume(len({tuple(log) for log, _ in drawn}) > len(drawn) / 2)


def log_of(numbers: list[int], dataset: Dataset) -> tuple[Decoded, ...]:
    """A log: one position has one content."""
    by_position = {record.position: record for record in (decoded(number, dataset) for number in numbers)}
    return tuple(by_position.values())


def arrivals(name: str, log: tuple[Decoded, ...], seed: int) -> list[Arrival]:
    """One log in one batch, doubled, split with overlaps in two orders, and with a batch that is received again."""
    rng = random.Random(seed)
    split = _split(log, rng)
    ways = {
        "at once": [log],
        "doubled": [tuple(rng.sample(log + log, 2 * len(log)))],
        "split": split,
        "backwards": split[::-1],
        "again": [*_split(log, rng)[: ROUNDS - 1], rng.choice(split), log],
    }
    return [
        Arrival(f"{name}/{way}/{'exact' if exact else 'inexact'}", log, tuple(batches[: ROUNDS + 1]), exact)
        for way, batches in ways.items()
        for exact in ((True, False) if way in ("split", "again") else (seed % 2 == 0,))
    ]


def with_second_contents(log: tuple[Decoded, ...], seed: int) -> tuple[Decoded, ...]:
    """The log with another content, perhaps for another key, at some of its positions; or with another `sent`."""
    rng = random.Random(seed)
    others = {"x": "y", "y": "x", "deleted": "x"}
    chosen = [record for record in log if record.usable and rng.random() < 0.5]
    twins = [
        replace(record, sent="2" if record.sent == "1" else "1")
        if record.sent and rng.random() < 0.5
        else replace(record, content=others[record.content], deleted=False, hidden=False)
        for record in chosen
    ]
    return log + tuple(twins)


def _split(log: tuple[Decoded, ...], rng: random.Random) -> list[tuple[Decoded, ...]]:
    """Up to `ROUNDS` batches that together hold the log; some records come twice or in several."""
    batches: list[list[Decoded]] = [[] for _ in range(rng.randint(2, ROUNDS))]
    for record in log:
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            rng.choice(batches).append(record)
    for batch in batches:
        rng.shuffle(batch)
    return [tuple(batch) for batch in batches]

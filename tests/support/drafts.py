"""Records for what drafts a dataset file of them: literal ones, and logs as topics hold them, drawn from a seed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

from onefold.dataset import Dataset, load_dataset
from onefold.draft import Draft, Export, Topics, draft_dataset, text_of
from onefold.draft.sample import sample_of
from onefold.kafka.record import Record

KCAT = Export("exports/things/", "kcat")
CONNECT = Export("exports/things/", "connect")


def record(offset: int, value: Any, key: Any = None, **headers: str | None) -> Record:
    """A record of `shop.things`; what is no bytes is written as JSON."""

    def data(given: Any) -> bytes | None:
        return given if given is None or isinstance(given, bytes) else json.dumps(given).encode()

    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Record("shop.things", 0, offset, 1_772_323_200_000 + offset, data(key), data(value), named)


def drafted(
    records: Iterable[Record],
    source: Export | Topics = KCAT,
    *,
    compacted: bool = False,
    policy_unknown: str = "",
    **seen: Any,
) -> Draft:
    sample = sample_of("there", records, exact=source is not CONNECT, **seen)
    return draft_dataset("things", source, replace(sample, compacted=compacted, policy_unknown=policy_unknown))


def entry(draft: Draft, key: str) -> tuple[str | None, str]:
    """What is drafted for a key, and why; a note where there is no value."""
    found = [(item.value, item.reason) for item in draft.entries if item.key == key]
    assert found, (key, [item.key for item in draft.entries])
    return found[-1]


def notes(draft: Draft) -> str:
    return " | ".join(item.reason for item in draft.entries if item.value is None)


def loaded(draft: Draft, folder: Path) -> Dataset:
    """The dataset that the file is, as `validate` reads it."""
    file = folder / "things.yaml"
    file.write_text(text_of(draft), encoding="utf-8")
    return load_dataset(file)


GOOD = ("id", "order_id", "userId", "n", "kind", "version", "updated_at", "event_id", "amount", "seq", "op", "tags")
ODD = (
    "ID", "N", "key", "value", "header", "offset", "timestamp", "topic", "partition", "null", "true", "no", "on", "y",
    "and", "or", "not", "in", "is", "long", "string", "two words", "dot.ted", "a-b", "ünï", "", "_own", "1st", "#",
    "_key", "- x", ": ", "{", "'", '"', "\n", "\u2028", "\ud7ff", "\U0001f600", "a: b", "x" * 70, "before", "after",
    "message-id", "producer", "sequence", "x-id",
)  # fmt: skip
EVENT = ("specversion", "id", "source", "type")
"""What CloudEvents have."""
TEXTS = ("2026-03-01", "2026-03-01T08:00:00Z", "12.50", "-0.30", "7", "a", "b", "", "é", "\x00", "'", "null")


@dataclass
class Draw:
    """Logs much alike from one seed: a few keys, headers and shapes of values again and again, and some junk."""

    random: Random

    def log(self) -> list[Record]:
        pick = self.random.choice
        names = [*self.random.sample(GOOD, 3), *self.random.sample(ODD, self.random.randrange(4))]
        shapes = {name: self.random.randrange(7) for name in names}
        keys = [self.key() for _ in range(pick((1, 1, 3, 6)))]
        titles = self.random.sample((*GOOD, *ODD), self.random.randrange(3))
        events = pick(("", "", "", "fields", "headers"))
        titles += [f"ce_{name}" for name in EVENT] if events == "headers" else []
        shapes |= dict.fromkeys(EVENT, 2) if events == "fields" else {}
        log = []
        for number in range(pick((1, 3, 12, 40))):
            value = {name: self.value(shape) for name, shape in shapes.items() if self.random.random() < 0.97}
            payload = pick([json.dumps(value).encode()] * 12 + [None, b"oops"])
            headers = tuple((title, pick([str(number), str(number // 2), None])) for title in titles)
            log.append(Record("a.b", number % 2, number, 1_772_323_200_000, pick(keys), payload, headers))
        return log

    def key(self) -> bytes | None:
        names = self.random.sample((*GOOD, *ODD), self.random.randrange(1, 3))
        parts = json.dumps({name: self.value(self.random.randrange(4)) for name in names}).encode()
        return self.random.choice([None, b"a-1", b"\x00\xff", b"17", parts, parts, parts])

    def value(self, shape: int) -> Any:
        match shape if self.random.random() < 0.95 else self.random.randrange(8):
            case 0:
                return self.random.choice(TEXTS)
            case 1:
                return self.random.choice([1, 2, 1_772_323_200_000, 2**63, -(10**40)])
            case 2:
                return str(UUID(int=self.random.randrange(5)))
            case 3:
                return self.random.choice([1, 2, 3])
            case 4:
                return self.random.choice([0.1, 1.25, -3.125, 1e300, 1e-7, 7, True])
            case 5:
                return [self.value(self.random.randrange(8)) for _ in range(self.random.randrange(3))]
            case 6:
                return {name: self.value(self.random.randrange(8)) for name in self.random.sample((*GOOD, *ODD), 2)}
            case _:
                return None

"""Generate page views in kcat's layout: large enough to feel, made in seconds; the same seed gives the same content.

`python -m sample.page_views [FOLDER] [--views N] [--seed N]`; nothing of it is in the repository.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

TOPIC = "web.page_views"
PARTITIONS = 3
RESENT = 0.18  # of the views, sent once more within the next RESENT_WITHIN views
RESENT_WITHIN = 20_000  # and within a tenth of them at most
READ_TWICE = 0.02  # of a partition, where two file ranges overlap
START = datetime(2026, 3, 1, tzinfo=UTC)
STEP_MILLIS = 400
PATHS = ("/", "/search?q=tea", "/item/%d", "/cart", "/checkout", "/help/returns", "/caf\u00e9")
REFERRERS = ("null", r"\"https://example.org/\"", r"\"https://example.com/news\"", None)


def generate(folder: Path, views: int = 200_000, seed: int = 7) -> None:
    """Write `views` distinct page views, about 17 % of all lines being copies, into subfolders.

    Each partition is cut into three ranges without holes: `1-first` holds the first, `2-next` the
    last, `3-late` the one between; neighbours overlap by some lines, which are the same bytes.
    """
    shutil.rmtree(folder, ignore_errors=True)
    partitions = _partitions(views, random.Random(seed))
    for part, payloads in enumerate(partitions):
        lines = [
            f'{{"topic":"{TOPIC}","partition":{part},"offset":{offset},"tstype":"create","ts":{ts},'
            f'"broker":1,"key":"{key}","payload":"{payload}"}}\n'
            for offset, (ts, key, payload) in enumerate(payloads)
        ]
        first, second = len(lines) * 45 // 100, len(lines) * 60 // 100
        twice = int(len(lines) * READ_TWICE / 3)
        ranges = {
            "1-first": [(0, first // 2 + twice), (first // 2, first)],
            "2-next": [(second - twice, len(lines))],
            "3-late": [(first - twice, second)],
        }
        for name, files in ranges.items():
            (folder / name).mkdir(parents=True, exist_ok=True)
            for start, end in files:
                path = folder / name / f"{TOPIC}-{part}-{start:08}.jsonl"
                path.write_text("".join(lines[start:end]), encoding="utf-8")


def _partitions(views: int, rng: random.Random) -> list[list[tuple[int, int, str]]]:
    """Timestamp, key and escaped payload of each record, in the order of each partition's log."""
    # (when it is sent, counted in views; which view), a fraction apart so that copies come after
    sent = [(float(view), view) for view in range(views)]
    within = max(1, min(RESENT_WITHIN, views // 10))
    sent += [(view + 0.5 + rng.randrange(within), view) for view in range(views) if rng.random() < RESENT]
    sent.sort()
    users, payloads = _views(views, rng)
    base = int(START.timestamp()) * 1000
    partitions: list[list[tuple[int, int, str]]] = [[] for _ in range(PARTITIONS)]
    for when, view in sent:
        user = users[view]
        ts = base + int(when * STEP_MILLIS)
        partitions[user % PARTITIONS].append((ts, user, payloads[view]))
    return partitions


def _views(views: int, rng: random.Random) -> tuple[list[int], list[str]]:
    """User and payload of each view; the payload is escaped for a JSON string."""
    users: list[int] = []
    payloads: list[str] = []
    for view in range(views):
        bits = rng.getrandbits(64)
        user = 9_007_199_254_740_993 + bits % 5_003  # above 2^53: a float would merge users
        path = PATHS[bits % 7]
        if "%d" in path:
            path %= bits % 997
        referrer = REFERRERS[bits % 4]
        field = "" if referrer is None else rf",\"referrer\":{referrer}"
        seen = START + timedelta(milliseconds=view * STEP_MILLIS - (bits >> 8) % 30_000)
        at = seen.isoformat(timespec="milliseconds").removesuffix("+00:00")
        users.append(user)
        payloads.append(
            rf"{{\"view_id\":\"{view:08x}-{bits & 0xFFFFFFFF:08x}\",\"user_id\":{user},"
            rf"\"url\":\"https://shop.example{path}\"{field},"
            rf"\"duration_ms\":{(bits >> 16) % 90_000},\"viewed_at\":\"{at}Z\"}}"
        )
    return users, payloads


def main(argv: list[str] | None = None) -> int:
    """Generate into a folder."""
    parser = argparse.ArgumentParser(description="Generate page views in kcat's layout.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(".demo/exports/page_views"))
    parser.add_argument("--views", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=7)
    chosen = parser.parse_args(argv)
    generate(chosen.folder, chosen.views, chosen.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What integration tests share: real parts, started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sample.broker import Broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real Kafka broker for the whole session; tests use topics of their own."""
    with Broker(log=tmp_path_factory.mktemp("broker") / "broker.log") as started:
        yield started

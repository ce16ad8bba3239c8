"""A topic that was created again is another incarnation; the same one keeps its number."""

from __future__ import annotations

from onefold.lake import Lake
from onefold.landing.incarnations import incarnation_of


def test_each_new_topic_id_of_a_name_is_the_next_incarnation(lake: Lake) -> None:
    assert [incarnation_of(lake, "c", "t", id_) for id_ in ("a", "a", "b", "a", "c", "b")] == [1, 1, 2, 1, 3, 2]


def test_names_and_clusters_count_for_themselves(lake: Lake) -> None:
    incarnation_of(lake, "c", "t", "a")
    assert incarnation_of(lake, "c", "other", "b") == 1
    assert incarnation_of(lake, "d", "t", "b") == 1


def test_a_dry_run_writes_none(lake: Lake) -> None:
    assert incarnation_of(lake, "c", "t", "a", dry_run=True) == 1
    assert incarnation_of(lake, "c", "t", "b") == 1
    assert incarnation_of(lake, "c", "t", "c", dry_run=True) == 2
    assert list(lake.storage.list("clusters")) != []
    assert incarnation_of(lake, "c", "t", "d") == 2

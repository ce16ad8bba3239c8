"""S3: a run reads allowed places only, links resolved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from onefold.dataset import Dataset
from onefold.errors import UsageError
from onefold.kafka.cluster import matching_topics
from onefold.lake import Lake
from onefold.landing.land import land_batch, plan_batch
from onefold.landing.places import check_not_anothers, check_place
from onefold.settings import Settings
from tests.support.project import THINGS

MakeDataset = Callable[..., Dataset]
LINE = '{"topic": "t", "partition": 0, "offset": 0, "ts": 0, "key": null, "payload": "{}"}\n'
REFUSED = r"exports are read below .* only\. Set exports_below \(ONEFOLD_EXPORTS_BELOW\)"


@pytest.fixture
def things(dataset: MakeDataset) -> MakeDataset:
    def make(path: str = "exports") -> Dataset:
        exports = {"path": path, "layout": "kcat", "origin": {"cluster": "c"}}
        return dataset("things", source={"exports": exports}, identity={"message_id": "id"})

    return make


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder next to the project's with a file of passwords."""
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "passwords.json").write_text('{"password": "hunter2"}')
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Lake:
    home = tmp_path / "project"
    (home / "exports").mkdir(parents=True)
    (home / "exports" / "things.json").write_text(LINE)
    return Lake(Settings(home=home, lake="lake"))


@pytest.mark.parametrize("place", ["/", "..", "../secrets", "exports/../../secrets", "file:///etc", "lake", "lake/x"])
def test_s3_a_place_outside_the_project_is_refused_in_the_file_and_on_the_command_line(
    project: Lake, things: MakeDataset, outside: Path, place: str
) -> None:
    with pytest.raises(UsageError, match=REFUSED):
        plan_batch(project, things(place))
    with pytest.raises(UsageError, match=REFUSED):
        plan_batch(project, things(), export=place)
    with pytest.raises(UsageError, match=REFUSED):
        plan_batch(project, things(), export=str(outside))


def test_s3_the_projects_folder_and_what_the_setting_names_is_read(
    project: Lake, things: MakeDataset, outside: Path
) -> None:
    assert plan_batch(project, things()).batch
    assert plan_batch(project, things(), export=str(project.settings.home / "exports")).batch
    wider = Lake(project.settings.model_copy(update={"exports_below": [".", "../secrets"]}))
    assert plan_batch(wider, things(), export=str(outside)).batch
    nothing = Lake(project.settings.model_copy(update={"exports_below": []}))
    with pytest.raises(UsageError, match="exports are read below nothing only"):
        plan_batch(nothing, things())


def test_s3_a_link_that_leads_out_of_the_allowed_places_is_refused_and_named(
    project: Lake, things: MakeDataset, outside: Path
) -> None:
    link = project.settings.home / "exports" / "a.json"
    link.symlink_to(outside / "passwords.json")
    with pytest.raises(UsageError, match=rf"a\.json \(it leads to {outside}/passwords\.json\): {REFUSED}"):
        plan_batch(project, things())
    link.unlink()
    link.symlink_to(project.settings.home / "exports" / "things.json")
    assert plan_batch(project, things()).batch
    folder = project.settings.home / "linked"
    folder.symlink_to(outside)
    with pytest.raises(UsageError, match=REFUSED):
        plan_batch(project, things("linked"))


def test_s3_an_object_that_became_a_link_after_it_was_planned_is_not_landed(
    project: Lake, things: MakeDataset, outside: Path
) -> None:
    batch = plan_batch(project, things()).batch
    file = project.settings.home / "exports" / "things.json"
    file.unlink()
    file.symlink_to(outside / "passwords.json")
    with pytest.raises(UsageError, match=REFUSED):
        land_batch(project, things(), batch)


@pytest.mark.parametrize(
    ("below", "place", "allowed"),
    [
        (["s3://"], "s3://any/prefix/", True),
        (["."], "s3://any/prefix/", False),
        (["s3://exports"], "s3a://exports/topics", True),
        (["s3a://exports/topics/"], "s3://exports/topics", True),
        (["s3://exports/topics"], "s3://exports/topics-of-others", False),
        (["s3://exports"], "s3://exports-of-others/topics", False),
        (["s3://exports/topics"], "s3://exports", False),
        (["s3://"], "/etc", False),
    ],
)
def test_s3_buckets_are_allowed_by_prefix(project: Lake, below: list[str], place: str, allowed: bool) -> None:
    settings = project.settings.model_copy(update={"exports_below": below})
    if allowed:
        check_place(settings, place)
    else:
        with pytest.raises(UsageError, match=REFUSED):
            check_place(settings, place)


@pytest.mark.parametrize(
    ("lake", "place", "allowed"),
    [
        ("lake", "s3://any/prefix/", False),
        ("file:///data/lake", "s3://data/topics", False),
        ("s3a://mine/onefold", "s3://any/prefix/", False),
        ("s3a://mine/onefold", "s3://mine/exports/topics/", True),
        ("s3a://mine/onefold", "s3://mine-too/exports/", False),
        ("s3a://mine/onefold", "s3://mine/onefold/sources/", False),
        ("s3a://mine/onefold", "s3://mine/onefold", False),
        ("s3a://mine/onefold", "s3://mine/", False),
        ("s3a://mine/onefold", "s3://mine/onefold-exports/", True),
        ("s3a://mine", "s3://mine/exports/", False),
        ("s3a://mine/", "s3://mine/sources/", False),
    ],
)
def test_s3_by_default_no_bucket_is_read_but_the_lakes_and_there_not_the_lake(
    tmp_path: Path, lake: str, place: str, allowed: bool
) -> None:
    settings = Settings(home=tmp_path, lake=lake)
    if allowed:
        check_place(settings, place)
    else:
        with pytest.raises(UsageError, match=REFUSED):
            check_place(settings, place)


def test_s3_a_place_in_the_lakes_bucket_is_read_where_the_setting_names_it(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, lake="s3a://mine/onefold", exports_below=["s3://mine/onefold/exports"])
    check_place(settings, "s3://mine/onefold/exports/topics")
    with pytest.raises(UsageError, match=REFUSED):
        check_place(settings, "s3://mine/onefold/sources")


@pytest.mark.parametrize(
    ("place", "refused"),
    [
        ("exports/others", True),
        ("exports/others/2026/../2026", True),
        ("exports", True),
        (".", True),
        ("exports/mine/2026", False),
        ("exports/mine-again", False),
        ("exports/others-again", False),
        ("s3://others/topics/2026", True),
        ("s3a://others", True),
        ("s3://others/topics-again", False),
    ],
)
def test_s3_a_parameter_of_a_dag_reads_no_other_datasets_exports(
    project: Lake, things: MakeDataset, place: str, refused: bool
) -> None:
    folder = project.settings.datasets_folder
    folder.mkdir()
    for name, path in (("others", "exports/others/"), ("remote", "s3://others/topics/")):
        text = THINGS.replace("name: things", f"name: {name}").replace("shop.things", f"shop.{name}")
        (folder / f"{name}.yaml").write_text(text.replace("exports/things/", path))
    mine = things("exports/mine")
    if refused:
        with pytest.raises(UsageError, match=r"holds exports of the dataset (others|remote)\. .* Nothing was read"):
            check_not_anothers(project.settings, mine, place)
    else:
        check_not_anothers(project.settings, mine, place)
        check_not_anothers(project.settings, things("exports"), "exports/others")


def test_s3_a_topic_pattern_matches_whole_names() -> None:
    there = ["payments", "payments.dlq", "payments_internal", "x.payments"]
    assert matching_topics("^payments", there) == ["payments"]
    assert matching_topics("^payments(\\.dlq)?", there) == ["payments", "payments.dlq"]
    assert matching_topics("^payments.*", there) == there[:3]
    assert matching_topics("payments", there) == ["payments"]

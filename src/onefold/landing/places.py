"""Where exports may be read: below the folders and buckets of the setting `exports_below`, symbolic links resolved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from onefold.dataset import Dataset, find_valid
from onefold.errors import UsageError
from onefold.settings import Settings


def check_place(settings: Settings, place: str) -> None:
    """Refuse a folder, or `s3://bucket/prefix`, that is not below an allowed place.

    Raises:
        UsageError: it names the place, where it leads to, and the setting.
    """
    scheme, found, rest = place.partition("://")
    if found and scheme != "file":
        if not _is_in_allowed_bucket(settings, _of_bucket(place)):
            raise _refused(settings, place, "")
        return
    _check_path(settings, settings.path(rest if found else place), place)


def check_not_anothers(settings: Settings, dataset: Dataset, place: str) -> None:
    """Refuse a place that holds exports of another dataset and is not below this one's own: a user of Airflow may be
    allowed to run one dataset only.

    Raises:
        UsageError: it names the place and the dataset.
    """
    meant = _spelled(settings, place)
    if dataset.source.exports and meant.startswith(_spelled(settings, dataset.source.place)):
        return
    for other in find_valid(settings.datasets_folder)[0]:
        if other.name == dataset.name or not other.source.exports:
            continue
        theirs = _spelled(settings, other.source.place)
        if meant.startswith(theirs) or theirs.startswith(meant):
            raise UsageError(
                f"{dataset.name}: {place} holds exports of the dataset {other.name}. A run in Airflow reads none "
                "of another dataset. Nothing was read. An operator reads them by `onefold run --export`."
            )


def _spelled(settings: Settings, place: str) -> str:
    """A place with `/` at its end, so that what is below it begins with it."""
    scheme, found, rest = place.partition("://")
    if found and scheme != "file":
        return _of_bucket(place)
    return f"{str(settings.path(rest if found else place).resolve()).rstrip('/')}/"


def check_objects(settings: Settings, folder: Path | None, names: Iterable[str]) -> None:
    """Refuse objects of an export's folder that are links to places that are not allowed; buckets have no links.

    Raises:
        UsageError: it names the object, where it leads to, and the setting.
    """
    if not folder:
        return
    allowed = _Allowed.by(settings)
    leads_to: dict[Path, Path] = {}  # an object that is no link itself lies where its folder leads to
    for name in names:
        path = folder / name
        if path.is_symlink():
            _check_path(settings, path, str(path), allowed)
            continue
        if path.parent not in leads_to:
            leads_to[path.parent] = path.parent.resolve()
        if not allowed.holds(found := leads_to[path.parent] / path.name):
            raise _refused(settings, str(path), "" if found == path else f" (it leads to {found})")


def _is_in_allowed_bucket(settings: Settings, place: str) -> bool:
    """Whether a place is below an allowed place of a bucket; in the lake, only below an allowed place in it."""
    inside = [allowed for allowed in map(_of_bucket, _buckets(settings)) if place.startswith(allowed)]
    scheme, found, _ = settings.lake.partition("://")
    lake = _of_bucket(settings.lake) if found and scheme != "file" else None
    if lake and place.startswith(lake):  # other datasets' landed bytes
        inside = [allowed for allowed in inside if allowed.startswith(lake)]
    elif lake and lake.startswith(place):  # a listing of it would go through the lake
        return False
    return bool(inside)


@dataclass(frozen=True, slots=True)
class _Allowed:
    """Folders below which exports may be read, with links resolved, and the lake's."""

    folders: list[Path]
    lake: Path | None

    @classmethod
    def by(cls, settings: Settings) -> _Allowed:
        folders = [settings.path(_without_scheme(place)).resolve() for place in _folders(settings)]
        return cls(folders, None if "://" in settings.lake else settings.path(settings.lake).resolve())

    def holds(self, resolved: Path) -> bool:
        """Whether a path without links is below one of them."""
        inside = [folder for folder in self.folders if _is_below(resolved, folder)]
        if self.lake and _is_below(resolved, self.lake):  # other datasets' landed bytes; only where a folder in it is
            inside = [folder for folder in inside if _is_below(folder, self.lake)]
        return bool(inside)


def _is_below(path: Path, folder: Path) -> bool:
    """As `Path.is_relative_to`, which takes ten times as long."""
    return path == folder or str(path).startswith(f"{str(folder).rstrip('/')}/")


def _check_path(settings: Settings, path: Path, place: str, allowed: _Allowed | None = None) -> None:
    try:
        resolved = path.resolve()
    except (OSError, RuntimeError):  # links that lead to each other
        raise _refused(settings, place, "") from None
    if not (allowed or _Allowed.by(settings)).holds(resolved):
        raise _refused(settings, place, "" if resolved == path else f" (it leads to {resolved})")


def _refused(settings: Settings, place: str, leads: str) -> UsageError:
    allowed = ", ".join(settings.exports_below) or "nothing"
    return UsageError(
        f"{place}{leads}: exports are read below {allowed} only. Set exports_below (ONEFOLD_EXPORTS_BELOW) to the "
        "folders and s3://bucket/prefix places that runs may read. Nothing was read."
    )


def _folders(settings: Settings) -> list[str]:
    return [place for place in settings.exports_below if "://" not in place or place.startswith("file://")]


def _buckets(settings: Settings) -> list[str]:
    return [place for place in settings.exports_below if "://" in place and not place.startswith("file://")]


def _of_bucket(place: str) -> str:
    """A place in a bucket, spelled in one way: `s3://bucket/prefix/`; `s3://` is every bucket."""
    rest = place.partition("://")[2].strip("/")
    return f"s3://{rest}/" if rest else "s3://"


def _without_scheme(place: str) -> str:
    return place.removeprefix("file://")

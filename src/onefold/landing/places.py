"""Where exports may be read: below the folders and buckets of the setting `exports_below`, symbolic links resolved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from onefold.errors import UsageError
from onefold.settings import Settings


def check_place(settings: Settings, place: str) -> None:
    """Refuse a folder, or `s3://bucket/prefix`, that is not below an allowed place.

    Raises:
        UsageError: it names the place, where it leads to, and the setting.
    """
    scheme, found, rest = place.partition("://")
    if found and scheme != "file":
        bucket = _of_bucket(place)
        if not any(bucket.startswith(allowed) for allowed in map(_of_bucket, _buckets(settings))):
            raise _refused(settings, place, "")
        return
    _check_path(settings, settings.path(rest if found else place), place)


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

"""`onefold config`: every setting, its value and where it comes from. Secrets are not shown."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from onefold.cli.app import AsJson, app
from onefold.cli.console import answer
from onefold.errors import UsageError
from onefold.lake import Lake
from onefold.setting_origins import DEFAULT, Origins, origins_in, without_secrets
from onefold.settings import ENTRIES, Settings, home_folder, load_settings
from onefold.spark.jars import jar_home


@app.command()
def config(as_json: AsJson = False) -> None:
    """Every setting with its value and its origin: default, onefold.toml, or an environment variable; no secrets."""
    settings = load_settings()
    rows = list(rows_of(settings, origins_in(home_folder(), os.environ)))
    answer("settings", rows, as_json, lambda row: {name: row[name] for name in ("setting", "value", "origin")})


def rows_of(settings: Settings, origins: Origins) -> Iterator[dict[str, Any]]:
    """A row a setting, and a row an entry of those that hold entries."""
    in_words = {
        "home": str(settings.home.absolute()),
        "lake": settings.lake_uri,
        "datasets": str(settings.datasets_folder),
        "expectations": str(settings.expectations_folder),
        "catalog": _catalog(settings),
        "s3_ca_bundle": str(settings.s3_ca_bundle) if settings.s3_ca_bundle else None,
        "mask_key": "(hidden)" if settings.mask_key else None,
        "task_timeout": str(settings.task_timeout),
    }
    for name, field in Settings.model_fields.items():
        value = in_words.get(name, getattr(settings, name))
        entries = list(_entries((name,), value)) if ENTRIES[name] else [((name,), value)]
        for path, found in entries or [((name,), None)]:
            label = ".".join(path)
            # A name that speaks of a secret is below a setting; of the settings' own names only mask_key does.
            shown = without_secrets(".".join(path[1:]), found)
            yield {"setting": label, "value": shown, "origin": origins.of(*path), "meaning": field.description}
    variable = "ONEFOLD_JARS"
    origin = variable if variable in os.environ else DEFAULT
    yield {"setting": "jars", "value": str(jar_home()), "origin": origin, "meaning": "Where the jars are kept"}


def _entries(path: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not isinstance(value, dict):
        yield path, value
        return
    for name, inner in value.items():
        yield from _entries((*path, name), inner)


def _catalog(settings: Settings) -> str | None:
    try:
        return str(Lake(settings).catalog)
    except UsageError:  # a bucket without a catalog: the command that needs a catalog says so
        return None

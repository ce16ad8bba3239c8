"""The batches' reports as pages: a list, a report, and the report of an Airflow run."""

# No `from __future__ import annotations`: FastAPI reads the local dependency's type from the signatures.

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from onefold.lake import Lake

SHOWN = 200
"""How many reports the list shows, newest first."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_DATASET = re.compile(r"[a-z][a-z0-9_]{0,63}")
_BATCH = re.compile(r"[A-Za-z0-9_-]{1,128}")
_ENVIRONMENT = Environment(loader=PackageLoader("onefold.ui"), autoescape=True, undefined=StrictUndefined)


@dataclass(frozen=True, slots=True)
class Listed:
    """One report of the list."""

    dataset: str
    batch: str
    written: datetime


def reports_app(
    open_lake: Callable[[], Lake],
    readable: Callable[..., set[str]],
    batch_of: Callable[[str, str], str | None],
) -> FastAPI:
    """The pages, as an application to mount.

    `readable` is a FastAPI dependency: the names of the datasets that whoever asks may read; it raises where
    nobody is logged in. `batch_of` gives the batch of an Airflow run.
    """
    app = FastAPI(title="Onefold reports", docs_url=None, redoc_url=None, openapi_url=None)
    Readable = Annotated[set[str], Depends(readable)]

    @app.get("/")
    def index(allowed: Readable) -> HTMLResponse:
        return _page("reports.html", reports=newest(open_lake(), allowed), shown=SHOWN)

    @app.get("/reports/{dataset}/{batch}")
    def report(dataset: str, batch: str, allowed: Readable) -> HTMLResponse:
        if dataset not in allowed:  # whether it exists is not said
            raise HTTPException(403, "no right to read this dataset's DAG")
        page = page_of(open_lake(), dataset, batch)
        if page is None:
            raise HTTPException(404, "no such report")
        return HTMLResponse(page, headers=HEADERS)

    @app.get("/runs/{dataset}/{run_id:path}")
    def run(dataset: str, run_id: str, allowed: Readable) -> HTMLResponse:
        if dataset not in allowed:
            raise HTTPException(403, "no right to read this dataset's DAG")
        batch = batch_of(dataset, run_id)
        page = page_of(open_lake(), dataset, batch) if batch else None
        if page is None:
            return _page("no_report.html", dataset=dataset, batch=batch)
        return HTMLResponse(page, headers=HEADERS)

    return app


def newest(lake: Lake, datasets: set[str]) -> list[Listed]:
    """The newest reports of some datasets, newest first."""
    found = []
    for dataset in datasets:
        if _DATASET.fullmatch(dataset):
            for info in lake.storage.list(f"reports/{dataset}/"):
                batch, _, ending = info.key.rsplit("/", 1)[-1].rpartition(".")
                if ending == "html" and _BATCH.fullmatch(batch):
                    found.append(Listed(dataset, batch, info.modified))
    return sorted(found, key=lambda one: (one.written, one.batch), reverse=True)[:SHOWN]


def page_of(lake: Lake, dataset: str, batch: str) -> bytes | None:
    """A batch's page; None where there is none, or the names are none of Onefold's."""
    if not (_DATASET.fullmatch(dataset) and _BATCH.fullmatch(batch)):
        return None
    return lake.storage.read(lake.report(dataset, batch, "html"))


def _page(template: str, **values: object) -> HTMLResponse:
    return HTMLResponse(_ENVIRONMENT.get_template(template).render(values), headers=HEADERS)

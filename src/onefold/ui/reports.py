"""The pages as an application: the overview, a dataset, a batch's report, and the report of an Airflow run."""

# No `from __future__ import annotations`: FastAPI reads the local dependency's type from the signatures.

import logging
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Annotated, BinaryIO

from fastapi import Depends, FastAPI, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, Response, StreamingResponse

from onefold import lake_keys
from onefold.errors import LakeUnavailableError
from onefold.lake import Lake
from onefold.storage import ObjectInfo
from onefold.ui.charts import charts_of, lines_of
from onefold.ui.dataset_status import status_of
from onefold.ui.histories import Histories
from onefold.ui.overview import overview_of
from onefold.ui.rendering import render

READ = 100
"""Reports of a dataset that its page reads when it has no history, at most."""
BATCHES = 60
"""Batches that the charts and the table of a dataset's page show."""
LARGEST = 32 << 20
"""Bytes of a report that is shown: what this release writes is smaller."""
_PIECE = 1 << 20
"""Bytes that are handed on at once; a page's head is shorter."""
_LOG = logging.getLogger(__name__)
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action {form}; "
    "frame-ancestors 'self'"
)
HEADERS = {
    "Content-Security-Policy": _POLICY.format(form="'none'"),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
WITH_FORM = HEADERS | {"Content-Security-Policy": _POLICY.format(form="'self'")}
"""For the overview: its filter is a form that asks the same page."""
_DATASET = re.compile(r"[a-z][a-z0-9_]{0,63}")
_BATCH = re.compile(r"(?=.{1,128}$)[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
"""An interval with a fraction of a second has a point in it; no batch has two together, or a point at an end."""


def reports_app(
    open_lake: Callable[[], Lake],
    readable: Callable[..., set[str]],
    batch_of: Callable[[str, str], tuple[str, str] | None],
) -> FastAPI:
    """The pages, as an application to mount.

    `readable` is a FastAPI dependency: the names of the datasets that the user may read; it raises where
    no user is logged in. `batch_of` gives the dataset and the batch of an Airflow run, by its DAG and its id.
    """
    app = FastAPI(title="Onefold reports", docs_url=None, redoc_url=None, openapi_url=None)
    histories = Histories()
    Readable = Annotated[set[str], Depends(readable)]

    @app.exception_handler(LakeUnavailableError)
    def unavailable(request: Request, error: LakeUnavailableError) -> HTMLResponse:
        _LOG.warning("%s", error)  # its place is the operator's, not the reader's
        return _page(request, "unavailable.html", status=503)

    @app.get("/")
    def overview(
        request: Request,
        allowed: Readable,
        q: Annotated[str, Query(max_length=200)] = "",
        page: Annotated[int, Query(ge=1, le=10_000)] = 1,
    ) -> HTMLResponse:
        named = {name for name in allowed if _DATASET.fullmatch(name)}
        found = overview_of(open_lake(), histories, named, q.strip(), page, datetime.now(UTC))
        return _page(request, "overview.html", headers=WITH_FORM, overview=found)

    @app.get("/datasets/{dataset}")
    def about(request: Request, dataset: str, allowed: Readable) -> HTMLResponse:
        _refuse(dataset, allowed)
        if not _DATASET.fullmatch(dataset):
            raise HTTPException(404, "no such dataset")
        lake = open_lake()
        history = histories.dataset(lake, dataset, READ)
        status = status_of(history, *histories.decisions(lake, dataset), datetime.now(UTC))
        shown = status.batches[:BATCHES]
        return _page(
            request, "dataset.html", dataset_status=status, shown=shown, charts=charts_of(shown), lines=lines_of(status)
        )

    @app.get("/reports/{dataset}/{batch}")
    def report(request: Request, dataset: str, batch: str, allowed: Readable) -> Response:
        _refuse(dataset, allowed)
        found = find_page(lake := open_lake(), dataset, batch)
        if found is None:
            raise HTTPException(404, "no such report")
        return _report(request, lake, found, dataset, batch)

    @app.get("/runs/{dag}/{run_id:path}")
    def run(request: Request, dag: str, run_id: str, allowed: Readable) -> Response:
        _refuse(dag, allowed)
        dataset, batch = batch_of(dag, run_id) or (dag, None)
        _refuse(dataset, allowed)  # a DAG may be for all datasets
        found = find_page(lake := open_lake(), dataset, batch) if batch else None
        if found is None or batch is None:
            return _page(request, "no_report.html", dataset=dataset, batch=batch)
        return _report(request, lake, found, dataset, batch)

    return app


def find_page(lake: Lake, dataset: str, batch: str) -> ObjectInfo | None:
    """Where a batch's page lies; None where there is none, or the names are none of Onefold's."""
    if not (_DATASET.fullmatch(dataset) and _BATCH.fullmatch(batch)):
        return None
    return lake.storage.stat(lake_keys.report(dataset, batch, "html"))


def _refuse(dataset: str, allowed: set[str]) -> None:
    if dataset not in allowed:  # whether it exists is not said
        raise HTTPException(403, "no right to read this dataset's DAG")


def _report(request: Request, lake: Lake, page: ObjectInfo, dataset: str, batch: str) -> Response:
    """The file as it lies there, with a way back as the first thing of its body; it is handed on piece by piece."""
    if page.size > LARGEST:
        _LOG.warning("%s has %d bytes, and is not shown", lake.storage.path_or_uri(page.key), page.size)
        return _page(request, "too_large.html", status=413, dataset=dataset, batch=batch, size=page.size, most=LARGEST)
    way = render("way_back.html", root=_root(request), dataset=dataset, batch=batch).encode()
    return StreamingResponse(_pieces(lake.storage.open(page.key), way), headers=HEADERS, media_type="text/html")


def _pieces(opened: BinaryIO, way: bytes) -> Iterator[bytes]:
    with opened as file:
        first = b""
        while len(first) < _PIECE and (piece := file.read(_PIECE)):
            first += piece
        yield first.replace(b"<body>", b"<body>" + way, 1)
        while piece := file.read(_PIECE):
            yield piece


def _page(
    request: Request, template: str, headers: dict[str, str] = HEADERS, status: int = 200, **values: object
) -> HTMLResponse:
    return HTMLResponse(render(template, root=_root(request), **values), status, headers)


def _root(request: Request) -> str:
    """Where the application is mounted, as a link begins."""
    return str(request.scope.get("root_path", ""))

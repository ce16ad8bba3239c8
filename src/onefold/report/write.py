"""Write a batch's report; it can be written again at any time."""

from __future__ import annotations

from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.report.document import describe
from onefold.report.page import render


def report_batch(lake: Lake, dataset: Dataset, batch: str) -> str:
    """Write the page and the JSON of a batch; where a person opens the page."""
    report = describe(lake, dataset, batch)
    lake.put(lake.report(dataset.name, batch, "json"), report)
    page = lake.report(dataset.name, batch, "html")
    lake.storage.write(page, render(report).encode())
    return lake.where(page)

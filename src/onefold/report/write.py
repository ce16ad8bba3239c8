"""Write a batch's report; it can be written again at any time."""

from __future__ import annotations

from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.report.document import describe
from onefold.report.history import keep_history
from onefold.report.page import render


def report_batch(lake: Lake, dataset: Dataset, batch: str) -> str:
    """Write the page and the JSON of a batch, and add it to the dataset's history; where a person opens the page."""
    report = describe(lake, dataset, batch)
    lake.put(lake.report(dataset.name, batch, "json"), report)
    page = lake.report(dataset.name, batch, "html")
    lake.storage.write(page, render(report).encode())
    keep_history(lake, dataset)
    return lake.where(page)

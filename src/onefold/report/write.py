"""Write a batch's report; it can be written again at any time."""

from __future__ import annotations

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.report.document import describe
from onefold.report.history import keep_history
from onefold.report.page import render


def report_batch(lake: Lake, dataset: Dataset, batch: str) -> str:
    """Write the page and the JSON of a batch, and add it to the dataset's history; where a person opens the page.

    The generation keeps a copy, for a rebuild reports the batch again.
    """
    report = describe(lake, dataset, batch)
    html = render(report).encode()
    lake.put(lake_keys.report_of(dataset, batch, "json"), report)
    lake.storage.write(lake_keys.report_of(dataset, batch, "html"), html)
    lake.put(lake_keys.report(dataset.name, batch, "json"), report)
    page = lake_keys.report(dataset.name, batch, "html")
    lake.storage.write(page, html)
    keep_history(lake, dataset)
    return lake.where(page)

"""The report: a page and a JSON per batch, in the lake."""

from onefold.report.document import Report, describe
from onefold.report.page import render
from onefold.report.write import report_batch

__all__ = ["Report", "describe", "render", "report_batch"]

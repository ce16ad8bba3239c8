"""Templates to pages: values escaped, drawn with the report's own style, words and symbols."""

from __future__ import annotations

from functools import cache

from jinja2 import ChoiceLoader, Environment, PackageLoader, PrefixLoader, StrictUndefined

from onefold.quality.checks import title_of
from onefold.report.page import bytes_, instant, interval, lasting, share, shown, thin, undated
from onefold.ui.charts import trend_of
from onefold.ui.dataset_status import STATES
from onefold.vocabulary import LOST


def render(template: str, **values: object) -> str:
    """A page."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    # The report's templates are found, too, under `report/`.
    loader = ChoiceLoader([PackageLoader("onefold.ui"), PrefixLoader({"report": PackageLoader("onefold.report")})])
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (thin, share, bytes_, instant, interval, undated, lasting, title_of)
    environment.filters |= {filter_.__name__.rstrip("_"): filter_ for filter_ in filters}
    environment.globals |= {"trend_of": trend_of, "states": STATES, "LOST": LOST}
    return environment

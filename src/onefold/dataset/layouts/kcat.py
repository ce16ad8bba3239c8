"""Layout kcat: JSON lines as `kcat -J` prints them, a record a line, with its offset."""

from __future__ import annotations

import re

from onefold.dataset.layouts.layout import Layout


class KcatLayout(Layout):
    """Objects with any name that ends as a name of JSON lines."""

    name = "kcat"
    names = re.compile(r"\.(jsonl|ndjson|json|kcat)(\.gz)?$")


KCAT = KcatLayout()

"""Layout aiven: JSON lines of Aiven's S3 sink. A line has its offset, the object's name has topic and partition."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field

from onefold.dataset.base import Model
from onefold.dataset.layouts.layout import Layout


class Encoding(Model):
    """How the sink is configured to write bytes."""

    key: Literal["none", "base64"] = Field(default="none", description="base64: of a ByteArrayConverter")
    value: Literal["none", "base64"] = Field(default="none", description="base64: of a ByteArrayConverter")
    headers: Literal["none", "base64"] = Field(default="none", description="base64: of a ByteArrayConverter")


class AivenOptions(Model):
    """The keys that this layout adds to `source.exports`."""

    encoding: Encoding = Field(default=Encoding(), description="Layout aiven: what is base64")


class AivenLayout(Layout):
    """Objects called `<topic>-<partition>-<first offset>`."""

    name = "aiven"
    names = re.compile(r"(?:^|/)(?P<topic>[^/]+)-(?P<partition>\d+)-(?P<start>\d+)(?:\.jsonl?)?(?:\.gz)?$")
    options = AivenOptions


AIVEN = AivenLayout()

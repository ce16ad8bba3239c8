"""Landed objects as Spark reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from onefold.errors import UnreadableObjectError
from onefold.jvm_errors import cause_of
from onefold.landing.manifest import Manifest

_COMPLAINT = re.compile(r"<<damaged object (.*?)>>")
_DAMAGE = re.compile(
    r"EOF|[Zz]ip|[Zz]lib|not a |incorrect|invalid|corrupt|Parquet|parquet\.|Thrift|TProtocol|ConvertNot"
)
"""What the innermost cause says where a file is broken, and not its store."""


def literal(uris: Iterable[str]) -> list[str]:
    """URIs as Spark's readers take them: `[ ] { } * ?` are letters of a folder's name there, never a pattern."""
    return [re.sub(r"([\[\]{}*?\\])", r"\\\1", uri) for uri in uris]


def complaint(name: str, problem: str) -> str:
    """What a task of Spark says of an object that it cannot read, for `objects_named` to find."""
    return f"<<damaged object {json.dumps([name, problem])}>>"


@contextmanager
def objects_named(manifest: Manifest) -> Iterator[None]:
    """Give the error of a Spark job that could not read a landed object that object's name.

    Raises:
        UnreadableObjectError: an object is damaged.
    """
    try:
        yield
    except (Py4JError, PySparkException) as error:
        if told := _damaged(error, manifest):
            raise UnreadableObjectError(manifest.batch, *told) from error
        raise


def _damaged(error: Exception, manifest: Manifest) -> tuple[str, str] | None:
    text = str(error)
    if found := _COMPLAINT.search(text):
        name, problem = json.loads(found[1])
        return name, problem
    cause = cause_of(error)
    if "FAILED_READ_FILE" not in text or not _DAMAGE.search(cause):
        return None
    return next(((one.name, cause) for one in manifest.objects if one.key.rsplit("/", 1)[-1] in text), None)

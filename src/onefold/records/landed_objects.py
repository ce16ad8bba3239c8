"""Landed objects as Spark reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

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


def object_name(path: Column, objects: list[tuple[str, str]]) -> Column:
    """The name of the object that Spark read from a path; `objects` are (name, URI)."""
    names = F.create_map(*(F.lit(word) for name, uri in objects for word in (uri.rsplit("/", 1)[-1], name)))
    return names[F.substring_index(path, "/", -1)]


def count_lines(session: SparkSession, uris: Sequence[str]) -> int:
    """The lines of objects, of which each is a record."""
    return session.read.option("lineSep", "\n").text(literal(uris)).count() if uris else 0


def count_rows(session: SparkSession, uris: Sequence[str]) -> int:
    """The rows of Parquet objects, of which each is a record."""
    return session.read.parquet(*literal(uris)).count() if uris else 0


@contextmanager
def objects_named(manifest: Manifest) -> Iterator[None]:
    """Give the error of a Spark job that could not read a landed object that object's name.

    Raises:
        UnreadableObjectError: an object is damaged.
    """
    try:
        yield
    except (Py4JError, PySparkException) as error:
        if damaged := _damaged(error, manifest):
            raise UnreadableObjectError(manifest.batch, *damaged) from error
        raise


def _damaged(error: Exception, manifest: Manifest) -> tuple[str, str] | None:
    text = str(error)
    if found := _COMPLAINT.search(text):
        name, problem = json.loads(found[1])
        return name, problem
    cause = cause_of(error)
    if "FAILED_READ_FILE" not in text or not _DAMAGE.search(cause):
        return None
    return next(((object_.name, cause) for object_ in manifest.objects if object_.key.rsplit("/", 1)[-1] in text), None)

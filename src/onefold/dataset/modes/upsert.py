"""Mode upsert, guard newer: the newest version of a key is its row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from onefold.dataset.base import DELETES_WITHOUT_VALUE, ExpressionText
from onefold.dataset.expressions import Expression, Path, parse, paths
from onefold.dataset.modes.contract import Apply, refuse
from onefold.dataset.modes.version import Version
from onefold.vocabulary import Level

if TYPE_CHECKING:
    from onefold.dataset.declaration import Declaration


class Upsert(Apply):
    """The newest version of a key is its row; a delete is a version, too."""

    mode: Literal["upsert"]
    key: list[ExpressionText] = Field(min_length=1, description="What a row is keyed by")
    version: Version

    NAME: ClassVar[str] = "upsert"
    KEYED_BY_IDENTITY: ClassVar[bool] = False
    DELETES: ClassVar[bool] = True
    HIDES: ClassVar[bool] = True
    NEEDS_EVERY_RECORD: ClassVar[bool] = False

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, given: Any) -> Any:
        if isinstance(given, dict) and not (given.get("key") and given.get("version")):
            raise ValueError("upsert needs a key and a version")
        return refuse(given, ("add",), "add belongs to mode increment")

    @model_validator(mode="after")
    def _readable(self) -> Self:
        if self.delete_when not in (None, *DELETES_WITHOUT_VALUE):
            parse(str(self.delete_when))
        return self

    def expressions(self) -> list[tuple[str, str]]:
        """Key, version, and what deletes."""
        found = [
            *super().expressions(),
            *((f"apply.version.{place}", text) for place, text in self.version.expressions),
        ]
        if self.delete_when is not None and self.delete_when not in DELETES_WITHOUT_VALUE:
            found.append(("apply.delete_when", self.delete_when))
        return found

    def deciding(self, dataset: Declaration) -> Level:
        """Key and version, whatever identities are declared."""
        del dataset
        return Level.KEY_VERSION

    def row_key(self, dataset: Declaration) -> list[Expression]:
        """`apply.key`."""
        return [dataset.of_field(tree) for tree in self.key_parts]

    def check(self, dataset: Declaration) -> None:
        """A version must order, and a null value must hold what its row is found by."""
        if self.delete_when == "tombstone":
            self._check_tombstones(dataset)
        self._check_version(dataset)
        if self.version.max_ahead is not None and not dataset.source.exact:
            raise ValueError(
                f"apply.version.max_ahead: records of layout {dataset.source.layout} have no log timestamp that a "
                "version could be ahead of"
            )
        if self.version.max_ahead is not None and not dataset.times_of_version:
            raise ValueError(
                "apply.version.max_ahead: it limits a version that is a time, and none of "
                f"{self.version.named} is a timestamp or date of the record's own"
            )

    def _check_version(self, dataset: Declaration) -> None:
        for place, text in self.version.expressions:
            tree = parse(text)
            if isinstance(tree, Path) and tree.root in ("header", "envelope"):
                raise ValueError(
                    f"apply.version.{place}: {text!r}: {tree.root} values are text, in which 9 is greater than 23; "
                    f"write long({text}), timestamp({text}) or, if it is text, string({text})"
                )
        if self.version.parts == ["offset"]:
            kafka = dataset.source.kafka
            names = [*kafka.topics, *kafka.former_topics] if kafka else []
            if len(names) > 1 or any(name.startswith("^") for name in names):
                raise ValueError(
                    "apply.version.from: an offset orders the records of one topic partition, and there are several "
                    "topics; declare a version of the value, or [timestamp, offset], which trusts clocks"
                )

    def _check_tombstones(self, dataset: Declaration) -> None:
        if any(path.root != "key" for tree in self.key_parts for path in paths(tree)):
            raise ValueError("apply.delete_when: tombstone needs every key part from key.* (a null value holds none)")
        if dataset.within and any(path.root == "value" for path in paths(dataset.within)):
            raise ValueError("apply.delete_when: tombstone needs identity.within from key.* or header.*, too")
        parts = [path for _, text in self.version.expressions for path in paths(parse(text))]
        if any(path.root in ("value", "key") for path in parts):
            raise ValueError(
                "apply.delete_when: tombstone needs the version from header.*, timestamp or offset "
                "(a null value holds none)"
            )

    def sentence(self) -> str:
        """The newest version by key."""
        deleted = f"; deleted by {self.delete_when}" if self.delete_when not in (None, "never") else ""
        return f" by {', '.join(self.key)}: {self._which} {self.version.named}{deleted}"

    _which: ClassVar[str] = "the newest"

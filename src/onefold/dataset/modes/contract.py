"""What a mode answers about a dataset file: the section `apply`, and what follows from it.

Code outside `onefold.dataset.modes`, `onefold.folding` and `onefold.proof.modes` asks for what it needs, never for the
mode's name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator

from onefold.dataset.base import ExpressionText, Model
from onefold.dataset.expressions import Expression, parse
from onefold.dataset.modes.version import Version
from onefold.vocabulary import Level

if TYPE_CHECKING:
    from onefold.dataset.declaration import Declaration


class Comparison(Model):
    """How two contents are compared."""

    except_: list[str] = Field(alias="except", min_length=1, description="Fields that do not count")

    @field_validator("except_")
    @classmethod
    def _in_one_order(cls, names: list[str]) -> list[str]:
        return sorted(set(names))


class Apply(Model):
    """What a record does to the table. Each mode is a subclass with the keys that it takes."""

    mode: str
    key: list[ExpressionText] | None = Field(default=None, min_length=1, description="What a row is keyed by")
    version: Version | None = Field(default=None, description="What orders the versions of a key")
    delete_when: str | None = Field(
        default=None,
        description="tombstone: a null value deletes its key; never: a null value is ignored; or an expression",
    )
    compare: Comparison | None = Field(default=None, description="How two contents are compared; None: in all fields")

    NAME: ClassVar[str]
    """The mode's name in `MODES`, and that of its modules in `onefold.folding` and `onefold.proof.modes`."""
    KEYED_BY_IDENTITY: ClassVar[bool] = True
    """Whether the deciding identity is the key of what the table keeps; else `apply.key` is."""
    DELETES: ClassVar[bool] = False
    """Whether a record may delete a row."""
    HIDES: ClassVar[bool] = False
    """Whether a later version may hide a row from readers (`target.where`)."""
    HOLDS: ClassVar[bool] = False
    """Whether records wait in the table for earlier versions."""
    KEEPS_ENTRIES: ClassVar[bool] = False
    """Whether a published row is made of several messages, each kept as an entry next to it."""
    NEEDS_EVERY_RECORD: ClassVar[bool] = True
    """Whether a row is wrong where compaction has removed a record: then `holes: compacted` is refused, and a hole of
    this kind is a loss."""
    ERASABLE: ClassVar[bool] = True
    """Whether `onefold erase` can take the bytes of a key."""
    MAX_REJECTED_RATE: ClassVar[float] = 0.01
    """The share of wanted records that may be rejected, where the file does not say."""

    @property
    def title(self) -> str:
        """The mode, as pages, tags and messages name it."""
        return self.mode

    @property
    def words(self) -> str:
        """The mode, within a sentence."""
        return f"mode {self.title}"

    def expressions(self) -> list[tuple[str, str]]:
        """The section's expressions, each with its key of the file."""
        return [("apply.key", text) for text in self.key or ()]

    @property
    def key_parts(self) -> list[Expression]:
        """`apply.key`, parsed."""
        return [parse(text) for text in self.key or ()]

    def deciding(self, dataset: Declaration) -> Level:
        """The level that decides whether two records are the same: the widest that is declared."""
        return dataset.declared_levels[-1]

    def row_key(self, dataset: Declaration) -> list[Expression]:
        """What a row that the table keeps is keyed by, without the period; empty where the position decides."""
        return dataset.identity_key

    def published_key(self, dataset: Declaration) -> list[Expression]:
        """What a published row is unique by."""
        return dataset.key_expressions

    def row_key_names(self, dataset: Declaration) -> list[str]:
        """The names of `published_key`."""
        return dataset.key_names

    def published_columns(self, dataset: Declaration) -> list[str]:
        """The columns that readers see."""
        return [*(name for name, _ in dataset.key_columns), *dataset.fields]

    def made_columns(self) -> Mapping[str, str]:
        """Published columns that no record has: of each the key of the file that makes it."""
        return {}

    def made_of(self, dataset: Declaration) -> Mapping[str, str]:
        """Published columns that no record has: of each the field that it is made of."""
        del dataset
        return {}

    def names_a_group(self, dataset: Declaration, names: Collection[str]) -> bool:
        """Whether these names of a typed key are those of a row that several messages make."""
        del dataset, names
        return False

    def check(self, dataset: Declaration) -> None:
        """Refuse what the mode cannot do with the other sections.

        Raises:
            ValueError: it begins with the key of the file.
        """

    def sentence(self) -> str:
        """What the mode does with a record, behind its name, for a page."""
        return ""


def refuse(given: Any, keys: Collection[str], why: str) -> Any:
    """A section's mapping without `keys` that are null.

    Raises:
        ValueError: it has one of them, which belongs to another mode.
    """
    if not isinstance(given, dict):
        return given
    if any(given.get(name) for name in keys):
        raise ValueError(why)
    return {name: value for name, value in given.items() if name not in keys or value is not None}

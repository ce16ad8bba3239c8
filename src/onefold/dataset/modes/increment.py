"""Mode increment: what a message says is added to a key once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from onefold.dataset.base import ExpressionText, Name, not_built
from onefold.dataset.expressions import Expression, Path, parse, paths
from onefold.dataset.modes.contract import Apply, refuse
from onefold.dataset.types import FieldType

if TYPE_CHECKING:
    from onefold.dataset.declaration import Declaration

_ADDED_DIGITS = 27
"""Of a decimal that is added up: with ten more, Spark still adds without rounding."""


class Increment(Apply):
    """Each message is an entry, once; of each key there is a row with the sums of its entries."""

    mode: Literal["increment"]
    key: list[ExpressionText] = Field(min_length=1, description="What is added to")
    add: dict[Name, ExpressionText] = Field(
        min_length=1, description="A column of the table to the field that is added to it"
    )

    NAME: ClassVar[str] = "increment"
    KEEPS_ENTRIES: ClassVar[bool] = True
    ERASABLE: ClassVar[bool] = False
    MAX_REJECTED_RATE: ClassVar[float] = 0.0

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, given: Any) -> Any:
        if isinstance(given, dict) and not (given.get("key") and given.get("add")):
            raise ValueError("increment needs a key, and add: what is added to which column")
        why = "increment takes no version or delete_when: what was added once stays added"
        return refuse(given, ("version", "delete_when"), why)

    def expressions(self) -> list[tuple[str, str]]:
        """The key, and what is added."""
        return [*super().expressions(), *((f"apply.add.{name}", text) for name, text in self.add.items())]

    def published_key(self, dataset: Declaration) -> list[Expression]:
        """`apply.key`: what is added to, not the message."""
        del dataset
        return self.key_parts

    def row_key_names(self, dataset: Declaration) -> list[str]:
        """The names of `apply.key`, each once."""
        del dataset
        return list(dict.fromkeys(next(iter(paths(tree))).column for tree in self.key_parts))

    def sums(self, dataset: Declaration) -> dict[str, tuple[str, FieldType]]:
        """Of each column that is added to, the field and the sum's type: ten digits wider."""
        found = {}
        for name, field in self.made_of(dataset).items():
            kind = dataset.fields[field]
            wide = FieldType("decimal", precision=kind.precision + 10, scale=kind.scale)
            found[name] = field, (wide if kind.name == "decimal" else FieldType("long"))
        return found

    def published_columns(self, dataset: Declaration) -> list[str]:
        """The key, and the sums."""
        return [*self.row_key_names(dataset), *self.add]

    def made_columns(self) -> Mapping[str, str]:
        """The sums."""
        return dict.fromkeys(self.add, "apply.add")

    def made_of(self, dataset: Declaration) -> Mapping[str, str]:
        """Of each sum the field that is added."""
        del dataset
        return {name: next(iter(paths(parse(text)))).name for name, text in self.add.items()}

    def names_a_group(self, dataset: Declaration, names: Collection[str]) -> bool:
        """Whether these are the names of `apply.key`."""
        return set(names) == set(self.row_key_names(dataset))

    def check(self, dataset: Declaration) -> None:
        """A message id decides, and whole numbers or decimals are added."""
        if not dataset.identity.message_id or dataset.identity.business_key:
            raise ValueError(
                "identity: in mode increment the message id decides what is added once; "
                "declare message_id, and no business_key"
            )
        if dataset.within:
            raise not_built("identity.within in mode increment")
        for name, text in self.add.items():
            tree = parse(text)
            plain = isinstance(tree, Path) and tree.root == "value" and not tree.inner
            kind = dataset.type_of(tree) if plain else None
            if not kind or kind.name not in ("int", "long", "decimal") or kind.precision > _ADDED_DIGITS:
                raise ValueError(
                    f"apply.add.{name}: {text!r}: what is added is a field of type int, long or decimal(p,s), "
                    f"p at most {_ADDED_DIGITS}"
                )
            if name.startswith("_"):
                raise ValueError(f"apply.add.{name}: names that start with _ are Onefold's own")
        for name in dataset.keyed_fields:
            raise ValueError(f"apply.key: value.fields has {name}, too; in mode increment key by the field: [{name}]")

    def sentence(self) -> str:
        """What is added by key."""
        return f" by {', '.join(self.key)}: {', '.join(f'{name} + {field}' for name, field in self.add.items())}"

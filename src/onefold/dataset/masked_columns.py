"""Which columns show a masked value: the declared ones, and others that are made of the same part of a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from onefold.dataset.expressions import paths
from onefold.dataset.masks import Mask, strictest

if TYPE_CHECKING:
    from onefold.dataset.declaration import Declaration

_PERIOD = "_within"


def masked_columns(dataset: Declaration) -> dict[str, Mask]:
    """The masked columns, each with the strictest mask that reaches it.

    A masked part of the key, or a masked sum, masks the fields that it is made of. A masked field masks what is made of
    it: parts of the key, the period, sums; and the fields that are read from the same place, from a part of it, or from
    what holds it.
    """
    made = _made_of(dataset)
    found = _spread(dataset.mask, _read_by(dataset))
    found = _spread(found, _in_one_place(dataset))
    if dataset.within:
        made[_PERIOD] = {part for path in paths(dataset.within) for part in (path.name, path.column)}
    return _spread(found, made)


def _spread(masks: Mapping[str, Mask], made_of: Mapping[str, set[str]]) -> dict[str, Mask]:
    """The masks, and of each column that is made of masked ones the strictest of theirs."""
    found = dict(masks)
    for name, sources in made_of.items():
        if mask := strictest(masks.get(source) for source in (name, *sources)):
            found[name] = mask
    return found


def _made_of(dataset: Declaration) -> dict[str, set[str]]:
    """Columns that are made of others, with the names of what they are made of."""
    keys = {
        name: {part for path in paths(tree) for part in (path.name, path.column)} - {name}
        for name, tree in dataset.key_columns
    }
    return keys | {name: {source} for name, source in dataset.apply.made_of(dataset).items()}


def _read_by(dataset: Declaration) -> dict[str, set[str]]:
    """Fields with the parts of the key and the sums that are made of them."""
    read = [(path.name, name) for name, tree in dataset.key_columns for path in paths(tree) if path.root == "value"] + [
        (field, name) for name, field in dataset.apply.made_of(dataset).items()
    ]
    return {field: {name for other, name in read if other == field} for field, _ in read}


def _in_one_place(dataset: Declaration) -> dict[str, set[str]]:
    """Fields with those that are read from the same place, from a part of it, or from what holds it."""
    places = [(name, place) for name, places in dataset.read_places.items() for place in places]
    found: dict[str, set[str]] = {}
    for name, place in places:
        for other, other_place in places:
            length = min(len(place), len(other_place))
            if name != other and place[:length] == other_place[:length]:
                found.setdefault(name, set()).add(other)
    return found

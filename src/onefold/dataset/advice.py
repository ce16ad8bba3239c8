"""What a dataset file says that may surprise its author, though it is no error."""

from __future__ import annotations

from onefold.dataset.expressions import parse, paths
from onefold.dataset.model import Dataset


def notes_of(dataset: Dataset) -> list[str]:
    """The notes, each a sentence that begins with the key of the file."""
    version = dataset.apply.version
    if version is None:
        return []
    found, trees = [], [(text, parse(text)) for _, text in version.expressions]
    of_log = any(path.root in ("offset", "timestamp") for _, tree in trees for path in paths(tree))
    if of_log and not dataset.identity.message_id and not dataset.identity.producer:
        found.append(
            "apply.version: no message id is declared, so what a producer sends again has a greater offset and "
            "timestamp, and counts as a newer version"
        )
    for text, tree in trees:
        kind = dataset.type_of(tree)
        if kind is None or kind.name == "string":
            found.append(f"apply.version: {text} is text, and text is compared letter by letter: v10 is before v9")
    if dataset.watches_filter:
        found.append(
            "source.filter: a version that it leaves out changes no row; it is for what never changes about a row. A "
            "condition on what changes, such as a status, belongs in target.where"
        )
    optional = [name for name, kind in dataset.fields.items() if kind.nullable and name not in dataset.keyed_fields]
    if optional:
        more = f" and {len(optional) - 3} more" if len(optional) > 3 else ""
        found.append(
            "value.fields: a record is the whole row: where a newer record leaves out "
            f"{', '.join(optional[:3])}{more}, the row has NULL"
        )
    return found

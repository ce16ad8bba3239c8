"""What a dataset file says that may surprise its author, though it is no error."""

from __future__ import annotations

from onefold.dataset.expressions import parse
from onefold.dataset.model import Dataset


def notes_of(dataset: Dataset) -> list[str]:
    """The notes, each a sentence that begins with the key of the file."""
    version = dataset.apply.version
    if version is None:
        return []
    found, trees = [], [(text, parse(text)) for _, text in version.expressions]
    if dataset.versions_by_delivery:
        found.append(
            "apply.version: the delivery decides. A message that is sent again after another message of its key makes "
            "the batch red (late_copies). In a later batch than the other message it is not found, and counts as a "
            "newer version"
        )
    elif dataset.delivery_decides:
        own = "; a business key names a thing, and no message" if dataset.identity.business_key else ""
        found.append(
            "apply.version: neither identity.message_id nor identity.producer is declared, so every delivery is a "
            f"version: what a producer sends again counts as a newer version{own}"
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

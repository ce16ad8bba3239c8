"""What a dataset file says that may surprise its author, though it is no error."""

from __future__ import annotations

from onefold.dataset.expressions import parse, paths
from onefold.dataset.masks import Mask
from onefold.dataset.model import Dataset
from onefold.vocabulary import Level

_KNOWN_BY = (Level.MESSAGE_ID, Level.PRODUCER)


def notes_of(dataset: Dataset) -> list[str]:
    """The notes, each a sentence that begins with the key of the file."""
    return [*_of_identity(dataset), *_of_versions(dataset), *_of_masks(dataset)]


def _of_identity(dataset: Dataset) -> list[str]:
    found, producer = [], dataset.identity.producer
    if dataset.within:
        names = ", ".join(dict.fromkeys(path.name or path.root for path in paths(dataset.within)))
        deletes = f", and a delete must have the {names} of its row" if dataset.apply.delete_when else ""
        found.append(
            f"identity.within: {names} must never change for an identity: one that is in two periods has two rows, and "
            f"makes the batch red{deletes}"
        )
    if producer and not producer.epoch and dataset.deciding is Level.PRODUCER:
        found.append(
            "identity.producer: where a sequence begins again, as after a restart of the producer, its messages are "
            "duplicates of earlier ones; let the producer raise an epoch then, and declare it (epoch: header.epoch)"
        )
    return found


def _of_versions(dataset: Dataset) -> list[str]:
    version = dataset.apply.version
    if version is None:
        return []
    found, trees = [], [(text, parse(text)) for _, text in version.expressions]
    own = "; a business key names a thing, and no message" if dataset.identity.business_key else ""
    if dataset.versions_by_delivery:
        found.append(
            "apply.version: the delivery decides, so the table keeps a ledger of all messages, by "
            f"{' and '.join(level for level in _KNOWN_BY if level in dataset.narrow)}: one that is sent again counts "
            f"once, as its first delivery. Each message must have an id of its own{own}"
        )
    elif dataset.delivery_decides:
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


def _of_masks(dataset: Dataset) -> list[str]:
    hashed = [name for name, mask in dataset.mask.items() if mask is Mask.HASH]
    if not hashed:
        return []
    return [
        f"mask: hash ({', '.join(hashed)}) protects no value that can be guessed: who hashes every phone number finds "
        "the one that is shown. hmac (with the setting mask_key) and hide protect these, too"
    ]

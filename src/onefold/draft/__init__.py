"""Drafts of dataset files, from a few records of a topic or an export. No Spark, and no value of a record in them."""

from onefold.draft.draft import Export, Topics, draft_dataset
from onefold.draft.entries import Draft, Entry
from onefold.draft.registered import Asked
from onefold.draft.sample import Sample
from onefold.draft.write import text_of

__all__ = ["Asked", "Draft", "Entry", "Export", "Sample", "Topics", "draft_dataset", "text_of"]

"""Schema registries, and the schemas of theirs that are kept in the lake."""

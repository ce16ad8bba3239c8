"""The gate: facts of a branch, checks on them, and a verdict that publish obeys."""

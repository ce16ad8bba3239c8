"""The gate: facts of a branch, checks of them by id, and a judgement that publish obeys."""

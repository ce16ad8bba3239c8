"""A staged batch against the table: the look-up, the actions, the merge into a branch, the commit record."""

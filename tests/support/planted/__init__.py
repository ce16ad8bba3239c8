"""Faults that are planted one by one, to see that a test turns red: `python -m tests.support.planted`."""

"""`onefold prove`: fold the landed bytes once more, in another way, and compare the table with them row by row.

A gate's uniqueness misses a wrong winner. Here nothing of what batches staged, judged or merged is believed: only which
batches are published, what they cover, and what people decided.
"""

"""The sample: a real broker, a recording of what went wrong with it, and a generator for size."""

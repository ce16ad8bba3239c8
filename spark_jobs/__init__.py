"""The steps that Spark runs, one file per step. Each `run` is the sequence of its step; the logic is in `onefold`."""

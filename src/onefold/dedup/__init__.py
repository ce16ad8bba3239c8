"""One survivor per identity, and a verdict for every record: a pure function of the batch."""

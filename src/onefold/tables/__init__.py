"""Names and columns of the tables that are Onefold's own, without an engine."""

"""What export objects are made of (JSON lines, Avro, Parquet), without an engine: for drafts and Spark's tasks."""

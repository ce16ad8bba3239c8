"""The Iceberg tables without a JVM, through pyiceberg: open the catalog, read and scan state tables, commit."""

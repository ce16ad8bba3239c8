"""The kinds of Iceberg catalogs that a lake may have."""

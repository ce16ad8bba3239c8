"""The readers of landed objects, one file a layout."""

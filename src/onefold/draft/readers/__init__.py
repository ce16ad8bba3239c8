"""The readers of export objects for a draft, one file a layout."""

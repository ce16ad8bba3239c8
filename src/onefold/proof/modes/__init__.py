"""The rows of a proof, one file a mode."""

"""Onefold: folds every message that a Kafka export holds more than once into one row, and proves it."""

__version__ = "0.1.0"

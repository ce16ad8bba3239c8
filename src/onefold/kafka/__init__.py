"""Kafka's own formats, its clients, and what brokers tell. Knows neither the lake nor a landing."""

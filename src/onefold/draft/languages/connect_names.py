"""Types that Kafka Connect's converters note next to a schema's own: the names of its logical types."""

from __future__ import annotations

TYPES = {
    "io.debezium.time.Date": "date(days)",
    "io.debezium.time.Timestamp": "timestamp(millis)",
    "io.debezium.time.MicroTimestamp": "timestamp(micros)",
    "io.debezium.time.NanoTimestamp": "timestamp(nanos)",
    "io.debezium.time.ZonedTimestamp": "timestamp",
    "org.apache.kafka.connect.data.Date": "date(days)",
    "org.apache.kafka.connect.data.Timestamp": "timestamp(millis)",
}
"""Field types by the names of Connect's logical types (Debezium's documentation, "Temporal types")."""

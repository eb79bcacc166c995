"""Ottla: a Kafka-compatible streaming platform in Python."""

__version__ = "0.2.0"
"""Packaging, `ottla --version` and the ApiVersions requests of clients and brokers take it from here."""
SOFTWARE_NAME = "ottla"
"""The name in ApiVersions requests."""

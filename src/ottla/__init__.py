"""Ottla: a Kafka-compatible streaming platform in Python."""

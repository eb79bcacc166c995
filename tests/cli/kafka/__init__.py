"""Kafka's console tools: ours beside the originals."""

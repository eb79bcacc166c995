"""Streams groups (KIP-1071): the members of a Kafka Streams application, its topology, and how tasks are assigned."""

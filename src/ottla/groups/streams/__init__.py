"""Streams groups (KIP-1071): the topology of a Kafka Streams application and the assignment of its tasks. Not served
yet."""

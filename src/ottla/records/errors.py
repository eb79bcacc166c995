"""Errors of batches that came from outside or from disk."""


class CorruptRecords(ValueError):
    """Bytes that are not a record batch: a bad frame, a bad codec stream, or more decompressed bytes than allowed.

    Reading records raises nothing else, whatever the bytes are.
    """


class UnsupportedMagic(CorruptRecords):
    """A message set of Kafka before 0.11 (magic 0 and 1) or of a version that does not exist."""

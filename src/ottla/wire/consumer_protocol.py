"""The version in front of what the consumers of a classic group tell each other: subscriptions and assignments."""

from __future__ import annotations

from ottla.wire.primitives import WireError

VERSION_SIZE = 2
LATEST_VERSION = 3


def protocol_version(data: bytes) -> int:
    """The version to read a subscription or an assignment as: its own, or the latest known here, because later ones
    only add fields at the end. WireError if it has none."""
    if len(data) < VERSION_SIZE:
        raise WireError(f"{len(data)} bytes hold no version of the consumer protocol")
    version = int.from_bytes(data[:VERSION_SIZE], "big", signed=True)
    if version < 0:
        raise WireError(f"the consumer protocol has no version {version}")
    return min(version, LATEST_VERSION)

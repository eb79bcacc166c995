"""The topics that the consumers of a classic group read, from their metadata for the leader. The coordinator does not
define that format: it only decodes it to know which offsets are still needed, and treats undecodable metadata as
unknown.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.wire import WireError, decode_from
from ottla.wire.consumer_protocol import VERSION_SIZE
from ottla.wire.messages.records.consumer_protocol_subscription import ConsumerProtocolSubscription

FIRST_VERSION = 0
"""Every later version begins with the fields of the first one, so it can be read as that."""


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics that these subscriptions of the consumer protocol name; None if one of them is no subscription."""
    topics: set[str] = set()
    for subscription in subscriptions:
        if len(subscription) < VERSION_SIZE:
            return None
        try:
            read, _ = decode_from(ConsumerProtocolSubscription, FIRST_VERSION, subscription, VERSION_SIZE)
        except WireError:
            return None
        topics.update(read.topics)
    return frozenset(topics)

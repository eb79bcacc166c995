"""Headers of the dead letters that brokers write for share groups (KIP-1191), for both ends of a connection."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "__dlq.errors."
TOPIC: Final = PREFIX + "topic"
PARTITION: Final = PREFIX + "partition"
OFFSET: Final = PREFIX + "offset"
GROUP: Final = PREFIX + "group"
DELIVERY_COUNT: Final = PREFIX + "delivery.count"
MESSAGE: Final = PREFIX + "message"

LETTER_HEADERS: Final = frozenset((TOPIC, PARTITION, OFFSET, GROUP, DELIVERY_COUNT, MESSAGE))

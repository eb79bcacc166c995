"""The Python client: producer, consumer, share consumer and admin, against Ottla and Apache Kafka alike.

    from ottla.client import Admin, Consumer, Producer            # for asyncio
    from ottla.client.blocking import Admin, Consumer, Producer   # the same for threads

Settings have Kafka's names: as keywords with underscores or in a dict with dots.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.client.admin import Admin, NewTopic
    from ottla.client.consumer import Consumer, RebalanceListener
    from ottla.client.core.fetching import ConsumerRecord
    from ottla.client.core.offsets import OffsetAndMetadata, OffsetAndTimestamp
    from ottla.client.core.partitions import TopicPartition
    from ottla.client.core.share_acknowledgements import AcknowledgeType
    from ottla.client.core.share_fetching import ShareRecord
    from ottla.client.dead_letters import DeadLetter, DeadLetters
    from ottla.client.delivery import Delivery, RecordMetadata
    from ottla.client.errors import KafkaError
    from ottla.client.producer import Producer
    from ottla.client.retry_topics import RetryTopics
    from ottla.client.share_consumer import ShareConsumer
    from ottla.client.share_letters import ShareLetter
    from ottla.client.tables import TableDelivery

__all__ = [
    "AcknowledgeType",
    "Admin",
    "Consumer",
    "ConsumerRecord",
    "DeadLetter",
    "DeadLetters",
    "Delivery",
    "KafkaError",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "Producer",
    "RebalanceListener",
    "RecordMetadata",
    "RetryTopics",
    "ShareConsumer",
    "ShareLetter",
    "ShareRecord",
    "TableDelivery",
    "TopicPartition",
]

_MODULES = {
    "AcknowledgeType": "core.share_acknowledgements",
    "Admin": "admin",
    "Consumer": "consumer",
    "ConsumerRecord": "core.fetching",
    "DeadLetter": "dead_letters",
    "DeadLetters": "dead_letters",
    "Delivery": "delivery",
    "KafkaError": "errors",
    "NewTopic": "admin",
    "OffsetAndMetadata": "core.offsets",
    "OffsetAndTimestamp": "core.offsets",
    "Producer": "producer",
    "RebalanceListener": "consumer",
    "RecordMetadata": "delivery",
    "RetryTopics": "retry_topics",
    "ShareConsumer": "share_consumer",
    "ShareLetter": "share_letters",
    "ShareRecord": "core.share_fetching",
    "TableDelivery": "tables",
    "TopicPartition": "core.partitions",
}


_SUBMODULES = ("blocking", "errors")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})


def __getattr__(name: str) -> Any:
    """A command that only produces need not import what consumes."""
    if name in _SUBMODULES:
        return import_module(f"ottla.client.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"ottla.client.{_MODULES[name]}"), name)

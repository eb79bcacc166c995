"""The cluster's metadata: Kafka's own metadata records, and the image they add up to."""

from __future__ import annotations

from ottla.cluster import features, snapshot, topic
from ottla.cluster.changes import ImageChanges
from ottla.cluster.image import ClusterImage, ReplayError
from ottla.cluster.records import decode_record, decode_records, encode_record
from ottla.cluster.registration import BrokerImage, Endpoint
from ottla.cluster.topic import PartitionImage, TopicImage

__all__ = [
    "BrokerImage",
    "ClusterImage",
    "Endpoint",
    "ImageChanges",
    "PartitionImage",
    "ReplayError",
    "TopicImage",
    "decode_record",
    "decode_records",
    "encode_record",
    "features",
    "snapshot",
    "topic",
]

"""The client's half of a share session with one broker (KIP-932).

ShareFetch with epoch 0 opens a session and names all partitions; later requests carry the next epoch and name only
partitions that are added, forgotten or acknowledged. ShareAcknowledge belongs to the same sequence of epochs. Epoch -1
closes the session: the broker releases what was acquired in it and not acknowledged.

SS1: one request is under way at a time.
SS2: a request with epoch 0 carries no acknowledgements: the session they belong to is gone, and with it the locks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.client.core.codes import error_code
from ottla.client.core.share_acknowledgements import Acknowledgements, AcknowledgeType, as_ranges
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages import share_acknowledge, share_fetch
from ottla.wire.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from ottla.wire.messages.share_fetch import FetchPartition, FetchTopic, ForgottenTopic, ShareFetchRequest
from ottla.wire.sentinels import FINAL_SESSION_EPOCH, INITIAL_SESSION_EPOCH, MAX_SESSION_EPOCH


class TopicIdPartition(NamedTuple):
    """A partition as share sessions name it."""

    topic_id: bytes
    partition: int


Acknowledged = Mapping[TopicIdPartition, Acknowledgements]


def has_renewals(acknowledged: Acknowledged) -> bool:
    return any(AcknowledgeType.RENEW in of_one.values() for of_one in acknowledged.values())


class ShareSession:
    """`plan_*` makes the next request, `handle` or `fail` follows."""

    def __init__(self, group_id: str, member_id: str) -> None:
        self._group_id = group_id
        self._member_id = member_id
        self.epoch = INITIAL_SESSION_EPOCH
        self._partitions: dict[TopicIdPartition, None] = {}

    @property
    def is_open(self) -> bool:
        """Whether acknowledgements can be sent."""
        return self.epoch != INITIAL_SESSION_EPOCH

    def plan_fetch(self, wanted: Iterable[TopicIdPartition], acknowledged: Acknowledged) -> ShareFetchRequest:
        """The request's session, partitions and acknowledgements; sizes, waits and modes are the caller's."""
        assert self.is_open or not acknowledged, "SS2"
        assert not has_renewals(acknowledged), "a fetch that renews fetches nothing"
        before = self._partitions if self.is_open else {}
        self._partitions = dict.fromkeys(wanted)
        named = dict.fromkeys((*(one for one in self._partitions if one not in before), *acknowledged))
        topics: dict[bytes, list[FetchPartition]] = {}
        for one in named:
            batches = [
                share_fetch.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])
                for first, last, kind in as_ranges(acknowledged.get(one, {}))
            ]
            topics.setdefault(one.topic_id, []).append(
                FetchPartition(partition_index=one.partition, acknowledgement_batches=batches)
            )
        # A partition that is only named for its acknowledgements would be fetched from now on.
        gone = dict.fromkeys(one for one in (*before, *acknowledged) if one not in self._partitions)
        forgotten: dict[bytes, list[int]] = {}
        for one in gone:
            forgotten.setdefault(one.topic_id, []).append(one.partition)
        return ShareFetchRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=self.epoch,
            topics=[FetchTopic(topic_id=topic_id, partitions=named) for topic_id, named in topics.items()],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=topic_id, partitions=numbers) for topic_id, numbers in forgotten.items()
            ],
        )

    def plan_acknowledge(self, acknowledged: Acknowledged, *, is_last: bool = False) -> ShareAcknowledgeRequest:
        """The request that acknowledges; the last one closes the session."""
        assert self.is_open, "SS2"
        topics: dict[bytes, list[AcknowledgePartition]] = {}
        for one, acknowledgements in acknowledged.items():
            batches = [
                share_acknowledge.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])
                for first, last, kind in as_ranges(acknowledgements)
            ]
            topics.setdefault(one.topic_id, []).append(
                AcknowledgePartition(partition_index=one.partition, acknowledgement_batches=batches)
            )
        return ShareAcknowledgeRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=FINAL_SESSION_EPOCH if is_last else self.epoch,
            is_renew_ack=has_renewals(acknowledged),
            topics=[AcknowledgeTopic(topic_id=topic_id, partitions=named) for topic_id, named in topics.items()],
        )

    def handle(self, code: int, message: str | None = None) -> None:
        """The session's part of an answer. KafkaError if the request as a whole was refused."""
        if not code:
            self.epoch = self.epoch + 1 if self.epoch < MAX_SESSION_EPOCH else 1
            return
        self.fail()
        raise KafkaError(error_code(code), message)

    def fail(self) -> None:
        """The state of the broker's session is unknown: the next request opens a new one."""
        self.epoch = INITIAL_SESSION_EPOCH
        self._partitions = {}


SESSION_LOST = frozenset({ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH})
"""The next request opens a new session, without a pause."""

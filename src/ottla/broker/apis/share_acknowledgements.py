"""What ShareFetch and ShareAcknowledge have in common: the checks of a request, and acknowledgements."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from ottla.groups.share.partition import Acknowledgement, AcknowledgeType
from ottla.groups.share.sessions import SharedPartition
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.sentinels import NO_LEADER

if TYPE_CHECKING:
    from ottla.broker.caller import Caller
    from ottla.broker.ground import Ground
    from ottla.broker.share.share import Share

MAX_MEMBER_ID_LENGTH = 36
FIRST_VERSION_WITH_RENEW = 2
LEADER_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)

Outcome = KafkaError | asyncio.Future[KafkaError | None] | None
"""Why an acknowledgement was refused, or a future for the result of its write; None if nothing had to be written."""


class AcknowledgementBatch(Protocol):
    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


class AcknowledgedPartition(Protocol):
    """A partition of either request."""

    partition_index: int

    @property
    def acknowledgement_batches(self) -> Sequence[AcknowledgementBatch]: ...


class AcknowledgedTopic(Protocol):
    topic_id: bytes

    @property
    def partitions(self) -> Sequence[AcknowledgedPartition]: ...


def refusal(share: Share, caller: Caller, group_id: str | None, member_id: str | None) -> ErrorCode | None:
    """Why a whole request is refused, in Kafka's order of checks."""
    if not share.is_enabled:
        return ErrorCode.UNSUPPORTED_VERSION
    if group_id is None:
        return ErrorCode.INVALID_REQUEST
    if not caller.is_allowed(AclOperation.READ, AclResource.GROUP, group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if not member_id or len(member_id) > MAX_MEMBER_ID_LENGTH:
        return ErrorCode.INVALID_REQUEST
    return None


class Topics:
    """The topics of one request: each is looked up, and its permission checked, once."""

    def __init__(self, ground: Ground, caller: Caller) -> None:
        self._ground = ground
        self._caller = caller
        self._checked: dict[bytes, ErrorCode | None] = {}

    def check(self, partition: SharedPartition) -> None:
        """KafkaError if the partition does not exist, or the client may not read it."""
        topic_id = partition.topic_id
        topic = self._ground.image.topics_by_id.get(topic_id)
        if topic_id not in self._checked:
            error = None
            if topic is None:
                error = ErrorCode.UNKNOWN_TOPIC_ID
            elif not self._caller.is_allowed(AclOperation.READ, AclResource.TOPIC, topic.name):
                error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            self._checked[topic_id] = error
        error = self._checked[topic_id]
        if error is not None:
            raise KafkaError(error)
        if topic is None or partition.partition not in topic.partitions:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def acknowledge(
    share: Share,
    topics: Topics,
    caller: Caller,
    group_id: str,
    member_id: str,
    requested: Iterable[AcknowledgedTopic],
    *,
    is_renew: bool,
) -> dict[SharedPartition, Outcome]:
    """Acknowledge what a request names, partition by partition."""
    outcomes: dict[SharedPartition, Outcome] = {}
    last_type = AcknowledgeType.RENEW if caller.api_version >= FIRST_VERSION_WITH_RENEW else AcknowledgeType.REJECT
    for topic in requested:
        for row in topic.partitions:
            partition = SharedPartition(topic.topic_id, row.partition_index)
            given = [
                Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types)
                for batch in row.acknowledgement_batches
            ]
            try:
                _check_batches(given, last_type, is_renew)
                topics.check(partition)
                outcomes[partition] = _acknowledge(share, group_id, member_id, partition, given) if given else None
            except KafkaError as error:
                outcomes[partition] = error
    return outcomes


def _acknowledge(
    share: Share, group_id: str, member_id: str, partition: SharedPartition, given: Sequence[Acknowledgement]
) -> Outcome:
    hosted = share.find(group_id, partition.topic_id, partition.partition)
    if hosted is None:
        share.led_here(partition)
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return hosted.acknowledge(member_id, given)


def _check_batches(given: Sequence[Acknowledgement], last_type: int, is_renew: bool) -> None:
    """KafkaError INVALID_REQUEST unless batches are in order, with known types, one for all or one for each offset."""
    before = -1
    for first, last, types in given:
        if first < 0 or first > last or first <= before:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Offsets {first} to {last} come after {before}.")
        if not types or len(types) not in (1, last - first + 1):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"{len(types)} acknowledge types for {last - first + 1} offsets."
            )
        if min(types) < AcknowledgeType.GAP or max(types) > last_type:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Acknowledge types are 0 to {int(last_type)}.")
        if not is_renew and AcknowledgeType.RENEW in types:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The request renews locks but does not say so.")
        before = last


def is_settled(outcomes: dict[SharedPartition, Outcome]) -> bool:
    return not any(isinstance(outcome, asyncio.Future) and not outcome.done() for outcome in outcomes.values())


async def settle(outcomes: dict[SharedPartition, Outcome]) -> None:
    """Wait until every acknowledgement was written or refused."""
    pending = [outcome for outcome in outcomes.values() if isinstance(outcome, asyncio.Future) and not outcome.done()]
    for one in pending:
        await one


def settled(outcome: Outcome) -> KafkaError | None:
    return outcome.result() if isinstance(outcome, asyncio.Future) else outcome


def leader_of(ground: Ground, partition: SharedPartition) -> tuple[int, int]:
    """The leader of a partition and its epoch, as the image has them; (-1, -1) if there is none."""
    topic = ground.image.topics_by_id.get(partition.topic_id)
    place = topic.partitions.get(partition.partition) if topic is not None else None
    return (place.leader, place.leader_epoch) if place is not None and place.leader != NO_LEADER else (-1, -1)


def endpoints(ground: Ground, caller: Caller, leaders: dict[int, None]) -> list[tuple[int, str, int, str | None]]:
    """The addresses of brokers that the answer names as leaders, as the client reaches them."""
    if not leaders:
        return []
    return [broker for broker in ground.brokers(caller.client.listener) if broker[0] in leaders]

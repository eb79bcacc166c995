"""ShareFetch and ShareAcknowledge on a real log, with a share coordinator that the test holds in its hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.access import Access
from ottla.broker.apis.share_acknowledge import share_acknowledge
from ottla.broker.apis.share_fetch import RECORD_LIMIT, share_fetch
from ottla.broker.caller import Caller, Client
from ottla.broker.serving.quotas import Quotas
from ottla.broker.share.share import Share
from ottla.cluster import ImageChanges
from ottla.cluster.features import SHARE_VERSION
from ottla.config import GroupConfig, TopicConfig
from ottla.groups.share.partition import AcknowledgeType, DeliveryState
from ottla.groups.share.state_batches import StoredBatch, combine
from ottla.groups.share.state_records import SharePartitionKey
from ottla.groups.share.state_shard import ShareState, ShareWrite
from ottla.records import Record, build, read
from ottla.security.authorizer import StandardAuthorizer
from ottla.security.principal import Principal
from ottla.wire.acls import AclOperation, AclResource, PatternType, Permission
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages import share_acknowledge as acknowledge_messages
from ottla.wire.messages import share_fetch as fetch_messages
from ottla.wire.messages.records.access_control_entry_record import AccessControlEntryRecord
from tests.unit.broker.rooms import CLOCK, TimedGround, add_topic, make_replicas, run_timed

ID = b"t" * 16
GAP, ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
LOCK_MS = 30_000


class Store:
    """A share coordinator in memory. While `gate` is set writes wait for it; `error` refuses them."""

    def __init__(self) -> None:
        self.states: dict[SharePartitionKey, ShareState] = {}
        self.writes: list[ShareWrite] = []
        self.gate: asyncio.Event | None = None
        self.error: ErrorCode | None = None

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ShareState:
        await asyncio.sleep(0.001)
        if self.error is not None:
            raise KafkaError(self.error)
        return self.states.setdefault(key, ShareState(0, 0, leader_epoch, -1, 0, 0, 0))

    async def write(self, key: SharePartitionKey, write: ShareWrite) -> None:
        self.writes.append(write)
        await (self.gate.wait() if self.gate is not None else asyncio.sleep(0.001))
        if self.error is not None:
            raise KafkaError(self.error)
        state = self.states[key]
        state.start_offset = write.start_offset
        state.delivery_complete_count = write.delivery_complete_count
        state.batches = combine(state.batches, write.batches, write.start_offset)


class World:
    """A topic of two partitions, led here, and a share group that begins at its start."""

    def __init__(self, path: Path, **settings: str) -> None:
        self.ground = TimedGround(path, group_share_max_share_sessions="3")
        self.ground.image.features[SHARE_VERSION] = 1
        self.replicas = make_replicas(self.ground)
        add_topic(self.replicas, "t", ID, 2, TopicConfig(), leader_epoch=3)
        self.store = Store()
        names = {"share.auto.offset.reset": "earliest", **settings}
        self.share = Share(
            self.ground, self.replicas, self.store, lambda group_id: GroupConfig.parse(names, self.ground.config)
        )

    def produce(self, *values: bytes, index: int = 0, **fields: Any) -> None:
        partition = self.replicas.partitions.by_name["t"][index]
        batch = build([Record(value=value, timestamp=CLOCK) for value in values], **fields)
        partition.append(memoryview(batch), CLOCK, self.ground.now())

    def member(self, member_id: str) -> Member:
        return Member(self, member_id)

    def stored(self, index: int = 0) -> tuple[int, list[StoredBatch]]:
        state = self.store.states[SharePartitionKey("g", ID, index)]
        return state.start_offset, state.batches


class Member:
    def __init__(self, world: World, member_id: str) -> None:
        self.world = world
        self.id = member_id
        self.epoch = 0
        self.client = Client("10.0.0.9", 5555, "PLAINTEXT", "broker")

    async def send(self, handler: Callable[..., Any], request: Any, version: int, *rooms: Any) -> Any:
        answer = handler(request, *rooms, Caller("app", self.client, 78, version))
        if self.epoch >= 0:
            self.epoch += 1
        return await answer if asyncio.iscoroutine(answer) else answer

    async def fetch_raw(self, *acknowledged: tuple[int, ...], version: int = 2, **fields: Any) -> Any:
        world = self.world
        indexes = fields.pop("indexes", (0,))
        rows = [
            fetch_messages.FetchPartition(
                partition_index=index,
                acknowledgement_batches=[
                    fetch_messages.AcknowledgementBatch(
                        first_offset=first, last_offset=last, acknowledge_types=list(kinds)
                    )
                    for first, last, *kinds in acknowledged
                ],
            )
            for index in indexes
        ]
        request = fetch_messages.ShareFetchRequest(
            group_id="g",
            member_id=self.id,
            share_session_epoch=self.epoch,
            topics=[fetch_messages.FetchTopic(topic_id=ID, partitions=rows)] if rows else [],
            **{"max_wait_ms": 500, "min_bytes": 1, "max_records": 100, "batch_size": 100, **fields},
        )
        rooms = (world.ground, world.share, Quotas())
        return await self.send(share_fetch, request, version, *rooms)

    async def fetch(self, *acknowledged: tuple[int, ...], **fields: Any) -> list[tuple[int, int, int]]:
        """What was acquired of the only partition: first offset, last offset, delivery count."""
        response = await self.fetch_raw(*acknowledged, **fields)
        assert response.error_code == 0, ErrorCode(response.error_code)
        rows = [row for topic in response.responses for row in topic.partitions]
        assert all(row.error_code == 0 for row in rows), rows
        assert all(row.acknowledge_error_code == 0 for row in rows), rows
        return [(one.first_offset, one.last_offset, one.delivery_count) for row in rows for one in row.acquired_records]

    async def say(self, *acknowledged: tuple[int, ...], version: int = 2, **fields: Any) -> ErrorCode:
        world = self.world
        batches = [
            acknowledge_messages.AcknowledgementBatch(
                first_offset=first, last_offset=last, acknowledge_types=list(kinds)
            )
            for first, last, *kinds in acknowledged
        ]
        row = acknowledge_messages.AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
        request = acknowledge_messages.ShareAcknowledgeRequest(
            group_id="g",
            member_id=self.id,
            share_session_epoch=self.epoch,
            topics=[acknowledge_messages.AcknowledgeTopic(topic_id=ID, partitions=[row])] if batches else [],
            **fields,
        )
        response = await self.send(share_acknowledge, request, version, world.ground, world.share)
        if response.error_code:
            return ErrorCode(response.error_code)
        return ErrorCode(response.responses[0].partitions[0].error_code) if batches else ErrorCode.NONE


Scenario = Callable[[World], Coroutine[Any, Any, None]]


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., None]:
    def run(scenario: Scenario, **settings: str) -> None:
        async def main() -> None:
            world = World(tmp_path, **{name.replace("_", "."): value for name, value in settings.items()})
            await scenario(world)
            assert not world.ground.bugs
            await world.ground.close()

        run_timed(main())

    return run


def test_members_get_different_records_and_an_acknowledgement_is_answered_when_it_is_written(
    play: Callable[..., None],
) -> None:
    async def scenario(world: World) -> None:
        for _ in range(4):
            world.produce(b"a", b"b", b"c")
        one, two = world.member("one"), world.member("two")
        response = await one.fetch_raw(max_records=3)
        row = response.responses[0].partitions[0]
        assert [record.value for record in read(row.records.read())] == [b"a", b"b", b"c"]
        assert response.acquisition_lock_timeout_ms == LOCK_MS
        assert await two.fetch(max_records=4) == [(3, 8, 1)], "whole batches until there are enough"
        assert await two.fetch((3, 8, ACCEPT), max_wait_ms=0, max_records=1) == [(9, 11, 1)]
        assert world.stored() == (0, [(3, 8, DeliveryState.ACKNOWLEDGED, 1)])
        assert await one.say((0, 2, ACCEPT, RELEASE, REJECT)) is ErrorCode.NONE
        assert world.store.writes[-1].delivery_complete_count == 8
        assert await one.fetch() == [(1, 1, 2)]

    play(scenario)


def test_a_strict_member_gets_no_more_than_it_asked_for(play: Callable[..., None]) -> None:
    async def scenario(world: World) -> None:
        world.produce(*[b"x"] * 10)
        one = world.member("one")
        assert await one.fetch(max_records=3, share_acquire_mode=RECORD_LIMIT) == [(0, 2, 1)]
        assert await one.fetch(max_records=4, share_acquire_mode=RECORD_LIMIT) == [(3, 6, 1)]
        response = await one.fetch_raw(share_acquire_mode=7)
        assert response.error_code == ErrorCode.INVALID_REQUEST

    play(scenario)


def test_a_fetch_waits_for_an_append_and_wakes_one_member_only(play: Callable[..., None]) -> None:
    async def scenario(world: World) -> None:
        one, two = world.member("one"), world.member("two")
        waiting = [asyncio.ensure_future(member.fetch(max_wait_ms=5000)) for member in (one, two)]
        await asyncio.sleep(1)
        world.produce(b"x", b"y")
        await asyncio.sleep(0.1)
        assert waiting[0].result() == [(0, 1, 1)]
        assert not waiting[1].done()
        world.produce(b"z")
        assert await waiting[1] == [(2, 2, 1)]
        assert not world.replicas.partitions.by_name["t"][0].delayed_fetches

    play(scenario)


@pytest.mark.parametrize("resource", [AclResource.TOPIC, AclResource.GROUP])
def test_a_fetch_that_waits_gets_nothing_that_it_may_not_have_any_more(
    play: Callable[..., None], resource: AclResource
) -> None:
    async def scene(world: World) -> None:
        allowed = _rules(AclResource.TOPIC, AclResource.GROUP)
        authorizer = StandardAuthorizer()
        authorizer.replace(allowed)
        member = world.member("m")
        access = Access(authorizer, Principal("User", "alice"), "10.0.0.9")
        member.client.access = access
        assert await member.fetch(max_wait_ms=0) == []
        await asyncio.sleep(0.01)
        waiting = asyncio.ensure_future(member.fetch_raw(max_wait_ms=60_000))
        await asyncio.sleep(0.01)
        authorizer.replace([one for one in allowed if one.resource_type != resource])
        access.forget()
        world.produce(b"secret")
        response = await waiting
        (row,) = response.responses[0].partitions
        assert ErrorCode(row.error_code) in (
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
        )
        assert not row.acquired_records and not row.records

    play(scene)


def _rules(*resources: AclResource) -> list[AccessControlEntryRecord]:
    return [
        AccessControlEntryRecord(
            id=bytes([resource]) * 16, resource_type=resource,
            resource_name="t" if resource == AclResource.TOPIC else "g",
            pattern_type=PatternType.LITERAL, principal="User:alice", host="*", operation=AclOperation.READ,
            permission_type=Permission.ALLOW,
        )
        for resource in resources
    ]  # fmt: skip


def test_a_fetch_without_records_is_answered_when_its_time_is_up(play: Callable[..., None]) -> None:
    async def scenario(world: World) -> None:
        before = world.ground.now()
        assert await world.member("one").fetch(max_wait_ms=700) == []
        assert 700 <= world.ground.now() - before < 900

    play(scenario)


def test_a_fetch_waits_for_min_bytes(play: Callable[..., None]) -> None:
    async def scenario(world: World) -> None:
        waiting = asyncio.ensure_future(world.member("one").fetch(max_wait_ms=5000, min_bytes=2000))
        await asyncio.sleep(0.1)
        world.produce(b"x" * 1500)
        await asyncio.sleep(0.1)
        assert not waiting.done()
        world.produce(b"x" * 1500)
        assert await waiting == [(0, 1, 1)]

    play(scenario)


def test_locks_expire_and_wake_a_fetch_that_waits_and_the_last_delivery_is_archived(play: Callable[..., None]) -> None:
    async def scenario(world: World) -> None:
        world.produce(b"x")
        one, two = world.member("one"), world.member("two")
        assert await one.fetch() == [(0, 0, 1)]
        before = world.ground.now()
        assert await two.fetch(max_wait_ms=60_000) == [(0, 0, 2)]
        assert LOCK_MS - 10 <= world.ground.now() - before <= LOCK_MS + 200
        assert await one.say((0, 0, ACCEPT)) is ErrorCode.INVALID_RECORD_STATE
        assert await two.fetch(max_wait_ms=40_000) == []
        assert world.stored() == (0, [StoredBatch(0, 0, DeliveryState.ARCHIVED, 2)])
        assert world.share.meter.lock_timeouts == 2

    play(scenario, share_delivery_count_limit="2")


def test_renew_makes_a_lock_last_longer_and_writes_nothing(play: Callable[..., None]) -> None:
    async def scenario(world: World) -> None:
        world.produce(b"x")
        one = world.member("one")
        await one.fetch()
        await asyncio.sleep(20)
        assert await one.say((0, 0, RENEW)) is ErrorCode.INVALID_REQUEST, "IsRenewAck is not set"
        assert await one.say((0, 0, RENEW), version=1, is_renew_ack=True) is ErrorCode.INVALID_REQUEST
        assert await one.say((0, 0, RENEW), is_renew_ack=True) is ErrorCode.NONE
        zero = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
        assert await one.fetch((0, 0, RENEW), is_renew_ack=True, **zero) == []
        refused = await one.fetch_raw((0, 0, RENEW), is_renew_ack=True)
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        one.epoch -= 1
        await asyncio.sleep(20)
        assert world.store.writes == []
        assert await one.say((0, 0, ACCEPT)) is ErrorCode.NONE

    play(scenario)


def test_a_group_may_forbid_renewing(play: Callable[..., None]) -> None:
    async def scenario(world: World) -> None:
        world.produce(b"x")
        one = world.member("one")
        await one.fetch()
        assert await one.say((0, 0, RENEW), is_renew_ack=True) is ErrorCode.INVALID_RECORD_STATE

    play(scenario, share_renew_acknowledge_enable="false")


def test_a_session_that_ends_releases_its_records_and_the_delivery_counts(play: Callable[..., None]) -> None:
    async def scenario(world: World) -> None:
        world.produce(b"a", b"b", b"c")
        one, two = world.member("one"), world.member("two")
        assert await one.fetch() == [(0, 2, 1)]
        waiting = asyncio.ensure_future(two.fetch(max_wait_ms=5000))
        await asyncio.sleep(0.1)
        one.epoch = -1
        assert await one.fetch((0, 0, ACCEPT), max_wait_ms=0) == []
        assert await waiting == [(1, 2, 2)]
        assert (await one.fetch_raw()).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        one.epoch = 0
        third = asyncio.ensure_future(one.fetch(max_wait_ms=5000))
        await asyncio.sleep(0.1)
        world.share.connection_closed(two.client)
        assert await third == [(1, 2, 3)]

    play(scenario)


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION])
def test_records_whose_lock_ended_wait_until_that_is_written_and_a_coordinator_that_is_away_is_asked_again(
    play: Callable[..., None], code: ErrorCode
) -> None:
    async def scenario(world: World) -> None:
        world.produce(b"x")
        one, two = world.member("one"), world.member("two")
        assert await one.fetch() == [(0, 0, 1)]
        world.store.error = code
        world.share.connection_closed(one.client)
        assert await two.fetch(max_wait_ms=5000) == []
        assert 2 <= len(world.store.writes) <= 10
        world.store.error = None
        assert await two.fetch(max_wait_ms=5000) == [(0, 0, 2)]
        assert world.stored() == (0, [StoredBatch(0, 0, DeliveryState.AVAILABLE, 1)])

    play(scenario)


def test_the_last_session_of_a_group_takes_its_share_partitions_with_it(play: Callable[..., None]) -> None:
    async def scenario(world: World) -> None:
        world.produce(b"a", b"b")
        one = world.member("one")
        await one.fetch(indexes=(0, 1))
        assert len(list(world.share)) == 2
        one.epoch = -1
        assert await one.say((0, 0, ACCEPT)) is ErrorCode.NONE
        await asyncio.sleep(0.1)
        assert list(world.share) == []
        one.epoch = 0
        assert await one.fetch() == [(1, 1, 2)]

    play(scenario)


def test_acknowledgements_during_a_write_go_together_with_the_next(play: Callable[..., None]) -> None:
    async def scenario(world: World) -> None:
        for _ in range(4):
            world.produce(b"x")
        one = world.member("one")
        await one.fetch()
        world.store.gate = asyncio.Event()
        waiting = [asyncio.ensure_future(one.say((0, 0, ACCEPT)))]
        await asyncio.sleep(1)
        waiting += [asyncio.ensure_future(one.say((offset, offset, ACCEPT))) for offset in (1, 2, 3)]
        await asyncio.sleep(1)
        assert len(world.store.writes) == 1 and not any(one.done() for one in waiting)
        world.store.gate.set()
        assert [await one for one in waiting] == [ErrorCode.NONE] * 4
        assert [len(write.batches) for write in world.store.writes] == [1, 3]

    play(scenario)


def test_what_could_not_be_written_is_still_held_and_a_fenced_leader_forgets_it(play: Callable[..., None]) -> None:
    async def scenario(world: World) -> None:
        world.produce(b"x")
        one = world.member("one")
        await one.fetch()
        world.store.error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await one.say((0, 0, ACCEPT)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        world.store.error = None
        assert await one.say((0, 0, RELEASE)) is ErrorCode.NONE
        assert await one.fetch() == [(0, 0, 2)]
        world.store.error = ErrorCode.FENCED_LEADER_EPOCH
        assert await one.say((0, 0, ACCEPT)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert list(world.share) == []

    play(scenario)


def test_a_lock_that_ends_while_its_acknowledgement_could_not_be_written_ends_at_once(
    play: Callable[..., None],
) -> None:
    async def scenario(world: World) -> None:
        world.produce(b"a")
        one, two = world.member("one"), world.member("two")
        assert await one.fetch() == [(0, 0, 1)]
        await asyncio.sleep(LOCK_MS / 1000 - 1)
        world.produce(b"b")
        assert await two.fetch() == [(1, 1, 1)]
        world.store.gate = asyncio.Event()
        saying = asyncio.ensure_future(one.say((0, 0, ACCEPT)))
        await asyncio.sleep(5)  # the lock of the first record ends, that of the second is new
        world.store.error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        world.store.gate.set()
        assert await saying is ErrorCode.COORDINATOR_NOT_AVAILABLE
        world.store.error = None
        assert await two.fetch(max_wait_ms=5000) == [(0, 0, 2)]

    play(scenario)


def test_a_partition_that_moved_is_told_at_once_with_its_leader(play: Callable[..., None]) -> None:
    async def scenario(world: World) -> None:
        waiting = asyncio.ensure_future(world.member("one").fetch_raw(max_wait_ms=5000))
        await asyncio.sleep(0.1)
        world.replicas.partitions.by_name["t"][0].follow(2, 4)
        response = await waiting
        row = response.responses[0].partitions[0]
        assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert list(world.share) == []

    play(scenario)


def test_a_share_partition_is_forgotten_when_the_leader_epoch_changes(play: Callable[..., None]) -> None:
    async def scenario(world: World) -> None:
        world.produce(b"x")
        await world.member("one").fetch()
        world.replicas.partitions.by_name["t"][0].lead(None, 4, 1)
        changes = ImageChanges()
        changes.partitions_changed[ID, 0] = None
        world.share.image_changed(changes)
        assert list(world.share) == []
        assert await world.member("two").fetch() == [(0, 0, 1)]

    play(scenario)


def test_a_loaded_share_partition_goes_on_where_the_coordinator_says(play: Callable[..., None]) -> None:
    async def scenario(world: World) -> None:
        world.produce(*[b"x"] * 10)
        state = ShareState(0, 0, 3, 2, 0, 0, 0, [StoredBatch(4, 6, DeliveryState.ACKNOWLEDGED, 1)])
        world.store.states[SharePartitionKey("g", ID, 0)] = state
        assert await world.member("one").fetch() == [(2, 3, 1), (7, 9, 1)]

    play(scenario)


def test_a_share_partition_that_cannot_be_loaded_is_an_error_and_tried_again(play: Callable[..., None]) -> None:
    async def scenario(world: World) -> None:
        world.produce(b"x")
        one = world.member("one")
        world.store.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        response = await one.fetch_raw()
        assert response.responses[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        world.store.error = None
        assert await one.fetch() == [(0, 0, 1)]

    play(scenario)


@pytest.mark.parametrize(
    ("reset", "offsets"), [("latest", []), ("earliest", [(0, 0, 1)]), ("by_duration:PT1H", [(0, 0, 1)])]
)
def test_a_new_group_begins_by_its_setting(
    play: Callable[..., None], reset: str, offsets: list[tuple[int, int, int]]
) -> None:
    async def scenario(world: World) -> None:
        world.produce(b"x")
        one = world.member("one")
        assert await one.fetch() == offsets
        world.produce(b"y")
        assert await one.fetch() == [(1, 1, 1)]

    play(scenario, share_auto_offset_reset=reset)


def test_the_window_of_a_partition_is_bounded(play: Callable[..., None]) -> None:
    async def scenario(world: World) -> None:
        for _ in range(30):
            world.produce(*[b"x"] * 10)
        one = world.member("one")
        assert await one.fetch(max_records=500, batch_size=500, share_acquire_mode=RECORD_LIMIT) == [(0, 99, 1)]
        waiting = asyncio.ensure_future(world.member("two").fetch(max_wait_ms=5000, max_records=5))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        assert await one.say((0, 4, ACCEPT)) is ErrorCode.NONE
        assert await waiting == [(100, 109, 1)]

    play(scenario, share_partition_max_record_locks="100")


@pytest.mark.parametrize(
    ("acknowledged", "code"),
    [
        ((2, 1, ACCEPT), ErrorCode.INVALID_REQUEST),
        ((0, 2), ErrorCode.INVALID_REQUEST),
        ((0, 2, ACCEPT, ACCEPT), ErrorCode.INVALID_REQUEST),
        ((0, 0, 5), ErrorCode.INVALID_REQUEST),
        ((0, 0, -1), ErrorCode.INVALID_REQUEST),
        ((0, 7, ACCEPT), ErrorCode.INVALID_RECORD_STATE),
    ],
)
def test_acknowledgements_that_make_no_sense_are_refused(
    play: Callable[..., None], acknowledged: tuple[int, ...], code: ErrorCode
) -> None:
    async def scenario(world: World) -> None:
        world.produce(b"a", b"b", b"c")
        one = world.member("one")
        await one.fetch()
        assert await one.say(acknowledged) is code
        assert await one.say((0, 2, ACCEPT)) is ErrorCode.NONE

    play(scenario)


def test_requests_are_refused_as_a_whole(play: Callable[..., None]) -> None:
    async def scenario(world: World) -> None:
        assert await world.member("").say((0, 0, ACCEPT)) is ErrorCode.INVALID_REQUEST
        assert await world.member("x" * 37).say((0, 0, ACCEPT)) is ErrorCode.INVALID_REQUEST
        assert await world.member("one").say((0, 0, ACCEPT)) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
        first = await world.member("one").fetch_raw((0, 0, ACCEPT))
        assert first.error_code == ErrorCode.INVALID_REQUEST
        for name in "abc":
            await world.member(name).fetch(max_wait_ms=0)
        refused = await world.member("d").fetch_raw()
        assert refused.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        world.ground.image.features[SHARE_VERSION] = 0
        assert (await world.member("a").fetch_raw()).error_code == ErrorCode.UNSUPPORTED_VERSION

    play(scenario)


def test_a_partition_that_is_not_there_does_not_hinder_the_others(play: Callable[..., None]) -> None:
    async def scenario(world: World) -> None:
        world.produce(b"x")
        response = await world.member("one").fetch_raw(indexes=(0, 9))
        rows = {row.partition_index: row for row in response.responses[0].partitions}
        assert rows[9].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert len(rows[0].acquired_records) == 1

    play(scenario)


def test_a_client_that_left_waits_no_longer(play: Callable[..., None]) -> None:
    async def scenario(world: World) -> None:
        one = world.member("one")
        waiting = asyncio.ensure_future(one.fetch(max_wait_ms=5000))
        await asyncio.sleep(0.1)
        waiting.cancel()
        world.share.connection_closed(one.client)
        await asyncio.sleep(0.1)
        assert not world.replicas.partitions.by_name["t"][0].delayed_fetches
        assert list(world.share) == []

    play(scenario)

"""What each API asks of the authorizer is what its file declares; and no API is brought down by what it is not asked.

The handlers are those of the shipped node, called as a connection calls them, with an authorizer that notes questions.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker.access import Access
from ottla.broker.caller import Caller, Client
from ottla.broker.node import Node
from ottla.broker.serving.api import Need
from ottla.broker.serving.api_table import ApiTable
from ottla.security.principal import Principal
from ottla.sim.cluster import Sim
from ottla.wire import Message, frames
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.apis import APIS, request_class
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.internal_topics import AUDIT_TOPIC
from tests.interop.access_requests import SEEN_ID, TOPICS, Case, cases

ALICE = Principal("User", "alice")
PROTECTED = (AclResource.TOPIC, AclResource.GROUP, AclResource.CLUSTER, AclResource.TRANSACTIONAL_ID)
OF_TOKENS = {38, 41}
"""Their questions come after a login, which these callers do not have: tests of delegation tokens ask them."""
PROPERTIES = {
    f"{topic}.{name}": "1"
    for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    for name in ("num.partitions", "replication.factor")
} | {"transaction.state.log.min.isr": "1", "share.coordinator.state.topic.min.isr": "1"}
MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"
"""A member id of a share group: a UUID as Kafka writes it."""
PREPARATIONS = (
    Case("FindCoordinator", 6, {"key_type": 0, "coordinator_keys": ["seen"]}),
    Case("FindCoordinator", 6, {"key_type": 1, "coordinator_keys": ["seen"]}),
    Case("InitProducerId", 4, {"transactional_id": "seen", "transaction_timeout_ms": 60_000}),
    Case(
        "ConsumerGroupHeartbeat",
        1,
        {
            "group_id": "seen-consumers",
            "member_id": "one",
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": ["seen"],
            "topic_partitions": [],
        },
    ),
    Case(
        "ShareGroupHeartbeat",
        1,
        {"group_id": "seen-shares", "member_id": MEMBER, "subscribed_topic_names": ["seen"]},
    ),
    Case(
        "StreamsGroupHeartbeat",
        0,
        {
            "group_id": "seen-streams",
            "member_id": MEMBER,
            "rebalance_timeout_ms": 60_000,
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
            "topology": {"epoch": 0, "subtopologies": [{"subtopology_id": "0", "source_topics": ["seen"]}]},
        },
    ),
)
"""A transaction and three groups with a member: there is something to describe."""


def share_cases() -> Iterator[Case]:
    group = {"group_id": "seen-shares"}
    session = {**group, "member_id": MEMBER, "share_session_epoch": 0}
    partitions = [{"partition_index": 0}]
    fetched = {**session, "max_bytes": 1, "max_records": 1, "batch_size": 1}
    yield Case("ShareGroupHeartbeat", 1, {**group, "member_id": MEMBER, "subscribed_topic_names": ["seen", "hidden"]})
    yield Case("ShareGroupDescribe", 1, {"group_ids": ["seen-shares"]})
    yield Case("ShareFetch", 1, {**fetched, "topics": [{"topic_id": SEEN_ID, "partitions": partitions}]})
    acknowledged = {**session, "share_session_epoch": 1}
    yield Case("ShareAcknowledge", 1, {**acknowledged, "topics": [{"topic_id": SEEN_ID, "partitions": partitions}]})
    for name in ("Initialize", "Read", "Write", "Delete"):
        yield Case(f"{name}ShareGroupState", 0, group)
    yield Case("ReadShareGroupStateSummary", 0, group)
    asked = [{**group, "topics": [{"topic_name": "seen", "partitions": [0]}]}]
    yield Case("DescribeShareGroupOffsets", 0, {"groups": asked})
    yield Case("AlterShareGroupOffsets", 0, {**group, "topics": [{"topic_name": "seen", "partitions": partitions}]})
    yield Case("DeleteShareGroupOffsets", 0, {**group, "topics": [{"topic_name": "seen"}]})


def streams_cases() -> Iterator[Case]:
    group = {"group_id": "seen-streams", "member_id": MEMBER}
    for name in ("seen", "hidden"):
        topology = {
            "epoch": 0,
            "subtopologies": [
                {"subtopology_id": "0", "source_topics": ["seen"], "state_changelog_topics": [{"name": f"{name}-log"}]}
            ],
        }
        yield Case(
            "StreamsGroupHeartbeat",
            1,
            {
                **group,
                "group_id": f"{name}-streams-2",
                "rebalance_timeout_ms": 60_000,
                "active_tasks": [],
                "standby_tasks": [],
                "warmup_tasks": [],
                "topology": topology,
            },
            label=f"with a changelog of {name}",
        )
    yield Case("StreamsGroupDescribe", 1, {"group_ids": ["seen-streams"]})
    yield Case("StreamsGroupTopologyDescriptionUpdate", 0, group)


EXTRA_CASES = (
    Case("FindCoordinator", 6, {"key_type": 2, "coordinator_keys": ["seen"]}),
    Case("InitProducerId", 6, {"transactional_id": "seen", "transaction_timeout_ms": 1_000, "enable2_pc": True}),
    Case("Envelope", 0, {"request_data": b"", "request_principal": b"", "client_host_address": b""}, "controller"),
    Case("GetTelemetrySubscriptions", 0, {}),
    Case("PushTelemetry", 0, {}),
    Case("ControllerRegistration", 0, {"controller_id": 1}, "controller"),
    Case("UnregisterController", 0, {"controller_id": 7}),
    Case(
        "Produce",
        9,
        {
            "acks": 1,
            "timeout_ms": 1_000,
            "topic_data": [{"name": AUDIT_TOPIC, "partition_data": [{"index": 0, "records": b""}]}],
        },
        label="of an audit event",
    ),
    *share_cases(),
    *streams_cases(),
)


class Noting:
    """Allows everything on some types of resources, and notes what it was asked."""

    def __init__(self, allowed: frozenset[AclResource]) -> None:
        self.allowed = allowed
        self.asked: set[tuple[AclOperation, AclResource]] = set()

    def is_allowed(
        self, principal: Principal, host: str, operation: AclOperation, resource: AclResource, name: str
    ) -> bool:
        return self.is_allowed_on_any(principal, host, operation, resource)

    def is_allowed_on_any(
        self, principal: Principal, host: str, operation: AclOperation, resource: AclResource
    ) -> bool:
        assert principal == ALICE
        self.asked.add((operation, resource))
        return resource in self.allowed


@pytest.fixture
def sim() -> Iterator[Sim]:
    sim = Sim(1, properties=PROPERTIES)
    yield sim
    sim.finish()


def prepared(sim: Sim) -> tuple[Node, dict[str, bytes]]:
    host = sim.node()
    for topic, count in (TOPICS | {AUDIT_TOPIC: 1}).items():
        sim.create_topic(topic, count)
    node = host.node
    assert node is not None
    ids = {name: topic.id for name, topic in node.ground.image.topics_by_name.items()}
    producer = None
    for case in PREPARATIONS:
        response = sim.run(answer(node, case.request(ids), allowed(case)))
        producer = response if case.api == "InitProducerId" else producer
    assert producer is not None and not producer.error_code
    added = {
        "v3_and_below_transactional_id": "seen",
        "v3_and_below_producer_id": producer.producer_id,
        "v3_and_below_producer_epoch": producer.producer_epoch,
        "v3_and_below_topics": [{"name": "seen", "partitions": [0]}],
    }
    case = Case("AddPartitionsToTxn", 3, added)
    sim.run(answer(node, case.request(ids), allowed(case)))
    return node, ids


def allowed(case: Case) -> Caller:
    return Caller("test", Client("10.0.0.9", 5555, listener(case.role), case.role), case.key, case.version)


def listener(role: str) -> str:
    return "PLAINTEXT" if role == "broker" else "CONTROLLER"


async def answer(node: Node, request: Message, caller: Caller) -> Any:
    """The response of the node's handler, as a connection asks for it and sends it."""
    served = node.serving.apis.served(caller.api_key)
    assert served is not None
    key, version = caller.api_key, caller.api_version
    frame = memoryview(bytearray(b"".join(map(bytes, frames.encode_request(key, version, 1, "test", request)))))[4:]
    received, _ = served.decoder(version)(frame, frames.decode_request_header(frame)[1])
    try:
        response = served.handler(received, caller)
        response = await response if inspect.isawaitable(response) else response
    except KafkaError as error:
        response = served.response_class()
        assert hasattr(response, "error_code"), f"{served.name} has no place for {error.code}"
        return response
    if response is not None:
        frames.encode_response(key, version, 1, response)
    return response


def test_every_api_declares_what_it_needs() -> None:
    """Api.needs has no default: a file that says nothing cannot be imported."""
    with pytest.raises(TypeError, match="needs"):
        from ottla.broker.serving.api import Api

        Api(key=0, handler=answer)  # type: ignore[call-arg]


def test_what_an_api_asks_of_the_authorizer_is_what_it_declares(sim: Sim, monkeypatch: pytest.MonkeyPatch) -> None:
    # Collecting AuthorizedOperations asks about every operation, and refuses nothing.
    monkeypatch.setattr(Caller, "authorized_operations", lambda *_: 0)
    node, ids = prepared(sim)
    asked: dict[int, set[tuple[AclOperation, AclResource]]] = {}
    subsets = [
        frozenset(some) for count in range(len(PROTECTED) + 1) for some in itertools.combinations(PROTECTED, count)
    ]
    for case in (*EXTRA_CASES, *cases()):
        for some in subsets:
            authorizer = Noting(some)
            access = Access(authorizer, ALICE, "10.0.0.9")
            client = Client("10.0.0.9", 5555, listener(case.role), case.role, access=access)
            sim.run(answer(node, case.request(ids), Caller("test", client, case.key, case.version)))
            asked.setdefault(case.key, set()).update(authorizer.asked)
    declared = {key: served_needs(node, key) for key in ApiTable.keys if key not in OF_TOKENS}
    assert {key: asked.get(key, set()) for key in declared} == declared


def served_needs(node: Node, key: int) -> set[tuple[AclOperation, AclResource]]:
    served = node.serving.apis.served(key)
    assert served is not None
    needs: tuple[Need, ...] = served.api.needs
    return {(need.operation, need.resource) for need in needs}


def test_what_the_node_asks_of_itself_is_always_allowed(sim: Sim, monkeypatch: pytest.MonkeyPatch) -> None:
    node, ids = prepared(sim)
    authorizer = Noting(frozenset())
    monkeypatch.setattr(node.serving.authorization, "authorizer", authorizer)
    own = next(case for case in cases() if case.api == "AllocateProducerIds")

    async def ask() -> ErrorCode:
        with pytest.raises(KafkaError) as refused:
            await node.serving.apis.answer(own.request(ids), "test")
        return refused.value.code

    assert sim.run(ask()) == ErrorCode.STALE_BROKER_EPOCH
    assert not authorizer.asked
    monkeypatch.undo()


def test_a_client_that_may_see_no_group_does_not_create_the_topic_of_groups(sim: Sim) -> None:
    node = sim.node().node
    assert node is not None
    case = PREPARATIONS[0]
    access = Access(Noting(frozenset()), ALICE, "10.0.0.9")
    client = Client("10.0.0.9", 5555, listener(case.role), case.role, access=access)
    response = sim.run(answer(node, case.request({}), Caller("test", client, case.key, case.version)))
    assert response.coordinators[0].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert not node.ground.image.topics_by_name


def emptied(cls: Any, version: int, *, is_null: bool) -> Message:
    """A request whose arrays are empty, or null where they may be."""
    fields = {
        field.name: None
        for field in cls.__schema__.fields
        if is_null and field.is_array and field.is_in(version) and field.is_nullable_in(version)
    }
    made = cls(**fields)
    assert isinstance(made, Message)
    return made


@pytest.mark.parametrize("role", ["broker", "controller"])
@pytest.mark.parametrize("is_null", [False, True])
def test_empty_arrays_bring_no_api_down(sim: Sim, role: str, is_null: bool) -> None:
    """CVE-2026-83525: FetchSnapshot without topics ended Kafka's controller."""
    node, _ = prepared(sim)
    for key in ApiTable.keys:
        info = APIS[key]
        if role not in info.listeners:
            continue
        for version in range(info.min_version, info.max_version + 1):
            request = emptied(request_class(key), version, is_null=is_null)
            caller = Caller("test", Client("10.0.0.9", 5555, listener(role), role), key, version)
            sim.run(answer(node, request, caller))
    assert sim.host().is_running
    sim.create_topic("after-all", 1)

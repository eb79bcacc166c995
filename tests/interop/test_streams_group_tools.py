"""kafka-streams-groups and `ottla groups` on a group of version 1 of the heartbeat, without a JVM."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.client.blocking import Admin
from ottla.wire import decoder, encode_bytes
from ottla.wire.messages.streams_group_heartbeat import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TopicInfo,
    Topology,
)
from ottla.wire.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from tests.interop.conftest import ON_KAFKA
from tests.interop.group_script import wait_for_coordinators
from tests.interop.servers import Ottla, Server, ask

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="a broker of 4.3.1 knows no descriptions of topologies")

PLUGIN = "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin"
TOPOLOGY = Topology(
    subtopologies=[
        Subtopology(
            subtopology_id="0", source_topics=["lines"], state_changelog_topics=[TopicInfo(name="app-store-changelog")]
        )
    ]
)
Node = TopologyDescriptionNode
DESCRIPTION = TopologyDescription(
    subtopologies=[
        TopologyDescriptionSubtopology(
            subtopology_id="0",
            nodes=[
                Node(name="in", node_type=1, source_topics=["lines"], successors=["count"]),
                Node(name="count", node_type=2, stores=["counts"], successors=["out"]),
                Node(name="out", node_type=3, sink_topic="words"),
            ],
        )
    ],
    global_stores=[
        TopologyDescriptionGlobalStore(
            source=Node(name="g-in", node_type=1, source_topics=["rates"], successors=["g"]),
            processor=Node(name="g", node_type=2, stores=["rates-store"]),
        )
    ],
)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Server]:
    settings = ("group.streams.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=1")
    server = Ottla(tmp_path / "data", (*settings, f"group.streams.topology.description.plugin.class={PLUGIN}"))
    server.start()
    yield server
    server.stop()


def send(server: Server, request: Any, response: type[Any], version: int) -> Any:
    key = type(request).__schema__.api_key
    header = struct.pack(">hhih", key, version, 1, -1) + b"\0"
    with server.connect() as connection:
        answer = ask(connection, header + encode_bytes(request, version))
    return decoder(response, version)(memoryview(answer), 5)[0]


def beat(server: Server, epoch: int, **fields: Any) -> StreamsGroupHeartbeatResponse:
    request = StreamsGroupHeartbeatRequest(group_id="app", member_id="m", member_epoch=epoch, **fields)
    response: StreamsGroupHeartbeatResponse = send(server, request, StreamsGroupHeartbeatResponse, 1)
    assert (response.error_code, response.error_message) == (0, None)
    return response


def tool(server: Server, *arguments: str) -> str:
    command = [sys.executable, "-m", "ottla", *arguments, "--bootstrap-server", server.bootstrap]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False).stdout


def test_a_group_and_its_topology_are_shown(node: Server) -> None:
    wait_for_coordinators(node, ["app"])
    with Admin(bootstrap_servers=node.bootstrap) as admin:
        admin.create_topic("lines", 2)
        nothing: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        joined = beat(
            node,
            0,
            rebalance_timeout_ms=60_000,
            process_id="p",
            topology=TOPOLOGY,
            client_tags=[KeyValue(key="zone", value="z")],
            **nothing,
        )
        assert [status.status_code for status in joined.status or ()] == [3]
        epoch = joined.member_epoch
        while not (told := beat(node, epoch, **nothing)).active_tasks:
            epoch = told.member_epoch
        epoch = told.member_epoch
        update = StreamsGroupTopologyDescriptionUpdateRequest(
            group_id="app", member_id="m", topology_description=DESCRIPTION
        )
        stored = send(node, update, StreamsGroupTopologyDescriptionUpdateResponse, 0)
        assert stored.error_code == 0
        [group] = admin.describe_streams_groups(["app"]).values()
        assert (group.state, group.assignor, group.topology_description) == ("Stable", "sticky", None)
        assert group.subtopologies[0].changelog_topics == {"app-store-changelog": 2}
        [member] = group.members
        assert (member.assignment.active, member.tags, member.epoch) == ({"0": (0, 1)}, {"zone": "z"}, epoch)
    shown = tool(node, "kafka-streams-groups", "--describe", "--group", "app", "--topology")
    assert shown == (
        "Topologies:\n"
        "   Sub-topology: 0\n"
        "    Source: in (topics: [lines])\n      --> count\n"
        "    Processor: count (stores: [counts])\n      --> out\n      <-- in\n"
        "    Sink: out (topic: words)\n      <-- count\n\n"
        "   Sub-topology: 1 for global store (will not generate tasks)\n"
        "    Source: g-in (topics: [rates])\n      --> g\n"
        "    Processor: g (stores: [rates-store])\n      --> none\n      <-- g-in\n\n"
    )
    members = tool(node, "kafka-streams-groups", "--describe", "--group", "app", "--members").splitlines()
    assert members[0].split() == ["GROUP", "MEMBER", "PROCESS", "CLIENT-ID", "ASSIGNMENTS"]
    assert members[1].rstrip().endswith("ACTIVE: 0:[0,1];")
    offsets = tool(node, "kafka-streams-groups", "--describe", "--group", "app").splitlines()
    assert [row.split()[1:] for row in offsets[1:]] == [["lines", "0", "0"], ["lines", "1", "0"]]
    assert tool(node, "kafka-groups", "--list", "--streams").split()[-3:] == ["app", "Streams", "streams"]
    described = tool(node, "groups", "describe", "app")
    assert "streams" in described and "Stable" in described

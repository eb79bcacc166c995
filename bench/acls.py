"""What an authorizer with 1,000 ACLs costs requests that are allowed: instructions counted exactly, and CPU seconds.

    python -m bench.acls                    both: five minutes
    python -m bench.acls --only instructions
    python -m bench.acls --only cpu --pairs 12

Each request is the smallest there is (one record of 1,000 bytes; a fetch that reads 16 KB of the page cache), so the
authorizer's share is as large as it gets.

instructions: a node in this process gets the frames of 1,000 requests of a kind (Produce, full fetches, those of a
session) at `Connection.frame_received`. valgrind counts the instructions of these requests alone.
The kernel and sockets, which an authorizer never touches, are left out; with them its share is smaller.

cpu: two nodes at once, one with the authorizer and the ACLs. The same client logs in to one and then to the other by
PLAIN, each is first in every other pair, and produces and fetches one request at a time. CPU time is that of the node's
process from the scheduler (/proc/PID/schedstat); the figure is the median of the ratios of pairs, beside the least and
the largest one.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import re
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.interop.access_matrix import STANDARD_AUTHORIZER
from tests.interop.secured_ottla import SecuredOttla, running_ottla
from tests.interop.servers import read_exactly

from bench.security import ACL_COUNT, PRINCIPAL
from ottla.broker.caller import Client
from ottla.broker.node import Node
from ottla.broker.serving.connection import Connection
from ottla.client import Admin, blocking
from ottla.client.admin import Acl
from ottla.config import BrokerConfig
from ottla.records import Record, build
from ottla.security.principal import ANONYMOUS, USER, Principal
from ottla.wire import decode, frames
from ottla.wire.acls import AclOperation, AclResource, PatternType
from ottla.wire.message import Message
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest

TOPIC = "secured"
KINDS = ("produce", "fetch", "session")
NAMES = {"produce": "Produce", "fetch": "Fetch, full", "session": "Fetch, of a session"}
PRODUCE_VERSION, FETCH_VERSION = 13, 17
FETCHED_BYTES = 16_384
COUNT = 1_000
SETTINGS = {"num.partitions": "1", "log.retention.bytes": "67108864", "log.segment.bytes": "16777216"}
AUTHORIZER = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}


def acls() -> list[Acl]:
    """1,000, of which two are the user's own."""
    own = [
        Acl(AclResource.TOPIC, TOPIC, PRINCIPAL, operation, pattern=PatternType.PREFIXED)
        for operation in (AclOperation.READ, AclOperation.WRITE)
    ]
    others = [
        Acl(AclResource.TOPIC, f"topic-{number}", f"User:user-{number % 50}", AclOperation.READ)
        for number in range(ACL_COUNT - len(own))
    ]
    return [*own, *others]


def frame(key: int, version: int, request: Message) -> bytes:
    return b"".join(map(bytes, frames.encode_request(key, version, 1, "ottla-bench", request)))


def produce_frame(topic_id: bytes) -> bytes:
    batch = bytes(build([Record(0, 1_700_000_000_000, None, b"x" * 1_000, ())]))
    data = TopicProduceData(topic_id=topic_id, partition_data=[PartitionProduceData(index=0, records=batch)])
    return frame(0, PRODUCE_VERSION, ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[data]))


def fetch_frame(topic_id: bytes, session_id: int = 0, epoch: int = -1) -> bytes:
    """A full fetch, with epoch 0 the first of a session; one that reads the same records again in each later one."""
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=FETCHED_BYTES)
    topics = [FetchTopic(topic_id=topic_id, partitions=[wanted])] if epoch <= 0 else []
    fields: dict[str, Any] = {"session_id": session_id, "session_epoch": epoch, "topics": topics}
    return frame(1, FETCH_VERSION, FetchRequest(max_wait_ms=0, min_bytes=1, **fields))


# --- Instructions


class Answers:
    """A channel that keeps the last answer."""

    out_bytes = 0

    def __init__(self) -> None:
        self.last: list[Any] = []
        self.count = 0

    def send(self, parts: list[Any]) -> None:
        self.last = parts
        self.count += 1

    def close(self) -> None:
        raise RuntimeError("the connection was closed")

    pause_reading = resume_reading = close

    def when_drained(self, callback: Any) -> None:
        raise RuntimeError("an answer was held")


async def drive(kind: str, *, with_acls: bool) -> None:
    """Start a node and give it requests."""
    with tempfile.TemporaryDirectory(prefix="ottla-acls-") as folder:
        settings = {
            "node.id": "1",
            "process.roles": "broker,controller",
            "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": folder,
            "ottla.audit.log.enable": "false",
            **SETTINGS,
            **(AUTHORIZER if with_acls else {}),
        }
        node = Node(BrokerConfig.parse(settings))
        await node.start()
        try:
            async with Admin(bootstrap_servers=f"127.0.0.1:{node.port('PLAINTEXT')}") as admin:
                topic_id = (await admin.create_topic(TOPIC, partition_count=1, replication_factor=1)).topic_id
                if with_acls:
                    await admin.create_acls(acls())
            ask_often(node, kind, topic_id, with_acls=with_acls)
        finally:
            await node.stop()


def ask_often(node: Node, kind: str, topic_id: bytes, *, with_acls: bool) -> None:
    serving = node.serving
    principal = Principal(USER, PRINCIPAL.partition(":")[2]) if with_acls else ANONYMOUS
    client = Client(
        "127.0.0.1", 5555, "PLAINTEXT", "broker", access=serving.access(principal, "127.0.0.1", "PLAINTEXT")
    )
    answers = Answers()
    connection = Connection(serving, answers, client)

    def give(sent: bytes) -> bytes:
        """The part of the answer that is no piece of a file."""
        before = answers.count
        connection.frame_received(memoryview(bytearray(sent[4:])))
        if answers.count != before + 1:
            raise RuntimeError("the answer was not given at once")
        return b"".join(bytes(part) for part in answers.last if isinstance(part, bytes | bytearray | memoryview))

    produced, fetched = produce_frame(topic_id), fetch_frame(topic_id)
    for _ in range(40):  # so that there is something to fetch, and everything that is made once is made
        give(produced)
    give(fetched)
    session_id = session_of(give(fetch_frame(topic_id, 0, 0)))
    sent = {
        "produce": [produced] * COUNT,
        "fetch": [fetched] * COUNT,
        "session": [fetch_frame(topic_id, session_id, number) for number in range(1, COUNT + 1)],
    }[kind]
    requests = [memoryview(bytearray(one[4:])) for one in sent]
    gc.collect()
    gc.disable()
    switch = ["callgrind_control", "--instr=on", str(os.getpid())]
    if subprocess.run(switch, capture_output=True).returncode:
        raise SystemExit("this part runs under valgrind: python -m bench.acls --only instructions")
    for request in requests:
        connection.frame_received(request)
    switch[1] = "--instr=off"
    subprocess.run(switch, capture_output=True)


def session_of(answer: bytes) -> int:
    """The id in an answer of Fetch v17: after size, correlation id, tags, throttle time and error code."""
    error, session_id = struct.unpack_from(">hi", answer, 4 + 4 + 1 + 4)
    if error or not session_id:
        raise RuntimeError(f"the first fetch of a session was answered with {error}")
    return int(session_id)


def instructions(kind: str, *, with_acls: bool) -> int:
    """Of all requests of a run, and of two switches that are the same in each."""
    command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=/dev/null"]
    command += [sys.executable, "-m", "bench.acls", "--drive", kind, *(["--with-acls"] if with_acls else [])]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or found is None:
        raise SystemExit(done.stderr)
    return int(found.group(1))


def count_instructions() -> None:
    if shutil.which("valgrind") is None:
        raise SystemExit("instructions are counted by valgrind, which is not installed")
    print("instructions of a request     no authorizer   1,000 ACLs")
    for kind in KINDS:
        costs = [instructions(kind, with_acls=with_acls) / COUNT for with_acls in (False, True)]
        plain, checked = costs
        print(f"  {NAMES[kind]:26} {plain:14,.0f} {checked:12,.0f}   {checked / plain - 1:+.2%}", flush=True)


# --- CPU seconds


class OneAtATime:
    """A client of one node, logged in, with one request in flight."""

    def __init__(self, node: SecuredOttla, topic_id: bytes) -> None:
        self.node = node
        self._socket = socket.create_connection(("127.0.0.1", node.ports["SASL_PLAINTEXT"]))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ask(frame(17, 1, SaslHandshakeRequest(mechanism="PLAIN")))
        answer = self._ask(frame(36, 2, SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret")))
        assert answer[5:7] == b"\0\0", "the login failed"
        self._frames = {"produce": produce_frame(topic_id), "fetch": fetch_frame(topic_id)}

    def _ask(self, sent: bytes) -> bytes:
        self._socket.sendall(sent)
        (size,) = struct.unpack(">i", read_exactly(self._socket, 4))
        return read_exactly(self._socket, size)

    def check(self) -> None:
        """Both requests are allowed."""
        produced = decode(ProduceResponse, PRODUCE_VERSION, memoryview(self._ask(self._frames["produce"]))[5:])
        assert produced.responses[0].partition_responses[0].error_code == 0, produced
        fetched = decode(FetchResponse, FETCH_VERSION, memoryview(self._ask(self._frames["fetch"]))[5:])
        assert fetched.responses[0].partitions[0].error_code == 0, fetched

    def run(self, kind: str, count: int) -> float:
        """CPU seconds of the node for so many requests."""
        sent = self._frames[kind]
        before = cpu_seconds(self.node.pid)
        for _ in range(count):
            self._ask(sent)
        return cpu_seconds(self.node.pid) - before


def cpu_seconds(pid: int) -> float:
    """Of all threads, from the scheduler, in nanoseconds there."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def compare_cpu(pairs: int, count: int) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="ottla-acls-") as folder,
        running_ottla(Path(folder, "plain"), properties=SETTINGS) as plain,
        running_ottla(Path(folder, "acls"), properties={**SETTINGS, **AUTHORIZER}) as checked,
    ):
        clients = {}
        for name, node in (("plain", plain), ("acls", checked)):
            with blocking.Admin(bootstrap_servers=node.bootstrap) as admin:
                topic_id = admin.create_topic(TOPIC, partition_count=1, replication_factor=1).topic_id
                if name == "acls":
                    admin.create_acls(acls())
            clients[name] = OneAtATime(node, topic_id)
            clients[name].check()
        for kind in ("produce", "fetch"):
            for client in clients.values():
                client.run(kind, count)
            ratios, costs = [], []
            for number in range(pairs):
                order = ("plain", "acls") if number % 2 == 0 else ("acls", "plain")
                used = {name: clients[name].run(kind, count) for name in order}
                ratios.append(used["acls"] / used["plain"])
                costs.append(used["plain"] / count * 1e6)
            low, _, high = statistics.quantiles(ratios, n=4)
            print(
                f"  {NAMES[kind]:12} {statistics.median(costs):6.1f} us without, {statistics.median(ratios):.3f}x with "
                f"1,000 ACLs (median of {pairs} pairs of {count:,} requests; middle half {low:.3f} to {high:.3f}, all "
                f"{min(ratios):.3f} to {max(ratios):.3f})",
                flush=True,
            )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.acls", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=("instructions", "cpu"), help="one of the two (both)")
    parser.add_argument("--pairs", type=int, default=12, help="of runs, with and without ACLs (12)")
    parser.add_argument("--requests", type=int, default=5_000, help="in each run (5,000)")
    parser.add_argument("--drive", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--with-acls", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.drive:
        asyncio.run(drive(options.drive, with_acls=options.with_acls))
        return 0
    if options.only != "cpu":
        count_instructions()
    if options.only != "instructions":
        print(f"CPU time of the node for each request (load average {os.getloadavg()[0]:.1f})")
        compare_cpu(options.pairs, options.requests)
    return 0


if __name__ == "__main__":
    sys.exit(main())

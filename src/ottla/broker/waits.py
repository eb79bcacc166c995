"""The waits of a node's start and stop: each is logged, with what the node waits for and why it takes so long.

    waits.begin(lambda: for_quorum(metadata, peers))
    await metadata.caught_up()
    waits.end("controller 2 leads the quorum")

`wait_report` decides when a line is due. Only then controllers are checked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING

from ottla.broker.wait_report import (
    ControllerSeen,
    Found,
    GaveUp,
    Line,
    WaitBegan,
    WaitEnded,
    WaitReport,
    controllers_text,
)
from ottla.net import Driver
from ottla.raft import Destination
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.ground import Ground
    from ottla.broker.metadata.metadata import Metadata
    from ottla.broker.peers.peers import Peers
    from ottla.broker.replicas.hosting import Hosting
    from ottla.storage import Logs

log = logging.getLogger("ottla.node")

LOOK_MS = 1_000
"""How long a controller has to take a connection before a line says that it does not answer."""


class Waits:
    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._report = WaitReport()
        self._find: Callable[[], Awaitable[str]] | None = None
        self._finding: asyncio.Task[None] | None = None

    @cached_property
    def _driver(self) -> Driver:
        ground = self._ground
        label = f"waits node={ground.node_id}"
        return Driver(self._report, self._log, loop=ground.loop, log=log, label=label, tick=self._look)

    def begin(self, find: Callable[[], Awaitable[str]]) -> None:
        """Begin a wait. `find` returns what the node waits for, each time a line is due."""
        self._stop_finding()
        self._find = find
        self._driver.handle(WaitBegan())

    def end(self, outcome: str) -> None:
        self._stop_finding()
        self._driver.handle(WaitEnded(outcome))

    def give_up(self) -> None:
        """The node stops waiting: it failed, or has to stop."""
        self._stop_finding()
        self._driver.handle(GaveUp())

    def _look(self) -> None:
        """A line is due."""
        assert self._find is not None
        self._finding = self._ground.loop.create_task(self._report_found(self._find))

    async def _report_found(self, find: Callable[[], Awaitable[str]]) -> None:
        text = await find()
        self._finding = None
        self._driver.handle(Found(text))

    def _stop_finding(self) -> None:
        if self._finding is not None:
            self._finding.cancel()
            self._finding = None

    def _log(self, line: Line) -> None:
        log.log(logging.WARNING if line.is_notable else logging.INFO, "%s", line.text)


# --- The causes of waits


async def for_host_name() -> str:
    return "waiting for a name server to name this host (advertised.listeners spares that)"


async def for_quorum(metadata: Metadata, peers: Peers) -> str:
    """The controllers that must be up, or the metadata that the quorum's leader has."""
    quorum = metadata.quorum
    leader = quorum.leader_address()
    if leader is not None and leader.id != metadata.ground.node_id:
        seen = await _look_at(leader, metadata, peers)
        if not seen.trouble:
            return f"fetching metadata from controller {seen.name}, now at offset {quorum.log.end_offset}"
    others = await asyncio.gather(*(_look_at(other, metadata, peers) for other in quorum.others()))
    return controllers_text(others, is_voter=quorum.machine.is_voter)


async def for_logs(logs: Logs) -> str:
    loading = logs.loading
    if loading is None:
        return "loading logs"
    verb = "loading" if loading.log_dir.had_clean_shutdown else "recovering"
    return f"{verb} log {loading.number} of {loading.log_count} in {loading.log_dir.path}"


async def for_partitions(hosting: Hosting) -> str:
    return f"opening partitions, {hosting.unopened_count} are left"


async def for_closing(logs: Logs) -> str:
    count = sum(len(log_dir.all_logs) for log_dir in logs.online_dirs)
    return f"syncing and closing {count} logs (a third signal ends the process at once: the next start recovers)"


async def for_controller(metadata: Metadata, peers: Peers) -> str:
    """Registration, unfencing and controlled shutdown: what the active controller has not done yet."""
    lifecycle = metadata.lifecycle
    text = f"{lifecycle.wish}: {lifecycle.obstacle}" if lifecycle.obstacle else lifecycle.wish
    return text if metadata.quorum.leader_id >= 0 else f"{text}; {await for_quorum(metadata, peers)}"


async def _look_at(to: Destination, metadata: Metadata, peers: Peers) -> ControllerSeen:
    code = metadata.quorum.answers.get(to, 0)
    if code == ErrorCode.INCONSISTENT_CLUSTER_ID:
        trouble = f"its cluster id differs from {metadata.cluster_id}, that of this node"
    elif code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        trouble = "its authorizer refuses this node: super.users of every node has to name the nodes' principal"
    elif code:
        name = next((known.name for known in ErrorCode if known == code), f"error {code}")
        trouble = f"it refuses this node with {name}"
    else:
        trouble = await peers.trouble(to.host, to.port, LOOK_MS)
        if not trouble and code is None:
            trouble = "it takes connections and does not answer"
    return ControllerSeen(to.id, to.host, to.port, trouble)

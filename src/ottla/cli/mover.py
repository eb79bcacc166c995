"""Carries out a plan of moves: a few partitions at a time, watched until the last replica is in sync.

Whatever ends it early (Ctrl-C, an error) leaves the cluster as it would be without it: what is under way goes back to
where it was, a throttle is taken away, what is done stays done. The plan is made from what there is, and so the same
command goes on where this one stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from ottla.cli.output import notice
from ottla.cli.replication_throttles import Throttle
from ottla.cli.session import CommandError, explained
from ottla.client.admin import Admin, Reassignment
from ottla.client.admin.calls import errors_by_item
from ottla.client.core.balance import Move
from ottla.client.errors import ErrorCode, KafkaError
from ottla.client.metadata import TopicPartition

POLL_S = 0.3
GONE = (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class Noted(Protocol):
    """Where it is shown how much has been copied."""

    def note(self, count: int = 1) -> None: ...

    def hide(self) -> None: ...


class Mover:
    def __init__(
        self,
        admin: Admin,
        moves: Sequence[Move],
        sizes: Mapping[TopicPartition, int],
        *,
        going_on: Mapping[TopicPartition, Reassignment],
        at_once: int,
        rate: int | None,
    ) -> None:
        self._admin = admin
        self._waiting = list(moves)
        self._sizes = sizes
        self._at_once = at_once
        self._under_way: dict[TopicPartition, tuple[int, ...]] = {
            partition: one.adding for partition, one in going_on.items()
        }
        """And the brokers that each is being copied to; at first what an earlier command left."""
        self._started: dict[TopicPartition, None] = {}
        self._targets = {**self._under_way, **{move.partition: move.added for move in moves}}
        ways = {part: (tuple({*one.replicas} - {*one.adding}), one.adding) for part, one in going_on.items()}
        ways |= {move.partition: (move.before, move.added) for move in moves if move.added}
        self._throttle = Throttle(admin, rate, ways) if rate is not None and ways else None
        self._copied: dict[TopicPartition, int] = {}
        self.done: dict[TopicPartition, None] = {}

    @property
    def total_bytes(self) -> int:
        return sum(self._sizes.get(partition, 0) * len(brokers) for partition, brokers in self._targets.items())

    async def run(self, progress: Noted) -> None:
        try:
            if self._throttle is not None:
                await self._throttle.set()
            while self._waiting or self._under_way:
                await self._start_some()
                await self._look(progress)
                if self._under_way:
                    await asyncio.sleep(POLL_S)
        except BaseException:
            progress.hide()
            await self._stop()
            raise
        finally:
            if self._throttle is not None:
                await self._throttle.remove()

    async def _start_some(self) -> None:
        free = self._at_once - len(self._under_way)
        starting, self._waiting = self._waiting[: max(free, 0)], self._waiting[max(free, 0) :]
        if not starting:
            return
        for move in starting:
            self._under_way[move.partition] = move.added
            self._started[move.partition] = None
        replicas = {move.partition: move.after for move in starting}
        for partition, error in (
            await errors_by_item(self._admin.alter_partition_reassignments(replicas), replicas)
        ).items():
            if error.code not in GONE:
                raise CommandError(f"{partition} could not be moved: {explained(error)}")
            del self._under_way[partition]  # its topic was deleted meanwhile

    async def _look(self, progress: Noted) -> None:
        """The partitions that are done, and the progress of the others."""
        going_on = await self._admin.list_partition_reassignments(self._under_way) if self._under_way else {}
        for partition in [one for one in self._under_way if one not in going_on]:
            self._note(progress, partition, self._sizes.get(partition, 0) * len(self._under_way.pop(partition)))
            self.done[partition] = None
        for partition, size in (await self._sizes_on_targets()).items():
            self._note(progress, partition, size)
        progress.note(0)

    def _note(self, progress: Noted, partition: TopicPartition, size: int) -> None:
        before = self._copied.get(partition, 0)
        if size > before:
            self._copied[partition] = size
            progress.note(size - before)

    async def _sizes_on_targets(self) -> dict[TopicPartition, int]:
        brokers = sorted({broker for targets in self._under_way.values() for broker in targets})
        if not brokers:
            return {}
        try:
            folders = await self._admin.describe_log_dirs(brokers, list(self._under_way))
        except KafkaError:
            return {}  # a broker is away: its replica is shown again when it returns, else the move does not end
        sizes: dict[TopicPartition, int] = {}
        for broker, of_broker in folders.items():
            for folder in of_broker:
                for partition, log in folder.replicas.items():
                    if broker in self._under_way.get(partition, ()):
                        size = min(log.size_bytes, self._sizes.get(partition, 0))
                        sizes[partition] = sizes.get(partition, 0) + size
        return sizes

    async def _stop(self) -> None:
        """Take back what this command has begun."""
        begun = [partition for partition in self._under_way if partition in self._started]
        if begun:
            call = self._admin.alter_partition_reassignments(dict.fromkeys(begun))
            for partition, error in (await errors_by_item(call, begun)).items():
                if error.code not in GONE:
                    notice(f"the move of {partition} could not be taken back: {explained(error)}")
        notice(
            f"stopped: {len(self.done)} partitions have moved, {len(begun)} that were under way go "
            "back; the same command continues"
        )


async def lead_first(admin: Admin, moves: Sequence[Move]) -> int:
    """Have the first replicas of moved partitions lead, as the plan wants it; how many had to be made leaders."""
    if not moves:
        return 0
    outcomes = await admin.elect_leaders([move.partition for move in moves])
    for partition, error in outcomes.items():
        if error is not None and error.code not in (ErrorCode.ELECTION_NOT_NEEDED, *GONE):
            notice(f"{partition}: its first replica could not be made leader: {explained(error)}")
    return sum(error is None for error in outcomes.values())


async def cancel_all(admin: Admin, going_on: Mapping[TopicPartition, Reassignment]) -> None:
    """Stop every reassignment of the cluster."""
    errors = await errors_by_item(admin.alter_partition_reassignments(dict.fromkeys(going_on)), going_on)
    left = [error for error in errors.values() if error.code not in GONE]
    if left:
        raise CommandError(f"{len(left)} moves could not be stopped: {explained(left[0])}")

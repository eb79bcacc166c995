"""What administrators of a cluster do while it is used and while it breaks.

`Topics` come, grow, change and go; `Moves` puts replicas on other brokers, changes its mind, and asks for elections;
`VoterChanges` lets controllers into the quorum and out of it. What was answered holds; what got no answer may have been
done, or be done later.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from ottla.raft import Voter
from ottla.sim.checkers import check
from ottla.sim.client import Client, NoAnswer
from ottla.sim.replicas import RETRY_S, Cluster
from ottla.sim.router import PASSING
from ottla.sim.shape import CLUSTER_ID
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

PREFERRED, UNCLEAN = 0, 1
UNCLEAN_TOPIC = "unclean"
FOLDER_TRIES = 10
MAX_TOPICS = 6
_DONE_BEFORE = (
    ErrorCode.TOPIC_ALREADY_EXISTS,
    ErrorCode.INVALID_PARTITIONS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
"""A broker that lost its controller asks the next one again: the answer may be about its own first request."""


async def reassign(client: Client, topic: str, index: int, replicas: list[int] | None) -> ErrorCode:
    """Have a partition on these brokers; None: end what goes on."""
    row = ReassignablePartition(partition_index=index, replicas=replicas)
    rows = [ReassignableTopic(name=topic, partitions=[row])]
    request = AlterPartitionReassignmentsRequest(topics=rows, timeout_ms=10_000)
    response = await client.request(request, AlterPartitionReassignmentsResponse)
    return ErrorCode(response.error_code or response.responses[0].partitions[0].error_code)


async def add_voter(client: Client, voter: Voter) -> ErrorCode:
    request = AddRaftVoterRequest(
        cluster_id=CLUSTER_ID,
        timeout_ms=5_000,
        voter_id=voter.id,
        voter_directory_id=voter.directory_id,
        listeners=[Listener(name=name, host=host, port=port) for name, host, port in voter.endpoints],
    )
    return ErrorCode((await client.request(request, AddRaftVoterResponse)).error_code)


async def remove_voter(client: Client, voter: Voter) -> ErrorCode:
    request = RemoveRaftVoterRequest(cluster_id=CLUSTER_ID, voter_id=voter.id, voter_directory_id=voter.directory_id)
    return ErrorCode((await client.request(request, RemoveRaftVoterResponse)).error_code)


class Topics:
    """Each topic exists or not, has so many partitions and such a setting; unknown after a request without an answer,
    until it is looked up."""

    name = "topics"

    def __init__(self, sim: Cluster, rng: random.Random) -> None:
        self._sim = sim
        self._rng = rng
        self._client = sim.client(self.name)
        self._exists: dict[str, bool | None] = {}
        self._partition_counts: dict[str, list[int]] = {}
        """The possible values: the last answered one, and later ones without an answer."""
        self._retention_ms: dict[str, list[str]] = {}
        self._unanswered_ms: dict[str, list[str]] = {}
        """Values whose request got no answer: a broker may forward it to the controller after later ones."""
        self._count = 0

    async def set_up(self) -> None:
        pass

    async def step(self) -> None:
        existing = [name for name, exists in self._exists.items() if exists]
        chance = self._rng.random()
        if not existing or (chance < 0.3 and len(existing) < MAX_TOPICS):
            await self._create()
        elif chance < 0.5:
            await self._delete(self._rng.choice(existing))
        elif chance < 0.75:
            await self._grow(self._rng.choice(existing))
        else:
            await self._alter(self._rng.choice(existing))
        await asyncio.sleep(self._rng.uniform(0.05, 1.0))

    async def _create(self) -> None:
        self._count += 1
        name, partitions = f"made-{self._count}", self._rng.randint(1, 3)
        self._exists[name] = None
        self._partition_counts[name], self._retention_ms[name] = [partitions], ["1000000"]
        if await self._is_done(self._client.create_topic(name, partitions, {"retention.ms": "1000000"})):
            self._exists[name] = True

    async def _delete(self, name: str) -> None:
        self._exists[name] = None
        if await self._is_done(self._client.delete_topic(name)):
            self._exists[name] = False

    async def _grow(self, name: str) -> None:
        count = max(self._partition_counts[name]) + 1
        self._partition_counts[name].append(count)
        if await self._is_done(self._client.create_partitions(name, count)):
            self._partition_counts[name] = [count]

    async def _alter(self, name: str) -> None:
        value = str(self._rng.randrange(1_000_000, 9_000_000))
        unanswered = self._unanswered_ms.setdefault(name, [])
        self._retention_ms[name].append(value)
        if await self._is_done(self._client.alter_topic_config(name, "retention.ms", value)):
            self._retention_ms[name] = [value, *unanswered]
        else:
            unanswered.append(value)

    @staticmethod
    async def _is_done(work: asyncio.Future[None] | object) -> bool:
        """Whether it was answered that it is so."""
        try:
            await work  # type: ignore[misc]
        except NoAnswer:
            return False
        except KafkaError as error:
            if error.code not in (*PASSING, *_DONE_BEFORE):
                raise
            return False
        return True

    async def settle(self) -> None:
        """Something can be made again."""
        made = self._count
        while not self._exists.get(f"made-{self._count}") or self._count == made:
            await self._create()
            await asyncio.sleep(RETRY_S)

    async def verify(self) -> None:
        response = await self._client.metadata()
        there = {topic.name: len(topic.partitions) for topic in response.topics}
        for name, exists in self._exists.items():
            if exists is not None:
                check((name in there) == exists, "topics", f"{name} should {'' if exists else 'not '}be there")
            if name not in there:
                continue
            count, allowed = there[name], self._partition_counts[name]
            check(count in allowed, "partitions", f"{name} has {count}, none of {allowed}")
            value = await self._client.topic_config(name, "retention.ms")
            check(value in self._retention_ms[name], "configs", f"{name}: {value}, none of {self._retention_ms[name]}")
            for partition in range(count):
                await self._sim.router().list_offset(name, partition, -1)
        ids = [topic.topic_id for topic in response.topics]
        check(len(ids) == len(set(ids)), "topics", "two topics have one id")
        await self._check_folders(set(there))

    async def _check_folders(self, there: set[str | None]) -> None:
        """A deleted topic is removed from every disk, at once or soon. A topic whose request got no answer may be made
        after `there` was looked up."""
        for _ in range(FOLDER_TRIES):
            if not self._without_topic(there):
                return
            await asyncio.sleep(RETRY_S)
            there = {topic.name for topic in (await self._client.metadata()).topics}
        left = self._without_topic(there)
        check(not left, "topics", f"folders of topics that are not there: {', '.join(left)}")

    def _without_topic(self, there: set[str | None]) -> list[str]:
        """The folders of partitions whose topic is none of these."""
        found = []
        for name in self._sim.names:
            host = self._sim.host(name)
            for log_dir in host.config().log_directories:
                for folder in host.device.mount().names(log_dir):
                    topic, _, partition = folder.rpartition("-")
                    if topic.startswith("made-") and partition.isdigit() and topic not in there:
                        found.append(f"{folder} on {name}")
        return found


class Moves:
    """Replicas go to other brokers, and leaders change, under whatever else goes on."""

    name = "moves"

    def __init__(self, sim: Cluster, rng: random.Random) -> None:
        self._sim = sim
        self._rng = rng
        self._client = sim.client(self.name)
        self.answered_count = 0

    async def set_up(self) -> None:
        await self._client.create_topic(UNCLEAN_TOPIC, 1, {"unclean.leader.election.enable": "true"})

    async def step(self) -> None:
        chance = self._rng.random()
        try:
            if chance < 0.45:
                await self._move(is_cancelled=False)
            elif chance < 0.6:
                await self._move(is_cancelled=True)
            elif chance < 0.7:
                await self._look()
            elif chance < 0.9:
                await self._elect(PREFERRED, None)
            else:
                await self._elect(UNCLEAN, [TopicPartitions(topic=UNCLEAN_TOPIC, partitions=[0])])
        except NoAnswer:
            pass
        await asyncio.sleep(self._rng.uniform(0.1, 2.0))

    async def _move(self, *, is_cancelled: bool) -> None:
        nodes = self._sim.live()
        topics = {} if not nodes else self._rng.choice(nodes).ground.image.topics_by_name
        if not topics:
            return
        topic = self._rng.choice(list(topics.values()))
        index = self._rng.choice(list(topic.partitions))
        replicas = self._rng.sample(range(1, len(self._sim.names) + 1), self._sim.replication_factor)
        code = await reassign(self._client, topic.name, index, None if is_cancelled else replicas)
        self._check_codes(
            [code],
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,  # a broker that is not registered yet
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        )

    async def _look(self) -> None:
        response = await self._client.request(
            ListPartitionReassignmentsRequest(topics=None, timeout_ms=10_000), ListPartitionReassignmentsResponse
        )
        self._check_codes([response.error_code])
        for topic in response.topics:
            for row in topic.partitions:
                moving = {*row.adding_replicas, *row.removing_replicas}
                check(
                    bool(moving) and moving <= set(row.replicas),
                    "reassignment",
                    f"{topic.name}-{row.partition_index}: {row}",
                )

    async def _elect(self, kind: int, partitions: list[TopicPartitions] | None) -> None:
        request = ElectLeadersRequest(election_type=kind, topic_partitions=partitions, timeout_ms=10_000)
        response = await self._client.request(request, ElectLeadersResponse)
        rows = [row for one in response.replica_election_results for row in one.partition_result]
        self._check_codes(
            [response.error_code, *(row.error_code for row in rows)],
            ErrorCode.ELECTION_NOT_NEEDED,
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        )

    def _check_codes(self, codes: Sequence[int], *expected: ErrorCode) -> None:
        self.answered_count += 1
        for code in codes:
            allowed = (ErrorCode.NONE, *PASSING, *expected)
            check(ErrorCode(code) in allowed, "code", f"{self.name} got {ErrorCode(code).name}")

    async def settle(self) -> None:
        count = self.answered_count
        while self.answered_count == count:
            await self.step()

    async def verify(self) -> None:
        """That nothing is on its way any more is part of being settled. The topic whose leaders may be elected
        uncleanly lost whatever it lost, but its replicas agree."""
        self._sim.check_replicas(UNCLEAN_TOPIC)


class Careless:
    """Writes to the topic whose leaders may be elected uncleanly: it counts on nothing."""

    name = "careless"

    def __init__(self, sim: Cluster, rng: random.Random) -> None:
        self._sim = sim
        self._rng = rng

    async def set_up(self) -> None:
        pass

    async def step(self) -> None:
        try:
            await self._sim.write(UNCLEAN_TOPIC, self._rng.choice((1, 3)), acks=self._rng.choice((1, -1)))
        except (NoAnswer, KafkaError) as error:
            if isinstance(error, KafkaError) and error.code not in PASSING:
                raise
            await asyncio.sleep(RETRY_S)

    async def settle(self) -> None:
        await self.step()

    async def verify(self) -> None:
        pass


class VoterChanges:
    """Controllers that vote, or only follow: one change at a time, as KIP-853 demands."""

    name = "voters"

    def __init__(self, sim: Cluster, rng: random.Random) -> None:
        self._sim = sim
        self._rng = rng
        self._client = sim.client(self.name)
        self.answered_count = 0

    async def set_up(self) -> None:
        pass

    async def step(self) -> None:
        name = self._rng.choice(self._sim.shape.controllers)
        try:
            if self._rng.random() < 0.6:
                await self._add(name)
            else:
                await self._remove(name)
        except NoAnswer:
            pass
        await asyncio.sleep(self._rng.uniform(0.1, 3.0))

    async def _add(self, name: str) -> None:
        code = await add_voter(self._client, self._sim.shape.voter(name))
        self._answered(code, ErrorCode.DUPLICATE_VOTER, f"add {name}")

    async def _remove(self, name: str) -> None:
        code = await remove_voter(self._client, self._sim.shape.voter(name))
        self._answered(code, ErrorCode.VOTER_NOT_FOUND, f"remove {name}")

    def _answered(self, code: ErrorCode, expected: ErrorCode, what: str) -> None:
        self._sim.loop.trace.note("voters", f"{what}: {code.name}")
        allowed = (ErrorCode.NONE, ErrorCode.INVALID_REQUEST, expected, *PASSING)
        check(code in allowed, "code", f"{what}: {code.name}")
        self.answered_count += 1

    async def settle(self) -> None:
        """A whole quorum can be changed again."""
        count = self.answered_count
        while self.answered_count == count:
            await self.step()

    async def verify(self) -> None:
        """That all nodes name the same voters is part of equal metadata."""
        voters = self._sim.live()[0].metadata.quorum.voters
        check(bool(voters.by_id), "voters", "no node votes")

"""The ring: transactions move tokens between partitions and topics, and copy an input into an output together with a
group's offsets, while clients crash, freeze, come back as another instance, and requests arrive twice or late.

A token that moves is one record where it leaves and one where it arrives, in one transaction. So every token is in
exactly one place, their sum never changes, and an input has exactly one output if and only if the group has passed it:
for readers with read_committed, at every moment that does not fall between two markers of one transaction.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from itertools import count
from typing import NamedTuple

from ottla.machine import CoordinatorDecision
from ottla.sim.checkers import Content, check
from ottla.sim.client import Client, NoAnswer, batch_of
from ottla.sim.cluster import Host, Sim
from ottla.sim.transaction_client import (
    PASSING,
    RETRY_S,
    SPOKEN,
    Fenced,
    GaveUp,
    TransactionalProducer,
    Versions,
    committed_offset,
    open_coordinators,
    send_again,
)
from ottla.sim.transaction_history import CLIENT, READER, Attempt, Partition, TransactionHistory
from ottla.sim.transaction_reader import READ_COMMITTED, committed, end_offsets, fetch, read_committed
from ottla.sim.workloads import until_done
from ottla.transactions.transaction import LAST_CLIENT_EPOCH, TransactionState, new_record
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.records.transaction_log_value import TransactionLogValue

PLAIN, COMPACTED, INPUT, OUTPUT = "ring-plain", "ring-compacted", "ring-input", "ring-output"
GROUP = "ring-group"
COPIER = "copier"
TOKENS_OF_A_MOVER = 3
PIPELINED = 0.4
"""How often a transaction sends all its batches at once."""
STABLE_WITHIN_S = 30.0
SETTLE_S = 90.0
TURN_S = 0.15
IN_FLIGHT_MS = 30_000
"""More than a request can be on its way."""
LONG_TIMEOUT_MS, SHORT_TIMEOUT_MS = 600_000, 2_000
PROPERTIES = {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "producer.id.expiration.ms": str(20 * 86_400_000),
}
"""Producers are remembered for longer than any jump of the clock: without that memory version 1 of the protocol cannot
tell a batch that comes late from a new one, neither here nor in Kafka."""
LATE_IN_VERSION_1 = ("Produce", "AddPartitionsToTxn", "AddOffsetsToTxn")
"""A late EndTxn or TxnOffsetCommit of version 1 looks like one of the next transaction: that is why there is a 2."""


class Place(NamedTuple):
    partition: Partition
    version: int


class Instance:
    """One run of a client program."""

    def __init__(self, producer: TransactionalProducer, born_at: int, jump_count: int) -> None:
        self.producer = producer
        self.is_ready = False
        """Whether an answer has confirmed it as the owner."""
        self.is_superseded = False
        """Whether an answer has confirmed a later instance as the owner."""
        self.excused = False
        """Whether another instance may have fenced it."""
        self.quiet_since = born_at
        self.jump_count = jump_count
        self.attempt: Attempt | None = None
        self.places: dict[str, Place] | None = None
        """Where a mover's tokens are, once it has found them."""
        self.offset: int | None = None
        """Up to where the copier has copied."""
        self.task: asyncio.Task[None] | None = None
        self.frozen_until_s = 0.0


class Ring:
    name = "ring"

    def __init__(
        self,
        sim: Sim,
        host: Host,
        rng: random.Random,
        configs: dict[str, str] | None = None,
        *,
        spoken: tuple[Versions, ...] = SPOKEN,
        mover_count: int = 2,
        near_last_epoch: float = 0.3,
    ) -> None:
        self._sim = sim
        self._near_last_epoch = near_last_epoch
        self._host = host
        self._rng = rng
        # Batches are sent unchanged until they are answered, also after the clock has gone back by a day.
        always = {"flush.messages": "1", "message.timestamp.after.max.ms": str(20 * 86_400_000), **(configs or {})}
        compacted = {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.01",
            "segment.ms": "2000",
            "max.compaction.lag.ms": "4000",
            "delete.retention.ms": "1000",
        }
        self._configs = {PLAIN: always, COMPACTED: {**always, **compacted}, INPUT: always, OUTPUT: always}
        self._client = sim.client("ring", host.name)
        self.history = TransactionHistory()
        self._partitions: dict[str, int] = {PLAIN: rng.randint(1, 3), COMPACTED: rng.randint(1, 2), INPUT: 1, OUTPUT: 2}
        self._spoken = spoken
        self._transactional_ids = [*(f"mover-{index}" for index in range(mover_count)), COPIER]
        self._instances: dict[str, Instance] = {}
        self._zombies: list[Instance] = []
        self._names = count(1)
        self._views: dict[Partition, dict[int, Content]] = {partition: {} for partition in self.partitions()}
        """The records read so far from each partition, read_committed."""
        self._positions: dict[Partition, int] = dict.fromkeys(self.partitions(), 0)
        self._doubtful_until: dict[str, int] = {}
        """The time until which an InitProducerId of a stopped or replaced instance may still arrive."""
        self._owners: dict[tuple[int, int], str] = {}
        """Which instance was given a producer id and epoch."""
        self._input_end = 0
        self._sends_late = rng.random() < 0.7
        self._stops = False
        self._is_calm = False
        self._done: dict[str, int] = {}
        """How many transactions each client has committed."""
        self._reading = asyncio.Lock()

    def partitions(self, *, is_moving: bool = False) -> list[Partition]:
        """The partitions that transactions write to, or only those that tokens move between."""
        topics = (PLAIN, COMPACTED) if is_moving else (PLAIN, COMPACTED, OUTPUT)
        return [(topic, index) for topic in topics for index in range(self._partitions[topic])]

    async def set_up(self) -> None:
        for topic, partition_count in self._partitions.items():
            await until_done(
                lambda topic=topic, partition_count=partition_count: self._client.create_topic(  # type: ignore[misc]
                    topic, partition_count, self._configs[topic]
                ),
                ErrorCode.TOPIC_ALREADY_EXISTS,
            )
        state = {"segment.ms": "3000", "max.compaction.lag.ms": "4000", "min.cleanable.dirty.ratio": "0.01"}
        await open_coordinators(self._client, GROUP, COPIER, state if self._rng.random() < 0.5 else None)
        for transactional_id in self._transactional_ids:
            if self._rng.random() < self._near_last_epoch:
                producer = TransactionalProducer(self._client, transactional_id, clock=self._sim.clock)
                await producer.init()
                await go_through_epochs(self._host, producer, LAST_CLIENT_EPOCH - self._rng.randrange(12))

    # Steps

    async def step(self) -> None:
        self.look_for_failures()
        rng = self._rng
        for transactional_id in self._transactional_ids:
            if transactional_id not in self._instances and rng.random() < 0.5:
                self.come(transactional_id)
        chance = rng.random()
        running = list(self._instances)
        try:
            if chance < 0.25:
                await self.produce_input()
            elif chance < 0.55:
                await self.read_on(rng.choice(self.partitions()))
            elif chance < 0.6:
                self._see_note(*await committed_offset(self._client, GROUP, (INPUT, 0)))
            elif chance < 0.75 and self._sends_late:
                await self.send_late()
            elif chance < 0.78 and running:
                self.crash(rng.choice(running))
            elif chance < 0.8 and running:
                self.come(rng.choice(running))
            elif chance < 0.82 and running:
                self._instances[rng.choice(running)].frozen_until_s = self._sim.loop.time() + rng.choice((0.5, 4.0))
            else:
                await asyncio.sleep(rng.uniform(0.0, 0.2))
        except NoAnswer:
            await asyncio.sleep(RETRY_S)
        except KafkaError as error:
            if error.code not in PASSING:
                raise
            await asyncio.sleep(RETRY_S)

    def look_for_failures(self) -> None:
        for transactional_id, instance in list(self._instances.items()):
            if instance.task is not None and instance.task.done():
                del self._instances[transactional_id]
                instance.task.result()
        for instance in list(self._zombies):
            if instance.task is not None and instance.task.done():
                self._zombies.remove(instance)
                instance.task.result()

    async def produce_input(self) -> None:
        values = [self._sim.new_value(20) for _ in range(self._rng.choice((1, 3)))]
        offset = await self._client.produce(INPUT, 0, batch_of(values, self._sim.clock()))
        self._input_end = max(self._input_end, offset + len(values))

    async def read_on(self, partition: Partition, client: Client | None = None) -> None:
        """A reader continues at its position: what it sees, and what it does not see, is remembered."""
        async with self._reading:
            position = self._positions[partition]
            size = self._rng.choice((200, 2_000, 50_000))
            fetched = await fetch(client or self._client, partition, position, READ_COMMITTED, size=size)
            found = committed(fetched, position)
            self._positions[partition] = fetched.next_offset
            self.history.see(partition, position, fetched.next_offset, found, is_compacted=partition[0] == COMPACTED)
            self._views[partition].update(found)

    def _see_note(self, offset: int, note: str) -> None:
        """The group's offset is that of a transaction, so that one is committed."""
        if note:
            self.history.conclude(self.history.attempts[note], True, READER, f"the group stands at {offset}")

    async def send_late(self) -> None:
        """The network delivers a request that was sent before, once more."""
        instances = [instance for instance in (*self._instances.values(), *self._zombies) if instance.producer.sent]
        if not instances:
            return
        instance = self._rng.choice(instances)
        sent = self._rng.choice(list(instance.producer.sent))
        if not instance.producer.bumps_epochs and sent.name not in LATE_IN_VERSION_1:
            return
        if sent.name == "InitProducerId" or not instance.producer.bumps_epochs:
            # The owner of the id may be fenced, by this or when the transaction that it begins times out.
            for one in (instance, self._instances.get(instance.producer.transactional_id)):
                if one is not None:
                    one.excused = True
        codes = await send_again(self._sim.client("ring-late", self._host.name), sent)
        self._sim.loop.trace.note("ring", f"late {sent.name}: {' '.join(code.name for code in codes)}")
        check(ErrorCode.UNKNOWN_SERVER_ERROR not in codes, "late", f"{sent.name}: {codes}")

    # Clients

    def come(self, transactional_id: str) -> None:
        """A new instance; the one before, if it still runs, goes on until it is fenced."""
        before = self._instances.pop(transactional_id, None)
        if before is not None:
            before.excused = True
            self._zombies.append(before)
            self._doubt(before)
        rng = self._rng
        name = f"{transactional_id}.{next(self._names)}"
        producer = TransactionalProducer(
            self._sim.client(name, self._host.name),
            transactional_id,
            rng.choice(self._spoken),
            clock=self._sim.clock,
            timeout_ms=LONG_TIMEOUT_MS if self._is_calm else rng.choice((LONG_TIMEOUT_MS, SHORT_TIMEOUT_MS)),
            attempts=1_000 if self._is_calm else rng.choice((3, 30)),
        )
        instance = Instance(producer, self._sim.loop.now(), self._sim.clock_jump_count)
        self._instances[transactional_id] = instance
        self._sim.loop.trace.note(name, "comes")
        rng = random.Random(f"{self._sim.seed} {name}")
        work = self._copy if transactional_id == COPIER else self._move
        instance.task = self._sim.loop.create_task(self._live(instance, rng, work), name=name)

    def crash(self, transactional_id: str) -> None:
        instance = self._instances.pop(transactional_id)
        assert instance.task is not None
        self._doubt(instance)
        self._sim.loop.trace.note(instance.producer.client.host, "crashes")
        instance.task.cancel()
        self._sim.forget_client(instance.producer.client.host)

    def _doubt(self, instance: Instance) -> None:
        if not instance.is_ready:
            self._doubtful_until[instance.producer.transactional_id] = self._sim.loop.now() + IN_FLIGHT_MS

    async def _live(self, instance: Instance, rng: random.Random, work: Work) -> None:
        producer = instance.producer
        try:
            owners = [
                zombie
                for zombie in self._zombies
                if zombie.producer.transactional_id == producer.transactional_id and zombie.is_ready
            ]
            await producer.init()
            instance.is_ready = True
            for zombie in owners:
                zombie.is_superseded = True
            while not self._stops:
                instance.quiet_since, instance.jump_count = self._sim.loop.now(), self._sim.clock_jump_count
                await work(instance, rng)
                await asyncio.sleep(1.0 if self._is_calm else rng.uniform(0.0, TURN_S))
                await self._thaw(instance)
        except Fenced as error:
            self._sim.loop.trace.note(producer.client.host, f"is fenced: {error}")
            self._check_fenced(instance, str(error))
        except GaveUp as error:
            self._sim.loop.trace.note(producer.client.host, f"gives up: {error}")
            self._doubt(instance)
        finally:
            if instance.attempt is not None:
                self.history.abandon(instance.attempt)
            self._sim.forget_client(producer.client.host)

    def _check_fenced(self, instance: Instance, error: str) -> None:
        """No producer is fenced without a reason."""
        is_timed_out = self._sim.loop.now() - instance.quiet_since >= instance.producer.timeout_ms
        is_doubtful = self._doubtful_until.get(instance.producer.transactional_id, 0) > self._sim.loop.now()
        has_jumped = self._sim.clock_jump_count != instance.jump_count
        check(
            instance.excused or is_timed_out or has_jumped or is_doubtful,
            "fenced",
            f"{instance.producer.client.host} without a reason: {error}",
        )

    async def _thaw(self, instance: Instance) -> None:
        if (left_s := instance.frozen_until_s - self._sim.loop.time()) > 0 and not self._is_calm:
            await asyncio.sleep(left_s)

    def _begin(self, instance: Instance) -> Attempt:
        name = f"{instance.producer.transactional_id}/{len(self.history.attempts)}"
        instance.attempt = self.history.begin(name)
        host = instance.producer.client.host
        owner = self._owners.setdefault(instance.producer.producer, host)
        check(owner == host, "identity", f"{instance.producer.producer} belongs to {owner} and to {host}")
        return instance.attempt

    async def _write_all(
        self, instance: Instance, attempt: Attempt, batches: list[tuple[Partition, list[Content]]]
    ) -> None:
        for partition, contents in batches:
            self.history.write(attempt, partition, contents)
        incarnation = self._host.incarnation
        try:
            if len(batches) == 1:
                offsets = [await instance.producer.produce(*batches[0])]
            else:
                offsets = await instance.producer.produce_all(batches)
        except KafkaError as error:
            # A broker that was restarted may remember no more than the last batch of those in flight.
            is_forgotten = error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and len(batches) > 1
            if is_forgotten and self._host.incarnation != incarnation:
                raise GaveUp("ProduceRequest: forgotten") from None
            raise
        for (partition, contents), offset in zip(batches, offsets, strict=True):
            self.history.acknowledge(partition, offset, contents)

    async def _end(self, instance: Instance, attempt: Attempt, *, is_commit: bool) -> bool:
        """Whether it is committed."""
        producer = instance.producer
        host = producer.client.host
        was_superseded = instance.is_superseded
        attempt.is_commit_asked = is_commit
        await producer.end(is_commit=is_commit)
        self._sim.loop.trace.note(host, f"{attempt.name} is {'committed' if is_commit else 'aborted'}")
        self.history.conclude(attempt, is_commit, CLIENT, f"{host} got the answer")
        check(not (was_superseded and is_commit and attempt.writes), "zombie", f"{host} committed {attempt.name}")
        instance.attempt = None
        if is_commit:
            transactional_id = producer.transactional_id
            self._done[transactional_id] = self._done.get(transactional_id, 0) + 1
        return is_commit

    async def _transact(
        self, instance: Instance, rng: random.Random, writes: list[tuple[Partition, list[Content]]], offset: int = -1
    ) -> bool:
        attempt = self._begin(instance)
        name = attempt.name.encode()
        producer = instance.producer
        try:
            marked: list[tuple[Partition, list[Content]]] = [
                (partition, [(key, b"%s %d %s" % (value or b"", index, name)) for key, value in contents])
                for index, (partition, contents) in enumerate(writes)
            ]
            if rng.random() < PIPELINED:
                await self._write_all(instance, attempt, marked)
            else:
                for partition, contents in marked:
                    await self._write_all(instance, attempt, [(partition, contents)])
                    await self._thaw(instance)
            if offset >= 0:
                await producer.commit_offset(GROUP, (INPUT, 0), offset, attempt.name)
        except GaveUp as error:
            self._sim.loop.trace.note(producer.client.host, f"aborts {attempt.name} after {error}")
            await self._end(instance, attempt, is_commit=False)
            if not producer.bumps_epochs:
                instance.is_ready = False
                await producer.recover()
                instance.is_ready = True
            return False
        return await self._end(instance, attempt, is_commit=self._is_calm or rng.random() < 0.85)

    # Movers

    async def _move(self, instance: Instance, rng: random.Random) -> None:
        """Some tokens go somewhere else."""
        transactional_id = instance.producer.transactional_id
        if instance.places is None:
            instance.places = await self._find_tokens(instance)
        places = instance.places
        if not places:
            start = rng.choice(self.partitions(is_moving=True))
            minted: dict[str, bytes] = {f"{transactional_id}-{index}": b"here 0" for index in range(TOKENS_OF_A_MOVER)}
            contents: list[Content] = [(token.encode(), value) for token, value in minted.items()]
            if await self._transact(instance, rng, [(start, contents)]):
                places.update({token: Place(start, 0) for token in minted})
            return
        moves = {
            token: Place(rng.choice(self.partitions(is_moving=True)), places[token].version + 1)
            for token in rng.sample(list(places), rng.randint(1, len(places)))
        }
        writes: list[tuple[Partition, list[Content]]] = []
        for token, target in moves.items():
            if places[token].partition != target.partition:
                writes.append((places[token].partition, [(token.encode(), b"gone %d" % target.version)]))
            writes.append((target.partition, [(token.encode(), b"here %d" % target.version)]))
        rng.shuffle(writes)
        if await self._transact(instance, rng, writes):
            places.update(moves)

    async def _find_tokens(self, instance: Instance) -> dict[str, Place]:
        """Read everything: no transaction of an earlier instance is open any more, so the tokens stand still."""
        await self._read_to_the_end(instance)
        prefix = f"{instance.producer.transactional_id}-"
        if instance.excused:
            raise Fenced("a later instance may be moving the tokens")
        places = tokens(self._views, prefix)
        check(len(places) in (0, TOKENS_OF_A_MOVER), "sum", f"{prefix}: only {places}")
        return places

    async def _read_to_the_end(self, instance: Instance) -> None:
        for partition in self.partitions(is_moving=True):
            end: int | None = None
            while end is None or self._positions[partition] < end:
                try:
                    if end is None:
                        _, end = await end_offsets(instance.producer.client, partition)
                    else:
                        await self.read_on(partition, instance.producer.client)
                        await asyncio.sleep(0.01)
                except NoAnswer:
                    await asyncio.sleep(RETRY_S)
                except KafkaError as error:
                    if error.code not in PASSING:
                        raise
                    await asyncio.sleep(RETRY_S)

    # The copier

    async def _copy(self, instance: Instance, rng: random.Random) -> None:
        """Some inputs get their outputs, and the group passes them, in one transaction."""
        if instance.offset is None:
            offset, note = await committed_offset(instance.producer.client, GROUP, (INPUT, 0))
            self._see_note(offset, note)
            instance.offset = max(offset, 0)
        if instance.offset >= self._input_end:
            await asyncio.sleep(RETRY_S)
            return
        end = min(self._input_end, instance.offset + rng.randint(1, 3))
        writes: list[tuple[Partition, list[Content]]] = [
            ((OUTPUT, rng.randrange(self._partitions[OUTPUT])), [(b"%d" % offset, b"copied")])
            for offset in range(instance.offset, end)
        ]
        if await self._transact(instance, rng, writes, end):
            instance.offset = end

    # Verdicts

    async def settle(self) -> None:
        """No client crashes any more: every client commits again, then all of them stop."""
        self._is_calm = True
        for zombie in self._zombies:
            if zombie.task is not None:
                zombie.task.cancel()
        self._zombies.clear()
        for transactional_id in list(self._instances):
            self.crash(transactional_id)
        before = dict(self._done)
        await until_done(self.produce_input, ErrorCode.NONE)
        deadline_s = self._sim.loop.time() + SETTLE_S
        while any(self._done.get(one, 0) <= before.get(one, 0) for one in self._transactional_ids):
            self.look_for_failures()
            for transactional_id in self._transactional_ids:
                if transactional_id not in self._instances:
                    self.come(transactional_id)
            check(
                self._sim.loop.time() < deadline_s, "liveness", f"committed {before}, {SETTLE_S} s later {self._done}"
            )
            await asyncio.sleep(RETRY_S)
        self._stops = True
        while self._instances:
            self.look_for_failures()
            check(self._sim.loop.time() < deadline_s, "liveness", f"{list(self._instances)} do not end")
            await asyncio.sleep(RETRY_S)

    async def verify(self) -> None:
        """Everything at rest: all is stable, all is there as a whole, and all agree on what."""
        for partition in self.partitions():
            await self.until_stable(partition)
        found = {
            partition: await read_committed(self._client, partition, self._rng, is_compacted=partition[0] == COMPACTED)
            for partition in self.partitions()
        }
        for partition, contents in found.items():
            end = max(contents, default=-1) + 1
            self.history.see(partition, 0, end, contents, is_compacted=partition[0] == COMPACTED)
        self.history.check_all(found, compacted=[COMPACTED])
        for transactional_id in self._transactional_ids:
            if transactional_id != COPIER:
                places = tokens(found, f"{transactional_id}-")
                check(len(places) == TOKENS_OF_A_MOVER, "sum", f"{transactional_id} has only {places}")
        offset, note = await committed_offset(self._client, GROUP, (INPUT, 0))
        self._see_note(offset, note)
        copied = sorted(
            int(key or b"")
            for partition, contents in found.items()
            if partition[0] == OUTPUT
            for key, _ in contents.values()
        )
        check(copied == list(range(offset)), "copied", f"the group stands at {offset}, outputs are those of {copied}")

    async def until_stable(self, partition: Partition) -> None:
        deadline_s = self._sim.loop.time() + STABLE_WITHIN_S
        while True:
            last_stable_offset, high_watermark = await end_offsets(self._client, partition)
            if last_stable_offset == high_watermark:
                return
            check(
                self._sim.loop.time() < deadline_s,
                "stuck",
                f"{partition}: last stable offset {last_stable_offset}, high watermark {high_watermark}",
            )
            await asyncio.sleep(RETRY_S)


async def go_through_epochs(host: Host, producer: TransactionalProducer, epoch: int) -> None:
    """As if a transactional id had gone through this many epochs already, by a record that says so."""
    node, process = host.node, host.process
    assert node is not None and process is not None
    value = TransactionLogValue(
        producer_id=producer.producer[0],
        previous_producer_id=producer.producer[0],
        producer_epoch=epoch,
        transaction_timeout_ms=producer.timeout_ms,
        transaction_status=TransactionState.EMPTY,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=node.ground.clock(),
        transaction_start_timestamp_ms=-1,
    )

    async def write() -> None:
        transactions = node.coordinators.transactions
        shard = transactions.shard(transactions.partition_for(producer.transactional_id))
        record = new_record(producer.transactional_id, value, 1)
        shard.carry_out(
            CoordinatorDecision([record], None), transactions.own_call(node.ground.now(), node.ground.clock())
        )

    await host.sim.loop.spawn(process, write())
    producer.producer = producer.producer[0], epoch


Work = Callable[[Instance, random.Random], Awaitable[None]]


def tokens(found: dict[Partition, dict[int, Content]], prefix: str) -> dict[str, Place]:
    """Where each token with this prefix is: the one partition in which it is here and not gone again."""
    places: dict[str, Place] = {}
    for partition, contents in found.items():
        latest: dict[str, tuple[bytes, int]] = {}
        for offset in sorted(contents):
            key, value = contents[offset]
            token = (key or b"").decode()
            if token.startswith(prefix) and value is not None:
                what, version = value.split(b" ")[:2]
                latest[token] = what, int(version)
        for token, (what, at) in latest.items():
            if what == b"here":
                there = places.get(token)
                check(there is None, "sum", f"token {token} is in {partition} and in {there}")
                places[token] = Place(partition, at)
    return places

"""A share group in a world that breaks: Ottla's own producer and share consumers, unchanged, and what they promise.

One application sends records, others are members of the group: they accept, release, reject and renew, take too long,
freeze, leave in peace and are killed. `ShareWitness` checks every step of the brokers; in the end no record is lost:
each that was sent was accepted or rejected by a member, or used up its deliveries, and the group's lag is 0. If the
group requires dead letters, each record that was given up has one (or exactly one), and back-offs hold records back.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

from ottla.client import (
    AcknowledgeType,
    Admin,
    Consumer,
    KafkaError,
    Producer,
    ShareConsumer,
    ShareLetter,
    TopicPartition,
)
from ottla.client.admin.configs import ConfigChange, ConfigResource
from ottla.client.core.share_fetching import ShareRecord
from ottla.groups.share.partition import AcknowledgeType as Said
from ottla.groups.share.partition import DeliveryState
from ottla.sim.checkers import check
from ottla.sim.cluster import Sim
from ottla.sim.own_clients import Applications, is_passing, may_lose_partitions
from ottla.sim.programs import Program
from ottla.sim.replicas import RETRY_S
from ottla.sim.share_witness import Place, ShareWitness
from ottla.wire.config_resources import ResourceType
from ottla.wire.errors import ErrorCode
from ottla.wire.internal_topics import GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC

TOPIC, GROUP, SENDER, QUEUE = "shared", "sharers", "share-sender", "dlq.shared"
WITH_LETTERS = {"metadata.version": 31, "share.version": 2}
MAX_SENT_COUNT = 400
QUIET_S = 2.0


def properties(seed: int, replication_factor: int) -> dict[str, str]:
    """Settings of brokers: locks and sessions that end by the second, snapshots that come often."""
    rng = random.Random(f"shares {seed}")
    return {
        "share.coordinator.state.topic.num.partitions": "2",
        "share.coordinator.state.topic.replication.factor": str(replication_factor),
        "share.coordinator.state.topic.min.isr": str(replication_factor // 2 + 1),
        "share.coordinator.snapshot.update.records.per.snapshot": str(rng.choice((0, 3, 50, 500))),
        "share.coordinator.state.topic.prune.interval.ms": str(rng.choice((1_000, 300_000))),
        "share.coordinator.cold.partition.snapshot.interval.ms": str(rng.choice((2_000, 300_000))),
        "share.coordinator.write.timeout.ms": str(rng.choice((1_000, 5_000))),
        "group.share.min.record.lock.duration.ms": "1000",
        "group.share.record.lock.duration.ms": str(rng.choice((1_000, 4_000, 30_000))),
        "group.share.delivery.count.limit": str(rng.choice((3, 5, 10))),
        "group.share.partition.max.record.locks": str(rng.choice((100, 2_000))),
        "group.share.min.session.timeout.ms": "100",
        "group.share.session.timeout.ms": "3000",
        "group.share.min.heartbeat.interval.ms": "50",
        "group.share.heartbeat.interval.ms": "500",
        "group.share.assignment.interval.ms": str(rng.choice((0, 1_000))),
        "group.share.initialize.retry.interval.ms": "2000",
    }


class Shares(Applications):
    name = "shares"

    def __init__(self, sim: Sim, rng: random.Random) -> None:
        super().__init__(sim, rng)
        self.witness = ShareWitness(sim)
        self.partition_count = rng.choice((1, 2, 3))
        self.is_explicit = rng.random() < 0.6
        self._sharing: dict[str, Any] = {
            **self._settings,
            "group_id": GROUP,
            "share_acknowledgement_mode": "explicit" if self.is_explicit else "implicit",
            "share_acquire_mode": rng.choice(("batch_optimized", "record_limit")),
            "max_poll_records": rng.choice((1, 7, 500)),
            "fetch_max_wait_ms": rng.choice((50, 500)),
        }
        self.is_transactional = rng.random() < 0.3
        self.has_letters = rng.random() < 0.5
        self.has_letters_once = self.has_letters and rng.random() < 0.7
        self.queue_count = rng.choice((1, 2))
        self.backoff_ms = rng.choice((0, 100, 1_000))
        self._sent_count = 0
        self.sent: dict[Place, bytes] = {}
        """Records that were acknowledged to the sender, and committed if they are of a transaction."""
        self.aborted: dict[Place, bytes] = {}
        self._program(SENDER)
        for number in range(rng.choice((1, 2, 4))):
            self._program(f"sharer-{number}")

    async def set_up(self) -> None:
        self.witness.install()
        program = Program(self._sim, "share-admin", self._sim.names, self._create)
        program.start()
        await program.ended()
        await super().set_up()

    async def _create(self, program: Program) -> None:
        """Topic and group are there, and a power loss takes nothing from their logs."""
        always = {"flush.messages": "1", "message.timestamp.after.max.ms": str(20 * 86_400_000)}
        async with program.using(Admin(**program.surroundings())) as admin:
            await admin.create_topic(
                TOPIC,
                partition_count=self.partition_count,
                replication_factor=self._sim.replication_factor,
                config=always,
            )
            group = ConfigResource(ResourceType.GROUP, GROUP)
            level = "read_committed" if self.is_transactional else "read_uncommitted"
            changes = {"share.isolation.level": level, "ottla.share.redelivery.backoff.ms": str(self.backoff_ms)}
            if self.has_letters:
                changes |= await self._create_queue(admin, always)
            await admin.alter_configs({group: [ConfigChange(name, value) for name, value in changes.items()]})
            places = [TopicPartition(TOPIC, partition) for partition in range(self.partition_count)]
            await admin.alter_share_group_offsets(GROUP, dict.fromkeys(places, 0))
            topics = [GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC]
            if self.is_transactional or self.has_letters_once:
                async with program.using(Producer(**program.surroundings(), transactional_id=SENDER)) as producer:
                    await producer.init_transactions()
                topics.append(TRANSACTION_STATE_TOPIC)
            for topic in topics:
                await admin.set_topic_config(topic, always)
            # Written again: what came before these settings is synced with it.
            await admin.alter_share_group_offsets(GROUP, dict.fromkeys(places, 0))

    async def _create_queue(self, admin: Admin, config: Mapping[str, str]) -> dict[str, str]:
        """The dead-letter queue; what the group has to be set to."""
        await admin.update_features(WITH_LETTERS)
        await admin.create_topic(
            QUEUE,
            partition_count=self.queue_count,
            replication_factor=self._sim.replication_factor,
            config={**config, "errors.deadletterqueue.group.enable": "true"},
        )
        return {
            "errors.deadletterqueue.topic.name": QUEUE,
            "errors.deadletterqueue.copy.record.enable": "true",
            f"ottla.errors.deadletterqueue.{'once' if self.has_letters_once else 'required'}.enable": "true",
        }

    async def _live(self, program: Program) -> None:
        await (self._send(program) if program.name == SENDER else self._share(program))

    # The sender

    async def _send(self, program: Program) -> None:
        rng = random.Random(f"{program.name} {program.incarnation} life {self._sim.seed}")
        settings = {**self._settings}
        if self.is_transactional:
            settings |= {"transactional_id": SENDER, "transaction_timeout_ms": 3_000, "max_block_ms": 20_000}
        while not program.is_asked_to_end:
            try:
                async with program.using(Producer(**program.surroundings(), **settings)) as producer:
                    if self.is_transactional:
                        await producer.init_transactions()
                    while not program.is_asked_to_end:
                        if self._sent_count >= MAX_SENT_COUNT:
                            await asyncio.sleep(RETRY_S)
                        else:
                            await self._send_some(producer, rng)
            except KafkaError as error:
                check(self.is_transactional or is_passing(error), "sender", f"{program.name}: {error!r}")
                await asyncio.sleep(RETRY_S)

    async def _send_some(self, producer: Producer, rng: random.Random) -> None:
        if self.is_transactional:
            await producer.begin_transaction()
        waiting = []
        for _ in range(rng.choice((1, 5, 30))):
            self._sent_count += 1
            value = f"{self._sent_count}".encode().ljust(rng.choice((10, 500)), b".")
            partition = rng.randrange(self.partition_count)
            waiting.append((value, producer.send(TOPIC, value, partition=partition, timestamp=self._sim.clock())))
        written: dict[Place, bytes] = {}
        for value, delivery in waiting:
            try:
                at = await delivery
            except KafkaError as error:
                check(self.is_transactional or is_passing(error), "sender", f"{error!r}")
            else:
                if at.offset >= 0:
                    written[at.topic, at.partition, at.offset] = value
        if self.is_transactional and rng.random() < 0.3:
            await producer.abort_transaction()
            self.aborted.update(written)
            return
        if self.is_transactional:
            await producer.commit_transaction()
        self.sent.update(written)
        await asyncio.sleep(rng.choice((0.0, 0.05, 0.3)))

    # Members

    async def _share(self, program: Program) -> None:
        rng = random.Random(f"{program.name} {program.incarnation} life {self._sim.seed}")
        said: dict[Place, tuple[Said, int]] = {}

        def committed(offsets: Mapping[TopicPartition, frozenset[int]], error: KafkaError | None) -> None:
            for (topic, partition), of_partition in offsets.items():
                for offset in of_partition:
                    answered = said.get((topic, partition, offset))
                    if error is None and answered is not None:
                        self.witness.confirm((topic, partition, offset), *answered)

        async with program.using(ShareConsumer(**program.surroundings(), **self._sharing)) as consumer:
            consumer.set_acknowledgement_commit_callback(committed)
            consumer.subscribe([TOPIC])
            records: list[ShareRecord[Any, Any]] = []
            while not program.is_asked_to_end:
                try:
                    if not self.is_explicit:
                        for record in records:
                            self._say(said, record, Said.ACCEPT)
                    records = []
                    records = await consumer.poll(300)
                    for record in records:
                        self._look(program, record)
                        if self.is_explicit:
                            kind = self._verdict(rng, record)
                            self._say(said, record, kind)
                            consumer.acknowledge(record, AcknowledgeType(kind))
                    if records and rng.random() < 0.3:
                        if not self.is_explicit:
                            for record in records:
                                self._say(said, record, Said.ACCEPT)
                        await consumer.commit_sync()
                except KafkaError as error:
                    check(may_lose_share(error), "sharer", f"{program.name}: {error!r}")
                    await asyncio.sleep(RETRY_S)
                if not self.is_over:
                    await asyncio.sleep(rng.choice((0.0, 0.0, 0.02, 0.5)))

    def _verdict(self, rng: random.Random, record: ShareRecord[Any, Any]) -> Said:
        chance = rng.random()
        if self.is_over or chance < 0.7:
            return Said.ACCEPT
        return Said.RELEASE if chance < 0.85 else Said.REJECT if chance < 0.93 else Said.RENEW

    def _say(self, said: dict[Place, tuple[Said, int]], record: ShareRecord[Any, Any], kind: Said) -> None:
        place = record.topic, record.partition, record.offset
        said[place] = kind, record.delivery_count or 0
        self.witness.say(place, kind)

    def _look(self, program: Program, record: ShareRecord[Any, Any]) -> None:
        place = record.topic, record.partition, record.offset
        sent = self.sent.get(place)
        check(place not in self.aborted, "aborted", f"{program.name} got {place}, which was aborted")
        check(
            sent is None or sent == record.value,
            "changed",
            f"{program.name}: {place} is {record.value!r}, not {sent!r}",
        )

    # The end

    is_over = False
    """Whether members accept everything."""

    def _missing(self) -> str:
        missing = [place for place in self.sent if not self.witness.is_done(place)]
        return f"{len(missing)} of {len(self.sent)} records are in flight: {missing[:3]}" if missing else ""

    async def settle(self) -> None:
        self.is_over = True
        self._sent_count = max(self._sent_count, MAX_SENT_COUNT)
        await self._sim.programs[SENDER].ended()
        await self._until_done("the group drains its topic")
        await self._end_all()

    async def verify(self) -> None:
        for place in self.sent:
            is_done = self.witness.said.get(place, set()) & {Said.ACCEPT, Said.REJECT}
            check(bool(is_done) or place in self.witness.exhausted, "lost", f"{place} reached no member")
        program = Program(self._sim, "share-verifier", self._sim.names, self._verify)
        program.start()
        await program.ended()

    async def _verify(self, program: Program) -> None:
        """The group has no lag, and a new member gets nothing."""
        async with program.using(Admin(**program.surroundings())) as admin:
            offsets = await admin.list_share_group_offsets(GROUP)
            check(len(offsets) == self.partition_count, "offsets", f"the group has offsets of {list(offsets)}")
            for place, at in offsets.items():
                # Archived records of aborted transactions are counted with the next write.
                is_done = at.lag == 0 or self.is_transactional
                check(is_done, "lag", f"{place}: {at}, though all of it is done")
        async with program.using(ShareConsumer(**program.surroundings(), **self._sharing)) as consumer:
            consumer.subscribe([TOPIC])
            end = self._sim.loop.time() + QUIET_S
            while self._sim.loop.time() < end:
                records = await consumer.poll(500)
                check(not records, "came back", f"a new member got {records[:3]}")
        if self.has_letters:
            await self._verify_letters(program)

    async def _verify_letters(self, program: Program) -> None:
        """Each record that was given up has a letter with its value, in the queue's partition for it."""
        lettered: set[Place] = set()
        async with program.using(Consumer(**program.surroundings(), auto_offset_reset="earliest")) as consumer:
            places = [TopicPartition(QUEUE, number) for number in range(self.queue_count)]
            ends = await consumer.end_offsets(places)
            consumer.assign(places)
            while [place for place in places if await consumer.position(place) < ends[place]]:
                for record in await consumer.poll(500):
                    letter = ShareLetter.of(record)
                    check(letter is not None and letter.group == GROUP, "letter", f"{record} is no letter")
                    assert letter is not None
                    place = letter.topic, letter.partition, letter.offset
                    sent = self.sent.get(place)
                    check(sent is None or sent == record.value, "letter", f"{place} is {record.value!r}, not {sent!r}")
                    check(record.partition == letter.partition % self.queue_count, "letter", f"{place} is elsewhere")
                    is_second = place in lettered and self.has_letters_once
                    check(not is_second, "letter twice", f"{place} has a second letter at offset {record.offset}")
                    lettered.add(place)
        for place, state in self.witness.final.items():
            is_given_up = state is DeliveryState.ARCHIVED and Said.GAP not in self.witness.said.get(place, ())
            check(not is_given_up or place in lettered, "no letter", f"{place} was given up without one")


def may_lose_share(error: KafkaError) -> bool:
    """Whether a member of a share group may see this error and goes on."""
    return may_lose_partitions(error) or error.code in (
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.INVALID_RECORD_STATE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    )

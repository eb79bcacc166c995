"""`ottla records redrive`: dead letters of a share group are sent back to that group, and to no other.

They go to a retry topic that only the group reads. How far the queue was redriven is the offset of a consumer group,
committed in the transaction that sends the letters: a command that is stopped and run again sends none twice.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING

from ottla.cli.output import Column, counted, emit, notice
from ottla.cli.session import CommandError, Session, no_such

if TYPE_CHECKING:
    from ottla.client import Consumer
    from ottla.client.admin import Admin
    from ottla.client.metadata import TopicInfo
    from ottla.client.share_letters import RawRecord, ShareLetter

EXAMPLES = """\
  ottla records redrive workers                  dead letters of the share group workers, since the last time
  ottla records redrive workers --dry-run        how many there are
  ottla records redrive workers --all            from the oldest letter on
  ottla records redrive workers --to jobs.again  to this topic, not to TOPIC.retry.workers
"""
SUMMARY = "send dead letters of a share group back to that group, and to no other"
DESCRIPTION = f"""\
{SUMMARY.capitalize()}.

A record of TOPIC goes to the topic TOPIC.retry.GROUP, which is created if it does not exist. The members of the group
subscribe to it beside TOPIC. A letter without a copy of its record is sent with the record that TOPIC still has.
"""

LETTERS_PER_TRANSACTION = 500
MAX_IDENTITIES = 100_000
"""Letters of which duplicates are found."""
POLL_MS = 1000
EARLIEST = "earliest"

Letter = tuple["ShareLetter", "RawRecord"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument("group", metavar="GROUP", help="the share group whose dead letters are sent back")
    parser.add_argument("--queue", metavar="TOPIC", help="where the letters are (the group's dead-letter queue topic)")
    parser.add_argument("--to", metavar="TOPIC", help="where they go (TOPIC.retry.GROUP)")
    parser.add_argument("--all", action="store_true", help="also those that were sent back before")
    parser.add_argument("--dry-run", action="store_true", help="count them, and send nothing")


async def redrive(session: Session, options: argparse.Namespace) -> int:
    from ottla.client import Producer
    from ottla.client.config import ProducerConfig

    admin = await session.admin()
    settings = await group_settings(admin, options.group)
    queue = options.queue or settings.get("errors.deadletterqueue.topic.name")
    if not queue:
        raise CommandError(
            f"the group {options.group} has no dead-letter queue (errors.deadletterqueue.topic.name): "
            "say where its letters are, --queue TOPIC"
        )
    await session.describe_topic(queue)
    work = _Redrive(session, admin, options, settings)
    if options.dry_run:
        async for _ in work.chunks(queue):
            pass
    else:
        position = f"ottla-redrive.{options.group}"
        async with Producer({**session.settings_for(ProducerConfig), "transactional.id": position}) as producer:
            async for letters in work.chunks(queue):
                await work.send(producer, letters, position)
    work.report()
    return 0


async def group_settings(admin: Admin, group: str) -> dict[str, str]:
    """The settings of a share group that exists."""
    from ottla.client.admin import ConfigResource, ResourceType

    known = {one.group_id: one.type.lower() for one in await admin.list_groups()}
    kind = known.get(group)
    if kind is not None and kind != "share":
        raise CommandError(f"{group} is no share group: it is a {kind} group")
    resource = ConfigResource(ResourceType.GROUP, group)
    found = (await admin.describe_configs([resource]))[resource]
    if kind is None and all(entry.is_default for entry in found.values()):
        raise no_such(
            "share group", group, (name for name, kind in known.items() if kind == "share"), "ottla groups list"
        )
    return {name: entry.value or "" for name, entry in found.items()}


class _Redrive:
    def __init__(self, session: Session, admin: Admin, options: argparse.Namespace, settings: dict[str, str]) -> None:
        self.session = session
        self.admin = admin
        self.options = options
        self.settings = settings
        self.sent: Counter[tuple[str, str]] = Counter()
        """By topic of the record and retry topic."""
        self.gone = self.duplicates = 0
        self._identities: dict[tuple[str, str, int, int], None] = {}
        self._reached: dict[tuple[str, int], int] = {}
        self._targets: dict[str, TopicInfo] = {}

    def target(self, topic: str) -> str:
        from ottla.client.share_letters import retry_topic

        return self.options.to or retry_topic(topic, self.options.group)

    # Reading

    async def consumer(self) -> Consumer[bytes | None, bytes | None]:
        from ottla.client import Consumer
        from ottla.client.config import ConsumerConfig

        settings = {**self.session.settings_for(ConsumerConfig), "isolation.level": "read_committed"}
        return Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": "false"})

    async def chunks(self, queue: str) -> AsyncIterator[list[Letter]]:
        """The group's letters from the last time to the present end, some at a time; each record once."""
        from ottla.cli.positions import bounds
        from ottla.client.core.isolation import IsolationLevel
        from ottla.client.core.partitions import TopicPartition

        info = await self.session.describe_topic(queue)
        partitions = [TopicPartition(queue, number) for number in range(len(info.partitions))]
        within = await bounds(self.admin, partitions, IsolationLevel.READ_COMMITTED)
        before = {}
        if not self.options.all:
            before = await self.admin.group_offsets(f"ottla-redrive.{self.options.group}")
        letters: list[Letter] = []
        async with await self.consumer() as consumer:
            consumer.assign(partitions)
            for partition in partitions:
                at = before[partition].offset if partition in before else 0
                consumer.seek(partition, min(max(at, within[partition][0]), within[partition][1]))
            while [one for one in partitions if await consumer.position(one) < within[one][1]]:
                for record in await consumer.poll(POLL_MS):
                    place = TopicPartition(record.topic, record.partition)
                    if record.offset < within[place][1]:
                        self._reached[(record.topic, record.partition)] = record.offset + 1
                        letters += self._wanted(record)
                if len(letters) >= LETTERS_PER_TRANSACTION:
                    yield letters
                    letters = []
        if letters or self._reached:
            yield letters

    def _wanted(self, record: RawRecord) -> list[Letter]:
        """The letter that a record of the queue is, if it is one of the group's and new."""
        from ottla.client.share_letters import ShareLetter

        letter = ShareLetter.of(record)
        if letter is None or letter.group != self.options.group:
            return []
        if letter.identity in self._identities:
            self.duplicates += 1
            return []
        self._identities[letter.identity] = None
        if len(self._identities) > MAX_IDENTITIES:
            del self._identities[next(iter(self._identities))]
        if self.options.dry_run:
            self.sent[(letter.topic, self.target(letter.topic))] += 1
        return [(letter, record)]

    async def _with_originals(self, letters: Sequence[Letter]) -> list[Letter]:
        """Letters without a copy with the record that their topic still has; those it has no more are left out."""
        from ottla.client.share_letters import is_without_copy

        bare = [letter for letter, record in letters if is_without_copy(record)]
        found = await self._originals(bare) if bare else {}
        made: list[Letter] = []
        for letter, record in letters:
            original = found.get(letter) if is_without_copy(record) else record
            if original is None:
                self.gone += 1
            else:
                made.append((letter, original))
        return made

    async def _originals(self, letters: Iterable[ShareLetter]) -> dict[ShareLetter, RawRecord]:
        from ottla.cli.positions import bounds
        from ottla.client.core.isolation import IsolationLevel
        from ottla.client.core.partitions import TopicPartition

        known = await self.admin.list_topics()
        wanted = sorted((one for one in letters if one.topic in known), key=lambda one: one.identity)
        places = list(dict.fromkeys(TopicPartition(one.topic, one.partition) for one in wanted))
        within = await bounds(self.admin, places, IsolationLevel.READ_UNCOMMITTED) if places else {}
        found: dict[ShareLetter, RawRecord] = {}
        async with await self.consumer() as consumer:
            for letter in wanted:
                place = TopicPartition(letter.topic, letter.partition)
                if not within[place][0] <= letter.offset < within[place][1]:
                    continue
                consumer.assign([place])
                consumer.seek(place, letter.offset)
                while await consumer.position(place) <= letter.offset and letter not in found:
                    for record in await consumer.poll(POLL_MS):
                        if record.offset == letter.offset:
                            found[letter] = record
        return found

    # Sending

    async def send(self, producer: object, letters: Sequence[Letter], position: str) -> None:
        """Send letters and note how far the queue is redriven, in one transaction."""
        from ottla.client import Producer
        from ottla.client.core.partitions import TopicPartition
        from ottla.client.share_letters import redriven_headers

        assert isinstance(producer, Producer)
        whole = await self._with_originals(letters)
        for topic in dict.fromkeys(letter.topic for letter, _ in whole):
            await self._prepare(topic)
        async with producer.transaction():
            for letter, record in whole:
                target = self._targets[self.target(letter.topic)]
                producer.send(
                    target.name,
                    record.value,
                    record.key,
                    redriven_headers(letter, record.headers),
                    letter.partition % len(target.partitions),
                )
                self.sent[(letter.topic, target.name)] += 1
            reached = {TopicPartition(topic, number): offset for (topic, number), offset in self._reached.items()}
            await producer.send_offsets(reached, position)
        self._reached.clear()

    async def _prepare(self, topic: str) -> None:
        """Have the retry topic of a topic, and be sure that the group will read it from its beginning."""
        from ottla.client.admin import NewTopic
        from ottla.client.errors import ErrorCode, KafkaError

        target = self.target(topic)
        if target in self._targets:
            return
        admin = self.admin
        if self.settings.get("share.auto.offset.reset") != EARLIEST:
            await self._check_read(target)
        if target not in await admin.list_topics():
            known = await admin.list_topics()
            count = len((await self.session.describe_topic(topic)).partitions) if topic in known else -1
            try:
                await admin.create_topics([NewTopic(target, count)])
            except KafkaError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise CommandError(
                        f"the retry topic {target} cannot be created: {error}; name one, --to"
                    ) from error
        self._targets[target] = await self.session.describe_topic(target)

    async def _check_read(self, target: str) -> None:
        """A group that begins new topics at their end would miss records sent before its first fetch."""
        group = self.options.group
        offsets = await self.admin.list_share_group_offsets(group)
        mine = [at.start_offset for partition, at in offsets.items() if partition.topic == target]
        if not mine or min(mine) < 0:
            raise CommandError(
                f"the group {group} has not read {target} yet and would begin at its end: set its "
                f"share.auto.offset.reset to earliest first (it applies only to topics that the group has not read)"
            )

    # Telling

    def report(self) -> None:
        rows = [
            {"topic": topic, "to": target, "letters": count} for (topic, target), count in sorted(self.sent.items())
        ]
        columns = [Column("topic", "TOPIC"), Column("to", "TO"), Column("letters", "LETTERS")]
        emit(self.options.output, rows, columns, nothing=f"no dead letters of {self.options.group}")
        if self.duplicates:
            notice(f"{counted(self.duplicates, 'letter')} left out: the record was there already")
        if self.gone:
            notice(
                f"{counted(self.gone, 'letter')} not sent: they have no copy, and their topic has the record no more"
            )
        if self.options.dry_run and rows:
            notice("nothing was sent: --dry-run")

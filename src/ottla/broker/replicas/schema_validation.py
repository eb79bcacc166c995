"""Batches for topics whose records have to name a registered schema (`confluent.value.schema.validation`).

`validation` decides what is known of schemas; this module scans batches (in the compiled kernel, one call per batch),
asks the registry on threads, and makes the refusals. `accepts` is for the frame handler: True only if everything is
known to be valid. `check` decides at once if all schemas are known, `check_asking` after the registry was asked. A
registry that does not answer delays the connection that waits for it, never another one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import TYPE_CHECKING

from ottla.broker.replicas.schema_decoding import Decode, decoding_by
from ottla.broker.replicas.schema_lookup import Lookup, RegistryUnavailable, lookup_at, registry_settings
from ottla.config.own import REGISTRY_CACHE_SIZE, REGISTRY_MISSING_TTL, REGISTRY_UNAVAILABLE, REGISTRY_URL, own_value
from ottla.records import HEADER_SIZE, CorruptRecords, RecordError, crc_ok
from ottla.records.batch import MAX_SCHEMA_COUNT
from ottla.records.kernel import records_of_schemas, schema_ids
from ottla.storage.log import invalid_records
from ottla.storage.tail import MAX_DECOMPRESSED
from ottla.validation import FieldRules, KnownSchemas, SchemaName, Verdict, rules_of
from ottla.validation.known_schemas import NEVER
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.ground import Ground
    from ottla.broker.replicas.partitions import Partition
    from ottla.config import TopicConfig
    from ottla.converters.registry import Registry

MAX_LOOKUPS = 4
"""Questions to the registry at a time; each has a thread."""
MAX_DECODED_AT_ONCE = 2
"""Batches whose values are decoded at a time; each has a thread."""
MAX_ASKED = 1_000
"""Schemas that wait for an answer. With more the registry counts as unavailable."""
MAX_WAIT_MS = 10_000
FOUND_FOR_MS = 600_000
PAUSE_MS = 1_000
_LOG_OVERHEAD = 12
_LENGTH = Struct(">i")

MAX_ACCEPTED = 100
"""Schemas of one topic's keys or values that `accepts` keeps."""
Accepted = tuple[FieldRules, bytes, bool, dict[SchemaName | None, int]]
"""The rules, the header and the field that they concern, and schema -> until when it is known to meet them."""
Batch = tuple["Partition", memoryview]
Refusals = dict["Partition", KafkaError]

log = logging.getLogger("ottla.replicas")


class SchemaValidation:
    def __init__(self, ground: Ground, lookup: Lookup | None = None, decode: Decode | None = None) -> None:
        static = ground.static_config.static
        self._ground = ground
        self._lookup = lookup
        self._decode = decode
        self._registry: Registry | None = None
        self._has_registry = lookup is not None or REGISTRY_URL in static
        self._accepts_unchecked = own_value(static, REGISTRY_UNAVAILABLE) == "accept"
        self._known = KnownSchemas(
            max_count=int(own_value(static, REGISTRY_CACHE_SIZE)),
            found_for_ms=FOUND_FOR_MS,
            missing_for_ms=1000 * int(own_value(static, REGISTRY_MISSING_TTL)),
            pause_ms=PAUSE_MS,
        )
        self._rules: dict[str, tuple[TopicConfig, tuple[FieldRules, ...]]] = {}
        self._accepted: dict[str, tuple[TopicConfig, list[Accepted]]] = {}
        self._asked: dict[SchemaName, asyncio.Task[None]] = {}
        self._free = asyncio.Semaphore(MAX_LOOKUPS)
        self._decoding = asyncio.Semaphore(MAX_DECODED_AT_ONCE)
        self._trouble = ""

    def rules(self, partition: Partition) -> tuple[FieldRules, ...]:
        config = partition.log.config
        kept = self._rules.get(partition.topic)
        if kept is not None and kept[0] is config:
            return kept[1]
        rules = rules_of(partition.topic, config)
        self._rules[partition.topic] = (config, rules)
        return rules

    def forget_topic(self, topic: str) -> None:
        self._rules.pop(topic, None)
        self._accepted.pop(topic, None)

    def accepts(self, partition: Partition, batch: memoryview) -> bool:
        """Whether every schema in a batch is known to be valid, and nothing else must be checked."""
        now = self._ground.now()
        kept = self._accepted.get(partition.topic)
        if kept is None or kept[0] is not partition.log.config:
            kept = self._new_accepted(partition)
        try:
            for rules, header, is_key, until in kept[1]:
                for schema in schema_ids(batch, header, is_key, MAX_DECOMPRESSED):
                    if until.get(schema, NEVER) <= now and not self._is_known(rules, schema, until, now):
                        return False
        except CorruptRecords:
            return False
        return True

    def _new_accepted(self, partition: Partition) -> tuple[TopicConfig, list[Accepted]]:
        made: list[Accepted] = [(one, one.header, one.is_key, {}) for one in self.rules(partition)]
        self._accepted[partition.topic] = kept = (partition.log.config, made)
        return kept

    def _is_known(
        self, rules: FieldRules, schema: SchemaName | None, until: dict[SchemaName | None, int], now: int
    ) -> bool:
        known_until = self._known.known_until(rules, schema)
        if rules.is_full or known_until <= now:
            return False
        if len(until) >= MAX_ACCEPTED:
            until.clear()
        until[schema] = known_until
        return True

    def check(self, batches: Sequence[Batch]) -> Refusals | None:
        """The refused batches; None if the registry must be asked, or values decoded, first."""
        refusals: Refusals = {}
        now = self._ground.now()
        for partition, records in batches:
            batch = whole_batch(records)
            if batch is None:
                continue  # the log refuses it with its own error
            for rules in self.rules(partition):
                found = self._schemas(partition, batch, rules, refusals)
                verdicts = {one: self._known.verdict(rules, one, now) for one in found}
                if Verdict.ASK in verdicts.values():
                    return None
                self._refuse_unknown(partition, batch, rules, verdicts, refusals)
                if rules.is_full and partition not in refusals:
                    return None
        return refusals

    async def check_asking(self, batches: Sequence[Batch], timeout_ms: int) -> Refusals:
        """The refused batches, after the registry was asked for unknown schemas."""
        refusals: Refusals = {}
        looked_at = []
        wanted: dict[tuple[FieldRules, SchemaName], None] = {}
        for partition, records in batches:
            batch = whole_batch(records)
            for rules in self.rules(partition) if batch is not None else ():
                assert batch is not None
                found = self._schemas(partition, batch, rules, refusals)
                looked_at.append((partition, batch, rules, found))
                now = self._ground.now()
                for one in found:
                    if one is not None and self._known.verdict(rules, one, now) is Verdict.ASK:
                        wanted[rules, one] = None
        await self._ask_for(wanted, min(timeout_ms, MAX_WAIT_MS))
        now = self._ground.now()
        for partition, batch, rules, found in looked_at:
            verdicts = {one: self._known.verdict(rules, one, now) for one in found}
            for one, verdict in verdicts.items():
                if verdict is Verdict.ASK and one is not None:
                    verdicts[one] = self._known.without_registry(rules, one)
            self._refuse_unknown(partition, batch, rules, verdicts, refusals)
            if rules.is_full and partition not in refusals and found:
                await self._refuse_undecodable(partition, batch, rules, refusals)
        return refusals

    async def _refuse_undecodable(
        self, partition: Partition, batch: memoryview, rules: FieldRules, refusals: Refusals
    ) -> None:
        if not crc_ok(batch, 0, len(batch)):
            return  # the log refuses it
        try:
            async with asyncio.timeout(MAX_WAIT_MS / 1000), self._decoding:
                if self._decode is None:
                    self._decode = decoding_by(self._client())
                errors = await self._decode(batch, rules)
        except (RegistryUnavailable, TimeoutError) as error:
            self._trouble = str(error) or "decoding took too long"
            if not self._accepts_unchecked:
                refusals[partition] = self._unavailable(rules)
            return
        if errors:
            refusals[partition] = invalid_records(errors)

    def _schemas(
        self, partition: Partition, batch: memoryview, rules: FieldRules, refusals: Refusals
    ) -> Iterable[SchemaName | None]:
        """The schemas that a batch names. A batch that cannot be read, or that names too many, is refused."""
        try:
            found = schema_ids(batch, rules.header, rules.is_key, MAX_DECOMPRESSED)
        except CorruptRecords as corrupt:
            if crc_ok(batch, 0, len(batch)):  # otherwise the log refuses it: the producer retries
                refusals.setdefault(partition, KafkaError(ErrorCode.INVALID_RECORD, str(corrupt)))
            return ()
        if len(found) > MAX_SCHEMA_COUNT:
            trouble = KafkaError(
                ErrorCode.INVALID_RECORD, f"the {rules.field}s of a batch name more than {MAX_SCHEMA_COUNT} schemas"
            )
            refusals.setdefault(partition, trouble)
            return ()
        return found

    def _refuse_unknown(
        self,
        partition: Partition,
        batch: memoryview,
        rules: FieldRules,
        verdicts: dict[SchemaName | None, Verdict],
        refusals: Refusals,
    ) -> None:
        unknown = {one for one, verdict in verdicts.items() if verdict is Verdict.UNKNOWN}
        if unknown:
            if partition in refusals or not crc_ok(batch, 0, len(batch)):
                return
            errors = [
                RecordError(index, rules.why_not(schema, self._known.facts(schema) if schema is not None else None))
                for index, schema in records_of_schemas(batch, rules.header, rules.is_key, unknown, MAX_DECOMPRESSED)
            ]
            refusals[partition] = invalid_records(errors)
        elif Verdict.ASK in verdicts.values() and not self._accepts_unchecked:
            refusals.setdefault(partition, self._unavailable(rules))

    def _unavailable(self, rules: FieldRules) -> KafkaError:
        what = f"the schemas of {rules.topic}'s {rules.field}s cannot be checked"
        if not self._has_registry:
            return KafkaError(ErrorCode.INVALID_RECORD, f"{what}: {REGISTRY_URL} is not set on this broker")
        # Retriable, and says that nothing was written; Kafka has no code that fits better.
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"{what} now: {self._trouble or 'the registry does not answer'} ({REGISTRY_UNAVAILABLE}=refuse)",
        )

    # The registry

    async def _ask_for(self, wanted: Iterable[tuple[FieldRules, SchemaName]], timeout_ms: int) -> None:
        """Ask the registry whether these schemas meet these rules."""
        asked_at = self._ground.now()
        expires_at = asked_at + timeout_ms
        joined = await self._ask({schema for _, schema in wanted}, timeout_ms)
        # A question already in flight may be answered as of before the schema was registered.
        now = self._ground.now()
        again = {
            schema for rules, schema in wanted if schema in joined and not self._known.is_known(rules, schema, now)
        }
        if again and now < expires_at:
            await self._ask(again, expires_at - now)
        now = self._ground.now()
        for rules, schema in wanted:
            self._known.settle(rules, schema, asked_at, now)

    async def _ask(self, schemas: Iterable[SchemaName], timeout_ms: int) -> set[SchemaName]:
        """Wait for answers about these schemas; without an answer in time a schema stays unknown. Returns those whose
        question was already in flight.
        """
        now = self._ground.now()
        asked, joined = [], set()
        for schema in schemas:
            task = self._asked.get(schema)
            if task is None:
                if not self._has_registry or not self._known.may_ask(now) or len(self._asked) >= MAX_ASKED:
                    continue
                task = self._asked[schema] = self._ground.spawn(self._look_up(schema))
            else:
                joined.add(schema)
            asked.append(task)
        if asked:
            await asyncio.wait(asked, timeout=max(timeout_ms, 1) / 1000)
        return joined

    async def _look_up(self, schema: SchemaName) -> None:
        try:
            async with self._free:
                if not self._known.may_ask(self._ground.now()):
                    return
                if self._lookup is None:
                    self._lookup = lookup_at(self._client())
                facts = await self._lookup(schema)
                self._known.learned(schema, facts, self._ground.now())
                self._trouble = ""
        except RegistryUnavailable as error:
            if not self._trouble:
                log.warning("schemas of records cannot be checked: %s", error)
            self._trouble = str(error)
            self._known.failed(self._ground.now())
        finally:
            del self._asked[schema]

    def _client(self) -> Registry:
        from ottla.converters.errors import RegistryError
        from ottla.converters.registry import Registry

        if self._registry is not None:
            return self._registry
        try:
            settings = registry_settings(self._ground.static_config)
        except RegistryError as error:
            raise RegistryUnavailable(str(error)) from None
        if settings is None:
            raise RegistryUnavailable(f"{REGISTRY_URL} is not set on this broker")
        self._registry = Registry(settings)
        return self._registry


def whole_batch(records: memoryview) -> memoryview | None:
    """The batch for a partition in a request, if the log would accept its framing; else None."""
    if len(records) < HEADER_SIZE:
        return None
    size = _LOG_OVERHEAD + _LENGTH.unpack_from(records, 8)[0]
    return records[:size] if HEADER_SIZE <= size <= len(records) else None

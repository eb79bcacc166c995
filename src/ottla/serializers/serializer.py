"""Common to all serializers: they find the schema's id once for each topic, then turn values into bytes without
waiting."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, MutableSequence
from math import inf
from typing import Any, NamedTuple

from ottla.converters.errors import RegistryError
from ottla.converters.registry import RegisteredSchema
from ottla.serializers import wire_format
from ottla.serializers.errors import SerializationError
from ottla.serializers.registry_client import LATEST_FOR_S, Registered, RegistryClient
from ottla.serializers.subject_names import SubjectName, strategy

MAX_KEPT_COUNT = 10_000
Encode = Callable[[Any], bytes]


class Target(NamedTuple):
    """How values of one shape go to one topic."""

    prefix: bytes
    header: tuple[str, bytes] | None
    encode: Encode
    expires_at: float


class Serializer(ABC):
    """Values to bytes that name their schema.

    `auto_register_schemas`: whether a schema that is new is registered; by default only if the registry is on this
    machine and OTTLA_PRODUCTION is not set. `use_latest_version`: write with the newest version of the subject.
    `id_in_headers`: name the schema by a GUID in a header, not in the first bytes.
    """

    def __init__(
        self,
        registry: RegistryClient,
        *,
        is_key: bool = False,
        auto_register_schemas: bool | None = None,
        use_latest_version: bool = False,
        normalize_schemas: bool = False,
        subject_name_strategy: str | SubjectName = "topic",
        id_in_headers: bool = False,
    ) -> None:
        if auto_register_schemas and use_latest_version:
            raise ValueError("auto_register_schemas and use_latest_version: which schema is meant, this or the latest?")
        self.registry = registry
        self.is_key = is_key
        self.use_latest_version = use_latest_version
        self.normalize_schemas = normalize_schemas
        self.id_in_headers = id_in_headers
        self._is_registering = not registry.is_production if auto_register_schemas is None else auto_register_schemas
        self._subject = strategy(subject_name_strategy)
        self._targets: dict[tuple[str, Hashable], Target] = {}
        self._asked: dict[tuple[str, Hashable], asyncio.Task[Target]] = {}

    async def serialize(
        self, topic: str, value: Any, headers: MutableSequence[tuple[str, bytes | None]] | None = None
    ) -> bytes | None:
        """The bytes of a value for a topic; None stays None. `headers` are those of the record: with `id_in_headers`
        one is added."""
        if value is None:
            return None
        place = (topic, self._shape(value))
        target = self._known(place)
        if target is None:
            target = await self._resolved(place)
        return self._encoded(target, value, headers)

    def serialize_blocking(
        self, topic: str, value: Any, headers: MutableSequence[tuple[str, bytes | None]] | None = None
    ) -> bytes | None:
        """As `serialize`, for threads: it blocks."""
        if value is None:
            return None
        place = (topic, self._shape(value))
        return self._encoded(self._known(place) or self._resolve(place), value, headers)

    async def for_topic(self, topic: str) -> Callable[[Any], bytes | None]:
        """A `value_serializer` (or `key_serializer`) of a producer that writes one topic: the registry is asked now,
        and never while records are sent."""
        if self.id_in_headers:
            raise ValueError("a value_serializer has no headers: call serialize() for id_in_headers")
        target = await self._resolved((topic, self._shape(None)))
        return lambda value: None if value is None else self._encoded(target, value, None)

    def _known(self, place: tuple[str, Hashable]) -> Target | None:
        target = self._targets.get(place)
        return target if target is not None and target.expires_at > time.monotonic() else None

    async def _resolved(self, place: tuple[str, Hashable]) -> Target:
        """One question to the registry, whatever the number of records that wait for it."""
        task = self._asked.get(place)
        if task is None:
            task = self._asked[place] = asyncio.ensure_future(self.registry.run(lambda: self._resolve(place)))
            task.add_done_callback(lambda _: self._asked.pop(place, None))
        return await asyncio.shield(task)

    def _resolve(self, place: tuple[str, Hashable]) -> Target:
        topic, shape = place
        own = self._own(shape)
        subject = self._subject(topic, self.is_key, self._record_name(shape))
        if self.use_latest_version:
            found = self.registry.latest_blocking(subject)
            if found.schema.kind != self._kind:
                raise SerializationError(f"the latest schema of {subject} is {found.schema.kind}, not {self._kind}")
        elif own is None:
            raise SerializationError("give a schema, or use_latest_version=True")
        else:
            ask = self.registry.register_blocking if self._is_registering else self.registry.lookup_blocking
            found = ask(subject, own, is_normalized=self.normalize_schemas)
        target = self._target(found, shape)
        if len(self._targets) >= MAX_KEPT_COUNT:
            self._targets.clear()
        self._targets[place] = target
        return target

    def _target(self, found: Registered, shape: Hashable) -> Target:
        indexes = self._indexes(shape)
        expires_at = time.monotonic() + LATEST_FOR_S if self.use_latest_version else inf
        encode = self._encoder(found.schema, shape)
        if self.id_in_headers:
            if found.guid is None:
                raise RegistryError(f"the registry {self.registry.blocking.settings.place} gives no GUIDs")
            named = wire_format.header_value(found.guid, indexes)
            return Target(b"", (wire_format.HEADERS[self.is_key], named), encode, expires_at)
        assert found.schema_id is not None
        return Target(wire_format.prefix(found.schema_id, indexes), None, encode, expires_at)

    def _encoded(self, target: Target, value: Any, headers: MutableSequence[tuple[str, bytes | None]] | None) -> bytes:
        data = target.prefix + target.encode(value)
        if target.header is not None:
            if headers is None:
                raise SerializationError(
                    "id_in_headers needs the headers of the record: serialize(topic, value, headers)"
                )
            headers.append(target.header)
        return data

    # What a format decides

    _kind: str

    def _shape(self, value: Any) -> Hashable:
        """The key of a value's schema: most formats have one schema for all values of a serializer."""
        return None

    def _indexes(self, shape: Hashable) -> tuple[int, ...] | None:
        """Which message of the schema it is, in formats that have several."""
        return None

    @abstractmethod
    def _own(self, shape: Hashable) -> RegisteredSchema | None:
        """The schema of values, not registered yet; its references may be registered here."""

    @abstractmethod
    def _record_name(self, shape: Hashable) -> str: ...

    @abstractmethod
    def _encoder(self, schema: RegisteredSchema, shape: Hashable) -> Encode: ...

"""Common to all deserializers: they read which schema a record names, fetch it once, then turn bytes into values."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

from ottla.converters.registry import RegisteredSchema
from ottla.serializers.errors import SerializationError
from ottla.serializers.registry_client import RegistryClient
from ottla.serializers.wire_format import Headers, Named, parse

MAX_KEPT_COUNT = 10_000
Decode = Callable[[bytes], Any]
Place = tuple[int | UUID, tuple[int, ...]]


class Deserializer(ABC):
    """Bytes that name their schema to values: dicts, or with `to` objects of a class."""

    _kind: str
    _has_indexes = False

    def __init__(self, registry: RegistryClient, *, is_key: bool = False) -> None:
        self.registry = registry
        self.is_key = is_key
        self._decoders: dict[Place, Decode] = {}
        self._asked: dict[Place, asyncio.Task[Decode]] = {}

    async def deserialize(self, topic: str, data: bytes | None, headers: Headers = ()) -> Any:
        """The value of a record's bytes; None stays None. SerializationError: the bytes do not fit their schema."""
        if data is None:
            return None
        named = self._named(data, headers)
        decode = self._decoders.get(named[:2]) or await self._resolved(named[:2])
        return self._decoded(decode, named)

    def deserialize_blocking(self, topic: str, data: bytes | None, headers: Headers = ()) -> Any:
        """As `deserialize`, for threads: it blocks."""
        if data is None:
            return None
        named = self._named(data, headers)
        return self._decoded(self._decoders.get(named[:2]) or self._resolve(named[:2]), named)

    async def records(self, records: Iterable[Any]) -> list[Any]:
        """Records of a consumer's poll with values (or keys) in place of bytes; the registry is asked before, and only
        for schemas that are new."""
        made = []
        for one in records:
            value = await self.deserialize(one.topic, one.key if self.is_key else one.value, one.headers)
            made.append(one._replace(key=value) if self.is_key else one._replace(value=value))
        return made

    def _named(self, data: bytes, headers: Headers) -> Named:
        return parse(data, headers, is_key=self.is_key, has_indexes=self._has_indexes)

    async def _resolved(self, place: Place) -> Decode:
        task = self._asked.get(place)
        if task is None:
            task = self._asked[place] = asyncio.ensure_future(self.registry.run(lambda: self._resolve(place)))
            task.add_done_callback(lambda _: self._asked.pop(place, None))
        return await asyncio.shield(task)

    def _resolve(self, place: Place) -> Decode:
        name, indexes = place
        schema = self.registry.by_guid_blocking(name) if isinstance(name, UUID) else self.registry.blocking.by_id(name)
        if schema.kind != self._kind:
            raise SerializationError(f"the schema {name} is {schema.kind}, not {self._kind}")
        made = self._decoder(schema, name, indexes)
        if len(self._decoders) >= MAX_KEPT_COUNT:
            self._decoders.clear()
        self._decoders[place] = made
        return made

    def _decoded(self, decode: Decode, named: Named) -> Any:
        try:
            return decode(named.payload)
        except SerializationError:
            raise
        except Exception as error:  # whatever the format's library raises for bytes that it cannot read
            raise SerializationError(
                f"the bytes do not fit the schema {named.schema}: {type(error).__name__}: {error}"
            ) from None

    @abstractmethod
    def _decoder(self, schema: RegisteredSchema, name: int | UUID, indexes: tuple[int, ...]) -> Decode: ...

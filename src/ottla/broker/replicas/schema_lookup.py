"""Looks up schemas in a schema registry (Confluent's REST interface), on a thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ottla.config import BrokerConfig
from ottla.config.own import REGISTRY_TOKEN, REGISTRY_TRUSTED, REGISTRY_URL, REGISTRY_USER_INFO
from ottla.net import beside_loop
from ottla.validation import Facts, SchemaName
from ottla.validation.record_names import record_name

if TYPE_CHECKING:
    from ottla.converters.registry import Registry, RegistrySettings

DEFAULT_CONTEXT = "."
TIMEOUT_MS = 3_000
MAX_GUID_IDS = 20
_NAMES = {
    REGISTRY_URL: "schema.registry.url",
    REGISTRY_USER_INFO: "basic.auth.user.info",
    REGISTRY_TOKEN: "bearer.auth.token",
    REGISTRY_TRUSTED: "schema.registry.ssl.ca.location",
}

Lookup = Callable[[SchemaName], Awaitable[Facts | None]]
"""Looks up a schema; None: the registry does not have it. RegistryUnavailable if it does not answer."""


class RegistryUnavailable(Exception):
    """The registry did not answer, or not like a registry."""


def registry_settings(config: BrokerConfig) -> RegistrySettings | None:
    """The address of this node's registry; None if no setting gives it."""
    from ottla.converters.registry import RegistrySettings  # with http and ssl: only where it is used

    given = {theirs: config.static[ours] for ours, theirs in _NAMES.items() if ours in config.static}
    return RegistrySettings.parse({**given, "schema.registry.request.timeout.ms": str(TIMEOUT_MS)})


def lookup_at(registry: Registry) -> Lookup:
    async def look_up(schema: SchemaName) -> Facts | None:
        return await beside_loop(lambda: ask(registry, schema))

    return look_up


def ask(registry: Registry, schema: SchemaName) -> Facts | None:
    """It blocks."""
    from ottla.converters.errors import ConverterError, SchemaNotFound

    try:
        ids = [schema] if isinstance(schema, int) else ids_of(registry, schema)
        subjects: set[str] = set()
        for id_ in ids:
            subjects.update(str(one) for one in _list(registry.ask("GET", f"/schemas/ids/{id_}/subjects")))
        if not ids or not subjects:
            return None
        described = registry.by_id(ids[0])
    except SchemaNotFound:
        return None
    except (ConverterError, UnicodeError) as error:
        raise RegistryUnavailable(str(error)) from None
    return Facts(frozenset(subjects), record_name(described.kind, described.text))


def ids_of(registry: Registry, guid: bytes) -> list[int]:
    """The ids of a schema in the default context, by its GUID. It blocks."""
    found = []
    for one in _list(registry.ask("GET", f"/schemas/guids/{UUID(bytes=guid)}/ids"))[:MAX_GUID_IDS]:
        is_here = isinstance(one, dict) and one.get("context", DEFAULT_CONTEXT) == DEFAULT_CONTEXT
        if is_here and isinstance(one.get("id"), int):
            found.append(one["id"])
    return found


def _list(answer: Any) -> list[Any]:
    if not isinstance(answer, list):
        raise RegistryUnavailable("the registry answers with no list: is it one?")
    return answer

"""Schemas of a registry: subjects, versions, a check before saving. The registry's own HTTP, in a thread.

The registry is asked as this console. So with logins a user sees the subjects of the topics that it may describe, and
only users that may ALTER the cluster change schemas.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote

from ottla.console.call import Call
from ottla.console.faults import Fault, invalid, not_available, not_found
from ottla.console.search_request import document, integer, text
from ottla.converters.errors import RegistryError, SchemaNotFound
from ottla.converters.registry import Registry
from ottla.registry import faults as registry_faults
from ottla.registry.access import topic_of
from ottla.registry.subjects import parse

R = TypeVar("R")
LEVELS = ("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")
TYPES = ("AVRO", "JSON", "PROTOBUF")
MAX_SUBJECTS = 5_000
MAX_SCHEMA = 1024 * 1024


async def _asked(call: Call, work: Callable[[Registry], R]) -> R:
    settings = call.console.registry
    if settings is None:
        raise not_available("there is no schema registry", "start the console with --registry URL")
    try:
        return await asyncio.to_thread(lambda: work(Registry(settings)))
    except SchemaNotFound as error:
        raise not_found(str(error)) from None
    except RegistryError as error:
        raise Fault(502, "REGISTRY", str(error), "is the registry running?") from None


async def _visible(call: Call) -> Callable[[str], bool]:
    """Whether the user may see a subject."""
    if await call.is_administrator():
        return lambda _: True
    topics = await (await call.admin()).list_topics(include_internal=True)

    def is_visible(subject: str) -> bool:
        try:
            return topic_of(parse(subject)) in topics
        except registry_faults.Fault:
            return False

    return is_visible


async def _refuse_hidden(call: Call, *subjects: str) -> None:
    is_visible = await _visible(call)
    for one in subjects:
        if not is_visible(one):
            raise not_found(f"there is no subject {one[:200]!r}")


async def _check_change(call: Call) -> None:
    await call.check_administrator("schemas are changed")


def _path(subject: str, *more: str) -> str:
    return "/".join(("/subjects", quote(subject, safe=""), *(quote(one, safe="") for one in more)))


def _version(found: dict[str, Any]) -> dict[str, Any]:
    return {
        "version": found["version"],
        "id": found["id"],
        "type": found.get("schemaType") or "AVRO",
        "schema": found["schema"],
        "references": found.get("references") or [],
    }


async def schemas(call: Call) -> dict[str, Any]:
    is_visible = await _visible(call)

    def work(registry: Registry) -> dict[str, Any]:
        rows = []
        for subject in [one for one in registry.subjects() if is_visible(one)][:MAX_SUBJECTS]:
            versions = registry.ask("GET", _path(subject, "versions"))
            latest = registry.ask("GET", _path(subject, "versions", "latest"))
            rows.append(
                {
                    "subject": subject,
                    "version": latest["version"],
                    "id": latest["id"],
                    "type": latest.get("schemaType") or "AVRO",
                    "version_count": len(versions),
                }
            )
        level = registry.ask("GET", "/config").get("compatibilityLevel")
        return {"subjects": rows, "compatibility": level}

    return await _asked(call, work)


async def schema(call: Call) -> dict[str, Any]:
    subject = call.names["subject"]
    await _refuse_hidden(call, subject)

    def work(registry: Registry) -> dict[str, Any]:
        numbers = registry.ask("GET", _path(subject, "versions"))
        found = [registry.ask("GET", _path(subject, "versions", str(one))) for one in numbers]
        level = registry.ask("GET", f"/config/{quote(subject, safe='')}?defaultToGlobal=true")
        return {
            "subject": subject,
            "compatibility": level.get("compatibilityLevel"),
            "versions": [_version(one) for one in found],
        }

    return await _asked(call, work)


def _body(call: Call) -> dict[str, Any]:
    asked = call.asked()
    given, kind, references = asked.get("schema"), asked.get("type") or "AVRO", asked.get("references") or []
    if not isinstance(given, str) or not given or len(given) > MAX_SCHEMA:
        raise invalid(f"schema is a text of at most {MAX_SCHEMA} characters")
    if kind not in TYPES:
        raise invalid(f"type is one of {', '.join(TYPES)}")
    if not isinstance(references, list):
        raise invalid("references is a list")
    named = [
        {
            "name": text(document(one).get("name"), "references.name"),
            "subject": text(one.get("subject"), "references.subject"),
            "version": integer(one.get("version"), "references.version", -1, 2**31 - 1),
        }
        for one in references
    ]
    return {"schema": given, "schemaType": kind} | ({"references": named} if named else {})


async def check(call: Call) -> dict[str, Any]:
    subject, body = call.names["subject"], _body(call)
    await _refuse_hidden(call, subject, *(one["subject"] for one in body.get("references", ())))

    def work(registry: Registry) -> dict[str, Any]:
        path = f"/compatibility{_path(subject, 'versions')}?verbose=true"
        try:
            found = registry.ask("POST", path, body, subject)
        except SchemaNotFound:
            return {"is_compatible": True, "messages": []}  # a new subject
        return {"is_compatible": bool(found["is_compatible"]), "messages": found.get("messages") or []}

    return await _asked(call, work)


async def register(call: Call) -> dict[str, Any]:
    subject, body = call.names["subject"], _body(call)
    await _check_change(call)

    def work(registry: Registry) -> dict[str, Any]:
        found = registry.ask("POST", _path(subject, "versions"), body, subject)
        version = registry.ask("POST", _path(subject), body, subject).get("version")
        return {"ok": True, "id": found["id"], "version": version}

    return await _asked(call, work)


async def change_compatibility(call: Call) -> dict[str, Any]:
    subject, level = call.names["subject"], call.asked().get("level")
    if level is not None and level not in LEVELS:
        raise invalid(f"level is one of {', '.join(LEVELS)}, or null for the registry's own")
    await _check_change(call)

    def work(registry: Registry) -> dict[str, Any]:
        path = f"/config/{quote(subject, safe='')}"
        if level is None:
            registry.ask("DELETE", path)
        else:
            registry.ask("PUT", path, {"compatibility": level}, subject)
        return {"ok": True}

    return await _asked(call, work)


async def delete(call: Call) -> dict[str, Any]:
    subject, version = call.names["subject"], call.asked().get("version")
    number = None if version is None else integer(version, "version", 1, 2**31 - 1)
    await _check_change(call)
    if call.is_preview():
        numbers = await _asked(call, lambda registry: registry.ask("GET", _path(subject, "versions")))
        deleted = numbers if number is None else [one for one in numbers if one == number]
        return {"preview": {"versions": deleted}, "confirm": subject}
    call.confirm(subject)
    more = () if number is None else ("versions", str(number))
    query = "?permanent=true" if call.asked().get("permanent") is True else ""
    await _asked(call, lambda registry: registry.ask("DELETE", _path(subject, *more) + query))
    return {"ok": True}

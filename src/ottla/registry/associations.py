"""Associations: which subject the keys or values of a topic have, as Confluent's registry keeps it beside its schemas.

An association is STRONG or WEAK. A STRONG one is made together with its topic, has the subject
`:.namespace:topic-value` (or `-key`) for itself and is frozen; a WEAK one only names a subject, which others may use.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ottla.machine import Decision
from ottla.registry import faults, records
from ottla.registry.commands import Commands
from ottla.registry.records import TOPIC, Association, Record
from ottla.registry.state import State
from ottla.registry.subjects import Subject, parse

BATCH_GET, BATCH_MUTATE = "associations:batchGet", "associations:batchMutate"
STRONG, WEAK = "STRONG", "WEAK"
TYPES = ("key", "value")
MAX_BATCH_COUNT = 1_000


class _Wanted(NamedTuple):
    """One association of a request."""

    type: str
    subject: str | None
    lifecycle: str | None
    frozen: bool | None
    schema: Mapping[str, Any] | None
    is_normalized: bool


class _Resource(NamedTuple):
    name: str
    namespace: str
    id: str
    kind: str

    def default_subject(self, type_: str) -> str:
        return f":.{self.namespace}:{self.name}-{type_}"


class Associations:
    """Commands on the associations of a state."""

    def __init__(self, state: State, commands: Commands) -> None:
        self._state = state
        self._commands = commands

    def create(self, body: Mapping[str, Any], context: str, *, is_dry: bool) -> Decision[dict[str, Any]]:
        return self._put(body, context, {}, is_create=True, is_dry=is_dry)

    def update(
        self, resource_id: str, body: Mapping[str, Any], context: str, *, is_dry: bool
    ) -> Decision[dict[str, Any]]:
        if body.get("resourceId") not in (None, resource_id):
            raise _invalid("resourceId", "the path has another resource ID than the body")
        return self._put({**body, "resourceId": resource_id}, context, {}, is_create=False, is_dry=is_dry)

    def delete(
        self, resource_id: str, types: Sequence[str], *, is_cascading: bool, is_dry: bool, resource_type: str = TOPIC
    ) -> Decision[None]:
        written: list[Record] = []
        for one in self._state.associations(resource_id=resource_id):
            if not one.is_of(resource_type, types, ""):
                continue
            subject = parse(one.subject)
            self._commands.refuse_read_only(subject)
            if one.is_frozen and not is_cascading:
                raise faults.association_frozen(one.type, one.subject)
            written.append(records.association_record(one, is_there=False))
            if is_cascading and one.lifecycle == STRONG and self._state.mode(subject) != "IMPORT":
                every = self._state.versions(subject, is_deleted_included=True)
                written += [records.schema_tombstone(subject.key, version.version) for version in every]
                written += self._commands.ids_kept(subject, every)
        return Decision([] if is_dry else written, None)

    def batch_get(self, body: Mapping[str, Any]) -> dict[str, Any]:
        results: list[dict[str, Any]] = []
        for one in _batch(body):
            wanted = _text(one, "resourceId")
            if wanted:
                found = self._state.associations(resource_id=wanted)
            else:
                found = self._state.associations(
                    namespace=_text(one, "resourceNamespace"), name=_text(one, "resourceName")
                )
            types = tuple(str(type_) for type_ in one.get("associationTypes") or ())
            kept = [entry for entry in found if entry.is_of(TOPIC, types, str(one.get("lifecycle") or ""))]
            first = kept[0] if kept else None
            place = _Resource(
                _text(one, "resourceName") or (first.name if first else ""),
                _text(one, "resourceNamespace") or (first.namespace if first else ""),
                wanted or (first.resource_id if first else ""),
                TOPIC,
            )
            results.append({"result": _response(place, kept, {})})
        return {"results": results}

    def batch_mutate(self, body: Mapping[str, Any], context: str, *, is_dry: bool) -> Decision[dict[str, Any]]:
        """Requests are independent: a refused one does not affect the others. Each is decided on the state before the
        batch, so two requests that name the same resource or subject are refused."""
        results: list[dict[str, Any]] = []
        written: list[Record] = []
        used: set[bytes] = set()
        given_ids: dict[tuple[str, str], int] = {}
        for one in _batch(body):
            try:
                context_key = records.context_record(f".{_text(one, 'resourceNamespace')}").key
                decision = self._operations(one, context, given_ids, is_dry)
                keys = {record.key for record in decision.records} - {context_key}
                if keys & used:
                    raise _invalid("resourceId", "the batch names the resource or its subject more than once")
                used |= keys
            except faults.Fault as fault:
                results.append({"error": {"error_code": fault.code, "message": fault.message}})
                continue
            written += decision.records
            results.append({"result": decision.reply})
        return Decision(written, {"results": results})

    def _operations(
        self, one: Mapping[str, Any], context: str, given_ids: dict[tuple[str, str], int], is_dry: bool
    ) -> Decision[dict[str, Any]]:
        operations = one.get("associations")
        if not isinstance(operations, list) or not operations or not all(isinstance(op, dict) for op in operations):
            raise _invalid("associations", "cannot be null or empty")
        words = {str(op.get("type") or "").upper() for op in operations}
        if words == {"DELETE"}:
            types = tuple(str(op.get("associationType") or "value") for op in operations)
            is_cascading = all(op.get("cascadeLifecycle") is True for op in operations)
            deleted = self.delete(_text(one, "resourceId"), types, is_cascading=is_cascading, is_dry=is_dry)
            place = _Resource(
                _text(one, "resourceName"), _text(one, "resourceNamespace"), _text(one, "resourceId"), TOPIC
            )
            return Decision(deleted.records, _response(place, (), {}))
        if words not in ({"CREATE"}, {"UPSERT"}):
            raise _invalid("type", "the operations of one resource are all CREATE, all UPSERT or all DELETE")
        return self._put(one, context, given_ids, is_create=words == {"CREATE"}, is_dry=is_dry)

    # Creating and updating

    def _put(
        self,
        body: Mapping[str, Any],
        context: str,
        given_ids: dict[tuple[str, str], int],
        *,
        is_create: bool,
        is_dry: bool,
    ) -> Decision[dict[str, Any]]:
        place = _resource(body, is_dry)
        wanted = _wanted(body, context)
        known = {one.type: one for one in self._state.associations(resource_id=place.id)} if place.id else {}
        made: list[Association] = []
        written: list[Record] = []
        schemas: dict[str, Any] = {}
        for one in wanted:
            found, is_new = self._one(place, one, known.get(one.type), is_create=is_create)
            subject = parse(found.subject, context)
            self._commands.refuse_read_only(subject)
            self._refuse_taken(subject, found, known.get(one.type))
            if one.schema is None and not self._state.versions(subject):
                raise faults.no_active_version(found.subject)
            if one.schema is not None:
                decision = self._commands.register(
                    subject, one.schema, is_normalized=one.is_normalized, given_ids=given_ids
                )
                written += decision.records
                schemas[one.type] = decision.reply
            if is_new:
                made.append(found)
                written.append(records.association_record(found))
        if len({one.lifecycle for one in (*made, *known.values())}) > 1:
            raise _invalid("lifecycle", "the associations of a resource have the same lifecycle")
        return Decision([] if is_dry else written, _response(place, () if is_dry else made, schemas))

    def _one(
        self, place: _Resource, one: _Wanted, known: Association | None, *, is_create: bool
    ) -> tuple[Association, bool]:
        """The requested association, and whether it is new or changed."""
        default = place.default_subject(one.type)
        lifecycle = one.lifecycle or (STRONG if one.schema is not None else known.lifecycle if known else WEAK)
        frozen = one.frozen if one.frozen is not None else (known.is_frozen if known else lifecycle == STRONG)
        if lifecycle == WEAK and one.schema is not None:
            raise _invalid("lifecycle", "cannot be WEAK when schema is provided")
        if frozen != (lifecycle == STRONG):
            shown = str(frozen).lower()
            raise _invalid("frozen", f"association with lifecycle of {lifecycle} cannot be frozen={shown}")
        subject = one.subject or (known.subject if known else default if lifecycle == STRONG else None)
        if subject is None:
            raise _invalid("subject", "must be provided for WEAK associations")
        if lifecycle == WEAK and subject == default:
            raise _invalid("subject", f"WEAK associations cannot use subject '{default}'")
        if frozen and subject != default:
            raise _invalid("subject", f"frozen associations must use subject '{default}'")
        if known is None:
            self._refuse_new(one, lifecycle, parse(subject), is_create=is_create)
            key = f"{place.namespace}/{place.name}/{place.id}/{one.type}/{subject}"
            guid = str(uuid.UUID(bytes=hashlib.md5(key.encode(), usedforsecurity=False).digest()))
            return Association(
                guid, place.name, place.namespace, place.id, place.kind, one.type, subject, lifecycle, frozen
            ), True
        if known.subject == subject and known.lifecycle == lifecycle and known.is_frozen == frozen:
            if is_create and one.schema is not None and not self._has(parse(subject), one.schema):
                raise faults.association_exists(one.type, place.name)
            return known, False
        if is_create:
            raise faults.association_exists(one.type, place.name)
        if known.subject != subject:
            raise _invalid("subject", f"subject of association cannot be changed from '{known.subject}' to '{subject}'")
        if known.is_frozen:
            raise faults.association_frozen(known.type, known.subject)
        return known._replace(lifecycle=lifecycle, is_frozen=frozen), True

    def _refuse_new(self, one: _Wanted, lifecycle: str, subject: Subject, *, is_create: bool) -> None:
        """A STRONG association belongs to its topic: it is created with the topic and with the first schema."""
        if lifecycle != STRONG or self._state.mode(subject) == "IMPORT":
            return
        if not is_create:
            raise _invalid("lifecycle", "STRONG associations must be created with the topic")
        if one.schema is None:
            raise _invalid("schema", "schema must be provided when creating a frozen association")
        live = self._state.versions(subject)
        if live and (live[-1].version != 1 or not self._has(subject, one.schema)):
            raise _invalid("frozen", "cannot create a frozen association when schemas already exist in the subject")

    def _has(self, subject: Subject, schema: Mapping[str, Any]) -> bool:
        try:
            self._commands.lookup(subject, schema)
        except faults.Fault:
            return False
        return True

    def _refuse_taken(self, subject: Subject, wanted: Association, known: Association | None) -> None:
        others = [one for one in self._state.associations(subject=subject.key) if known is None or one.key != known.key]
        others = [one for one in others if one.key != wanted.key]
        if wanted.lifecycle == STRONG:
            if others:
                raise faults.subject_associated(subject.key)
            if any(self._state.referrers(subject, one.version) for one in self._state.versions(subject)):
                raise faults.Fault(422, 42206, f"One or more references exist to the schema {subject.key}.")
        elif any(one.lifecycle == STRONG for one in others):
            raise faults.subject_strongly_associated(subject.key)


def _resource(body: Mapping[str, Any], is_dry: bool) -> _Resource:
    for name in ("resourceName", "resourceNamespace"):
        if not _text(body, name):
            raise _invalid(name, "cannot be null or empty")
    if not is_dry and not _text(body, "resourceId"):
        raise _invalid("resourceId", "cannot be null or empty")
    kind = _text(body, "resourceType") or TOPIC
    if kind != TOPIC:
        raise _invalid("resourceType", f"must be '{TOPIC}'")
    return _Resource(_text(body, "resourceName"), _text(body, "resourceNamespace"), _text(body, "resourceId"), kind)


def _wanted(body: Mapping[str, Any], context: str) -> list[_Wanted]:
    given = body.get("associations")
    if not isinstance(given, list) or not given or not all(isinstance(one, dict) for one in given):
        raise _invalid("associations", "cannot be null or empty")
    found: dict[str, _Wanted] = {}
    for one in given:
        type_, lifecycle = _text(one, "associationType") or "value", _text(one, "lifecycle").upper() or None
        schema, frozen = one.get("schema"), one.get("frozen")
        if type_ not in TYPES:
            raise _invalid("associationType", "must be either 'key' or 'value'")
        if type_ in found:
            raise _invalid("associationType", f"may only appear once per request, but '{type_}' appears more than once")
        if lifecycle not in (None, STRONG, WEAK):
            raise _invalid("lifecycle", f"must be {STRONG} or {WEAK}")
        if not isinstance(schema, dict | None) or not isinstance(frozen, bool | None):
            raise _invalid("schema", "is no object, or frozen is not true or false")
        subject = _text(one, "subject")
        key = parse(subject, context).key if subject else None
        found[type_] = _Wanted(type_, key, lifecycle, frozen, schema, one.get("normalize") is True)
    return list(found.values())


def _batch(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    given = body.get("requests")
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise _invalid("requests", "is no list of objects")
    if len(given) > MAX_BATCH_COUNT:
        raise _invalid("requests", f"has more than {MAX_BATCH_COUNT} entries")
    return given


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if value is not None and (not isinstance(value, str) or len(value) > 1_000):
        raise _invalid(name, "is no text of at most 1,000 characters")
    return value or ""


def _response(place: _Resource, made: Iterable[Association], schemas: Mapping[str, Any]) -> dict[str, Any]:
    listed = []
    for one in made:
        entry: dict[str, Any] = {"subject": one.subject, "associationType": one.type, "lifecycle": one.lifecycle}
        if one.type in schemas:
            entry["schema"] = schemas[one.type]
        listed.append(entry)
    answer = {"resourceName": place.name, "resourceNamespace": place.namespace, "resourceId": place.id}
    return {**answer, "resourceType": place.kind, "associations": listed}


def _invalid(name: str, detail: str) -> faults.Fault:
    return faults.invalid_association(name, detail)

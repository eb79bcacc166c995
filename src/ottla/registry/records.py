"""Records of `_schemas`, as Confluent's registry writes them: JSON keys and values in its order of fields.

Compaction compares keys as bytes, so the order of a key's fields is part of the format.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

SCHEMA, CONFIG, MODE, NOOP = "SCHEMA", "CONFIG", "MODE", "NOOP"
DELETE_SUBJECT, CLEAR_SUBJECT, CONTEXT, ASSOCIATION = "DELETE_SUBJECT", "CLEAR_SUBJECT", "CONTEXT", "ASSOC"
TOPIC = "topic"
AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
MAX_ID = 2**31 - 1
_SECTIONS = ("migrationRules", "domainRules", "encodingRules")
_ID_FIELD = re.compile(rb'"id" ?: ?([0-9]{1,9})\b')
_RULE_TEXTS = ("name", "doc", "kind", "mode", "type")


class Record(NamedTuple):
    """One record of the topic; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


class Reference(NamedTuple):
    """Another schema that a schema needs, under the name by which its text calls it."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """One version of a subject."""

    subject: str
    version: int
    id: int
    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: dict[str, Any] | None = None
    rule_set: dict[str, Any] | None = None
    is_deleted: bool = False
    guid: str = ""
    timestamp: int = 0

    def deleted(self) -> StoredSchema:
        return replace(self, is_deleted=True)


class Association(NamedTuple):
    """A subject of the keys or values of a topic."""

    guid: str
    name: str
    namespace: str
    resource_id: str
    kind: str
    type: str
    subject: str
    lifecycle: str
    is_frozen: bool
    created_at: int = 0
    updated_at: int = 0

    @property
    def key(self) -> tuple[str, ...]:
        return (self.name, self.namespace, self.kind, self.type, self.subject)

    def is_of(self, kind: str, types: Sequence[str], lifecycle: str) -> bool:
        """Whether a listing with these filters has it; an empty one lets everything through."""
        return self.kind == kind and (not types or self.type in types) and lifecycle in ("", self.lifecycle)

    def answer(self) -> dict[str, Any]:
        answer: dict[str, Any] = {
            "subject": self.subject, "guid": self.guid, "resourceName": self.name,
            "resourceNamespace": self.namespace, "resourceId": self.resource_id, "resourceType": self.kind,
            "associationType": self.type, "lifecycle": self.lifecycle,
        }  # fmt: skip
        if self.is_frozen != (self.lifecycle == "STRONG"):
            answer["frozen"] = self.is_frozen
        return {**answer, "createTs": self.created_at, "updateTs": self.updated_at}


def guid_of(
    text: str,
    references: tuple[Reference, ...],
    metadata: dict[str, Any] | None,
    rule_set: dict[str, Any] | None,
) -> str:
    """Identifies a schema in every context and registry: the MD5 that Confluent's registry computes."""
    digest = hashlib.md5(text.encode(), usedforsecurity=False)
    for one in references:
        digest.update(one.name.encode() + one.subject.encode() + struct.pack(">i", one.version))
    if metadata is not None:
        digest.update(b"\x01")
        for key, values in sorted((metadata.get("tags") or {}).items()):
            digest.update("".join([key, *sorted(values)]).encode())
        for key, value in sorted((metadata.get("properties") or {}).items()):
            digest.update((key + value).encode())
        digest.update("".join(sorted(metadata.get("sensitive") or ())).encode())
    if rule_set is not None:
        digest.update(b"\x01")
        for section in _SECTIONS:
            for rule in rule_set.get(section) or ():
                _update_with_rule(digest, rule)
        digest.update((rule_set.get("enableAt") or "").encode())
    return str(uuid.UUID(bytes=digest.digest()))


def _update_with_rule(digest: Any, rule: dict[str, Any]) -> None:
    parts = [rule.get(one) or "" for one in _RULE_TEXTS]
    parts += sorted(rule.get("tags") or ())
    for key, value in sorted((rule.get("params") or {}).items()):
        parts += [key, value]
    parts += [rule.get(one) or "" for one in ("expr", "onSuccess", "onFailure")]
    digest.update("".join(parts).encode())
    if rule.get("disabled"):
        digest.update(b"\x01")


def _encode(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def _key(kind: str, subject: str) -> bytes:
    named = {"subject": subject} if subject else {}
    return _encode({"keytype": kind, **named, "magic": 0})


def schema_key(subject: str, version: int) -> bytes:
    return _encode({"keytype": SCHEMA, "subject": subject, "version": version, "magic": 1})


def own_key(document: Mapping[str, Any]) -> bytes | None:
    """The key that this registry writes for what a key names; None: it never writes that again."""
    kind, subject = document["keytype"], document.get("subject") or ""
    if kind == SCHEMA:
        return schema_key(subject, document["version"])
    return _key(kind, subject) if kind in (CONFIG, MODE) else None


def schema_record(stored: StoredSchema) -> Record:
    document: dict[str, Any] = {
        "subject": stored.subject,
        "version": stored.version,
        "id": stored.id,
        "schemaType": stored.kind,
    }
    if stored.references:
        document["references"] = [one._asdict() for one in stored.references]
    if stored.metadata is not None:
        document["metadata"] = stored.metadata
    if stored.rule_set is not None:
        document["ruleSet"] = stored.rule_set
    document |= {"schema": stored.text, "deleted": stored.is_deleted}
    return Record(schema_key(stored.subject, stored.version), _encode(document))


def schema_tombstone(subject: str, version: int) -> Record:
    return Record(schema_key(subject, version), None)


def delete_subject_record(subject: str, version: int) -> Record:
    return Record(_key(DELETE_SUBJECT, subject), _encode({"subject": subject, "version": version}))


def config_record(subject: str, config: dict[str, Any] | None) -> Record:
    named = {"subject": subject} if subject else {}
    return Record(_key(CONFIG, subject), None if config is None else _encode({**named, **config}))


def mode_record(subject: str, mode: str | None) -> Record:
    named = {"subject": subject} if subject else {}
    return Record(_key(MODE, subject), None if mode is None else _encode({**named, "mode": mode}))


def context_record(context: str, *, is_there: bool = True) -> Record:
    named = {"tenant": "default", "context": context}
    return Record(_encode({"keytype": CONTEXT, **named, "magic": 0}), _encode(named) if is_there else None)


def association_record(one: Association, *, is_there: bool = True) -> Record:
    key = {
        "keytype": ASSOCIATION, "tenant": "default", "resourceName": one.name, "resourceNamespace": one.namespace,
        "resourceType": one.kind, "associationType": one.type, "subject": one.subject, "magic": 0,
    }  # fmt: skip
    value = {
        "subject": one.subject, "guid": one.guid, "tenant": "default", "resourceName": one.name,
        "resourceNamespace": one.namespace, "resourceId": one.resource_id, "resourceType": one.kind,
        "associationType": one.type, "lifecycle": one.lifecycle, "frozen": one.is_frozen,
    }  # fmt: skip
    if one.created_at:
        value["createTs"] = one.created_at
    return Record(_encode(key), _encode(value) if is_there else None)


def decode_association(subject: str, document: dict[str, Any], timestamp: int) -> Association:
    """ValueError, KeyError: no association."""
    names = ("guid", "resourceName", "resourceNamespace", "resourceId", "resourceType", "associationType")
    guid, name, namespace, resource_id, kind, type_ = (document[one] for one in names)
    lifecycle, created_at = document["lifecycle"], document.get("createTs")
    if not all(isinstance(document[one], str) for one in names) or lifecycle not in ("STRONG", "WEAK"):
        raise ValueError("no association")
    return Association(
        guid, name, namespace, resource_id, kind, type_, subject, lifecycle, document.get("frozen") is True,
        created_at if isinstance(created_at, int) else timestamp, timestamp,
    )  # fmt: skip


def noop_record(max_ids: Mapping[str, int] | None = None) -> Record:
    """Written by a new leader: once it is read back, everything before it was read. Its value keeps the highest id of
    each context when compaction has removed the schema that had it; other registries do not look at it."""
    return Record(_encode({"keytype": NOOP, "magic": 0}), _encode({"maxIds": dict(max_ids)}) if max_ids else None)


def id_in_damaged(value: bytes) -> int | None:
    """The id of a schema whose record cannot be decoded, if the id is readable."""
    found = _ID_FIELD.search(value)
    return int(found.group(1)) if found is not None else None


def decode_schema(subject: str, version: int, document: dict[str, Any], timestamp: int) -> StoredSchema:
    """A version from its record's value; the key names the subject. ValueError, TypeError, KeyError: no schema."""
    id_, text = document["id"], document["schema"]
    if not isinstance(id_, int) or isinstance(id_, bool) or not 0 <= id_ <= MAX_ID or not isinstance(text, str):
        raise ValueError("no id or no schema")
    references = tuple(
        Reference(str(one["name"]), str(one["subject"]), int(one["version"]))
        for one in document.get("references") or ()
    )
    metadata, rule_set = document.get("metadata"), document.get("ruleSet")
    if not isinstance(metadata, dict | None) or not isinstance(rule_set, dict | None):
        raise ValueError("metadata or ruleSet is no object")
    return StoredSchema(
        subject,
        version,
        id_,
        str(document.get("schemaType") or AVRO),
        text,
        references,
        metadata,
        rule_set,
        document.get("deleted") is True,
        guid_of(text, references, metadata, rule_set),
        timestamp,
    )

"""Everything that `_schemas` says, as tables: the state of a schema registry.

`replay` is the only thing that changes it; leader, follower and restart run the same. Invariants:

1. An id that was once read is never given again: `next_id` only grows, also over tombstones, and a NOOP record keeps it
   when compaction has removed them. The id of a damaged record counts if it can be seen.
2. A record that cannot be understood changes nothing and is counted; every other record still counts.
3. `_by_id`, `_by_guid` and `_referrers` hold exactly the versions of `_versions`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ottla.registry import records, subjects
from ottla.registry.faults import Fault
from ottla.registry.records import Association, Record, StoredSchema
from ottla.registry.subjects import Subject

DEFAULT_LEVEL = "BACKWARD"
DEFAULT_MODE = "READWRITE"


class State:
    """Subjects, their versions, settings and modes."""

    def __init__(self, default_level: str = DEFAULT_LEVEL) -> None:
        self.default_level = default_level
        self.skipped_count = 0
        self.change_count = 0
        """Grows with each change: what was read under one number is what a read under the same number gives."""
        self.configs: dict[str, dict[str, Any]] = {}
        self.modes: dict[str, str] = {}
        self._contexts: set[str] = set()
        self._versions: dict[str, dict[int, StoredSchema]] = {}
        self._by_id: dict[tuple[str, int], dict[tuple[str, int], StoredSchema]] = {}
        self._by_guid: dict[str, dict[tuple[str, int], None]] = {}
        self._referrers: dict[tuple[str, int], dict[tuple[str, int], None]] = {}
        self._max_id: dict[str, int] = {}
        self._associations: dict[tuple[str, ...], Association] = {}
        self._other_keys: dict[bytes, dict[bytes, None]] = {}
        """Keys of other registries by this one's: old ones of Karapace have their fields in another order."""

    # Reading

    def versions(self, subject: Subject, *, is_deleted_included: bool = False) -> list[StoredSchema]:
        """The versions of a subject, oldest first."""
        found = self._versions.get(subject.key, {})
        return [found[one] for one in sorted(found) if is_deleted_included or not found[one].is_deleted]

    def version(self, subject: Subject, version: int) -> StoredSchema | None:
        return self._versions.get(subject.key, {}).get(version)

    def subjects(self) -> Iterator[Subject]:
        """Every subject that has a version, deleted or not."""
        return (subjects.parse(one) for one in sorted(self._versions))

    def unaliased(self, subject: Subject) -> Subject:
        """The subject behind a name: the name itself, unless its settings define it as an alias."""
        alias = self.configs.get(subject.key, {}).get("alias")
        if not isinstance(alias, str) or not alias:
            return subject
        found = subjects.parse(alias, subject.context)
        return found if found.name else subject

    def contexts(self) -> list[str]:
        used = {subjects.parse(one).context for one in self._versions}
        return sorted(self._contexts | used | {subjects.DEFAULT_CONTEXT})

    def with_id(self, context: str, id_: int) -> list[StoredSchema]:
        """The versions with an id in a context, undeleted ones first."""
        found = self._by_id.get((context, id_), {})
        return sorted(found.values(), key=lambda one: (one.is_deleted, one.subject, one.version))

    def ids_of_guid(self, guid: str) -> list[tuple[str, int]]:
        """Contexts and ids of a schema."""
        return sorted(self._by_guid.get(guid, ()))

    def id_of_guid(self, context: str, guid: str) -> int | None:
        """The id that a schema has in a context, the first one given to it."""
        return min((id_ for where, id_ in self._by_guid.get(guid, ()) if where == context), default=None)

    def referrers(self, subject: Subject, version: int) -> list[StoredSchema]:
        """Versions that refer to a version."""
        found = (self._versions[key][number] for key, number in self._referrers.get((subject.key, version), ()))
        return sorted(found, key=lambda one: one.id)

    def next_id(self, context: str) -> int:
        return self._max_id.get(context, 0) + 1

    def max_id(self, context: str) -> int:
        return self._max_id.get(context, 0)

    def max_ids(self) -> dict[str, int]:
        """The highest id of each context that has any."""
        return dict(self._max_id)

    def config(self, subject: Subject) -> dict[str, Any]:
        """The settings that hold for a subject: its own, then its context's, then the global ones."""
        merged: dict[str, Any] = {"compatibilityLevel": self.default_level}
        for scope in reversed(subject.scopes):
            merged |= self.configs.get(scope, {})
        return merged

    def mode(self, subject: Subject) -> str:
        return next((self.modes[one] for one in subject.scopes if one in self.modes), DEFAULT_MODE)

    def associations(
        self, *, subject: str = "", namespace: str = "", name: str = "", resource_id: str = ""
    ) -> list[Association]:
        """Associations of a subject, of a resource, or of a namespace."""
        return [
            one
            for _, one in sorted(self._associations.items())
            if subject in ("", one.subject)
            and namespace in ("", one.namespace)
            and name in ("", one.name)
            and resource_id in ("", one.resource_id)
        ]

    def replacing(self, written: Sequence[Record]) -> list[Record]:
        """Records to write, with tombstones of what stands under other keys for the same: compaction keeps each key's
        last record, so a version that is removed under one key would come back under another."""
        return [
            one
            for record in written
            for one in (*(Record(key, None) for key in self._other_keys.get(record.key, ())), record)
        ]

    # Replay

    def replay(self, key: bytes | None, value: bytes | None, timestamp: int = 0) -> bool:
        """Apply one record. False: it is damaged or unknown, and is skipped."""
        self.change_count += 1
        try:
            document = json.loads(key or b"")
            kind = document["keytype"]
            content = None if value is None else json.loads(value)
            if content is not None and not isinstance(content, dict):
                raise ValueError("no object")
            self._apply(kind, document, content, timestamp)
            own = records.own_key(document)
            if own is not None and key is not None and own != key and content is not None:
                self._other_keys.setdefault(own, {})[key] = None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, Fault, _Unknown):
            self.skipped_count += 1
            self._note_damaged(key, value)
            return False
        return True

    def try_out(self, written: Sequence[Record]) -> Callable[[], None]:
        """Apply the records of a registration; returns a function that takes them back."""
        max_id, contexts = dict(self._max_id), set(self._contexts)
        before: list[tuple[str, int, StoredSchema | None]] = []
        for one in written:
            key = json.loads(one.key)
            if key["keytype"] == records.SCHEMA:
                subject, version = key["subject"], key["version"]
                before.append((subject, version, self._versions.get(subject, {}).get(version)))
            self.replay(one.key, one.value)

        def undo() -> None:
            self.change_count += 1
            for subject, version, stored in reversed(before):
                if stored is None:
                    self._remove(subject, version)
                else:
                    self._put(stored)
            self._max_id, self._contexts = max_id, contexts

        return undo

    def _apply(self, kind: str, key: dict[str, Any], content: dict[str, Any] | None, timestamp: int) -> None:
        subject = key.get("subject") or ""
        if not isinstance(subject, str):
            raise ValueError("subject is no text")
        if kind == records.SCHEMA:
            version = key["version"]
            if not isinstance(version, int) or isinstance(version, bool) or version < 1 or not subject:
                raise ValueError("no version")
            if content is None:
                self._remove(subject, version)
            else:
                self._put(records.decode_schema(subject, version, content, timestamp))
        elif kind == records.CONFIG:
            self._set_config(subject, content)
        elif kind == records.MODE:
            if content is None:
                self.modes.pop(subject, None)
            else:
                self.modes[subject] = str(content["mode"])
        elif kind == records.DELETE_SUBJECT:
            if content is not None:
                self._soft_delete(subject, int(content["version"]))
        elif kind == records.CLEAR_SUBJECT:
            if content is not None:
                for one in [one for one in self._versions.get(subject, {}).values() if one.is_deleted]:
                    self._remove(subject, one.version)
        elif kind == records.CONTEXT:
            self._contexts.discard(str(key["context"]))
            if content is not None:
                self._contexts.add(str(key["context"]))
        elif kind == records.ASSOCIATION:
            fields = ("resourceName", "resourceNamespace", "resourceType", "associationType")
            self._associations.pop((*(str(key[one]) for one in fields), subject), None)
            if content is not None:
                made = records.decode_association(subject, content, timestamp)
                self._associations[made.key] = made
        elif kind == records.NOOP:
            for context, id_ in ((content or {}).get("maxIds") or {}).items():
                self._note_id(context, int(id_))
        else:
            raise _Unknown

    def _note_damaged(self, key: bytes | None, value: bytes | None) -> None:
        if key is None or value is None or records.SCHEMA.encode() not in key:
            return
        id_ = records.id_in_damaged(value)
        if id_ is not None:
            try:
                context = subjects.parse(json.loads(key)["subject"]).context
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError, Fault):
                context = subjects.DEFAULT_CONTEXT
            self._note_id(context, id_)

    def _note_id(self, context: str, id_: int) -> None:
        if 0 <= id_ <= records.MAX_ID:
            self._max_id[context] = max(self._max_id.get(context, 0), id_)

    def _set_config(self, subject: str, content: dict[str, Any] | None) -> None:
        if content is None:
            self.configs.pop(subject, None)
        else:
            self.configs[subject] = {name: value for name, value in content.items() if name != "subject"}

    def _soft_delete(self, subject: str, last_version: int) -> None:
        for one in list(self._versions.get(subject, {}).values()):
            if one.version <= last_version and not one.is_deleted:
                self._put(one.deleted())

    def _put(self, stored: StoredSchema) -> None:
        self._remove(stored.subject, stored.version)
        context = subjects.parse(stored.subject).context
        place = (stored.subject, stored.version)
        self._versions.setdefault(stored.subject, {})[stored.version] = stored
        self._by_id.setdefault((context, stored.id), {})[place] = stored
        self._by_guid.setdefault(stored.guid, {})[(context, stored.id)] = None
        for needed in self._needed(stored):
            self._referrers.setdefault(needed, {})[place] = None
        self._note_id(context, stored.id)

    def _remove(self, subject: str, version: int) -> None:
        stored = self._versions.get(subject, {}).pop(version, None)
        if stored is None:
            return
        if not self._versions[subject]:
            del self._versions[subject]
        context = subjects.parse(subject).context
        place = (subject, version)
        same_id = self._by_id[(context, stored.id)]
        del same_id[place]
        if not any(one.guid == stored.guid for one in same_id.values()):
            self._by_guid[stored.guid].pop((context, stored.id), None)
            if not self._by_guid[stored.guid]:
                del self._by_guid[stored.guid]
        if not same_id:
            del self._by_id[(context, stored.id)]
        for needed in self._needed(stored):
            self._referrers.get(needed, {}).pop(place, None)
            if not self._referrers.get(needed):
                self._referrers.pop(needed, None)

    def _needed(self, stored: StoredSchema) -> Iterable[tuple[str, int]]:
        context = subjects.parse(stored.subject).context
        for one in stored.references:
            yield subjects.parse(one.subject, context).key, one.version


class _Unknown(Exception):
    """A record of a kind that a newer registry writes."""

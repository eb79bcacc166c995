"""What the registry decides: a command reads the state and answers with the records that make it true and a reply.

Only the leader runs commands that have records; every instance runs those that only read (`lookup`, `check`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from ottla.machine import Decision
from ottla.registry import contracts, faults, formats, records
from ottla.registry.avro import AvroSchema
from ottla.registry.formats import Schema
from ottla.registry.limits import (
    INLINE_CHARS,
    INLINE_STEP_COUNT,
    MAX_REFERENCE_COUNT,
    MAX_SHOWN_DIFFERENCE_COUNT,
    Budget,
    Difference,
    NeedsTime,
    OutOfSteps,
    Unusable,
)
from ottla.registry.records import AVRO, JSON, MAX_ID, Record, Reference, StoredSchema, guid_of
from ottla.registry.state import State
from ottla.registry.subjects import DEFAULT_CONTEXT, Subject, parse

MAX_PARSED_COUNT = 1_000
MAX_DIGEST_COUNT = 20_000
MAX_COMPARED_COUNT = 2_000
MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD")
_READ_ONLY = ("READONLY", "READONLY_OVERRIDE")
_CONFIG_FIELDS = (
    "alias", "aliasForDeks", "normalize", "validateFields", "validateNewSchemas", "validateRules", "compatibilityLevel",
    "compatibilityPolicy", "compatibilityGroup", "defaultMetadata", "overrideMetadata", "defaultRuleSet",
    "overrideRuleSet",
)  # fmt: skip
_FLAGS = ("normalize", "validateFields", "validateNewSchemas", "validateRules")
_TEXTS = ("alias", "aliasForDeks", "compatibilityPolicy", "compatibilityGroup")


Key = tuple[str, str]
"""Context, and the GUID or the digest of a text: what a parsed schema is kept under."""


class Compared(NamedTuple):
    """How two schemas differ, with as many differences as answers show."""

    differences: list[Difference]
    more_count: int = 0
    trouble: str = ""
    """Why they could not be compared."""


class Commands:
    """Commands on a state. With `is_timed` a command raises NeedsTime rather than to parse or to compare for long."""

    def __init__(self, state: State, *, is_timed: bool = False) -> None:
        self._state = state
        self._is_timed = is_timed
        self._parsed: dict[Key, Schema | Unusable] = {}
        self._compared: dict[tuple[str, Key, Key], Compared] = {}
        self._digests: dict[tuple[str, str, bool], bytes | None] = {}

    # Registration

    def register(
        self,
        subject: Subject,
        body: Mapping[str, Any],
        *,
        is_normalized: bool = False,
        given_ids: dict[tuple[str, str], int] | None = None,
    ) -> Decision[dict[str, Any]]:
        """A new version of a subject, or the one that already has this schema. A decision that registers several
        schemas hands `given_ids` (context and GUID to id) from one to the next."""
        given = self._given(subject, body)
        id_, version = _whole(body, "id", -1), _whole(body, "version", 0)
        mode = self._state.mode(subject)
        is_import = mode in ("IMPORT", "FORWARD")
        if mode in _READ_ONLY:
            raise _mode_refusal(subject, "in read-only mode")
        if id_ >= 0 and not is_import:
            raise _mode_refusal(subject, "not in import mode")
        if id_ < 0 and mode != "READWRITE":
            raise _mode_refusal(subject, "not in read-write mode")
        config = self._state.config(subject)
        live = self._state.versions(subject)
        if not is_import:
            given = contracts.completed(given, config, live[-1] if live else None)
        parsed = self._parse(given)
        stored = self._canonical(given, parsed, is_normalized or config.get("normalize") is True)
        known = self._find(live, stored, parsed, is_exact=True)
        if known is not None and version in (0, -1, known.version) and id_ in (-1, known.id):
            return Decision([], schema_answer(known))
        if not is_import:
            self._refuse_invalid(given, parsed, config)
            self._refuse_incompatible(subject, config, parsed, stored, live)
        given_ids = {} if given_ids is None else given_ids
        return self._new_version(subject, stored, id_, version, is_import, given_ids)

    def _new_version(
        self,
        subject: Subject,
        stored: StoredSchema,
        id_: int,
        version: int,
        is_import: bool,
        given_ids: dict[tuple[str, str], int],
    ) -> Decision[dict[str, Any]]:
        every = self._state.versions(subject, is_deleted_included=True)
        next_version = every[-1].version + 1 if every else 1
        if version > 0 and version != next_version and not is_import:
            raise faults.invalid_schema("Version is not one more than previous version")
        if next_version > MAX_ID or self._state.max_id(subject.context) >= MAX_ID:
            raise faults.store_failed("the registry has given its last id or version")
        if id_ < 0:
            place = (subject.context, stored.guid)
            same = self._state.id_of_guid(*place) or given_ids.get(place)
            ids = [one for (context, _), one in given_ids.items() if context == subject.context]
            id_ = max(self._state.next_id(subject.context), *(one + 1 for one in ids), 1) if same is None else same
            given_ids[place] = id_
        elif any(one.guid != stored.guid for one in self._state.with_id(subject.context, id_)):
            raise faults.not_permitted(
                f"Overwrite new schema with id {id_} in context {subject.context} is not permitted."
            )
        made = StoredSchema(
            subject.key, version if version > 0 else next_version, id_, stored.kind, stored.text, stored.references,
            stored.metadata, stored.rule_set, False, stored.guid,
        )  # fmt: skip
        written: list[Record] = []
        if subject.context != DEFAULT_CONTEXT and subject.context not in self._state.contexts():
            written.append(records.context_record(subject.context))
        for one in every:
            is_replaced = one.is_deleted and one.id == made.id and one.version < made.version
            if is_replaced and not self._state.referrers(subject, one.version):
                written.append(records.schema_tombstone(subject.key, one.version))
        written.append(records.schema_record(made))
        return Decision(written, schema_answer(made))

    def lookup(
        self,
        subject: Subject,
        body: Mapping[str, Any],
        *,
        is_normalized: bool = False,
        is_deleted_included: bool = False,
    ) -> StoredSchema:
        """The version of a subject that has this schema."""
        versions = self._state.versions(subject, is_deleted_included=is_deleted_included)
        if not versions:
            raise faults.subject_not_found(subject.key)
        given = self._given(subject, body)
        is_normalized = is_normalized or self._state.config(subject).get("normalize") is True
        parsed = self._parse(given)
        found = self._find(versions, self._canonical(given, parsed, is_normalized), parsed)
        if found is None:
            raise faults.schema_not_found()
        return found

    def _find(
        self, versions: list[StoredSchema], stored: StoredSchema, parsed: Schema, *, is_exact: bool = False
    ) -> StoredSchema | None:
        """The version that is the same schema, the newest first. A lookup without metadata and rules finds any."""
        for one in reversed(versions):
            if one.guid == stored.guid and one.kind == stored.kind:
                return one
        is_any = not is_exact and stored.metadata is None and stored.rule_set is None
        alike = [
            one
            for one in reversed(versions)
            if one.kind == stored.kind
            and (is_any or (one.metadata, one.rule_set) == (stored.metadata, stored.rule_set))
        ]
        for one in alike:
            if (one.text, one.references) == (stored.text, stored.references):
                return one
        for one in alike[:MAX_PARSED_COUNT]:
            if self._is_same(one, stored, parsed):
                return one
        return None

    def _is_same(self, one: StoredSchema, stored: StoredSchema, parsed: Schema) -> bool:
        """Whether a version is this schema in other words: another registry wrote its text (Karapace sorts the names in
        it), or this text has what the version refers to."""
        if one.references and not stored.references:
            return stored.kind == AVRO and self._worded(one, is_resolved=True) == _digest(stored.text)
        if sorted(set(one.references)) != sorted(set(stored.references)):
            return False
        found = self._worded(one)
        return found is not None and found == _digest(parsed.canonical(is_normalized=True))

    def _worded(self, one: StoredSchema, *, is_resolved: bool = False) -> bytes | None:
        """A digest of a version's text with its references in it, or in normal form. None: only its text counts, since
        this registry wrote it, or does not understand it."""
        key = (parse(one.subject).context, one.guid + one.kind, is_resolved)
        if key not in self._digests:
            if len(self._digests) >= MAX_DIGEST_COUNT:
                self._digests.clear()
            try:
                text = _other_text(one, self._parse(one), is_resolved=is_resolved)
            except faults.Fault:
                text = None
            self._digests[key] = None if text is None else _digest(text)
        return self._digests[key]

    # Compatibility

    def check(
        self, subject: Subject, body: Mapping[str, Any], versions: list[StoredSchema], *, is_normalized: bool = False
    ) -> list[str]:
        """Why a schema cannot follow these versions under the subject's level; empty: it can."""
        given = self._given(subject, body)
        config = self._state.config(subject)
        parsed = self._parse(given)
        self._refuse_invalid(given, parsed, config)
        stored = self._canonical(given, parsed, is_normalized or config.get("normalize") is True)
        return self._messages(config, parsed, stored, versions)

    def _refuse_incompatible(
        self,
        subject: Subject,
        config: Mapping[str, Any],
        parsed: Schema,
        stored: StoredSchema,
        live: list[StoredSchema],
    ) -> None:
        messages = self._messages(config, parsed, stored, live)
        if messages:
            raise faults.incompatible(
                f'Schema being registered is incompatible with an earlier schema for subject "{subject.key}", '
                f"details: [{', '.join(messages)}]"
            )

    def _messages(
        self, config: Mapping[str, Any], parsed: Schema, stored: StoredSchema, versions: list[StoredSchema]
    ) -> list[str]:
        level = str(config["compatibilityLevel"])
        if config.get("validateFields") is True:
            found = _reserved(parsed, stored, versions[-1] if versions else None)
            if found:
                return found
        group = config.get("compatibilityGroup")
        if group:
            mine = contracts.property_of(stored.metadata, group)
            versions = [one for one in versions if contracts.property_of(one.metadata, group) == mine]
        compared = versions if level.endswith("_TRANSITIVE") else versions[-1:]
        budget = Budget(INLINE_STEP_COUNT) if self._is_timed else None
        for old in reversed(compared):
            try:
                result = self._differences(level, parsed, stored, old, budget)
            except faults.Fault as error:
                return [f"Unexpected exception during compatibility check: {error}"]
            if result.trouble:
                return [f"Unexpected exception during compatibility check: {result.trouble}"]
            if result.differences:
                return [
                    *(one.text() for one in result.differences),
                    *([f"and {result.more_count} more differences"] if result.more_count else ()),
                    f"{{oldSchemaVersion: {old.version}}}",
                    f"{{oldSchema: '{old.text}'}}",
                    f"{{validateFields: '{str(config.get('validateFields') is True).lower()}', "
                    f"compatibility: '{level}'}}",
                ]
        return []

    def _differences(
        self, level: str, parsed: Schema, stored: StoredSchema, old: StoredSchema, budget: Budget | None
    ) -> Compared:
        key = (level, _key(stored), _key(old))
        known = self._compared.get(key)
        if known is not None:
            return known
        parsed_old = self._parse(old)
        try:
            return self._compare(key, parsed, parsed_old, budget)
        except OutOfSteps:
            raise NeedsTime(partial(self._compare, key, parsed, parsed_old, None)) from None

    def _compare(
        self, key: tuple[str, Key, Key], parsed: Schema, parsed_old: Schema, budget: Budget | None
    ) -> Compared:
        """Compare, and keep the result. OutOfSteps: this budget is not enough."""
        try:
            every = formats.differences(key[0], parsed, parsed_old, budget)
        except Unusable as error:
            if budget is not None and isinstance(error, OutOfSteps):
                raise
            found = Compared([], trouble=str(error))
        else:
            shown = every[:MAX_SHOWN_DIFFERENCE_COUNT]
            found = Compared(shown, len(every) - len(shown))
        if len(self._compared) >= MAX_COMPARED_COUNT:
            self._compared.clear()
        self._compared[key] = found
        return found

    # Parsing

    def _given(self, subject: Subject, body: Mapping[str, Any]) -> StoredSchema:
        """The schema of a request, not parsed yet."""
        text, kind = body.get("schema"), body.get("schemaType") or AVRO
        if not isinstance(text, str) or not text.strip():
            raise faults.invalid_schema("Empty schema")
        if not isinstance(kind, str) or kind not in formats.KINDS:
            raise faults.unprocessable(f"Invalid schema type {str(kind)[:100]}")
        given = body.get("references") or ()
        if not isinstance(given, list | tuple) or len(given) > MAX_REFERENCE_COUNT:
            raise faults.invalid_schema(f"references is no list of at most {MAX_REFERENCE_COUNT}")
        references = []
        for one in given:
            try:
                name, needed, version = one["name"], one["subject"], one["version"]
            except (TypeError, KeyError):
                raise faults.invalid_schema("a reference needs name, subject and version") from None
            if not isinstance(name, str) or not isinstance(needed, str) or not isinstance(version, int):
                raise faults.invalid_schema("a reference needs name, subject and version")
            if not -1 <= version <= MAX_ID:
                raise faults.invalid_version(version)
            if version == -1:
                latest = self._state.versions(parse(needed, subject.context))
                version = latest[-1].version if latest else version
            references.append(Reference(name, needed, version))
        return StoredSchema(
            subject.key, 0, -1, kind, text, tuple(references), contracts.metadata_of(body.get("metadata")),
            contracts.rule_set_of(body.get("ruleSet")),
        )  # fmt: skip

    def _canonical(self, given: StoredSchema, parsed: Schema, is_normalized: bool) -> StoredSchema:
        text = parsed.canonical(is_normalized=is_normalized)
        references = tuple(sorted(set(given.references))) if is_normalized else given.references
        return StoredSchema(
            given.subject, 0, -1, given.kind, text, references, given.metadata, given.rule_set, False,
            guid_of(text, references, given.metadata, given.rule_set),
        )  # fmt: skip

    def parsed(self, stored: StoredSchema) -> Schema:
        return self._parse(stored)

    def _parse(self, given: StoredSchema) -> Schema:
        key = _key(given)
        known = self._parsed.get(key)
        if known is None:
            needed = self._needed(given, key[0])
            work = partial(self._parse_text, key, given.kind, given.text, needed)
            if self._is_timed and len(given.text) + sum(len(text) for _, text in needed) > INLINE_CHARS:
                raise NeedsTime(work)
            known = work()
        if isinstance(known, Unusable):
            self._parsed.pop(key, None)  # what it refers to may be there at the next request
            raise _invalid(given, str(known))
        return known

    def _parse_text(self, key: Key, kind: str, text: str, needed: list[tuple[str, str]]) -> Schema | Unusable:
        """Parse, and keep the result."""
        found: Schema | Unusable
        try:
            found = formats.parse(kind, text, needed)
        except Unusable as error:
            found = error.with_traceback(None)
        if len(self._parsed) >= MAX_PARSED_COUNT:
            self._parsed.clear()
        self._parsed[key] = found
        return found

    def _refuse_invalid(self, given: StoredSchema, parsed: Schema, config: Mapping[str, Any]) -> None:
        """A new schema must follow the specification; schemas registered earlier need not."""
        if parsed.complaint and config.get("validateNewSchemas") is not False:
            raise _invalid(given, parsed.complaint)

    def _needed(self, given: StoredSchema, context: str) -> list[tuple[str, str]]:
        """Everything that a schema refers to, directly or not, needed ones first."""
        found: dict[str, str] = {}
        open_: set[str] = set()

        def visit(one: StoredSchema, inside: str, depth: int) -> None:
            for reference in one.references:
                if reference.name in found:
                    continue
                if depth > 50 or len(found) >= MAX_REFERENCE_COUNT or reference.name in open_:
                    raise faults.invalid_schema(f"references of {reference.name[:200]} are too many, or go in a circle")
                subject = parse(reference.subject, inside)
                stored = self._state.version(subject, reference.version)
                if stored is None:
                    raise faults.invalid_schema(
                        f'No schema reference found for subject "{reference.subject}" and version {reference.version}'
                    )
                open_.add(reference.name)
                visit(stored, subject.context, depth + 1)
                open_.discard(reference.name)
                found[reference.name] = stored.text

        visit(given, context, 0)
        return list(found.items())

    # Deletion

    def delete_version(self, subject: Subject, version: str, *, is_permanent: bool) -> Decision[int]:
        if not self._state.versions(subject, is_deleted_included=True):
            raise faults.subject_not_found(subject.key)
        stored = self.find_version(subject, version, is_deleted_included=True)
        if stored.is_deleted and not is_permanent:
            raise faults.version_soft_deleted(subject.key, stored.version)
        self.refuse_read_only(subject)
        self._refuse_referred(subject, stored, is_permanent)
        if not is_permanent:
            return Decision([records.schema_record(stored.deleted())], stored.version)
        if not stored.is_deleted:
            raise faults.version_not_soft_deleted(subject.key, stored.version)
        written = [records.schema_tombstone(subject.key, stored.version)]
        if len(self._state.versions(subject, is_deleted_included=True)) == 1:
            written += self._settings_removed(subject)
        return Decision([*written, *self.ids_kept(subject, [stored])], stored.version)

    def ids_kept(self, subject: Subject, removed: list[StoredSchema]) -> list[Record]:
        """A record that keeps the highest id from being assigned again after its schema was deleted permanently."""
        highest = self._state.max_id(subject.context)
        is_needed = any(one.id == highest for one in removed)
        return [records.noop_record(self._state.max_ids())] if is_needed else []

    def delete_subject(self, subject: Subject, *, is_permanent: bool) -> Decision[list[int]]:
        every = self._state.versions(subject, is_deleted_included=True)
        live = [one for one in every if not one.is_deleted]
        if not every:
            raise faults.subject_not_found(subject.key)
        if not live and not is_permanent:
            raise faults.subject_soft_deleted(subject.key)
        self.refuse_read_only(subject)
        if self._state.associations(subject=subject.key):
            raise faults.subject_associated(subject.key)
        for one in every if is_permanent else live:
            self._refuse_referred(subject, one, is_permanent)
        if is_permanent:
            if live:
                raise faults.subject_not_soft_deleted(subject.key)
            written = [records.schema_tombstone(subject.key, one.version) for one in every]
            written += [*self._settings_removed(subject), *self.ids_kept(subject, every)]
            return Decision(written, [one.version for one in every])
        removed = records.delete_subject_record(subject.key, live[-1].version)
        return Decision([removed, *self._settings_removed(subject)], [one.version for one in live])

    def delete_context(self, context: str) -> Decision[None]:
        if any(one.context == context for one in self._state.subjects()):
            raise faults.context_not_empty(context)
        written = self._settings_removed(Subject(context, ""))
        return Decision([*written, records.context_record(context, is_there=False)], None)

    def _settings_removed(self, subject: Subject) -> list[Record]:
        written = []
        if subject.key in self._state.modes:
            written.append(records.mode_record(subject.key, None))
        if subject.key in self._state.configs:
            written.append(records.config_record(subject.key, None))
        return written

    def refuse_read_only(self, subject: Subject) -> None:
        if self._state.mode(subject) in _READ_ONLY:
            raise _mode_refusal(subject, "in read-only mode")

    def _refuse_referred(self, subject: Subject, stored: StoredSchema, is_permanent: bool) -> None:
        if any(is_permanent or not one.is_deleted for one in self._state.referrers(subject, stored.version)):
            raise faults.reference_exists(subject.key, stored.version)

    def find_version(self, subject: Subject, version: str, *, is_deleted_included: bool = False) -> StoredSchema:
        """A version by its number, or the latest."""
        versions = self._state.versions(subject, is_deleted_included=is_deleted_included)
        number = version_number(version)
        if not versions:
            raise faults.subject_not_found(subject.key)
        if number == -1:
            live = [one for one in versions if not one.is_deleted]
            return (live or versions)[-1]
        found = self._state.version(subject, number)
        if found is None or (found.is_deleted and not is_deleted_included):
            raise faults.version_not_found(number)
        return found

    # Settings

    def set_config(self, subject: Subject, body: Mapping[str, Any]) -> Decision[dict[str, Any]]:
        """Settings of a subject, a context or all; what the request does not name stays."""
        self.refuse_read_only(subject)
        changes: dict[str, Any] = {}
        for name in _CONFIG_FIELDS:
            given = "compatibility" if name == "compatibilityLevel" and "compatibility" in body else name
            if given not in body:
                continue
            value = body[given]
            if value is None:
                changes[name] = None
            elif name == "compatibilityLevel":
                changes[name] = str(value).upper()
                if changes[name] not in formats.LEVELS:
                    raise faults.invalid_compatibility()
            elif name.endswith("Metadata"):
                changes[name] = contracts.metadata_of(value)
            elif name.endswith("RuleSet"):
                changes[name] = contracts.rule_set_of(value)
            elif (name in _FLAGS and isinstance(value, bool)) or (name in _TEXTS and isinstance(value, str)):
                changes[name] = value
            else:
                raise faults.unprocessable(f"{name} cannot be {str(value)[:100]!r}")
        if not changes:
            raise faults.invalid_compatibility()
        merged = {**self._state.configs.get(subject.key, {}), **changes}
        merged = {name: merged[name] for name in _CONFIG_FIELDS if merged.get(name) is not None}
        return Decision([records.config_record(subject.key, merged)], config_answer(changes, is_request=True))

    def delete_config(self, subject: Subject) -> Decision[dict[str, Any]]:
        self.refuse_read_only(subject)
        known = self._state.configs.get(subject.key)
        if known is None:
            if subject.key:
                raise faults.subject_not_found(subject.key)
            return Decision([], config_answer(self._state.config(subject)))
        return Decision([records.config_record(subject.key, None)], config_answer(known))

    def set_mode(self, subject: Subject, mode: object, *, is_forced: bool) -> Decision[dict[str, Any]]:
        name = str(mode).upper()
        if name not in MODES:
            raise faults.invalid_mode()
        if name == "FORWARD" and subject.key:
            raise faults.invalid_mode("Forward mode only supported on global level")
        if name == "IMPORT" and self._state.mode(subject) != "IMPORT" and not is_forced and self._is_used(subject):
            raise faults.not_permitted("Cannot import since found existing subjects")
        return Decision([records.mode_record(subject.key, name)], {"mode": name})

    def _is_used(self, subject: Subject) -> bool:
        """Whether a subject, or any in its scope if it has no name, has versions."""
        if subject.name:
            return bool(self._state.versions(subject))
        return any(one.context == subject.context and self._state.versions(one) for one in self._state.subjects())

    def delete_mode(self, subject: Subject, *, is_recursive: bool = False) -> Decision[dict[str, Any]]:
        known = self._state.modes.get(subject.key)
        if is_recursive and not subject.name:
            scope = [one for one in sorted(self._state.modes) if parse(one).context == subject.context]
            written = [records.mode_record(one, None) for one in scope]
            return Decision(written, {"mode": known or self._state.mode(subject)})
        if known is None:
            if subject.key:
                raise faults.subject_not_found(subject.key)
            return Decision([], {"mode": self._state.mode(subject)})
        return Decision([records.mode_record(subject.key, None)], {"mode": known})


def _other_text(one: StoredSchema, parsed: Schema, *, is_resolved: bool) -> str | None:
    if is_resolved:
        assert isinstance(parsed, AvroSchema)
        return parsed.with_references()
    normal = parsed.canonical(is_normalized=True)
    is_ours = one.text == parsed.canonical() and not (one.kind == JSON and one.text == normal)
    return None if is_ours else normal


def _key(one: StoredSchema) -> Key:
    return parse(one.subject).context, (one.guid or guid_of(one.text, one.references, None, None)) + one.kind


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _invalid(given: StoredSchema, why: str) -> faults.Fault:
    shown = given.text if len(given.text) < 500 else given.text[:500] + "..."
    listed = ", ".join(f"{{name='{r.name}', subject='{r.subject}', version={r.version}}}" for r in given.references)
    return faults.invalid_schema(
        f"Invalid schema {{schemaType={given.kind},references=[{listed}],schema={shown}}} "
        f"with refs [{listed}] of type {given.kind}, details: {why}"
    )


def _reserved(parsed: Schema, stored: StoredSchema, before: StoredSchema | None) -> list[str]:
    """The violations of reserved fields by a schema (validateFields): it has one, or no longer reserves one."""
    reserved = contracts.reserved_fields(stored.metadata)
    freed = contracts.reserved_fields(before.metadata if before else None) - reserved
    used = reserved & parsed.top_level_fields()
    return [
        *(
            f"The new schema has reserved field {one} removed from its metadata, which the old one has"
            for one in sorted(freed)
        ),
        *(f"The new schema has field that conflicts with the reserved field {one}" for one in sorted(used)),
    ]


def version_number(text: str) -> int:
    """A version of a path; -1 is the latest."""
    if text in ("latest", "-1"):
        return -1
    if not text.isascii() or not text.isdecimal() or len(text) > 10 or not 1 <= int(text) <= MAX_ID:
        raise faults.invalid_version(text[:100])
    return int(text)


def schema_answer(stored: StoredSchema) -> dict[str, Any]:
    """A version as answers show it."""
    answer: dict[str, Any] = {"subject": stored.subject, "version": stored.version, "id": stored.id}
    answer |= {"guid": stored.guid, "schemaType": stored.kind}
    if stored.references:
        answer["references"] = [one._asdict() for one in stored.references]
    if stored.metadata is not None:
        answer["metadata"] = stored.metadata
    if stored.rule_set is not None:
        answer["ruleSet"] = stored.rule_set
    answer["schema"] = stored.text
    if stored.timestamp:
        answer["ts"] = stored.timestamp
    if stored.is_deleted:
        answer["deleted"] = True
    return answer


def config_answer(config: Mapping[str, Any], *, is_request: bool = False) -> dict[str, Any]:
    """Settings as answers show them: a change is answered with `compatibility`, a read with `compatibilityLevel`."""
    word = "compatibility" if is_request else "compatibilityLevel"
    return {(word if name == "compatibilityLevel" else name): value for name, value in config.items()}


def _mode_refusal(subject: Subject, what: str) -> faults.Fault:
    return faults.not_permitted(f"Subject {subject.key} in context {subject.context} is {what}")


def _whole(body: Mapping[str, Any], name: str, default: int) -> int:
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not -1 <= value <= MAX_ID:
        raise faults.unprocessable(f"{name} is no whole number of 32 bits")
    return value

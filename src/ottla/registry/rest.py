"""Confluent's REST interface without HTTP: a request becomes a `Decision`: the records it needs, and the answer.

Paths are split before they are decoded, so an encoded slash is part of a subject and never a step of the path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

from ottla import __version__
from ottla.machine import Decision
from ottla.registry import contracts, faults, formats, subjects
from ottla.registry.associations import BATCH_GET, BATCH_MUTATE, Associations
from ottla.registry.commands import Commands, config_answer, schema_answer, version_number
from ottla.registry.limits import NeedsTime
from ottla.registry.records import MAX_ID, StoredSchema
from ottla.registry.state import State
from ottla.registry.subjects import DEFAULT_CONTEXT, Subject

ALL_CONTEXTS = ":*:"
ANY_RESOURCE = "-"
_POSTED_WRITES = (["associations"], [BATCH_MUTATE])


def _sees_all(_: str) -> bool:
    return True


class Request(NamedTuple):
    """A request, its body read and its path still encoded."""

    method: str
    path: str
    query: Mapping[str, Sequence[str]] = {}
    """Every value of each parameter."""
    body: Any = None
    sees: Callable[[str], bool] = _sees_all
    """Whether the caller may read a subject: listings leave out the others."""

    def value(self, name: str, default: str = "") -> str:
        """The first value of a parameter."""
        return next(iter(self.query.get(name, ())), default)


def is_registration(request: Request) -> bool:
    steps, _ = steps_of(request.path)
    return request.method == "POST" and len(steps) == 3 and steps[0] == "subjects" and steps[2] == "versions"


class Rest:
    """Answers requests from the state."""

    def __init__(self, state: State, cluster_id: str = "", *, is_timed: bool = False) -> None:
        self._state = state
        self._commands = Commands(state, is_timed=is_timed)
        self._associations = Associations(state, self._commands)
        self._cluster_id = cluster_id

    def is_write(self, request: Request) -> bool:
        """Whether the leader has to answer: what may have records. A schema that is registered already needs none."""
        steps, context = steps_of(request.path)
        if request.method == "POST" and len(steps) == 3 and steps[0] == "subjects" and steps[2] == "versions":
            return not self._is_registered(steps[1], context, request)
        return request.method in ("PUT", "DELETE") or (request.method == "POST" and steps[:1] in _POSTED_WRITES)

    def _is_registered(self, name: str, context: str, request: Request) -> bool:
        body = request.body
        if not isinstance(body, dict) or body.get("id") is not None or body.get("version"):
            return False
        try:
            subject = self._state.unaliased(_named(name, context))
            decision = self._commands.register(subject, body, is_normalized=_is_set(request, "normalize"))
        except (faults.Fault, NeedsTime, UnicodeEncodeError):
            return False
        return not decision.records

    def answer(self, request: Request) -> Decision[Any]:
        """The decision of a request. Fault: it is refused. NeedsTime, of a timed interface: ask again after its
        work."""
        try:
            decision = self._answer(request)
            return Decision(self._state.replacing(decision.records), decision.reply)
        except UnicodeEncodeError:
            raise faults.unprocessable("a text of the request has half of a surrogate pair: it is no Unicode") from None

    def _answer(self, request: Request) -> Decision[Any]:
        steps, context = steps_of(request.path)
        match request.method, steps:
            case "GET" | "POST", []:
                return _read({})
            case _, ["subjects", *_]:
                return self._subjects(request, steps[1:], context)
            case "GET", ["schemas", *rest]:
                return _read(self._schemas(request, rest, context))
            case "POST", ["compatibility", "subjects", name, "versions", *rest] if len(rest) < 2:
                return _read(self._compatibility(request, self._state.unaliased(_named(name, context)), rest))
            case _, ["config", *rest] if len(rest) < 2:
                return self._config(request, _scope(rest, context))
            case _, ["mode", *rest] if len(rest) < 2:
                return self._mode(request, _scope(rest, context))
            case "GET", ["contexts"]:
                prefix = request.value("contextPrefix")
                seen = {one.context for one in self._state.subjects() if request.sees(one.key)} | {DEFAULT_CONTEXT}
                found = self._state.contexts() if request.sees is _sees_all else sorted(seen)
                return _read(_page(request, [one for one in found if one.startswith(prefix)]))
            case "DELETE", ["contexts"] if context != DEFAULT_CONTEXT:
                return self._commands.delete_context(context)
            case _, ["associations" | "associations:batchGet" | "associations:batchMutate" as word, *rest]:
                return self._associated(request, word, rest, context)
            case "GET", ["v1", "metadata", "id"]:
                return _read({"scope": {"path": [], "clusters": {"kafka-cluster": self._cluster_id}}})
            case "GET", ["v1", "metadata", "version"]:
                return _read({"version": __version__, "commitId": ""})
        raise _no_such_path(request)

    # Subjects

    def _subjects(self, request: Request, steps: list[str], context: str) -> Decision[Any]:
        if not steps:
            if request.method != "GET":
                raise _no_such_path(request)
            return _read(self._listed(request, context))
        subject = self._state.unaliased(_named(steps[0], context))
        is_deleted_included = _is_set(request, "deleted")
        match request.method, steps[1:]:
            case "POST", []:
                stored = self._commands.lookup(
                    subject,
                    _object(request),
                    is_normalized=_is_set(request, "normalize"),
                    is_deleted_included=is_deleted_included,
                )
                return _read({**schema_answer(stored), "schema": self._text(request, stored)})
            case "DELETE", []:
                return self._commands.delete_subject(subject, is_permanent=_is_set(request, "permanent"))
            case "GET", ["versions"]:
                return _read(self._version_numbers(request, subject))
            case "POST", ["versions"]:
                decision = self._commands.register(
                    subject, _object(request), is_normalized=_is_set(request, "normalize")
                )
                # without the text: confluent-kafka would keep it in place of the descriptor that it sent
                answer = {name: decision.reply[name] for name in ("id", "version", "guid")}
                return Decision(decision.records, answer)
            case "GET", ["metadata"]:
                return _read(self._with_metadata(request, subject))
            case "DELETE", ["versions", version]:
                return self._commands.delete_version(subject, version, is_permanent=_is_set(request, "permanent"))
            case "GET", ["versions", version, *rest] if len(rest) < 2:
                stored = self._commands.find_version(subject, version, is_deleted_included=is_deleted_included)
                if not rest:
                    return _read({**schema_answer(stored), "schema": self._text(request, stored)})
                if rest == ["schema"]:
                    return _read(_Plain(self._text(request, stored)))
                if rest == ["referencedby"]:
                    referrers = self._state.referrers(subject, stored.version)
                    ids = [one.id for one in referrers if is_deleted_included or not one.is_deleted]
                    return _read(_page(request, ids))
        raise _no_such_path(request)

    def _associated(self, request: Request, word: str, steps: list[str], context: str) -> Decision[Any]:
        if request.method == "POST" and not steps:
            if word == BATCH_GET:
                return _read(self._associations.batch_get(_object(request)))
            where = subjects.parse_context(request.value("context")) if request.value("context") else context
            if word == BATCH_MUTATE:
                return self._associations.batch_mutate(_object(request), where, is_dry=_is_set(request, "dryRun"))
            return self._associations.create(_object(request), where, is_dry=_is_set(request, "dryRun"))
        if word in (BATCH_GET, BATCH_MUTATE):
            raise _no_such_path(request)
        types = tuple(request.query.get("associationType", ()))
        lifecycle, kind = request.value("lifecycle").upper(), request.value("resourceType", "topic")
        match request.method, steps:
            case "GET", ["subjects", name]:
                found = self._state.associations(subject=self._state.unaliased(_named(name, context)).key)
            case "GET", ["resources", namespace, name]:
                namespace, name = ("" if one == ANY_RESOURCE else one for one in (namespace, name))
                found = self._state.associations(namespace=namespace, name=name)
            case "GET", ["resources", resource_id]:
                found = self._state.associations(resource_id=resource_id)
            case "PUT", ["resources", resource_id]:
                body = _object(request)
                is_dry = _is_set(request, "dryRun")
                return self._associations.update(resource_id, body, context, is_dry=is_dry)
            case "DELETE", ["resources", resource_id]:
                return self._associations.delete(
                    resource_id, types, is_cascading=_is_set(request, "cascadeLifecycle"),
                    is_dry=_is_set(request, "dryRun"), resource_type=kind,
                )  # fmt: skip
            case _:
                raise _no_such_path(request)
        return _read(_page(request, [one.answer() for one in found if one.is_of(kind, types, lifecycle)]))

    def _listed(self, request: Request, context: str) -> list[str]:
        prefix = request.value("subjectPrefix", ALL_CONTEXTS if context == DEFAULT_CONTEXT else "")
        found = []
        for subject in self._selected(prefix, context):
            versions = self._state.versions(subject, is_deleted_included=True)
            live = [one for one in versions if not one.is_deleted]
            if _is_set(request, "deletedOnly"):
                is_shown = not live
            else:
                is_shown = bool(live) or _is_set(request, "deleted")
            if is_shown:
                found.append(subject.key)
        return _page(request, [one for one in found if request.sees(one)])

    def _selected(self, prefix: str, context: str) -> list[Subject]:
        """Subjects by the prefix of their names; `:*:` goes over all contexts."""
        if prefix.startswith(ALL_CONTEXTS):
            start = prefix.removeprefix(ALL_CONTEXTS)
            return [one for one in self._state.subjects() if one.name.startswith(start)]
        wanted = subjects.parse(prefix, context)
        return [
            one for one in self._state.subjects() if one.context == wanted.context and one.name.startswith(wanted.name)
        ]

    def _version_numbers(self, request: Request, subject: Subject) -> list[int]:
        found = self._state.versions(subject, is_deleted_included=True)
        if _is_set(request, "deletedAsNegative"):
            return _page(request, [-one.version if one.is_deleted else one.version for one in found])
        if _is_set(request, "deletedOnly"):
            found = [one for one in found if one.is_deleted]
        elif not _is_set(request, "deleted"):
            found = [one for one in found if not one.is_deleted]
        if not found:
            raise faults.subject_not_found(subject.key)
        return _page(request, [one.version for one in found])

    def _with_metadata(self, request: Request, subject: Subject) -> dict[str, Any]:
        """The latest version that has these properties."""
        keys, values = request.query.get("key", ()), request.query.get("value", ())
        if len(keys) != len(values):
            raise faults.unprocessable(f"{len(keys)} keys and {len(values)} values: each key needs one value")
        wanted = dict(zip(keys, values, strict=True))
        versions = self._state.versions(subject, is_deleted_included=_is_set(request, "deleted"))
        if not versions:
            raise faults.subject_not_found(subject.key)
        for one in reversed(versions):
            properties = (one.metadata or {}).get("properties") or {}
            if all(properties.get(key) == value for key, value in wanted.items()):
                return {**schema_answer(one), "schema": self._text(request, one)}
        raise faults.schema_not_found()

    def _text(self, request: Request, stored: StoredSchema) -> str:
        wanted = request.value("format")
        if not wanted:
            return stored.text
        serialized = getattr(self._commands.parsed(stored), "serialized", None)
        if wanted == formats.SERIALIZED and serialized is not None:
            return str(serialized())
        resolved = getattr(self._commands.parsed(stored), "with_references", None)
        if wanted == "resolved" and resolved is not None:
            return str(resolved())
        if wanted in ("resolved", "ignore_extensions", formats.SERIALIZED):
            return stored.text
        raise faults.unprocessable(f"Invalid format {wanted[:100]!r}")

    # Schemas by id and GUID

    def _schemas(self, request: Request, steps: list[str], context: str) -> Any:
        match steps:
            case ["types"]:
                return list(formats.KINDS)
            case []:
                return self._all_schemas(request, context)
            case ["ids", text, *rest] if len(rest) < 2:
                return self._by_id(request, text, rest, context)
            case ["guids", guid]:
                every = [one for place in self._state.ids_of_guid(guid) for one in self._state.with_id(*place)]
                return self._schema_string(request, _seen(request, every, guid)[0], {})
            case ["guids", guid, "ids"]:
                found = self._state.ids_of_guid(guid)
                if not found:
                    raise faults.schema_not_found(guid[:100])
                return [{"context": where, "id": id_} for where, id_ in found]
        raise _no_such_path(request)

    def _all_schemas(self, request: Request, context: str) -> list[dict[str, Any]]:
        rule_type = request.value("ruleType")
        found: list[StoredSchema] = []
        for subject in self._selected(request.value("subjectPrefix"), context):
            versions = self._state.versions(subject, is_deleted_included=_is_set(request, "deleted"))
            if rule_type:
                versions = [one for one in versions if contracts.has_rule_type(one.rule_set, rule_type)]
            if request.sees(subject.key):
                found += versions[-1:] if _is_set(request, "latestOnly") else versions
        answers = [schema_answer(one) for one in _page(request, found)]
        if _is_set(request, "aliases"):
            for one in answers:
                aliases = [key for key, config in self._state.configs.items() if config.get("alias") == one["subject"]]
                one |= {"aliases": sorted(aliases)} if aliases else {}
        return answers

    def _by_id(self, request: Request, text: str, rest: list[str], context: str) -> Any:
        if not text.isascii() or not text.isdecimal() or len(text) > 10 or int(text) > MAX_ID:
            raise faults.Fault(404, 404, "HTTP 404 Not Found")
        id_ = int(text)
        wanted = request.value("subject")
        if wanted:
            subject = subjects.parse(wanted, context)
            subject = self._state.unaliased(subject) if subject.name else subject
            context, wanted = subject.context, subject.key if subject.name else ""
        found = _seen(request, self._state.with_id(context, id_), text)
        live = [one for one in found if not one.is_deleted or _is_set(request, "deleted")]
        if wanted:
            found = [one for one in found if one.subject == wanted] or found
        match rest:
            case []:
                more: dict[str, Any] = {}
                if _is_set(request, "fetchMaxId"):
                    more["maxId"] = self._state.max_id(context)
                if _is_set(request, "includeSubjects"):  # Karapace's
                    more["subjects"] = sorted({one.subject for one in live})
                return self._schema_string(request, found[0], more)
            case ["schema"]:
                return _Plain(self._text(request, found[0]))
            case ["subjects"]:
                return _page(request, sorted({one.subject for one in live}))
            case ["versions"]:
                return _page(request, [{"subject": one.subject, "version": one.version} for one in live])
        raise _no_such_path(request)

    def _schema_string(self, request: Request, stored: StoredSchema, more: dict[str, Any]) -> dict[str, Any]:
        answer = schema_answer(stored)
        del answer["id"]
        return {**answer, "schema": self._text(request, stored), **more}

    # Compatibility and settings

    def _compatibility(self, request: Request, subject: Subject, steps: list[str]) -> dict[str, Any]:
        versions = self._state.versions(subject)
        if steps and version_number(steps[0]) == -1:
            versions = versions[-1:]
        elif steps:
            versions = [one for one in versions if one.version == version_number(steps[0])]
            if not versions:
                raise faults.version_not_found(steps[0])
        messages = self._commands.check(
            subject, _object(request), versions, is_normalized=_is_set(request, "normalize")
        )
        answer: dict[str, Any] = {"is_compatible": not messages}
        return answer | {"messages": messages} if _is_set(request, "verbose") else answer

    def _config(self, request: Request, subject: Subject) -> Decision[Any]:
        match request.method:
            case "PUT":
                return self._commands.set_config(subject, _object(request))
            case "DELETE":
                return self._commands.delete_config(subject)
            case "GET":
                if subject.key and not _is_set(request, "defaultToGlobal"):
                    own = self._state.configs.get(subject.key)
                    if own is None:
                        raise faults.no_subject_config(subject.key)
                    return _read(config_answer(own))
                return _read(config_answer(self._state.config(subject)))
        raise _no_such_path(request)

    def _mode(self, request: Request, subject: Subject) -> Decision[Any]:
        match request.method:
            case "PUT":
                mode = _object(request).get("mode")
                return self._commands.set_mode(subject, mode, is_forced=_is_set(request, "force"))
            case "DELETE":
                return self._commands.delete_mode(subject, is_recursive=_is_set(request, "recursive"))
            case "GET":
                if subject.key and subject.key not in self._state.modes and not _is_set(request, "defaultToGlobal"):
                    raise faults.no_subject_mode(subject.key)
                return _read({"mode": self._state.mode(subject)})
        raise _no_such_path(request)


class _Plain(str):
    """A schema's text as the whole answer, not as JSON."""


def is_plain(answer: Any) -> bool:
    return isinstance(answer, _Plain)


def _seen(request: Request, found: list[StoredSchema], what: str) -> list[StoredSchema]:
    """The versions with an id that the caller may read."""
    if not found:
        raise faults.schema_not_found(what[:100])
    seen = [one for one in found if request.sees(one.subject)]
    if not seen:
        raise faults.Fault(
            403, 40301, f"User is denied operation DESCRIBE on every subject with the schema {what[:100]}"
        )
    return seen


def _read(answer: Any) -> Decision[Any]:
    return Decision([], answer)


def steps_of(path: str) -> tuple[list[str], str]:
    """The steps of a path, decoded, and the context in front of them."""
    steps = [unquote(one) for one in path.split("/") if one]
    if "." in steps or ".." in steps:
        raise faults.Fault(404, 404, "HTTP 404 Not Found: the path has a step that is . or ..")
    if len(steps) > 1 and steps[0] == "contexts":
        return steps[2:] or ["contexts"], subjects.parse_context(steps[1])
    return steps, DEFAULT_CONTEXT


def _named(text: str, context: str) -> Subject:
    found = subjects.parse(text, context)
    if not found.name:
        raise faults.invalid_subject(text)
    return found


def _scope(steps: list[str], context: str) -> Subject:
    """The scope of settings: a subject, a context (`:.ctx:`), or everything."""
    return subjects.parse(steps[0], context) if steps else Subject(context, "")


def _object(request: Request) -> dict[str, Any]:
    if not isinstance(request.body, dict):
        raise faults.Fault(400, 400, "the body is not a JSON object")
    return request.body


def _is_set(request: Request, name: str) -> bool:
    return request.value(name).lower() == "true"


def _page(request: Request, found: list[Any]) -> list[Any]:
    offset, limit = request.value("offset", "0"), request.value("limit", "-1")
    start = int(offset) if offset.isdecimal() and len(offset) < 10 else 0
    count = int(limit) if limit.isdecimal() and len(limit) < 10 else len(found)
    return found[start : start + count]


def _no_such_path(request: Request) -> faults.Fault:
    return faults.Fault(404, 404, f"HTTP 404 Not Found: {request.method} {request.path[:200]}")

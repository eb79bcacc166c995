"""A client of a schema registry (Confluent's REST interface, which Karapace and Apicurio speak, too).

What has an id never changes, so answers by id are kept for the life of the process; that an id is unknown is believed
for a minute. Redirects are not followed: they would carry the credentials elsewhere.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, quote, unquote, urlsplit

from ottla.converters.errors import RegistryError, RegistryUnreachable, SchemaNotFound

AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"
DEFAULT_TIMEOUT_MS = 10_000
MAX_RESPONSE_BYTES = 16 * 1024 * 1024
MAX_KEPT_COUNT = 10_000
MAX_REFERENCE_COUNT = 500
UNKNOWN_FOR_S = 60.0
ATTEMPT_COUNT = 3
ATTEMPT_PAUSE_S = 0.3
SERIALIZED = "serialized"
_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
_CHUNK_SIZE = 64 * 1024
_NAMES = {
    "url": ("url", "schema.registry.url"),
    "user_info": ("basic.auth.user.info", "schema.registry.basic.auth.user.info"),
    "user": ("user", "schema.registry.user"),
    "password": ("password", "schema.registry.password"),
    "token": ("token", "bearer.auth.token", "schema.registry.bearer.auth.token"),
    "timeout_ms": ("timeout_ms", "schema.registry.request.timeout.ms"),
    "ca": ("ca", "schema.registry.ssl.ca.location"),
}
_UNDERSTOOD = ("basic.auth.credentials.source", "bearer.auth.credentials.source")


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """Where the registry is, with the client's credentials. `repr` does not show secrets: it may end up in a log."""

    urls: tuple[str, ...]
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    ca: str | None = None
    """A file with the certificates that are trusted, instead of the system's."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> RegistrySettings | None:
        """The registry of a section of pipeline.yml, or of client properties; None where it names no registry."""
        found: dict[str, str] = {}
        for key, names in _NAMES.items():
            value = next((given[name] for name in names if given.get(name)), None)
            if value is not None:
                found[key] = value.strip()
        if "url" not in found:
            return None
        user, password = found.get("user"), found.get("password")
        if "user_info" in found:
            user, _, password = found["user_info"].partition(":")
        urls = []
        for text in found["url"].split(","):
            parts = _address(text)
            if parts is None or not parts.hostname:
                raise RegistryError(f"registry: {_shown(text)} is no address such as http://127.0.0.1:8081")
            if parts.username is not None:
                user, password = unquote(parts.username), unquote(parts.password or "")
            port = f":{parts.port}" if parts.port else ""
            host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
            urls.append(f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}")
        timeout = found.get("timeout_ms", str(DEFAULT_TIMEOUT_MS))
        if not timeout.isdecimal() or int(timeout) == 0:
            raise RegistryError(f"registry: timeout_ms is a number of milliseconds, not {timeout!r}")
        return cls(tuple(urls), user, password, found.get("token"), int(timeout), found.get("ca"))

    @staticmethod
    def is_name(name: str) -> bool:
        """Whether a client property is the registry's and not Kafka's."""
        if name.startswith("schema.registry.") or name in _UNDERSTOOD:
            return True
        return any(name in names for names in _NAMES.values()) and "." in name

    @property
    def place(self) -> str:
        return ", ".join(self.urls)


def _address(url: str) -> SplitResult | None:
    """The parts of an http or https address; None for another text, or an impossible port."""
    try:
        parts = urlsplit(url.strip())
        return parts if parts.scheme in ("http", "https") and parts.port != 0 else None
    except ValueError:
        return None


def _shown(url: str) -> str:
    """An address without the user and password before its @."""
    return repr(url.rpartition("@")[2].strip())


@dataclass(frozen=True, slots=True)
class Reference:
    """Another schema that a schema needs."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema in the registry."""

    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    schema_id: int | None = None


class Registry:
    """Schemas by id and by subject."""

    def __init__(self, settings: RegistrySettings) -> None:
        self.settings = settings
        self._kept: dict[str, RegisteredSchema] = {}
        self._unknown: dict[int, float] = {}
        self._registered: dict[tuple[str, RegisteredSchema], int] = {}

    def by_id(self, schema_id: int, format_: str | None = None) -> RegisteredSchema:
        """The schema of an id; SchemaNotFound if the registry does not have it."""
        expires_at = self._unknown.get(schema_id)
        if expires_at is not None and time.monotonic() < expires_at:
            raise self._no_such_id(schema_id)
        path = f"/schemas/ids/{schema_id}" + (f"?format={format_}" if format_ else "")
        kept = self._kept.get(path)
        if kept is not None:
            return kept
        try:
            found = schema_of(self.ask("GET", path), schema_id)
        except SchemaNotFound:
            _keep(self._unknown, schema_id, time.monotonic() + UNKNOWN_FOR_S)
            raise self._no_such_id(schema_id) from None
        _keep(self._kept, path, found)
        return found

    def _no_such_id(self, schema_id: int) -> SchemaNotFound:
        return SchemaNotFound(
            f"the registry {self.settings.place} has no schema with the id {schema_id}: "
            "was the record written with another registry?"
        )

    def latest(self, subject: str, format_: str | None = None) -> RegisteredSchema:
        """The newest version of a subject."""
        return self._version(subject, "latest", format_)

    def _version(self, subject: str, version: int | str, format_: str | None) -> RegisteredSchema:
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}" + (f"?format={format_}" if format_ else "")
        try:
            return schema_of(self.ask("GET", path))
        except SchemaNotFound:
            raise SchemaNotFound(
                f"the registry {self.settings.place} has no version {version} of the subject {subject}: register a "
                "schema there first, or name one with 'schema'"
            ) from None

    def references_of(
        self, schema: RegisteredSchema, format_: str | None = None
    ) -> list[tuple[Reference, RegisteredSchema]]:
        """All schemas that a schema needs, directly or indirectly; each after those that it needs itself."""
        found: dict[str, tuple[Reference, RegisteredSchema]] = {}

        def visit(one: RegisteredSchema, depth: int) -> None:
            for reference in one.references:
                if reference.name in found:
                    continue
                if len(found) >= MAX_REFERENCE_COUNT or depth > MAX_REFERENCE_COUNT:
                    raise RegistryError(f"a schema refers to more than {MAX_REFERENCE_COUNT} others")
                needed = self._version(reference.subject, reference.version, format_)
                visit(needed, depth + 1)
                found[reference.name] = (reference, needed)

        visit(schema, 0)
        return list(found.values())

    def subjects(self) -> list[str]:
        found = self.ask("GET", "/subjects")
        if not isinstance(found, list):
            raise RegistryError(f"the registry {self.settings.place} answers with no list of subjects: is it one?")
        return [str(one) for one in found]

    def register(self, subject: str, schema: RegisteredSchema) -> int:
        """The id of a schema in a subject, where it becomes the newest version unless it is there already."""
        known = self._registered.get((subject, schema))
        if known is not None:
            return known
        schema_id = self._post(f"/subjects/{quote(subject, safe='')}/versions", subject, schema)
        _keep(self._registered, (subject, schema), schema_id)
        return schema_id

    def lookup(self, subject: str, schema: RegisteredSchema) -> int:
        """The id of a schema that is in a subject already."""
        try:
            return self._post(f"/subjects/{quote(subject, safe='')}", subject, schema)
        except SchemaNotFound:
            raise SchemaNotFound(
                f"the registry {self.settings.place} does not have this schema as a version of {subject}: register it, "
                "or leave out 'register: false'"
            ) from None

    def _post(self, path: str, subject: str, schema: RegisteredSchema) -> int:
        body: dict[str, Any] = {"schema": schema.text}
        if schema.kind != AVRO:
            body["schemaType"] = schema.kind
        if schema.references:
            body["references"] = [
                {"name": one.name, "subject": one.subject, "version": one.version} for one in schema.references
            ]
        answer = self.ask("POST", path, body, subject)
        schema_id = answer.get("id") if isinstance(answer, dict) else None
        if not isinstance(schema_id, int) or not 0 <= schema_id < 2**31:
            raise RegistryError(f"the registry {self.settings.place} answers {subject} without an id: {answer!r}")
        return schema_id

    # Requests

    def ask(self, method: str, path: str, body: object = None, subject: str = "") -> Any:
        """The answer of the first address that gives one."""
        last: Exception | None = None
        for attempt in range(ATTEMPT_COUNT):
            for url in self.settings.urls:
                try:
                    status, content = self._send(url, method, path, body)
                except (OSError, UnicodeError, http.client.HTTPException) as error:
                    last = error
                    continue
                if status < 500:
                    return self._answer(url, status, content, path, subject)
                last = RegistryError(f"status {status}: {_message(content)[1]}")
            if attempt + 1 < ATTEMPT_COUNT:
                time.sleep(ATTEMPT_PAUSE_S * 2**attempt)
        raise RegistryUnreachable(
            f"the schema registry {self.settings.place} does not answer ({type(last).__name__}: {last}): does it run "
            "there? --registry, 'registry: {url: ...}' in pipeline.yml or schema.registry.url say where it is"
        )

    def _send(self, url: str, method: str, path: str, body: object) -> tuple[int, bytes]:
        parts = urlsplit(url)
        timeout_s = self.settings.timeout_ms / 1000
        assert parts.hostname is not None
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=self.settings.ca)
            connection = http.client.HTTPSConnection(parts.hostname, parts.port, timeout=timeout_s, context=context)
        else:
            connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)
        expires_at = time.monotonic() + timeout_s
        try:
            content = None if body is None else json.dumps(body).encode()
            connection.request(method, parts.path + path, content, self._headers(content is not None))
            with connection.getresponse() as response:
                found = bytearray()
                while chunk := response.read1(_CHUNK_SIZE):
                    found += chunk
                    if len(found) > MAX_RESPONSE_BYTES:
                        raise RegistryError(f"{url}{path} answers with more than {MAX_RESPONSE_BYTES} bytes")
                    if time.monotonic() > expires_at:
                        raise TimeoutError(f"no complete answer within {self.settings.timeout_ms} ms")
                return response.status, bytes(found)
        finally:
            connection.close()

    def _headers(self, has_body: bool) -> dict[str, str]:
        headers = {"Accept": f"{_MEDIA_TYPE}, application/json"}
        if has_body:
            headers["Content-Type"] = _MEDIA_TYPE
        if self.settings.token is not None:
            headers["Authorization"] = f"Bearer {self.settings.token}"
        elif self.settings.user is not None:
            pair = f"{self.settings.user}:{self.settings.password or ''}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        return headers

    def _answer(self, url: str, status: int, content: bytes, path: str, subject: str) -> Any:
        if status == 200:
            try:
                return json.loads(content)
            except ValueError:
                raise RegistryError(f"{url}{path} answers with no JSON: is it a schema registry?") from None
        code, text = _message(content)
        if status in (401, 403):
            raise RegistryError(
                f"the registry {url} refuses the credentials ({status}): give them with user and password in "
                "'registry:' of pipeline.yml, or as basic.auth.user.info"
            )
        if status == 404 and 40400 < code < 40500:
            raise SchemaNotFound(text)
        if status == 409:
            raise RegistryError(
                f"the schema does not go with the versions of {subject} that are registered: {text}. Give new fields "
                "a default and keep old ones, or set another compatibility level for the subject"
            )
        if status == 422:
            raise RegistryError(f"the registry {url} does not take the schema of {subject or path}: {text}")
        raise RegistryError(f"{url}{path} answers with status {status}: {text}")


def _keep(kept: dict[Any, Any], key: object, value: object) -> None:
    """Cache, up to a limit: garbage ids must not fill the memory."""
    if len(kept) >= MAX_KEPT_COUNT:
        kept.clear()
    kept[key] = value


def _message(content: bytes) -> tuple[int, str]:
    try:
        document = json.loads(content)
        return int(document.get("error_code", 0)), str(document.get("message", ""))[:500]
    except (ValueError, AttributeError, TypeError):
        return 0, content[:200].decode(errors="replace")


def schema_of(answer: object, schema_id: int | None = None) -> RegisteredSchema:
    if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
        raise RegistryError(f"the registry answers without a schema: {str(answer)[:200]}")
    try:
        references = tuple(
            Reference(str(one["name"]), str(one["subject"]), int(one["version"]))
            for one in answer.get("references") or ()
        )
        found_id = int(answer["id"]) if schema_id is None else schema_id
    except (KeyError, TypeError, ValueError, AttributeError):
        raise RegistryError(f"the registry answers with invalid references or an invalid id: {answer!r}") from None
    return RegisteredSchema(str(answer.get("schemaType") or AVRO), answer["schema"], references, found_id)


_shared: dict[RegistrySettings, Registry] = {}


def registry_of(settings: RegistrySettings) -> Registry:
    """The registry client of this process: a Spark worker keeps its cache from batch to batch."""
    return _shared.setdefault(settings, Registry(settings))


def subject_of(topic: str) -> str:
    """Where the schema of a topic's values is: the TopicName strategy."""
    return f"{topic}-value"

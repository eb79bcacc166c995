"""What people, topics, files and logs may see of a pipeline's settings: never a password.

`public_address` renders an address for people. It keeps what it knows to be harmless (scheme, host, port, path) and
leaves out everything else, so that a secret in a place that is not known here is left out, too. `Redaction` is for text
that other programs write (drivers put the whole URL into their errors): it removes the addresses and the secrets of one
pipeline, and whatever stands behind a name such as `password=`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from ottla.spark.pipelines.connection import Connection
    from ottla.spark.pipelines.definition import Flow, Pipeline, Source

HIDDEN = "***"
MIN_SECRET_LENGTH = 4
"""A shorter secret is left out of addresses and after its name, but not searched for: it would be found in any text."""
SECRET_NAMES = (
    r"secret|passw|pwd|passphrase|token|credential|jaas|user[._-]?info|signature|\bsas\b|\bsig\b"
    r"|(?:access|account|api|private|shared|keystore|encryption)[._-]?key"
)
"""Names of settings with secrets, as a regular expression for Python and for Java."""
SPARK_SETTINGS = {
    "spark.redaction.regex": f"(?i){SECRET_NAMES}",
    "spark.sql.redaction.options.regex": "(?s).*",
}
"""Spark hides these settings and options in its plans, its UI and its event log: of options all, since an address may
have any name."""
NAMED_SECRET = (
    r"(?i)((?:[\w.-]*(?:passw|pwd|passphrase|secret|token|accountkey)[\w.-]*|\bsig)(?: ?= ?|['\"]: ?))[^\s;,()&]+"
)
"""A text such as `password=...` or `"token": ...`, with its name as the first group; for Python and for Java."""
USER_INFO = r"(//)[^/\s@]*:[^\s@]*@"

_SECRET_NAME = re.compile(SECRET_NAMES, re.IGNORECASE)
_NAMED_SECRET = re.compile(NAMED_SECRET)
_USER_INFO = re.compile(USER_INFO)
_HOST = r"(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::\d+)?"
_JDBC = re.compile(r"(jdbc:[A-Za-z][A-Za-z0-9+_-]*)(?::(.*))?", re.DOTALL)
_JDBC_PLACE = re.compile(
    rf"(?:(?:memory|mem|file|tcp|ssl):)?(?://)?(?:{_HOST}(?:,{_HOST})*)?(?:/[\w./ +~-]*)?|[\w.-]+:\d+:[\w.$]+"
)
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(.*)", re.DOTALL)
_CONTAINER_SCHEMES = ("abfs", "abfss", "wasb", "wasbs")
"""Azure's addresses have the container before the @."""
_PARAMETER = re.compile(r"([A-Za-z0-9_.-]+)=([^?&;,()\s]*)")
_QUOTED = re.compile(r"=\s*\"([^\"]+)\"|=\s*'([^']+)'")


def is_secret_name(name: str) -> bool:
    """Whether a setting or a variable of this name holds a secret."""
    return _SECRET_NAME.search(name) is not None


def public_address(address: str) -> str:
    """An address without user, password, query and properties; a path without a scheme stays as it is."""
    jdbc = _JDBC.fullmatch(address)
    if jdbc is not None:
        return _public_jdbc(jdbc.group(1), jdbc.group(2) or "")
    url = _URL.fullmatch(address)
    if url is None:
        return address
    scheme, authority, path, _ = url.groups()
    user, at, host = authority.rpartition("@")
    if not re.fullmatch(_HOST, host):
        return f"{scheme}://" if authority else f"{scheme}://{path}"
    is_container = scheme.lower() in _CONTAINER_SCHEMES and re.fullmatch(r"[\w-]+", user)
    return f"{scheme}://{user + at if is_container else ''}{host}{path}"


def _public_jdbc(scheme: str, rest: str) -> str:
    head = re.split(r"[?;#&]", rest, maxsplit=1)[0]
    if "@" in rest[len(head) :]:  # of a password, or does the host only follow?
        return scheme
    user, _, place = head.rpartition("@")
    if "//" in user and not place.startswith("//"):
        place = f"//{place}"
    return f"{scheme}:{place}" if place and _JDBC_PLACE.fullmatch(place) else scheme


class Redaction:
    """Removes the secrets of one pipeline from a text."""

    def __init__(self, addresses: Mapping[str, str], secrets: set[str]) -> None:
        self._addresses = sorted(addresses.items(), key=lambda pair: -len(pair[0]))
        self._secrets = sorted((one for one in secrets if len(one) >= MIN_SECRET_LENGTH), key=len, reverse=True)

    @classmethod
    def of(cls, pipeline: Pipeline | None, connection: Connection | None) -> Redaction:
        addresses: dict[str, str] = {}
        secrets: set[str] = set()

        def add(name: str, value: str) -> None:
            if value != public_address(value):
                addresses[value] = public_address(value)
                secrets.update(_secrets_of_address(value))
            if is_secret_name(name):
                secrets.add(value)
                secrets.update(one or other for one, other in _QUOTED.findall(value))

        for name, value in _settings(pipeline, connection):
            add(name, value)
        return cls(addresses, secrets)

    def __call__(self, text: str) -> str:
        for address, public in self._addresses:
            text = text.replace(address, public)
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        text = _USER_INFO.sub(rf"\1{HIDDEN}@", text)
        return _NAMED_SECRET.sub(rf"\1{HIDDEN}", text)


def _settings(pipeline: Pipeline | None, connection: Connection | None) -> Iterator[tuple[str, str]]:
    """The names and values of everything that may hold a secret."""
    if connection is not None:
        yield from connection.settings.items()
    registries = [one.registry for one in (pipeline, connection) if one is not None and one.registry is not None]
    for registry in registries:
        yield from (("password", one) for one in (registry.password, registry.token) if one)
    if pipeline is None:
        return
    yield from (("password", one) for one in pipeline.secrets)
    yield from pipeline.spark.items()
    ends: list[Source | Flow] = [*pipeline.sources, *pipeline.flows]
    for one in ends:
        yield from one.options.items()
        yield from one.catalog.items()
        webhook = getattr(one, "webhook", None)
        if webhook is not None:
            yield from (("password", text) for text in (webhook.secret, webhook.token) if text)
        request = getattr(one, "request", None)
        if request is not None:
            yield from (("password", text) for text in (request.secret, *request.headers.values()) if text)
        yield from (("", text) for text in (one.jdbc, one.files, one.delta, getattr(one, "http", None)) if text)


def _secrets_of_address(address: str) -> Iterator[str]:
    """The values of an address that are secrets, as they stand there and decoded."""
    found = [value for name, value in _PARAMETER.findall(address) if _SECRET_NAME.search(name)]
    before = re.split(r"[?;]", address, maxsplit=1)[0].rpartition("@")[0]
    if before:
        found.append(re.split(r"[:/]", before.rpartition("//")[2])[-1])
    for one in found:
        yield from {one, unquote(one)}

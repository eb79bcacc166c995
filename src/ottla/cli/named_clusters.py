"""Clusters by name: one file that says where each is and how clients log in there, for `ottla --cluster NAME`.

    current = "dev"

    [clusters.dev]
    brokers = "127.0.0.1:9092"

    [clusters.prod]
    brokers = "kafka1.example.org:9092,kafka2.example.org:9092"
    config = "prod.properties"              # a file for --command-config; relative to this file

    [clusters.prod.settings]                # these override the file's
    "security.protocol" = "SASL_SSL"

The file is $OTTLA_CLUSTERS, or ottla/clusters.toml in $XDG_CONFIG_HOME (~/.config).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

FILE_VARIABLE = "OTTLA_CLUSTERS"
MAX_FILE_BYTES = 1 << 20
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
HIDDEN = "(secret)"
_SECRET = re.compile(r"password|secret|jaas|token|credential|user\.info|api\.key|keystore\.key$", re.IGNORECASE)
_IN_URL = re.compile(r"://[^/@\s]+@")


class NamedClustersError(Exception):
    """Why the file of clusters cannot be used, with its path."""


class NamedCluster(NamedTuple):
    """Where a cluster is, and the settings of its clients."""

    brokers: str
    config: str | None = None
    settings: Mapping[str, str] = {}


def is_secret(name: str) -> bool:
    """Whether the value of a setting is hidden wherever settings are shown."""
    return bool(_SECRET.search(name)) and not name.endswith(".url")


def shown_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings without their secrets."""
    return {
        name: HIDDEN if is_secret(name) else _IN_URL.sub(f"://{HIDDEN}@", value) for name, value in settings.items()
    }


def file_path() -> Path:
    given = os.environ.get(FILE_VARIABLE)
    if given:
        return Path(given)
    folder = os.environ.get("XDG_CONFIG_HOME")
    # The specification wants a relative path there to be ignored.
    base = Path(folder) if folder and os.path.isabs(folder) else Path.home() / ".config"
    return base / "ottla" / "clusters.toml"


class NamedClusters:
    """The file's content: clusters by name, and the default one."""

    def __init__(self, path: Path, clusters: dict[str, NamedCluster] | None = None, current: str | None = None) -> None:
        self.path = path
        self.clusters = clusters or {}
        self.current = current

    @classmethod
    def read(cls) -> NamedClusters:
        path = file_path()
        try:
            with path.open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except FileNotFoundError:
            return cls(path)
        except OSError as error:
            raise NamedClustersError(f"{path} cannot be read: {error.strerror}") from None
        try:
            if len(data) > MAX_FILE_BYTES:
                raise ValueError(f"it is larger than {MAX_FILE_BYTES} bytes")
            return cls._parse(path, data.decode())
        except ValueError as error:
            reason = "it is no UTF-8" if isinstance(error, UnicodeDecodeError) else error
            raise NamedClustersError(f"{path}: {reason}") from None

    @classmethod
    def _parse(cls, path: Path, text: str) -> NamedClusters:
        import tomllib

        try:
            document = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"it is not valid TOML: {error}") from None
        _refuse_unknown("", document, ("current", "clusters"))
        clusters = {}
        for name, given in _table(document, "clusters").items():
            if not NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no name of a cluster: letters, digits, dots, dashes and underscores")
            if not isinstance(given, dict):
                raise ValueError(f"clusters.{name} is no table")
            _refuse_unknown(f"clusters.{name}: ", given, ("brokers", "config", "settings"))
            brokers, config = given.get("brokers"), given.get("config")
            if not isinstance(brokers, str) or not brokers.strip():
                raise ValueError(f"clusters.{name} has no brokers: a text such as 'host:9092,other:9092'")
            if config is not None and not isinstance(config, str):
                raise ValueError(f"clusters.{name}: config is the path of a properties file")
            clusters[name] = NamedCluster(brokers, config, dict(_flat(name, _table(given, "settings"))))
        current = document.get("current")
        if current is not None and current not in clusters:
            raise ValueError(f"current = {current!r}, but there is no such cluster")
        return cls(path, clusters, current)

    @property
    def has_secrets(self) -> bool:
        return any(
            is_secret(name) or _IN_URL.search(value)
            for cluster in self.clusters.values()
            for name, value in cluster.settings.items()
        )

    @property
    def is_open_to_others(self) -> bool:
        try:
            return bool(self.path.stat().st_mode & 0o077)
        except OSError:
            return False

    def config_path(self, cluster: NamedCluster) -> str | None:
        """A cluster's properties file; a relative path starts at the folder of the file of clusters."""
        return None if cluster.config is None else str(self.path.parent / Path(cluster.config).expanduser())

    def write(self) -> None:
        """Replace the file in one step; only its owner may read it."""
        path = self.path.resolve() if self.path.is_symlink() else self.path
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                file.write(self.text())
            fresh.replace(path)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise

    def text(self) -> str:
        lines = ["# Written by 'ottla clusters', which keeps no comments. 'ottla clusters --help' says what it is."]
        if self.current is not None:
            lines.append(f"current = {_quoted(self.current)}")
        for name, cluster in sorted(self.clusters.items()):
            lines += ["", f"[clusters.{_quoted(name)}]", f"brokers = {_quoted(cluster.brokers)}"]
            if cluster.config is not None:
                lines.append(f"config = {_quoted(cluster.config)}")
            if cluster.settings:
                lines += ["", f"[clusters.{_quoted(name)}.settings]"]
                lines += [f"{_quoted(key)} = {_quoted(value)}" for key, value in cluster.settings.items()]
        return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A TOML string: JSON's escapes are TOML's, but for DEL."""
    import json

    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _table(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = document.get(name, {})
    if not isinstance(found, dict):
        raise ValueError(f"{name} is no table")
    return found


def _refuse_unknown(where: str, document: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in document:
        if name not in known:
            raise ValueError(f"{where}{name} is unknown; there are {', '.join(known)}")


def _flat(cluster: str, table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Settings by their names: without quotes TOML takes `security.protocol` for a table."""
    found: list[tuple[str, str]] = []
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            found += _flat(cluster, value, f"{name}.")
        elif isinstance(value, bool):
            found.append((name, str(value).lower()))
        elif isinstance(value, str | int):
            found.append((name, str(value)))
        else:
            raise ValueError(f"clusters.{cluster}: {name} is neither a text nor a whole number, true or false")
    return found

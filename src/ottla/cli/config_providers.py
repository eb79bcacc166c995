"""Kafka's config providers (KIP-297): `${file:/etc/ottla/secrets.properties:key}` in a setting of a node stands for a
value that is kept elsewhere, so that no secret is in server.properties or in the list of processes.

A variable without a value is refused. Kafka leaves its text as it stands, and `${env:PASSWORD}` would be the password.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ottla.config import ConfigError, parse_properties

PREFIX: Final = "config.providers"
_VARIABLE: Final = re.compile(r"\$\{([^}:]*):(?:([^}:]*):)?([^}]*)\}")
_PACKAGE: Final = "org.apache.kafka.common.config.provider."

Provider = Callable[[str, str], str]
"""Gives the value of a path and a key; KeyError, ValueError or OSError if there is none."""


def resolve(given: Mapping[str, str]) -> dict[str, str]:
    """The settings with their variables replaced, and without those about providers."""
    names = [name.strip() for name in given.get(PREFIX, "").split(",") if name.strip()]
    providers = {name: _provider(name, given) for name in names}
    settings = {name: text for name, text in given.items() if not providers or not name.startswith(PREFIX)}
    return {name: _resolved(name, text, providers) for name, text in settings.items()}


def _resolved(setting: str, text: str, providers: Mapping[str, Provider]) -> str:
    def value(variable: re.Match[str]) -> str:
        name, path, key = variable.groups(default="")
        if name not in providers:
            return variable.group()
        try:
            return providers[name](path, key)
        except OSError as error:
            raise ConfigError(f"{setting}: {variable.group()} cannot be read: {error.strerror}") from None
        except (KeyError, ValueError):
            raise ConfigError(f"{setting}: {variable.group()} has no value, or may not be read") from None

    return _VARIABLE.sub(value, text)


def _provider(name: str, given: Mapping[str, str]) -> Provider:
    named = given.get(f"{PREFIX}.{name}.class", "").strip()
    make = _PROVIDERS.get(named.removeprefix(_PACKAGE))
    if make is None:
        known = ", ".join(_PACKAGE + one for one in _PROVIDERS)
        raise ConfigError(f"{PREFIX}.{name}.class cannot be {named or 'left out'}: Ottla has {known}")
    start = f"{PREFIX}.{name}.param."
    return make({key.removeprefix(start): text for key, text in given.items() if key.startswith(start)})


def _file_provider(parameters: Mapping[str, str]) -> Provider:
    allowed = _AllowedPaths(parameters)
    return lambda path, key: parse_properties(allowed.check(path).read_text(encoding="utf-8"))[key]


def _directory_provider(parameters: Mapping[str, str]) -> Provider:
    allowed = _AllowedPaths(parameters)
    return lambda path, key: allowed.check(path, key).read_text(encoding="utf-8")


def _environment_provider(parameters: Mapping[str, str]) -> Provider:
    pattern = parameters.get("allowlist.pattern")
    try:
        names = re.compile(".*" if pattern is None else pattern)
    except re.error as error:
        raise ConfigError(f"{PREFIX}: allowlist.pattern {pattern}: {error}") from None

    def value(path: str, key: str) -> str:
        if names.fullmatch(key) is None:
            raise KeyError(key)
        return os.environ[key]

    return value


class _AllowedPaths:
    """Those of `allowed.paths`; without it every path."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        given = map(str.strip, parameters.get("allowed.paths", "").split(","))
        self._folders = [Path(one).resolve() for one in given if one]

    def check(self, path: str, name: str = "") -> Path:
        found = Path(path, name).resolve()
        if (name and "/" in name) or (self._folders and not any(found.is_relative_to(one) for one in self._folders)):
            raise ValueError(path)
        return found


_PROVIDERS: Final[dict[str, Callable[[Mapping[str, str]], Provider]]] = {
    "FileConfigProvider": _file_provider,
    "DirectoryConfigProvider": _directory_provider,
    "EnvVarConfigProvider": _environment_provider,
}

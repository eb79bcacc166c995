"""How Kafka's tools reach a cluster: --bootstrap-server and --command-config, over ottla.client's Admin.

    async with connect(options.value("bootstrap-server"), options.value("command-config")) as admin:
        ...

Kafka's clients ignore settings they do not know, ours refuse them: so a properties file of a Java tool is read here,
and only what an admin client has is passed on.
"""

from __future__ import annotations

import socket
from dataclasses import fields
from random import Random
from typing import Any

from ottla.cli.kafka.options import ToolError
from ottla.client.admin import Admin
from ottla.client.config import AdminConfig, ClientConfig, split_address
from ottla.client.errors import ConfigError

CONFIG_EXCEPTION = "org.apache.kafka.common.config.ConfigException"
KAFKA_EXCEPTION = "org.apache.kafka.common.KafkaException"


def read_properties(path: str) -> dict[str, str]:
    """A properties file that was named on the command line."""
    # Here, since it brings all of Kafka's settings with it and few commands need it.
    from ottla.config.properties import parse_properties

    try:
        with open(path, encoding="utf-8") as file:
            return parse_properties(file.read())
    except FileNotFoundError:
        raise ToolError(path, "java.nio.file.NoSuchFileException") from None
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}", "java.nio.file.FileSystemException") from None


def known_settings(kind: type[ClientConfig], given: dict[str, str]) -> dict[str, Any]:
    """The settings that Ottla's client has or refuses; like Kafka's tools, unknown ones are skipped."""
    declared = {one.name.replace("_", ".") for one in fields(kind)}
    return {name: value for name, value in given.items() if name in declared or name in kind.refused_names()}


def check_addresses(bootstrap: str) -> str:
    """A list of host:port; an error in Kafka's words if the text is none."""
    addresses = [address.strip() for address in bootstrap.split(",") if address.strip()]
    resolvable = []
    for address in addresses:
        try:
            socket.getaddrinfo(*split_address(address), type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            continue
        except ValueError:
            raise _refused(f"Invalid url in bootstrap.servers: {address}") from None
        resolvable.append(address)
    if not resolvable:
        raise _refused("No resolvable bootstrap urls given in bootstrap.servers")
    return ",".join(resolvable)


def connect(
    bootstrap: str,
    command_config: str | None = None,
    *,
    client_id: str = "",
    settings: dict[str, Any] | None = None,
    kind: type[Admin] = Admin,
    rng: Random | None = None,
) -> Any:
    """An admin client of this kind; nothing is sent yet. The given settings override those of the file."""
    found: dict[str, Any] = {}
    if command_config is not None:
        found = known_settings(AdminConfig, read_properties(command_config))
    if client_id:
        found["client.id"] = client_id
    found.update(settings or {})
    found["bootstrap.servers"] = check_addresses(bootstrap)
    try:
        return kind(found, rng=rng)
    except ConfigError as error:
        raise _refused(str(error)) from None


def _refused(message: str) -> ToolError:
    return ToolError("Failed to create new KafkaAdminClient", KAFKA_EXCEPTION, ToolError(message, CONFIG_EXCEPTION))

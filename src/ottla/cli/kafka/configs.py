"""kafka-configs: show and change settings of topics, brokers, users, clients, addresses, groups and client metrics."""

from __future__ import annotations

import asyncio
import re
import socket
import sys

from ottla.cli.kafka.connection import connect, read_properties
from ottla.cli.kafka.entity_configs import (
    BROKER_LOGGERS,
    BROKERS,
    CLIENT_METRICS,
    CLIENTS,
    GROUPS,
    INVALID_CONFIGURATION,
    IPS,
    TIMEOUT_MS,
    TOPICS,
    USERS,
    ConfigAdmin,
    alter,
    describe,
    failure,
)
from ottla.cli.kafka.options import (
    Exit,
    Option,
    OptionError,
    OptionParser,
    Options,
    ToolError,
    UsageError,
    show_usage,
    whole_number,
)
from ottla.client.admin import PartialFailure
from ottla.client.errors import KafkaError

ENTITY_TYPES = (TOPICS, CLIENTS, USERS, BROKERS, IPS, CLIENT_METRICS, GROUPS, BROKER_LOGGERS)
FLAGS = {
    "topic": TOPICS,
    "client": CLIENTS,
    "user": USERS,
    "broker": BROKERS,
    "broker-logger": BROKER_LOGGERS,
    "ip": IPS,
    "client-metrics": CLIENT_METRICS,
    "group": GROUPS,
}
DEFAULT_FLAGS = {"client-defaults": CLIENTS, "user-defaults": USERS, "broker-defaults": BROKERS, "ip-defaults": IPS}
HAS_DEFAULTS = (USERS, CLIENTS, BROKERS, IPS)
ILLEGAL_ARGUMENT = "java.lang.IllegalArgumentException"
OUTSIDE_BRACKETS = r"(?=[^\]]*(?:\[|$))"

HIDDEN = "[hidden]"
SECRET = re.compile(r"SCRAM-|password|secret|jaas|\.key|credential|passphrase", re.IGNORECASE)
"""What a value that may be secret has in it, or in its name."""


def option_parser() -> OptionParser:
    return OptionParser(
        Option("bootstrap-server", "Any brokers of the cluster.", "server to connect to"),
        Option("bootstrap-controller", "Any controllers of the cluster.", "controller to connect to"),
        Option("command-config", "A properties file for the admin client.", "command config property file"),
        Option("alter", "Change settings."),
        Option("describe", "Show settings."),
        Option("all", "Show also what was not set by this tool: the file's settings and the defaults."),
        Option("entity-type", f"What has the settings: {', '.join(ENTITY_TYPES)}.", ""),
        Option("entity-name", "Its name: a topic, client id, user, broker id, address, subscription or group.", ""),
        Option("entity-default", "The default of that type (clients, users, brokers, ips)."),
        Option("add-config", _add_config_description, ""),
        Option("add-config-file", "A properties file with the settings to add.", ""),
        Option("delete-config", "Settings to remove: name,name.", "", separator=","),
        Option("topic", "A topic.", ""),
        Option("client", "A client id.", ""),
        Option("client-defaults", "The default of all clients."),
        Option("user", "A user.", ""),
        Option("user-defaults", "The default of all users."),
        Option("broker", "A broker's id.", ""),
        Option("broker-defaults", "The default of all brokers."),
        Option("broker-logger", "A broker's id: the levels of its loggers.", ""),
        Option("ip-defaults", "The default of all addresses."),
        Option("ip", "An address.", ""),
        Option("group", "A group.", ""),
        Option("client-metrics", "A subscription to clients' metrics.", ""),
    )


def main(arguments: list[str]) -> int:
    parser = option_parser()
    try:
        options = parser.parse(arguments)
        options.help_or_version(
            "This tool helps to manipulate and describe entity config for a topic, client, user, broker, ip, "
            "client-metrics or group"
        )
        check(options)
        asyncio.run(_run(options))
    except UsageError as error:
        return show_usage(parser, error)
    except Exit as done:
        return done.code
    except (ToolError, KafkaError) as error:
        if isinstance(error, PartialFailure):
            error = next(iter(error.errors.values()))
        told = failure(error) if isinstance(error, KafkaError) else error
        if isinstance(told, OptionError) or told.exception in (ILLEGAL_ARGUMENT, INVALID_CONFIGURATION):
            print(told.message, file=sys.stderr)
        else:
            print(f"Error while executing config command with args '{shown(arguments)}'", file=sys.stderr)
            print(told.trace, end="", file=sys.stderr)
        return 1
    return 0


def shown(arguments: list[str]) -> str:
    """The arguments as an error repeats them: Kafka's tool shows passwords, too."""
    return " ".join(
        f"{before}{HIDDEN}" if "=" in value and SECRET.search(value) else f"{before}{value}"
        for before, value in (_split(argument) for argument in arguments)
    )


def _split(argument: str) -> tuple[str, str]:
    """`--add-config=` and what follows it, or nothing and the argument."""
    name, equals, value = argument.partition("=")
    return (f"{name}=", value) if equals and name.startswith("-") else ("", argument)


async def _run(options: Options) -> None:
    config = options.value("command-config") if options.has("command-config") else None
    if options.has("bootstrap-controller"):
        raise ToolError("kafka-configs speaks to brokers only: use --bootstrap-server")
    settings = {"default.api.timeout.ms": TIMEOUT_MS}
    admin: ConfigAdmin = connect(options.value("bootstrap-server"), config, kind=ConfigAdmin, settings=settings)
    types, names = entity_types(options), entity_names(options)
    async with admin:
        if options.has("describe"):
            await describe(admin, types, names, shows_all=options.has("all"))
            return
        if len(types) != len(names):
            raise ToolError("An entity name must be specified for every entity type")
        added = _added(options)
        deleted = [name.strip() for name in options.values("delete-config")]
        await alter(admin, types, names, added, deleted)


def entity_types(options: Options) -> list[str]:
    found = options.values("entity-type")
    return found + [kind for flag, kind in (FLAGS | DEFAULT_FLAGS).items() if options.has(flag)]


def entity_names(options: Options) -> list[str]:
    """One for each type; the empty name is the default."""
    given = iter(options.values("entity-name"))
    names = [next(given) if one == "entity-name" else "" for one in options.order("entity-name", "entity-default")]
    names += [options.value(flag) for flag in FLAGS if options.has(flag)]
    return names + ["" for flag in DEFAULT_FLAGS if options.has(flag)]


def check(options: Options) -> None:
    """Refuse options that exclude each other."""
    if options.has("alter") + options.has("describe") != 1:
        raise UsageError("Command must include exactly one action: --describe, --alter")
    options.forbid("describe", "add-config", "delete-config")
    types = entity_types(options)
    repeated = [kind for index, kind in enumerate(types) if kind in types[:index]]
    if repeated:
        raise ToolError(f"Duplicate entity type(s) specified: {','.join(repeated)}")
    servers = options.has("bootstrap-server") + options.has("bootstrap-controller")
    if servers == 0:
        raise ToolError("Either --bootstrap-server or --bootstrap-controller must be specified.")
    for kind in types:
        if kind not in ENTITY_TYPES:
            raise ToolError(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(ENTITY_TYPES)} with a "
                "--bootstrap-server or --bootstrap-controller argument"
            )
    if not types:
        raise ToolError("At least one entity type must be specified")
    if len(types) > 1 and sorted(types) != [CLIENTS, USERS]:
        raise ToolError(f"Only '{USERS}' and '{CLIENTS}' entity types may be specified together")
    general = any(options.has(one) for one in ("entity-name", "entity-type", "entity-default"))
    if general and any(options.has(flag) for flag in FLAGS | DEFAULT_FLAGS):
        raise ToolError("--entity-{type,name,default} should not be used in conjunction with specific entity flags")
    if servers > 1:
        raise ToolError("Only one of --bootstrap-server or --bootstrap-controller can be specified")
    names = entity_names(options)
    _check_names(options, types, names)
    if options.has("describe"):
        if options.has("entity-default") and not any(kind in HAS_DEFAULTS for kind in types):
            raise ToolError(f"--entity-default must not be specified with --describe of {','.join(types)}")
        if BROKER_LOGGERS in types and not any(names):
            raise ToolError(f"An entity name must be specified with --describe of {','.join(types)}")
    else:
        _check_alter(options, types, names)


def _check_names(options: Options, types: list[str], names: list[str]) -> None:
    if not any(names):
        return
    if BROKERS in types or BROKER_LOGGERS in types:
        for given in ("entity-name", "broker", "broker-logger"):
            name = options.value(given) if options.has(given) else "0"
            try:
                whole_number(32)(name)
            except ValueError:
                raise ToolError(
                    f"The entity name for {types[0]} must be a valid integer broker id, but it is: {name}"
                ) from None
    if IPS in types:
        for given in ("entity-name", "ip"):
            if options.has(given) and not _is_address(options.value(given)):
                raise ToolError(
                    f"The entity name for {types[0]} must be a valid IP or resolvable host, but it is: "
                    f"{options.value(given)}"
                )


def _is_address(name: str) -> bool:
    try:
        socket.getaddrinfo(name, None)
    except (OSError, UnicodeError):
        return False
    return True


def _check_alter(options: Options, types: list[str], names: list[str]) -> None:
    if any(kind in HAS_DEFAULTS for kind in types):
        if not names:
            raise ToolError(
                "An entity-name or default entity must be specified with --alter of users, clients, brokers or ips"
            )
    elif not any(names):
        raise ToolError(f"An entity name must be specified with --alter of {','.join(types)}")
    if options.has("add-config") and options.has("add-config-file"):
        raise ToolError("Only one of --add-config or --add-config-file must be specified")
    if not any(options.has(one) for one in ("add-config", "add-config-file", "delete-config")):
        raise ToolError(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )


def _added(options: Options) -> dict[str, str]:
    """The settings to add: name=value,name=[value,value]."""
    added: dict[str, str] = {}
    if options.has("add-config-file"):
        added.update(read_properties(options.value("add-config-file")))
    if options.has("add-config"):
        for part in re.split("," + OUTSIDE_BRACKETS, options.value("add-config")):
            pair = re.split(r"\s*=\s*" + OUTSIDE_BRACKETS, part)
            if len(pair) != 2:
                raise ToolError(
                    "requirement failed: Invalid entity config: all configs to be added must be in the format "
                    '"key=val" or  "key=[val1,val2]" to group values which contain commas.'
                )
            added[pair[0].strip()] = re.sub(r"\[?\]?", "", pair[1]).strip()
    for name in added:
        if not re.fullmatch(r"[a-zA-Z0-9._-]*", name):
            raise ToolError(f"Invalid character found for config key: {name}")
    return added


def _add_config_description() -> str:
    from ottla.cli.kafka.entity_configs import CLIENT_QUOTAS, IP_QUOTAS, SCRAM
    from ottla.config import CLIENT_METRICS_KEYS, GROUP_KEYS, TOPIC_KEYS
    from ottla.config.broker import BROKER_KEYS, DYNAMIC_BROKER_KEYS
    from ottla.config.keys import READ_ONLY

    of_brokers = {**BROKER_KEYS, **DYNAMIC_BROKER_KEYS}
    names = {
        TOPICS: [name for name, key in TOPIC_KEYS.items() if not key.is_internal],
        BROKERS: [name for name, key in of_brokers.items() if key.update_mode != READ_ONLY],
        USERS: (*SCRAM, *CLIENT_QUOTAS),
        CLIENTS: CLIENT_QUOTAS,
        IPS: IP_QUOTAS,
        CLIENT_METRICS: CLIENT_METRICS_KEYS,
        GROUPS: GROUP_KEYS,
    }
    told = "Settings to add: name=value,name=[value,value]. Clients of a user are named by both types together.\n"
    return told + "\n".join(
        f"For {kind}:\n" + "\n".join(f"\t{name}" for name in sorted(known)) for kind, known in names.items()
    )

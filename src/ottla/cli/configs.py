"""`ottla configs`: the settings of topics, brokers, groups and client metrics, and the quotas of clients."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ottla.cli.output import Column, emit, emit_done
from ottla.cli.session import HELP, CommandError, Session, add_subcommand, group_parser, no_such, run, setting

if TYPE_CHECKING:
    from ottla.client.admin import Admin, ConfigEntry, ConfigResource
    from ottla.client.admin.configs import QuotaEntity

COMMAND = "ottla configs"
KINDS = {"topic": 2, "broker": 4, "broker-logger": 8, "client-metrics": 16, "group": 32}
QUOTAS = "quotas"
DEFAULT = "default"
ALL_BROKERS = "all"
EXAMPLES = """\
  ottla configs describe topic orders                  what differs from the defaults
  ottla configs describe topic orders --all            every setting, and where its value comes from
  ottla configs describe broker 1
  ottla configs set topic orders retention.ms=7d segment.bytes=64MiB cleanup.policy=compact
  ottla configs unset topic orders retention.ms
  ottla configs set broker all log.cleaner.threads=2   every broker
  ottla configs set quotas user=alice client-id=default producer_byte_rate=1MiB
"""
NAMED = (
    "topic NAME, broker ID (or 'all'), group NAME, client-metrics NAME, "
    "quotas with user=NAME, client-id=NAME or ip=ADDRESS ('default': all others)"
)


def parser() -> argparse.ArgumentParser:
    made, commands = group_parser(COMMAND, "Settings and quotas. Works with Apache Kafka, too.", EXAMPLES)
    kinds = [*KINDS, QUOTAS]
    describe = add_subcommand(
        commands,
        "describe",
        "settings that differ from the defaults, or all of them",
        "  ottla configs describe topic orders\n  ottla configs describe broker 1 --all -o json\n"
        "  ottla configs describe quotas\n  ottla configs describe topic      every topic with settings of its own\n",
    )
    describe.add_argument("kind", choices=kinds)
    describe.add_argument("name", nargs="*", metavar="NAME", help=NAMED)
    describe.add_argument(
        "-a",
        "--all",
        action="store_true",
        help="also settings with their defaults (of Ottla's own settings, ottla.*, only those that are set)",
    )
    change = add_subcommand(
        commands,
        "set",
        "change settings; the others stay as they are",
        "  ottla configs set topic orders retention.ms=7d segment.bytes=64MiB\n"
        "  ottla configs set quotas user=alice producer_byte_rate=1MiB\n",
    )
    change.add_argument("kind", choices=kinds)
    change.add_argument("name", metavar="NAME", help=NAMED)
    change.add_argument("settings", nargs="+", metavar="SETTING=VALUE")
    unset = add_subcommand(
        commands,
        "unset",
        "take the default again",
        "  ottla configs unset topic orders retention.ms\n  ottla configs unset quotas user=alice producer_byte_rate\n",
    )
    unset.add_argument("kind", choices=kinds)
    unset.add_argument("name", metavar="NAME", help=NAMED)
    unset.add_argument("settings", nargs="+", metavar="SETTING")
    return made


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments or HELP)
    is_quota = options.kind == QUOTAS
    work = {
        "describe": describe_quotas if is_quota else describe,
        "set": change_quotas if is_quota else change,
        "unset": change_quotas if is_quota else change,
    }[options.command]
    return run(COMMAND, options, lambda session: work(session, options))


# --- settings


def resource_of(kind: str, name: str) -> ConfigResource:
    from ottla.client.admin import ConfigResource, ResourceType

    if kind.startswith("broker") and name in (ALL_BROKERS, DEFAULT):
        name = ""
    if kind.startswith("broker") and name and not name.isdigit():
        raise CommandError(f"{name!r} is no broker: its id is a number ('ottla cluster brokers'), or 'all'", 2)
    return ConfigResource(ResourceType(KINDS[kind]), name)


async def describe(session: Session, options: argparse.Namespace) -> None:
    admin = await session.admin()
    resources = [resource_of(options.kind, name) for name in options.name]
    if not resources:
        resources = await all_of(admin, options.kind)
    elif options.kind == "topic":
        await session.describe_topics(options.name)
    is_shown_whole = options.all
    rows = []
    for resource, entries in (await admin.describe_configs(resources, include_synonyms=is_shown_whole)).items():
        for entry in sorted(entries.values()):
            if is_shown_whole or is_own(resource, entry):
                rows.append(row_of(options.kind, resource, entry))
    columns = [Column("setting", "SETTING"), Column("value", "VALUE"), Column("source", "FROM")]
    if len(resources) > 1:
        columns.insert(0, Column("name", options.kind.upper()))
    if is_shown_whole and any(row["read_only"] for row in rows):
        columns.append(Column("read_only", "READ ONLY"))
    emit(options.output, rows, columns, nothing="all settings have their defaults (--all shows them)")


async def all_of(admin: Admin, kind: str) -> list[ConfigResource]:
    """Everything of a kind."""
    from ottla.client.admin import ConfigResource, ResourceType

    type_ = ResourceType(KINDS[kind])
    if kind == "topic":
        return [ConfigResource(type_, name) for name in await admin.list_topics()]
    if kind.startswith("broker"):
        brokers = (await admin.describe_cluster()).brokers
        return [ConfigResource(type_, str(broker.id)) for broker in brokers]
    return await admin.list_config_resources([type_])


def is_own(resource: ConfigResource, entry: ConfigEntry) -> bool:
    """Whether it was set for this very thing (or, for a broker, in its properties file)."""
    from ottla.client.admin import ConfigSource, ResourceType

    if resource.type is ResourceType.TOPIC:
        return entry.source is ConfigSource.DYNAMIC_TOPIC
    return entry.source is not ConfigSource.DEFAULT


def row_of(kind: str, resource: ConfigResource, entry: ConfigEntry) -> dict[str, Any]:
    return {
        "kind": kind,
        "name": resource.name or ALL_BROKERS,
        "setting": entry.name,
        "value": "(secret)" if entry.is_sensitive else entry.value,
        "source": entry.source.name.lower().replace("_", " "),
        "read_only": entry.is_read_only,
    }


async def change(session: Session, options: argparse.Namespace) -> None:
    from ottla.client.admin import ConfigChange, Operation
    from ottla.client.errors import ErrorCode, KafkaError

    admin = await session.admin()
    resource = resource_of(options.kind, options.name)
    if options.kind == "topic":
        await session.describe_topic(options.name)
    if options.command == "set":
        changes = [ConfigChange(*pair) for pair in settings_of(options)]
    else:
        changes = [ConfigChange(name, None, Operation.DELETE) for name in options.settings]
    try:
        await admin.alter_configs({resource: changes})
    except KafkaError as error:
        if error.code is ErrorCode.INVALID_CONFIG:
            await suggest(admin, resource, [one.name for one in changes])
        raise
    done = [one.name if one.value is None else f"{one.name}={one.value}" for one in changes]
    document = {"kind": options.kind, "name": options.name, options.command: {one.name: one.value for one in changes}}
    emit_done(options.output, [document], [f"{options.kind} {options.name}: {options.command} {', '.join(done)}"])


async def suggest(admin: Admin, resource: ConfigResource, names: list[str]) -> None:
    """Suggests the nearest name for a setting that does not exist."""
    known = list((await admin.describe_configs([resource]))[resource])
    for name in names:
        if known and name not in known:
            kind = resource.type.name.lower().replace("_", "-")
            raise no_such("setting", name, known, f"{COMMAND} describe {kind} {resource.name} --all")


def settings_of(options: argparse.Namespace) -> list[tuple[str, str]]:
    try:
        return [setting(one) for one in options.settings]
    except argparse.ArgumentTypeError as error:
        raise CommandError(str(error), 2) from None


# --- quotas

ENTITY_TYPES = ("user", "client-id", "ip")


def entity_of(names: list[str]) -> tuple[QuotaEntity, list[str]]:
    """Whose quotas: user=NAME, client-id=NAME, ip=ADDRESS; and what of the arguments is left."""
    entity = []
    left = []
    for one in names:
        kind, equals, name = one.partition("=")
        if equals and kind in ENTITY_TYPES:
            entity.append((kind, None if name == DEFAULT else name))
        else:
            left.append(one)
    return tuple(entity), left


async def describe_quotas(session: Session, options: argparse.Namespace) -> None:
    admin = await session.admin()
    entity, left = entity_of(options.name)
    if left:
        raise CommandError(f"{left[0]!r}: quotas are of user=NAME, client-id=NAME or ip=ADDRESS", 2)
    rows = [
        {**{kind: DEFAULT if name is None else name for kind, name in found}, "quota": quota, "value": value}
        for found, quotas in sorted((await admin.describe_client_quotas(dict(entity))).items(), key=str)
        for quota, value in sorted(quotas.items())
    ]
    kinds = [kind for kind in ENTITY_TYPES if any(kind in row for row in rows)]
    columns = [Column(kind, kind.upper()) for kind in kinds]
    emit(options.output, rows, [*columns, Column("quota", "QUOTA"), Column("value", "VALUE")], nothing="no quotas")


async def change_quotas(session: Session, options: argparse.Namespace) -> None:
    entity, left = entity_of([options.name, *options.settings])
    if not entity:
        raise CommandError(f"whose quotas? {NAMED.partition('quotas ')[2]}", 2)
    quotas: dict[str, float | None] = {}
    for one in left:
        name, _, value = one.partition("=")
        try:
            quotas[name] = quota_value(name, value) if options.command == "set" else None
        except ValueError as error:
            raise CommandError(f"{one!r} is no QUOTA=NUMBER, such as producer_byte_rate=1MiB: {error}", 2) from None
    if not quotas:
        raise CommandError("which quotas? for example producer_byte_rate, consumer_byte_rate, request_percentage", 2)
    admin = await session.admin()
    await admin.alter_client_quotas({entity: quotas})
    whose = ", ".join(f"{kind}={DEFAULT if name is None else name}" for kind, name in entity)
    document = {"kind": QUOTAS, "entity": dict(entity), options.command: quotas}
    emit_done(options.output, [document], [f"{whose}: {options.command} {', '.join(quotas)}"])


def quota_value(name: str, text: str) -> float:
    from math import isfinite

    from ottla.cli.quantities import setting_value

    found = float(setting_value(name, text))
    if not isfinite(found):
        raise ValueError("it is not finite")
    return found

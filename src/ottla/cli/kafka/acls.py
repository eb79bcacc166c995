"""kafka-acls: access control lists, added, removed and listed.

The order of entries in the output follows Java's hash codes of enums in the original, which differ from run to run;
here it is that of resources and operations.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import NamedTuple

from ottla.cli.acl_words import OPERATIONS_OF
from ottla.cli.kafka.connection import connect
from ottla.cli.kafka.controller_link import ControllerAdmin
from ottla.cli.kafka.entry import run_async, run_tool
from ottla.cli.kafka.failures import execution_failure
from ottla.cli.kafka.options import ArgumentKind, Option, OptionParser, Options, ToolError, UsageError
from ottla.client.admin import Acl, AclFilter, Admin, PartialFailure
from ottla.client.errors import KafkaError
from ottla.wire.acls import CLUSTER_RESOURCE_NAME, WILDCARD, AclOperation, AclResource, PatternType, Permission

PURPOSE = "This tool helps to manage acls on kafka."
ACTIONS = ("add", "remove", "list")
RESOURCES = {
    "topic": AclResource.TOPIC,
    "group": AclResource.GROUP,
    "transactional-id": AclResource.TRANSACTIONAL_ID,
    "delegation-token": AclResource.DELEGATION_TOKEN,
    "user-principal": AclResource.USER,
}
PATTERNS = ("ANY", "MATCH", "LITERAL", "PREFIXED")
PRODUCER = (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE)
UNKNOWN = "UNKNOWN"


def _pattern(text: str) -> str:
    if text.upper() not in PATTERNS:
        raise ValueError(text)
    return text.upper()


def operation_name(operation: AclOperation) -> str:
    """`DescribeConfigs`, as the option takes it."""
    return "".join(part.capitalize() for part in operation.name.split("_"))


OPERATION_NAMES = [operation_name(one) for one in AclOperation if one is not AclOperation.ANY]


class Pattern(NamedTuple):
    """Which resources are meant."""

    resource: AclResource
    name: str
    pattern: PatternType

    def __str__(self) -> str:
        return f"ResourcePattern(resourceType={self.resource.name}, name={self.name}, patternType={self.pattern.name})"


class Entry(NamedTuple):
    """The principal's rules on a resource; `operation` None means a word that is no operation."""

    principal: str
    host: str
    operation: AclOperation | None
    permission: Permission

    def __str__(self) -> str:
        operation = UNKNOWN if self.operation is None else self.operation.name
        return (
            f"(principal={self.principal}, host={self.host}, operation={operation}, "
            f"permissionType={self.permission.name})"
        )


Entries = dict[Pattern, list[Entry]]


def option_parser() -> OptionParser:
    return OptionParser(
        Option("bootstrap-server", "Brokers of the cluster; this or --bootstrap-controller.", "server to connect to"),
        Option("bootstrap-controller", "Controllers of the quorum.", "controller to connect to"),
        Option(
            "command-config", "A properties file for the admin client.", "command-config", is_argument_optional=True
        ),
        Option("topic", "A topic; '*' is every topic.", "topic"),
        Option("cluster", "The cluster itself."),
        Option("group", "A group; '*' is every group.", "group"),
        Option("transactional-id", "A transactional id; '*' is every one.", "transactional-id"),
        Option("idempotent", "With --producer: also IdempotentWrite on the cluster."),
        Option("delegation-token", "A delegation token; '*' is every token.", "delegation-token"),
        Option(
            "resource-pattern-type",
            "How names are meant. literal and prefixed name one pattern; to list and to remove also any (patterns with "
            "exactly this name) and match (all patterns that concern a resource of this name).",
            "",
            ArgumentKind("|".join(PATTERNS), _pattern),
            "LITERAL",
        ),
        Option("add", "Add ACLs."),
        Option("remove", "Remove ACLs."),
        Option("list", "List ACLs, of the resources that are named or all."),
        Option(
            "operation",
            "What is allowed or denied. There are:\n" + "\n".join(f"\t{name}" for name in OPERATION_NAMES) + "\n",
            "",
            default="All",
        ),
        Option("allow-principal", "TYPE:NAME of a principal that may; User:* is everyone.", "allow-principal"),
        Option("deny-principal", "TYPE:NAME of a principal that may not, whatever else allows it.", "deny-principal"),
        Option("principal", "With --list: only ACLs of this principal.", "principal", is_argument_optional=True),
        Option("allow-host", "From where the allowed principals may; without it from everywhere.", "allow-host"),
        Option("deny-host", "From where the denied principals may not; without it from everywhere.", "deny-host"),
        Option("producer", "What a producer needs: WRITE, DESCRIBE and CREATE on the topic."),
        Option("consumer", "What a consumer needs: READ and DESCRIBE on the topic, READ on the group."),
        Option("force", "Do not ask."),
        Option("user-principal", "A user as a resource, for CreateTokens and DescribeTokens.", "user-principal"),
    )


def main(arguments: list[str]) -> int:
    parser = option_parser()

    def body(options: Options) -> int:
        options.help_or_version(PURPOSE)
        _check(options)
        try:
            return run_async(_run(options))
        except (ToolError, KafkaError) as error:
            failure = error if isinstance(error, ToolError) else execution_failure(_first(error))
            print(f"Error while executing ACL command: {failure.message}")
            print(failure.trace)
            return 1

    return run_tool(parser, arguments, body)


def _first(error: KafkaError) -> KafkaError:
    return next(iter(error.errors.values())) if isinstance(error, PartialFailure) else error


def _check(options: Options) -> None:
    servers = [name for name in ("bootstrap-server", "bootstrap-controller") if options.has(name)]
    if len(servers) > 1:
        raise UsageError("Only one of --bootstrap-server or --bootstrap-controller must be specified")
    if not servers:
        raise UsageError("One of --bootstrap-server or --bootstrap-controller must be specified")
    if sum(options.has(name) for name in ACTIONS) != 1:
        raise UsageError("Command must include exactly one action: --list, --add, --remove. ")
    options.forbid("list", "producer", "consumer", "allow-host", "allow-principal", "deny-host", "deny-principal")
    for role in ("producer", "consumer"):
        options.forbid(role, "operation", "deny-principal", "deny-host")
    if options.has("principal") and not options.has("list"):
        raise UsageError("The --principal option is only available if --list is set")
    if options.has("producer") and not options.has("topic"):
        raise UsageError("With --producer you must specify a --topic")
    if options.has("idempotent") and not options.has("producer"):
        raise UsageError("The --idempotent option is only available if --producer is set")
    has_others = not options.has("producer") and (options.has("cluster") or options.has("transactional-id"))
    if options.has("consumer") and (not options.has("topic") or not options.has("group") or has_others):
        raise UsageError(
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id option "
            "should be specified."
        )


async def _run(options: Options) -> int:
    config = options.value("command-config")
    if config is None and options.has("command-config"):
        print("Did not load any properties since the property file is not specified")
    is_broker = options.has("bootstrap-server")
    kind: type[Admin] = Admin if is_broker else ControllerAdmin
    admin: Admin = connect(
        options.value("bootstrap-server" if is_broker else "bootstrap-controller"), config, kind=kind
    )
    async with admin:
        if options.has("add"):
            await _add(admin, options)
        elif options.has("remove"):
            await _remove(admin, options)
        else:
            await _list(admin, options)
    return 0


# --- what is meant


def _entries(options: Options) -> Entries:
    """By resource, what the options name; nothing for a resource if they name no principal."""
    found: Entries = {}
    if not options.has("producer") and not options.has("consumer"):
        operations = [_operation(text.strip()) for text in options.values("operation")]
        given = _access(options, operations)
        found = dict.fromkeys(_patterns(options), given)
    if options.has("producer"):
        for pattern in _patterns(options):
            if pattern.resource is AclResource.TOPIC:
                found[pattern] = _access(options, PRODUCER)
            elif pattern.resource is AclResource.TRANSACTIONAL_ID:
                found[pattern] = _access(options, (AclOperation.WRITE, AclOperation.DESCRIBE))
        if options.has("idempotent"):
            cluster = Pattern(AclResource.CLUSTER, CLUSTER_RESOURCE_NAME, PatternType.LITERAL)
            found[cluster] = _access(options, (AclOperation.IDEMPOTENT_WRITE,))
    if options.has("consumer"):
        for pattern in _patterns(options):
            before = found.get(pattern, [])
            if pattern.resource is AclResource.TOPIC:
                fresh = _access(options, (AclOperation.READ, AclOperation.DESCRIBE))
                found[pattern] = list(dict.fromkeys([*fresh, *before]))
            elif pattern.resource is AclResource.GROUP:
                found[pattern] = list(dict.fromkeys([*_access(options, (AclOperation.READ,)), *before]))
    for pattern, entries in found.items():
        valid = [*OPERATIONS_OF[pattern.resource], AclOperation.ALL]
        if any(one.operation not in valid for one in entries):
            names = ", ".join(one.name for one in valid)
            raise UsageError(f"ResourceType {pattern.resource.name} only supports operations [{names}]")
    return found


def _operation(text: str) -> AclOperation | None:
    for one in AclOperation:
        if one is not AclOperation.ANY and operation_name(one).lower() == text.lower():
            return one
    return None


def _access(options: Options, operations: Iterable[AclOperation | None]) -> list[Entry]:
    """Every principal, operation and host that is named."""
    found = []
    chosen = list(dict.fromkeys(operations))
    for verb, permission in (("allow", Permission.ALLOW), ("deny", Permission.DENY)):
        principals = _principals(options, f"{verb}-principal")
        hosts = [host.strip() for host in options.values(f"{verb}-host")] or [WILDCARD]
        found += [
            Entry(principal, host, operation, permission)
            for principal in principals
            for operation in chosen
            for host in hosts
        ]
    return list(dict.fromkeys(found))


def _principals(options: Options, name: str) -> list[str]:
    given = [text.strip() for text in options.values(name)]
    for text in given:
        kind, colon, _ = text.partition(":")
        if not colon or not kind:
            raise ToolError(f"expected a string in format principalType:principalName but got {text}")
    return list(dict.fromkeys(given))


def _patterns(options: Options, *, is_needed: bool = True) -> list[Pattern]:
    pattern = PatternType[options.value("resource-pattern-type")]
    found = [
        Pattern(resource, name.strip(), pattern)
        for option, resource in RESOURCES.items()
        for name in options.values(option)
    ]
    if pattern is PatternType.LITERAL and (options.has("cluster") or options.has("idempotent")):
        found.append(Pattern(AclResource.CLUSTER, CLUSTER_RESOURCE_NAME, pattern))
    if not found and is_needed:
        raise UsageError(
            "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
            "--delegation-token <Delegation Token ID>"
        )
    return sorted(dict.fromkeys(found))


# --- the actions


async def _add(admin: Admin, options: Options) -> None:
    pattern_type = options.value("resource-pattern-type")
    if pattern_type not in ("LITERAL", "PREFIXED"):
        raise UsageError(f"A '--resource-pattern-type' value of '{pattern_type}' is not valid when adding acls.")
    entries = _entries(options)
    if not all(entries.values()):
        raise UsageError("You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.")
    for pattern, wanted in entries.items():
        existing = await _described(admin, [pattern])
        there = [one for one in wanted if one in existing.get(pattern, [])]
        for one in there:
            print(f"Acl (pattern={pattern}, entry={one}) already exists.")
        fresh = [one for one in wanted if one not in there]
        if fresh:
            print(f"Adding ACLs for resource `{pattern}`: \n {_lines(fresh)}\n")
            await admin.create_acls([_acl(pattern, one) for one in fresh])


async def _remove(admin: Admin, options: Options) -> None:
    for pattern, entries in _entries(options).items():
        question = f"Are you sure you want to delete all ACLs for resource filter `{pattern}`? (y/n)"
        if entries:
            question = (
                f"Are you sure you want to remove ACLs: \n {_lines(entries)} \n from resource filter `{pattern}`? (y/n)"
            )
        if not options.has("force"):
            print(question, flush=True)
            if sys.stdin.readline().strip().lower() != "y":
                continue
        filters = [AclFilter(pattern.resource, pattern.name, pattern=pattern.pattern)]
        if entries:
            filters = [
                AclFilter(pattern.resource, pattern.name, one.principal, one.operation or AclOperation.ANY,
                          one.permission, one.host, pattern.pattern)
                for one in entries
            ]  # fmt: skip
        await admin.delete_acls(filters)


async def _list(admin: Admin, options: Options) -> None:
    patterns = _patterns(options, is_needed=False)
    principals = _principals(options, "principal")
    found = await _described(admin, patterns)
    if not principals:
        _show(found)
    for principal in principals:
        print(f"ACLs for principal `{principal}`")
        own = {pattern: [one for one in entries if one.principal == principal] for pattern, entries in found.items()}
        _show({pattern: entries for pattern, entries in own.items() if entries})


def _show(found: Entries) -> None:
    for pattern, entries in found.items():
        print(f"Current ACLs for resource `{pattern}`:\n{_lines(entries)}\n")


def _lines(entries: Iterable[Entry]) -> str:
    return "\n".join(f"\t{one}" for one in entries)


async def _described(admin: Admin, patterns: list[Pattern]) -> Entries:
    filters = [AclFilter(one.resource, one.name, pattern=one.pattern) for one in patterns] or [AclFilter()]
    found: Entries = {}
    for wanted in filters:
        for acl in await admin.describe_acls(wanted):
            entries = found.setdefault(Pattern(acl.resource, acl.name, acl.pattern), [])
            entry = Entry(acl.principal, acl.host, acl.operation, acl.permission)
            if entry not in entries:
                entries.append(entry)
    return found


def _acl(pattern: Pattern, one: Entry) -> Acl:
    assert one.operation is not None
    return Acl(pattern.resource, pattern.name, one.principal, one.operation, one.permission, one.host, pattern.pattern)

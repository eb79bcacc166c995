"""`ottla acls`: which principals may do what."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ottla.cli.acl_words import (
    EVERY_HOST,
    OPERATIONS,
    RESOURCES,
    entry_row,
    entry_text,
    operations_of,
    principal_of,
    refuse_impossible,
    resource_of,
)
from ottla.cli.output import Column, counted, emit, emit_done
from ottla.cli.session import (
    HELP,
    CommandError,
    Session,
    add_subcommand,
    add_yes_option,
    confirm,
    group_parser,
    misuse,
    run,
)
from ottla.wire.acls import WILDCARD, AclOperation, AclResource, PatternType, Permission

if TYPE_CHECKING:
    from ottla.client.admin import Acl, AclFilter

COMMAND = "ottla acls"
EXAMPLES = """\
  ottla acls grant alice read topic orders
  ottla acls grant alice read,write topic shop- --prefix     every topic whose name begins with shop-
  ottla acls grant alice --producer topic orders             write, describe and create
  ottla acls grant alice --consumer topic orders --group readers
  ottla acls grant bob read topic orders --host 10.0.0.0/8
  ottla acls grant bob write topic orders --deny             even if another rule allows it
  ottla acls revoke alice read topic orders
  ottla acls list
  ottla acls explain alice write topic orders                which rule allows or denies it
"""
RULE = "alice (User:alice), User:CN=alice of a certificate, or '*' (everyone)"
WORDS = "OPERATION KIND NAME, for example: read topic orders; write,describe topic orders; alter cluster"
COLUMNS = [
    Column("principal", "PRINCIPAL"),
    Column("permission", "PERMISSION"),
    Column("operation", "OPERATION"),
    Column("resource", "RESOURCE"),
    Column("name", "NAME"),
    Column("pattern", "PATTERN"),
    Column("host", "HOST"),
]
PRODUCER = (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE)
PRODUCER_TRANSACTIONS = (AclOperation.WRITE, AclOperation.DESCRIBE)
CONSUMER = (AclOperation.READ, AclOperation.DESCRIBE)
CONSUMER_GROUP = (AclOperation.READ,)


def parser() -> argparse.ArgumentParser:
    made, commands = group_parser(
        COMMAND, "Access control lists: which principals may do what. Works with Apache Kafka, too.", EXAMPLES
    )
    grant = add_subcommand(
        commands,
        "grant",
        "let a principal do something, or with --deny forbid it",
        "  ottla acls grant alice read topic orders\n"
        "  ottla acls grant alice all topic shop- --prefix\n"
        "  ottla acls grant '*' describe cluster\n"
        "  ottla acls grant alice --producer topic orders --transactional-id orders-writer\n"
        "  ottla acls grant alice --consumer topic orders --group readers\n"
        "  ottla acls grant mallory all topic '*' --deny\n",
    )
    add_rule_options(grant)
    revoke = add_subcommand(
        commands,
        "revoke",
        "take rules away; asks first and shows them",
        "  ottla acls revoke alice read topic orders\n"
        "  ottla acls revoke alice all topic orders                every rule of alice on this topic\n"
        "  ottla acls revoke alice --consumer topic orders --group readers\n"
        "  ottla acls revoke alice --yes                           every rule of alice\n",
    )
    add_rule_options(revoke)
    add_yes_option(revoke)
    listed = add_subcommand(
        commands,
        "list",
        "the rules there are",
        "  ottla acls list\n  ottla acls list alice\n  ottla acls list --on topic orders -o json\n",
    )
    listed.add_argument("user", nargs="?", metavar="USER", help=f"only of this principal: {RULE}")
    listed.add_argument(
        "--on", nargs="+", metavar=("KIND", "NAME"), help="only what concerns a resource, also by prefix or '*'"
    )
    explained = add_subcommand(
        commands,
        "explain",
        "say which rule allows or denies something; exit code 0: allowed, 1: denied",
        "  ottla acls explain alice write topic orders\n"
        "  ottla acls explain alice read group readers --host 10.0.0.5\n",
    )
    explained.add_argument("user", metavar="USER", help="alice (User:alice), or User:CN=alice of a certificate")
    explained.add_argument("words", nargs="*", metavar="OPERATION KIND NAME", help="for example: write topic orders")
    explained.add_argument("--host", help="the address that the requests come from")
    return made


def add_rule_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("user", metavar="USER", help=RULE)
    parser.add_argument(
        "words",
        nargs="*",
        metavar="OPERATION KIND NAME",
        help=f"{WORDS}. Operations: {', '.join(OPERATIONS)}. Kinds: {', '.join(RESOURCES)}",
    )
    parser.add_argument("--prefix", action="store_true", help="NAME is the beginning of names")
    parser.add_argument("--host", help="only requests from this address, or network (10.0.0.0/8) if the brokers can")
    parser.add_argument("--deny", action="store_true", help="a rule that forbids; it counts over those that allow")
    parser.add_argument("--producer", action="store_true", help="what a producer needs on KIND NAME (a topic)")
    parser.add_argument("--consumer", action="store_true", help="what a consumer needs on KIND NAME (a topic)")
    parser.add_argument("--group", metavar="GROUP", help="with --consumer: the group that it reads in")
    parser.add_argument("--transactional-id", metavar="ID", help="with --producer: for transactions with this id")


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments or HELP)
    work = {"grant": grant, "revoke": revoke, "list": list_rules, "explain": explain}[options.command]
    return run(COMMAND, options, lambda session: work(session, options))


# --- what is meant


def rules_of(options: argparse.Namespace) -> list[Acl]:
    """The entries that a command line names."""
    if options.producer or options.consumer:
        return preset_rules(options)
    for name in ("group", "transactional_id"):
        if getattr(options, name) is not None:
            misuse(COMMAND, f"--{name.replace('_', '-')} belongs to --producer or --consumer")
    if len(options.words) < 2:
        misuse(COMMAND, f"what may {options.user} do? {WORDS}")
    operations = operations_of(options.words[0])
    resource, name = resource_of(options.words[1:])
    refuse_impossible(resource, operations)
    return [rule(options, resource, name, operation) for operation in operations]


def preset_rules(options: argparse.Namespace) -> list[Acl]:
    """The rules that kafka-acls adds for --producer and --consumer."""
    words = options.words if options.words[:1] == ["topic"] else ["topic", *options.words]
    resource, name = resource_of(words)
    found: list[Acl] = []
    if options.deny:
        misuse(COMMAND, "--producer and --consumer allow: --deny needs an operation")
    if options.producer:
        found += [rule(options, resource, name, one) for one in PRODUCER]
        if options.transactional_id is not None:
            found += [
                rule(options, AclResource.TRANSACTIONAL_ID, options.transactional_id, one)
                for one in PRODUCER_TRANSACTIONS
            ]
    if options.consumer:
        if options.group is None:
            misuse(COMMAND, "--consumer needs --group GROUP: the group that it reads in, or '*'")
        found += [rule(options, resource, name, one) for one in CONSUMER]
        found += [rule(options, AclResource.GROUP, options.group, one) for one in CONSUMER_GROUP]
    return list(dict.fromkeys(found))


def rule(options: argparse.Namespace, resource: AclResource, name: str, operation: AclOperation) -> Acl:
    from ottla.client.admin import Acl

    if options.prefix and (name == WILDCARD or resource is AclResource.CLUSTER):
        misuse(COMMAND, f"--prefix: {name!r} cannot be the beginning of a name")
    return Acl(
        resource,
        name,
        principal_of(options.user),
        operation,
        Permission.DENY if options.deny else Permission.ALLOW,
        options.host or EVERY_HOST,
        PatternType.PREFIXED if options.prefix else PatternType.LITERAL,
    )


# --- the commands


async def grant(session: Session, options: argparse.Namespace) -> None:
    rules = rules_of(options)
    await (await session.admin()).create_acls(rules)
    emit_done(options.output, [entry_row(one) for one in rules], [entry_text(one) for one in rules])


async def revoke(session: Session, options: argparse.Namespace) -> None:
    """Deletes exactly the entries that were shown: a rule that is added meanwhile stays."""
    admin = await session.admin()
    found: list[Acl] = []
    for wanted in filters_of(options):
        found += [one for one in await admin.describe_acls(wanted) if one not in found]
    if not found:
        raise CommandError(await nothing_to_revoke(session, options))
    confirm("\n".join(["take away:", *(f"  {entry_text(one)}" for one in found), "do it"]), options)
    await admin.delete_acls([exactly(one) for one in found])
    emit_done(options.output, [entry_row(one) for one in found], [f"no longer: {entry_text(one)}" for one in found])


def filters_of(options: argparse.Namespace) -> list[AclFilter]:
    from ottla.client.admin import AclFilter

    if not options.words and not options.producer and not options.consumer:
        permission = Permission.DENY if options.deny else Permission.ANY
        return [AclFilter(principal=principal_of(options.user), permission=permission, host=options.host)]
    return [
        AclFilter(
            one.resource,
            one.name,
            one.principal,
            # To revoke ALL removes the rules of every operation, not only the rule ALL.
            AclOperation.ANY if one.operation is AclOperation.ALL else one.operation,
            Permission.DENY if options.deny else Permission.ALLOW,
            options.host,
            one.pattern,
        )
        for one in rules_of(options)
    ]


def exactly(one: Acl) -> AclFilter:
    from ottla.client.admin import AclFilter

    return AclFilter(one.resource, one.name, one.principal, one.operation, one.permission, one.host, one.pattern)


async def nothing_to_revoke(session: Session, options: argparse.Namespace) -> str:
    """Why there is nothing to take away; rules nearby are named, since one of them may be meant."""
    from ottla.client.admin import AclFilter

    admin = await session.admin()
    principal = principal_of(options.user)
    others = await admin.describe_acls(AclFilter(principal=principal))
    if not others:
        known = sorted({one.principal for one in await admin.describe_acls()})
        from ottla.cli.parser import near

        return f"there is no rule of {principal}{near(principal, known)}"
    shown = "\n".join(f"  {entry_text(one)}" for one in others[:10])
    return f"there is no such rule; nothing was changed. {principal} has {counted(len(others), 'rule')}:\n{shown}"


async def list_rules(session: Session, options: argparse.Namespace) -> None:
    from ottla.client.admin import AclFilter

    wanted = AclFilter()
    if options.user is not None:
        wanted = wanted._replace(principal=principal_of(options.user))
    if options.on is not None:
        resource, name = resource_of(options.on)
        wanted = wanted._replace(resource=resource, name=name, pattern=PatternType.MATCH)
    found = await (await session.admin()).describe_acls(wanted)
    found.sort(key=lambda one: (one.principal, one.resource, one.name, one.permission, one.operation))
    emit(options.output, [entry_row(one) for one in found], COLUMNS, nothing="no rules")


async def explain(session: Session, options: argparse.Namespace) -> int:
    from ottla.cli.acl_explanation import explain as explain_rules

    return await explain_rules(session, options)

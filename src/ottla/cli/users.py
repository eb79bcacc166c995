"""`ottla users`: users that log in with a password (SCRAM), kept by the cluster itself."""

from __future__ import annotations

import argparse
import getpass
import sys
from typing import TYPE_CHECKING

from ottla.cli.output import Column, emit, emit_done
from ottla.cli.session import (
    HELP,
    MISUSED,
    CommandError,
    Session,
    add_subcommand,
    add_yes_option,
    can_ask,
    confirm,
    group_parser,
    no_such,
    run,
)

if TYPE_CHECKING:
    from ottla.client.admin import ScramMechanism

COMMAND = "ottla users"
EXAMPLES = """\
  ottla users add alice                                asks for the password, without showing it
  ottla users add alice --password-file alice.secret   its first line; '-' reads stdin
  ottla users add robot --generate                     makes a password and prints it once
  ottla users password alice
  ottla users list
  ottla users remove alice
"""
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256")
DEFAULT_ITERATIONS, MIN_ITERATIONS, MAX_ITERATIONS = 8192, 4096, 16384
GENERATED_BYTES = 24
MAX_PASSWORD_BYTES = 1024


def parser() -> argparse.ArgumentParser:
    made, commands = group_parser(
        COMMAND,
        "Users that log in with a password (SCRAM). Passwords never leave this machine: the cluster gets them salted "
        "and hashed. Works with Apache Kafka, too.",
        EXAMPLES,
    )
    add = add_subcommand(
        commands,
        "add",
        "add a user that logs in with a password",
        "  ottla users add alice\n  ottla users add alice --password-file - < alice.secret\n"
        "  ottla users add robot --generate\n",
    )
    add_password_options(add)
    listed = add_subcommand(
        commands, "list", "users and how they log in, without secrets", "  ottla users list\n  ottla users list alice\n"
    )
    listed.add_argument("names", nargs="*", metavar="USER")
    remove = add_subcommand(
        commands, "remove", "remove a user: it can no longer log in", "  ottla users remove alice --yes\n"
    )
    remove.add_argument("user", metavar="USER")
    remove.add_argument("--mechanism", choices=MECHANISMS, help="only the password for this mechanism")
    add_yes_option(remove)
    password = add_subcommand(
        commands,
        "password",
        "change the password of a user, for every mechanism that it has",
        "  ottla users password alice\n  ottla users password alice --generate\n",
    )
    add_password_options(password)
    return made


def add_password_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("user", metavar="USER")
    parser.add_argument(
        "--mechanism", action="append", choices=MECHANISMS, metavar="|".join(MECHANISMS),
        help="may be repeated (add: SCRAM-SHA-512; password: those that the user has)",
    )  # fmt: skip
    given = parser.add_mutually_exclusive_group()
    given.add_argument("--password-file", metavar="FILE", help="its first line is the password; '-' is stdin")
    given.add_argument("--generate", action="store_true", help="make a password and print it on stdout")
    parser.add_argument(
        "--iterations", type=int, metavar="N", default=DEFAULT_ITERATIONS,
        help=f"of the hash, {MIN_ITERATIONS} to {MAX_ITERATIONS} ({DEFAULT_ITERATIONS})",
    )  # fmt: skip


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments or HELP)
    work = {"add": add, "list": list_users, "remove": remove, "password": change_password}[options.command]
    return run(COMMAND, options, lambda session: work(session, options))


def mechanism_of(name: str) -> ScramMechanism:
    from ottla.client.admin import ScramMechanism

    return ScramMechanism[name.replace("-", "_")]


def mechanism_name(one: ScramMechanism) -> str:
    return one.name.replace("_", "-")


# --- passwords


def password_of(options: argparse.Namespace) -> str:
    """The password, from the terminal, a file or stdin, or generated here."""
    if options.generate:
        import secrets

        return secrets.token_urlsafe(GENERATED_BYTES)
    if options.password_file is not None:
        found = read_password(options.password_file)
    elif can_ask():
        found = asked_password(options.user)
    else:
        raise CommandError(
            "there is no terminal to ask for the password on: --password-file FILE ('-' is stdin), or --generate",
            MISUSED,
        )
    if not found:
        raise CommandError("the password is empty; nothing was changed", MISUSED)
    if len(found.encode()) > MAX_PASSWORD_BYTES:
        raise CommandError(f"the password is longer than {MAX_PASSWORD_BYTES} bytes; nothing was changed", MISUSED)
    return found


def read_password(path: str) -> str:
    try:
        if path == "-":
            return sys.stdin.readline().rstrip("\r\n")
        with open(path, encoding="utf-8") as file:
            return file.readline().rstrip("\r\n")
    except OSError as error:
        raise CommandError(f"--password-file {path} cannot be read: {error.strerror}", MISUSED) from None
    except UnicodeDecodeError:
        raise CommandError(f"--password-file {path} is no UTF-8 text", MISUSED) from None


def asked_password(user: str) -> str:
    import signal

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # the loop stands still meanwhile
    try:
        first = getpass.getpass(f"password for {user}: ")
        if first != getpass.getpass("again: "):
            raise CommandError("the two differ; nothing was changed")
    finally:
        signal.signal(signal.SIGINT, before)
    return first


# --- the commands


async def add(session: Session, options: argparse.Namespace) -> None:
    if not options.user or len(options.user.encode()) > 249:
        raise CommandError("a user has a name of 1 to 249 bytes", MISUSED)
    admin = await session.admin()
    if options.user in await admin.describe_user_scram_credentials([options.user]):
        raise CommandError(
            f"there is a user {options.user!r} already: 'ottla users password {options.user}' changes its password"
        )
    await set_password(session, options, options.mechanism or [MECHANISMS[0]])


async def change_password(session: Session, options: argparse.Namespace) -> None:
    found = (await (await session.admin()).describe_user_scram_credentials()).get(options.user)
    if found is None:
        raise await no_such_user(session, options.user)
    await set_password(session, options, options.mechanism or [mechanism_name(one.mechanism) for one in found])


async def set_password(session: Session, options: argparse.Namespace, mechanisms: list[str]) -> None:
    if not MIN_ITERATIONS <= options.iterations <= MAX_ITERATIONS:
        raise CommandError(f"--iterations {options.iterations}: from {MIN_ITERATIONS} to {MAX_ITERATIONS}", MISUSED)
    password = password_of(options)
    admin = await session.admin()
    for name in mechanisms:
        await admin.set_scram_password(
            options.user, password, mechanism=mechanism_of(name), iterations=options.iterations
        )
    verb = "added" if options.command == "add" else "has a new password"
    document = {"user": options.user, "mechanisms": mechanisms, options.command: True}
    if options.generate:
        # The only time that a password is shown: it exists nowhere else.
        document["password"] = password
    emit_done(options.output, [document], [f"{options.user} {verb} ({', '.join(mechanisms)})"])
    if options.generate and options.output == "table":
        print(password)


async def list_users(session: Session, options: argparse.Namespace) -> None:
    known = await (await session.admin()).describe_user_scram_credentials()
    for name in options.names:
        if name not in known:
            raise no_such("user", name, known, "ottla users list")
    rows = [
        {"user": user, "mechanism": mechanism_name(one.mechanism), "iterations": one.iterations}
        for user, credentials in sorted(known.items())
        if not options.names or user in options.names
        for one in sorted(credentials)
    ]
    columns = [Column("user", "USER"), Column("mechanism", "MECHANISM"), Column("iterations", "ITERATIONS")]
    emit(options.output, rows, columns, nothing="no users with passwords; add one: ottla users add NAME")


async def remove(session: Session, options: argparse.Namespace) -> None:
    admin = await session.admin()
    known = await admin.describe_user_scram_credentials()
    if options.user not in known:
        raise no_such("user", options.user, known, "ottla users list")
    has = [one.mechanism for one in known[options.user]]
    gone = has if options.mechanism is None else [mechanism_of(options.mechanism)]
    if not set(gone) <= set(has):
        names = ", ".join(map(mechanism_name, has))
        raise CommandError(f"{options.user} has no password for {options.mechanism}; it has {names}")
    confirm(f"remove {options.user}: it can no longer log in by {', '.join(map(mechanism_name, gone))}", options)
    for one in gone:
        await admin.delete_scram_password(options.user, one)
    document = {"user": options.user, "mechanisms": [mechanism_name(one) for one in gone], "removed": True}
    emit_done(
        options.output,
        [document],
        [f"{options.user} removed; its rules stay ('ottla acls revoke {options.user}'), and connections that are open"],
    )


async def no_such_user(session: Session, name: str) -> CommandError:
    known = await (await session.admin()).describe_user_scram_credentials()
    return no_such("user", name, known, "ottla users list")

"""What every command that talks to a cluster does in the same way: its common options, its connection, its end.

    def main(arguments: list[str]) -> int:
        options = parser().parse_args(arguments)
        return run("ottla topics", options, lambda session: listed(session, options))

`run` has the event loop, ends quietly on Ctrl-C and on a closed pipe, and turns whatever goes wrong into one sentence
that says what was tried and what to do. Modules that commands need only sometimes are imported where they are used: a
command has to answer at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from ottla.cli.output import FORMATS, TABLE

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.config import ClientConfig
    from ottla.client.errors import KafkaError
    from ottla.client.metadata import TopicInfo

DEFAULT_BROKER = "127.0.0.1:9092"
BROKER_VARIABLE = "OTTLA_BROKER"
API_TIMEOUT_MS = 20_000
"""How long a command tries, unless --command-config says otherwise: a person waits for it."""
SECURITY_ADVICE = "settings of TLS and login come from --command-config FILE (security.protocol, sasl.*, ssl.*)"
HELP = ["--help"]
FAILED, MISUSED, INTERRUPTED, PIPE_CLOSED = 1, 2, 130, 141


class CommandError(Exception):
    """Why a command cannot go on, in words for whoever typed it."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


# --- options


def command_parser(command: str, description: str, examples: str) -> argparse.ArgumentParser:
    """A parser whose help ends with examples."""
    return argparse.ArgumentParser(
        prog=command,
        description=description,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def group_parser(command: str, description: str, examples: str) -> tuple[argparse.ArgumentParser, Any]:
    """The parser of a command that has subcommands, and where `add_subcommand` adds them. Called with nothing at all it
    shows its help: its main parses `arguments or HELP`."""
    made = command_parser(command, description, examples)
    add_broker_options(made)
    add_output_option(made)
    return made, made.add_subparsers(dest="command", required=True, metavar="COMMAND")


def add_subcommand(
    commands: Any, name: str, summary: str, examples: str, *, output: bool = True
) -> argparse.ArgumentParser:
    """A subcommand that takes the common options after its name, too."""
    made: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[:1].upper()}{summary[1:]}.",
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_broker_options(made, is_subcommand=True)
    if output:
        add_output_option(made, is_subcommand=True)
    return made


def add_broker_options(parser: argparse.ArgumentParser, *, is_subcommand: bool = False) -> None:
    """Where the cluster is. A subcommand's options leave alone what stands before its name."""
    broker = os.environ.get(BROKER_VARIABLE) or DEFAULT_BROKER
    parser.add_argument(
        "-b",
        "--broker",
        "--bootstrap-server",
        dest="broker",
        metavar="HOST:PORT",
        default=argparse.SUPPRESS if is_subcommand else broker,
        help=f"any broker of the cluster, or several with commas ({broker}; environment: {BROKER_VARIABLE})",
    )
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        default=argparse.SUPPRESS if is_subcommand else None,
        help="Kafka's client settings, as a properties file",
    )


def add_output_option(parser: argparse.ArgumentParser, *, is_subcommand: bool = False) -> None:
    parser.add_argument(
        "-o",
        "--output",
        choices=FORMATS,
        default=argparse.SUPPRESS if is_subcommand else TABLE,
        help=f"{TABLE} for people, json or yaml for programs",
    )


def key_value(text: str) -> tuple[str, str]:
    """An option's NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME=VALUE")
    return name.strip(), value


def client_settings(broker: str, config_file: str | None = None) -> dict[str, str]:
    """The settings that every client of a command begins with."""
    return {"client.id": "ottla-cli", **file_settings(config_file), "bootstrap.servers": broker}


def file_settings(config_file: str | None) -> dict[str, str]:
    """What --command-config says."""
    if config_file is None:
        return {}
    from ottla.config.properties import parse_properties

    try:
        with open(config_file, encoding="utf-8") as file:
            return dict(parse_properties(file.read()))
    except (OSError, ValueError) as error:
        raise CommandError(f"--command-config {config_file} cannot be read: {error}", MISUSED) from None


# --- a session


class Session:
    """One command's work on one cluster."""

    def __init__(self, broker: str, config_file: str | None = None) -> None:
        self.broker = broker
        self.settings = client_settings(broker, config_file)
        self._has_file = config_file is not None
        self._admin: Admin | None = None

    async def admin(self) -> Admin:
        """An admin client that has reached the cluster. That is tried once: whoever waits at a prompt should soon
        know that nothing listens there."""
        if self._admin is None:
            from ottla.client.admin import Admin
            from ottla.client.config import AdminConfig

            self._admin = Admin({"default.api.timeout.ms": API_TIMEOUT_MS, **self.settings_for(AdminConfig)})
            await self._admin.connect()
        return self._admin

    def settings_for(self, kind: type[ClientConfig]) -> dict[str, str]:
        """Of the settings those that are meant for this kind of client, too: one file serves all commands. A name
        that no client has stays in, to be refused."""
        if not self._has_file:
            return self.settings
        from ottla.client.config import settings_for

        return settings_for(kind, self.settings)

    async def describe_topic(self, name: str) -> TopicInfo:
        """A topic that exists; if it does not, the error names the nearest that does."""
        return (await self.describe_topics([name]))[name]

    async def describe_topics(self, names: Sequence[str]) -> dict[str, TopicInfo]:
        from ottla.client.admin import PartialFailure
        from ottla.client.errors import UnknownTopicOrPartition

        admin = await self.admin()
        try:
            return await admin.describe_topics(names)
        except (UnknownTopicOrPartition, PartialFailure) as error:
            known = await admin.list_topics(include_internal=True)
            for name in names:
                if name not in known:
                    raise no_such("topic", name, known, "ottla topics list") from error
            raise

    async def close(self) -> None:
        if self._admin is not None:
            await self._admin.close()


def no_such(kind: str, name: str, known: Iterable[str], lists: str) -> CommandError:
    """The error for a name that does not exist, with the nearest that does."""
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), n=1, cutoff=0.6)
    hint = f"did you mean {near[0]!r}?" if near else f"'{lists}' shows those there are"
    return CommandError(f"there is no {kind} {name!r}; {hint}")


# --- running


def run(
    command: str,
    options: argparse.Namespace,
    work: Callable[[Session], Awaitable[int | None]],
) -> int:
    """Do a command's work on a cluster and give its exit code."""

    async def session() -> int:
        made = Session(options.broker, options.command_config)
        try:
            return await work(made) or 0
        finally:
            await made.close()

    def begin() -> int:
        import asyncio

        return asyncio.run(session())

    return guarded(command, begin, getattr(options, "broker", None))


def guarded(command: str, work: Callable[[], int | None], broker: str | None = None) -> int:
    """Run what may fail, be interrupted or lose its reader; the exit code."""
    try:
        code = work() or 0
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _forget_stdout()
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return INTERRUPTED
    except CommandError as error:
        _say(command, str(error))
        return error.exit_code
    except Exception as error:
        from ottla.client.errors import KafkaError

        if not isinstance(error, KafkaError | OSError):
            raise
        _say(command, explained(error, broker) if isinstance(error, KafkaError) else str(error))
        return FAILED


def _say(command: str, text: str) -> None:
    print(f"{command}: {text}", file=sys.stderr)


def _forget_stdout() -> None:
    """Nobody reads any more: what is still in the buffer goes nowhere, without a complaint at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def explained(error: KafkaError, broker: str | None = None) -> str:
    """An error in one sentence or several: what was tried, what came of it, what to do."""
    from ottla.client.admin.calls import PartialFailure
    from ottla.client.errors import AuthenticationError, ConfigError, NoBrokerReached

    if isinstance(error, PartialFailure):
        return "\n  ".join(
            [f"{len(error.errors)} of {len(error.errors) + len(error.results)} failed:"]
            + [f"{item}: {explained(one)}" for item, one in error.errors.items()]
        )
    if isinstance(error, NoBrokerReached):
        return unreachable(error, broker)
    if isinstance(error, AuthenticationError):
        return f"{error}\n  {SECURITY_ADVICE}"
    if isinstance(error, ConfigError):
        return str(error)
    text = error.message or error.code.text
    advice = _ADVICE.get(error.code.name)
    return f"{text} ({error.code.name})" + (f"\n  {advice}" if advice else "")


def unreachable(error: KafkaError, broker: str | None) -> str:
    """Why no broker was reached: the first line says what is so, the others what to do."""
    from ottla.client.errors import AuthenticationError

    text = str(error.message).replace("NETWORK_EXCEPTION: ", "")
    where = broker or DEFAULT_BROKER
    elsewhere = f"elsewhere? --broker HOST:PORT, or {BROKER_VARIABLE} in the environment"
    if isinstance(error, AuthenticationError) or "security.protocol" in text:
        return f"{text}\n  {SECURITY_ADVICE}"
    if "advertised.listeners" in text:
        return f"{text}\n  'ottla doctor --broker {where}' says what to do"
    if "Connect call failed" in text or "Connection refused" in text:
        port = where.rpartition(":")[2]
        start = "./ottla start" if port == "9092" else f"./ottla start --port {port}"
        return f"nothing listens on {where} (connection refused)\n  is it running? {start}\n  {elsewhere}"
    if "Name or service not known" in text or "name resolution" in text or "nodename nor servname" in text:
        return f"the name in {where} is not known\n  is it spelled right? does this machine know it?\n  {elsewhere}"
    if "took no connection" in text or "did not answer" in text:
        return f"{where} does not answer\n  is a firewall between? does a broker listen there?\n  {elsewhere}"
    return f"{text}\n  does a broker listen there?\n  {elsewhere}"


_ADVICE = {
    "TOPIC_ALREADY_EXISTS": "'ottla topics describe TOPIC' shows it, 'ottla topics alter' changes it",
    "INVALID_REPLICATION_FACTOR": "a topic has at most as many replicas as there are brokers: 'ottla cluster brokers'",
    "NON_EMPTY_GROUP": "stop its members first; 'ottla groups describe GROUP' shows them",
    "GROUP_ID_NOT_FOUND": "'ottla groups list' shows those there are",
    "GROUP_SUBSCRIBED_TO_TOPIC": "the group reads this topic now: stop its members first",
    "POLICY_VIOLATION": "the cluster's rules forbid it",
    "NETWORK_EXCEPTION": "'ottla doctor' looks for the reason",
    "REQUEST_TIMED_OUT": "'ottla doctor' looks for the reason",
    "NOT_ENOUGH_REPLICAS": "too few replicas are in sync: 'ottla doctor' names them",
    "UNSUPPORTED_VERSION": "the broker is too old for this",
    "TOPIC_DELETION_DISABLED": "the broker has delete.topic.enable=false",
}


def misuse(command: str, text: str) -> NoReturn:
    """End as argparse does for what it finds by itself."""
    raise CommandError(f"{text} ('{command} --help' shows how)", MISUSED)

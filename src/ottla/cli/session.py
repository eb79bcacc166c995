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
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from ottla.cli.output import FORMATS, TABLE
from ottla.cli.parser import Parser, near
from ottla.cli.started_as import as_started

if TYPE_CHECKING:
    import asyncio

    from ottla.client.admin import Admin
    from ottla.client.config import ClientConfig
    from ottla.client.errors import KafkaError
    from ottla.client.metadata import TopicInfo

DEFAULT_PORT = 9092
DEFAULT_BROKER = f"127.0.0.1:{DEFAULT_PORT}"
BROKER_VARIABLE = "OTTLA_BROKER"
REGISTRY_VARIABLE = "OTTLA_REGISTRY"
CLIENT_ID = "ottla-cli"
API_TIMEOUT_MS = 20_000
"""The timeout of a command, unless --command-config has one: a person waits for it."""
REGISTRY_PREFIX = "schema.registry."
REGISTRY_URL = "schema.registry.url"
CLOSE_S = 4.0
"""How long a command closes its clients after Ctrl-C, if it has nothing to take back."""
SECURITY_ADVICE = "settings of TLS and login come from --command-config FILE (security.protocol, sasl.*, ssl.*)"
HELP = ["--help"]
FAILED, MISUSED, INTERRUPTED, PIPE_CLOSED = 1, 2, 130, 141


class CommandError(Exception):
    """Why a command cannot go on, in words for its user."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


# --- options


def command_parser(command: str, description: str, examples: str) -> Parser:
    """A parser whose help has examples at the end."""
    return Parser(
        prog=command,
        description=description,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def group_parser(command: str, description: str, examples: str) -> tuple[Parser, Any]:
    """The parser of a command that has subcommands, and where `add_subcommand` adds them. Called with nothing at all it
    shows its help: its main parses `arguments or HELP`."""
    made = command_parser(command, description, examples)
    add_broker_options(made)
    add_output_option(made)
    return made, made.add_subparsers(dest="command", required=True, metavar="COMMAND")


def add_subcommand(commands: Any, name: str, summary: str, examples: str, outputs: Sequence[str] = FORMATS) -> Parser:
    """A subcommand that takes the common options after its name, too."""
    made: Parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[:1].upper()}{summary[1:]}.",
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_broker_options(made, is_subcommand=True)
    add_output_option(made, is_subcommand=True, outputs=outputs)
    return made


def add_broker_options(parser: argparse.ArgumentParser, *, is_subcommand: bool = False) -> None:
    """Options for the address of the cluster. A subcommand's options do not override those before its name."""
    default = argparse.SUPPRESS if is_subcommand else None
    parser.add_argument(
        "-b",
        "--broker",
        "--bootstrap-server",
        dest="broker",
        metavar="HOST[:PORT]",
        default=default,
        help=f"any broker of the cluster, or several with commas; without a port {DEFAULT_PORT} (otherwise "
        f"--cluster, {BROKER_VARIABLE} in the environment, the current cluster, the secured one that runs with "
        f"./security, {DEFAULT_BROKER}, in this order)",
    )
    parser.add_argument(
        "--cluster", metavar="CLUSTER", default=default, help="a cluster by its name, as 'ottla clusters list' shows it"
    )
    parser.add_argument(
        "--command-config", metavar="FILE", default=default, help="Kafka's client settings, as a properties file"
    )


def add_yes_option(parser: argparse.ArgumentParser, *more: str) -> None:
    """For a command that destroys something: on a terminal it asks, elsewhere it needs --yes."""
    parser.add_argument("-y", "--yes", *more, dest="yes", action="store_true", help="do it without asking")


def add_output_option(
    parser: argparse.ArgumentParser, *, is_subcommand: bool = False, outputs: Sequence[str] = FORMATS
) -> None:
    parser.add_argument(
        "-o",
        "--output",
        choices=outputs,
        default=argparse.SUPPRESS if is_subcommand else TABLE,
        help=f"{TABLE} for people, json or yaml for programs" if outputs == FORMATS else f"{', '.join(outputs)}",
    )


def key_value(text: str) -> tuple[str, str]:
    """An option's NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME=VALUE")
    return name.strip(), value


def setting(text: str) -> tuple[str, str]:
    """An option's NAME=VALUE of a setting; `7d` and `10GiB` are numbers if the setting is in milliseconds or bytes."""
    from ottla.cli.quantities import setting_value

    name, value = key_value(text)
    try:
        return name, setting_value(name, value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def file_settings(config_file: str | None, option: str = "--command-config") -> dict[str, str]:
    """The settings of clients in a properties file."""
    if config_file is None:
        return {}
    from ottla.config.properties import parse_properties

    try:
        with open(config_file, encoding="utf-8") as file:
            return dict(parse_properties(file.read()))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CommandError(f"{option} {config_file} cannot be read: {reason}", MISUSED) from None


# --- which cluster


class Target(NamedTuple):
    """The cluster that a command works on, and the settings of its clients."""

    broker: str
    settings: Mapping[str, str] = {}
    cluster: str | None = None
    """Its name, if it has one."""
    is_chosen: bool = False
    """Whether this command line or its environment says so; otherwise it is the current cluster or the default."""


def choose_cluster(options: argparse.Namespace) -> Target:
    """--broker, else --cluster, else OTTLA_BROKER, else the current cluster, else the secured one that was started with
    ./security, else the default. The settings of a named cluster count only if the command is meant for that cluster:
    its passwords go nowhere else. Its schema registry is that of --command-config or --cluster, else OTTLA_REGISTRY,
    else the current cluster's. `guarded` names the cluster in errors, so it is kept in the options."""
    if options.broker is not None and not options.broker.strip():
        # As for an unset shell variable: the command must not go to another cluster instead.
        raise CommandError("--broker is empty", MISUSED)
    variable = os.environ.get(BROKER_VARIABLE)
    named = None
    name = options.cluster
    if name is not None or (options.broker is None and not variable):
        name, named = _named_cluster(name)
    broker = options.broker or (named and named.broker) or variable or DEFAULT_BROKER
    secured = None if named else _secured_here(options.broker or variable)
    if secured is not None:
        broker = options.broker or variable or secured.broker
    own = file_settings(options.command_config)
    settings = {**((named or secured or Target("")).settings), **own}
    registry = os.environ.get(REGISTRY_VARIABLE)
    if registry and REGISTRY_URL not in own and not (options.cluster is not None and REGISTRY_URL in settings):
        settings = with_registry(settings, registry)
    is_chosen = bool(options.broker or options.cluster or variable)
    target = Target(with_ports(broker), settings, name if named else None, is_chosen)
    options.chosen_cluster = target
    return target


def with_registry(settings: Mapping[str, str], url: str) -> dict[str, str]:
    """Settings that name another schema registry: the credentials of the one before are not for it."""
    if settings.get(REGISTRY_URL) == url:
        return dict(settings)
    from ottla.converters.registry import RegistrySettings

    return {
        REGISTRY_URL: url,
        **{name: value for name, value in settings.items() if not RegistrySettings.is_name(name)},
    }


def _named_cluster(name: str | None) -> tuple[str | None, Target | None]:
    """The cluster of this name, or the current one."""
    from ottla.cli.named_clusters import NamedClusters, NamedClustersError

    try:
        known = NamedClusters.read()
    except NamedClustersError as error:
        raise CommandError(str(error), MISUSED) from None
    name = name or known.current
    if name is None:
        return None, None
    if name not in known.clusters:
        raise no_such("cluster", name, known.clusters, "ottla clusters list", MISUSED)
    if known.has_secrets and known.is_open_to_others:
        _say("warning", f"{known.path} holds secrets and others may read it: chmod 600 {known.path}")
    found = known.clusters[name]
    path = known.config_path(found)
    return name, Target(found.brokers, {**file_settings(path, f"cluster {name!r}: config"), **found.settings})


def _secured_here(broker: str | None) -> Target | None:
    """The secured node or cluster that was started with ./security and runs: of commands that name no broker, or one of
    its own."""
    from ottla.cli.security_folder_name import ANNOUNCED, CLIENT_PROPERTIES

    try:
        with open(ANNOUNCED, encoding="utf-8") as file:
            announced = file.read().strip()
    except OSError:
        return None
    if broker is not None and not set(with_ports(broker).split(",")) <= set(announced.split(",")):
        return None
    return Target(announced, file_settings(CLIENT_PROPERTIES, CLIENT_PROPERTIES)) if announced else None


def with_ports(brokers: str) -> str:
    """HOST:PORT of every broker; a host without a port, an IPv6 address without brackets too, gets Kafka's."""
    found = []
    for one in filter(None, (part.strip() for part in brokers.split(","))):
        host = one.rpartition("://")[2]
        if host.startswith("["):
            found.append(one if "]:" in host else f"{one}:{DEFAULT_PORT}")
        elif host.count(":") > 1:
            found.append(f"{one.removesuffix(host)}[{host}]:{DEFAULT_PORT}")
        else:
            found.append(one if ":" in host else f"{one}:{DEFAULT_PORT}")
    return ",".join(found)


# --- a session


class Session:
    """One command's work on one cluster."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.settings = {"client.id": CLIENT_ID, **target.settings, "bootstrap.servers": target.broker}
        self._admin: Admin | None = None

    async def admin(self) -> Admin:
        """An admin client that has reached the cluster. That is tried once: a user at a prompt should soon
        know that nothing listens there."""
        if self._admin is None:
            from ottla.client.admin import Admin
            from ottla.client.config import AdminConfig

            self._admin = Admin({"default.api.timeout.ms": API_TIMEOUT_MS, **self.settings_for(AdminConfig)})
            await self._admin.connect()
        return self._admin

    def settings_for(self, kind: type[ClientConfig]) -> dict[str, str]:
        """The settings for this kind of client: one file serves all commands. Names that no client has are kept, so
        that they are refused; settings of a schema registry are left out."""
        if not self.target.settings:
            return self.settings
        from ottla.client.config import settings_for

        return settings_for(
            kind, {name: value for name, value in self.settings.items() if not name.startswith(REGISTRY_PREFIX)}
        )

    async def describe_topic(self, name: str) -> TopicInfo:
        """A topic that exists; if it does not, the error names the nearest that does."""
        return (await self.describe_topics([name]))[name]

    async def describe_topics(self, names: Sequence[str]) -> dict[str, TopicInfo]:
        from ottla.client.admin import PartialFailure
        from ottla.client.errors import UnknownTopicOrPartition

        for name in names:
            if any(mark in name for mark in "*?["):
                raise CommandError(
                    f"{name!r} is no name of a topic, and patterns are for 'ottla topics list': give the names"
                )
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


def no_such(kind: str, name: str, known: Iterable[str], lists: str, exit_code: int = FAILED) -> CommandError:
    """The error for a name that does not exist, with the nearest that does."""
    hint = near(name, known) or f"; '{lists}' shows those there are"
    return CommandError(f"there is no {kind} {name!r}{hint}", exit_code)


# --- consent


def confirm(what: str, options: argparse.Namespace) -> None:
    """Ends the command unless --yes or an answer on the terminal says to do it: every command that destroys asks."""
    if options.yes:
        return
    if not can_ask():
        raise CommandError(
            f"{what}? There is no terminal to ask on; nothing was changed. --yes does it without asking", MISUSED
        )
    if not ask(what):
        raise CommandError("nothing was changed")


def can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(what: str) -> bool:
    """Whether the answer on the terminal is yes."""
    import signal

    # The event loop stands still meanwhile, and its own handler would only note a Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        print(f"{what}? [y/N] ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip().lower() in ("y", "yes")
    finally:
        signal.signal(signal.SIGINT, before)


# --- running


def run(
    command: str,
    options: argparse.Namespace,
    work: Callable[[Session], Awaitable[int | None]],
    *,
    close_s: float = CLOSE_S,
    new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> int:
    """Do a command's work on a cluster and give its exit code. After Ctrl-C it has `close_s` to end in good order.
    `new_loop` is for servers: asyncio's own loop starts sooner."""

    async def session() -> int:
        made = Session(choose_cluster(options))
        try:
            return await work(made) or 0
        finally:
            await made.close()

    def begin() -> int:
        import asyncio

        show_warnings(command)
        with asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(interruptible(command, session(), close_s))

    return guarded(command, begin, options)


async def interruptible(command: str, work: Awaitable[int], close_s: float) -> int:
    """Await work that Ctrl-C cancels. What it closes then may wait for a broker that is gone, or the process for a
    thread that looks up a name: after a few seconds, or at the second Ctrl-C, the process ends without them."""
    import asyncio
    import signal
    import threading

    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    timers: list[threading.Timer] = []

    def end() -> None:
        _say(command, "ended without waiting any longer for an answer")
        sys.stderr.flush()
        os._exit(INTERRUPTED)

    def handle(*_: object) -> None:
        if timers:
            os._exit(INTERRUPTED)
        timers.append(threading.Timer(close_s, end))
        timers[0].daemon = True
        timers[0].start()
        loop.call_soon_threadsafe(task.cancel)

    if threading.current_thread() is not threading.main_thread():
        return await task
    before = signal.signal(signal.SIGINT, handle)
    try:
        return await task
    except asyncio.CancelledError:
        if not timers:
            raise
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, before)


def guarded(command: str, work: Callable[[], int | None], options: argparse.Namespace | None = None) -> int:
    """Run what may fail, be interrupted or lose its reader; the exit code."""
    try:
        code = work() or 0
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        forget_stdout()
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
        target: Target | None = getattr(options, "chosen_cluster", None)
        where = () if target is None else (target.broker, target.cluster)
        _say(command, explained(error, *where) if isinstance(error, KafkaError) else str(error))
        return FAILED


def show_warnings(command: str) -> None:
    """Warnings of the client (a broker that does not answer) are printed like the command's own messages."""
    import logging

    def without_client_id(record: logging.LogRecord) -> bool:
        record.msg, record.args = record.getMessage().removeprefix(f"{CLIENT_ID}: "), ()
        return True

    log = logging.getLogger("ottla.client")
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(f"{command}: %(message)s"))
        handler.addFilter(without_client_id)
        log.addHandler(handler)
        log.propagate = False


def _say(command: str, text: str) -> None:
    print(f"{command}: {as_started(text)}", file=sys.stderr)


def forget_stdout() -> None:
    """Stdout was closed: drop what is in the buffer, without an error at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def explained(error: KafkaError, broker: str | None = None, cluster: str | None = None) -> str:
    """An error in one sentence or several: the attempt, its result, and what to do."""
    from ottla.client.admin.calls import PartialFailure
    from ottla.client.errors import AuthenticationError, ConfigError, NoBrokerReached

    if isinstance(error, PartialFailure):
        return "\n  ".join(
            [f"{len(error.errors)} of {len(error.errors) + len(error.results)} failed:"]
            + [f"{item}: {explained(one)}" for item, one in error.errors.items()]
        )
    if isinstance(error, NoBrokerReached):
        return unreachable(error, broker, cluster)
    if isinstance(error, AuthenticationError):
        return f"{error}\n  {SECURITY_ADVICE}"
    if isinstance(error, ConfigError):
        return str(error)
    text = error.message or error.code.text
    advice = _ADVICE.get(error.code.name)
    return f"{text} ({error.code.name})" + (f"\n  {advice}" if advice else "")


def unreachable(error: KafkaError, broker: str | None, cluster: str | None = None) -> str:
    """Why no broker was reached: the first line is the fact, the others are advice."""
    from ottla.client.errors import AuthenticationError

    text = str(error.message).replace("NETWORK_EXCEPTION: ", "")
    where = broker or DEFAULT_BROKER
    elsewhere = f"elsewhere? --broker HOST:PORT, or {BROKER_VARIABLE} in the environment"
    if cluster is not None:
        elsewhere = f"this is the cluster {cluster!r} ('ottla clusters show {cluster}'); {elsewhere}"
    if isinstance(error, AuthenticationError) or "security.protocol" in text:
        return f"{text}\n  {SECURITY_ADVICE}"
    if "advertised.listeners" in text:
        return f"{text}\n  'ottla doctor --broker {where}' says what to do"
    if "Connect call failed" in text or "Connection refused" in text:
        host, _, port = where.rpartition(":")
        question = "does a broker listen there?"
        if host == "localhost" or host.startswith("127."):
            question = f"is it running? ottla start{'' if port == '9092' else f' --port {port}'}"
        return f"nothing listens on {where} (connection refused)\n  {question}\n  {elsewhere}"
    if "Name or service not known" in text or "name resolution" in text or "nodename nor servname" in text:
        return f"the name in {where} is not known\n  is it spelled right? does this machine know it?\n  {elsewhere}"
    if "took no connection" in text or "did not answer" in text:
        return f"{where} does not answer\n  is a firewall between? does a broker listen there?\n  {elsewhere}"
    return f"{text}\n  does a broker listen there?\n  {elsewhere}"


ASK_THE_DOCTOR = "'ottla doctor' looks for the reason"
_ADVICE = {
    "TOPIC_ALREADY_EXISTS": "'ottla topics describe TOPIC' shows it, 'ottla topics alter' changes it",
    "INVALID_REPLICATION_FACTOR": "a topic has at most as many replicas as there are brokers: 'ottla cluster brokers'",
    "NON_EMPTY_GROUP": "stop its members first; 'ottla groups describe GROUP' shows them",
    "GROUP_ID_NOT_FOUND": "'ottla groups list' shows those there are",
    "GROUP_SUBSCRIBED_TO_TOPIC": "the group reads this topic now: stop its members first",
    "POLICY_VIOLATION": "the cluster's rules forbid it",
    "NETWORK_EXCEPTION": ASK_THE_DOCTOR,
    "REQUEST_TIMED_OUT": ASK_THE_DOCTOR,
    "NOT_ENOUGH_REPLICAS": "too few replicas are in sync: 'ottla doctor' names them",
    "UNSUPPORTED_VERSION": "the broker is too old for this",
    "TOPIC_DELETION_DISABLED": "the broker has delete.topic.enable=false",
}


def misuse(command: str, text: str) -> NoReturn:
    """End as argparse does for its own errors."""
    raise CommandError(f"{text} ('{command} --help' shows how)", MISUSED)

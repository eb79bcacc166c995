"""`ottla start`: a node in the foreground, until SIGTERM or Ctrl-C.

A signal counts from the moment the command line is read. The first one stops the node, whatever it waits for; the
second ends the wait of a controlled shutdown; the third ends the process at once. A node whose output is closed goes
on: what it prints goes nowhere.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.broker import Node, StartError
from ottla.broker.serving.gauges import resident_bytes
from ottla.broker.serving.http_guard import LOOPBACK, HttpAccess, read_token
from ottla.cli import node_log
from ottla.cli.companion import Companion
from ottla.cli.config_providers import resolve
from ottla.cli.garbage import settle_after_start
from ottla.cli.memory import give_back_while_idle
from ottla.cli.session import forget_stdout
from ottla.config import BrokerConfig, ConfigError, parse_properties
from ottla.config.describe import is_secret
from ottla.config.own import REGISTRY_URL
from ottla.net import new_event_loop
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.cli.security_folder import SecurityFolder

log = logging.getLogger("ottla")

MAX_SECURED_NODES = 99
DEFAULT_PORT = 9092
STOPPING = (signal.SIGTERM, signal.SIGINT)
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
CONTROLLER = "CONTROLLER"
SECURED_PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
SECURITY_PROTOCOLS = "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
UNUSED = " is known to Kafka but not used by Ottla: ignored"
ALONE = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
)
EXAMPLES = """\
examples:
  ottla start                                      on 127.0.0.1:9092, with its data in ./data
  ottla start --port 19092 --data /var/lib/ottla
  ottla start --secure                             with TLS, logins and ACLs; prints how to connect
  ottla start --config server.properties --override log.retention.hours=24
  ottla start --registry-port 8081                 with a schema registry beside it, on 127.0.0.1:8081
  ottla start --console-port 8080                  with a web console beside it, on http://127.0.0.1:8080
  ottla start --log-level info,replicas=debug      what the node logs to stderr: everything, and single rooms of it
  ottla start --log-format json 2> node.log        one JSON object per line

A node that waits, for the controllers of its quorum say, writes to stderr what it waits for and why. SIGTERM or Ctrl-C
stops it at any time, with exit code 0; a second signal ends the wait for the controlled shutdown, a third the process.
"""


def parser() -> argparse.ArgumentParser:
    from ottla.cli.parser import Parser

    made = Parser(
        prog="ottla start",
        description="Run a node: broker and controller in one process. An empty data folder is formatted by itself.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--port", type=int, metavar="PORT", help="listen on 127.0.0.1:PORT (9092; 0 takes any free one)")
    made.add_argument("--data", metavar="DIR", help="the data folder, Kafka's log.dirs (./data)")
    made.add_argument("--config", metavar="FILE", help="Kafka's server.properties")
    made.add_argument(
        "--override",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a setting, over the file's; may be repeated. Not for passwords: every user of the machine sees it",
    )
    made.add_argument(
        "--secure",
        metavar="DIR",
        nargs="?",
        const="security",
        help="TLS, logins by SCRAM and ACLs, with the files of 'ottla security init' in DIR (./security), which are "
        "made if they are missing; settings that are given go over it",
    )
    made.add_argument(
        "--insecure",
        action="store_true",
        help="do not warn of listeners without TLS on addresses that other machines reach",
    )
    made.add_argument("--cluster-id", metavar="ID", help="the cluster that an empty data folder is formatted for")
    made.add_argument(
        "--metrics-port", type=int, metavar="PORT", help="Prometheus metrics and health on 127.0.0.1:PORT"
    )
    made.add_argument(
        "--metrics-host",
        metavar="HOST",
        help="where that port is (127.0.0.1); beyond this machine clients need a token or a certificate",
    )
    made.add_argument(
        "--metrics-token-file", metavar="FILE", help="clients of that port send its first line as a bearer token"
    )
    made.add_argument(
        "--metrics-tls",
        action="store_true",
        help="HTTPS on that port, by the ssl.* settings; without a token clients need a certificate of its trust store",
    )
    made.add_argument(
        "--registry-port",
        type=int,
        metavar="PORT",
        help="a schema registry on 127.0.0.1:PORT (0 takes any free one), a process of its own that ends with the "
        "node; topics with confluent.value.schema.validation use it (pip install 'ottla[registry]')",
    )
    made.add_argument(
        "--console-port",
        type=int,
        metavar="PORT",
        help="a web console on http://127.0.0.1:PORT (0 takes any free one), a process of its own that ends with the "
        "node (pip install 'ottla[console]')",
    )
    made.add_argument(
        "--log-level",
        metavar="LEVELS",
        help="debug, info, warn or error; also of single rooms: replicas=debug,raft=debug "
        "(a terminal gets warn, anything else info)",
    )
    made.add_argument("--log-format", choices=node_log.FORMATS, help="text, or one JSON object per line")
    made.add_argument("--verbose", action="store_true", help="the same as --log-level info")
    return made


def properties(options: argparse.Namespace) -> dict[str, str]:
    """Kafka's settings: the file's, over Ottla's defaults for a node that stands alone, under the command line's."""
    given: dict[str, str] = {}
    if options.config is not None:
        try:
            with open(options.config, encoding="utf-8") as file:
                given = parse_properties(file.read())
        except OSError as error:
            raise ConfigError(f"--config {options.config} cannot be read: {error.strerror}") from None
    overridden: dict[str, str] = {}
    for override in options.override:
        key, equals, value = override.partition("=")
        if not equals:
            raise ConfigError(f"--override {override}: expected KEY=VALUE, for example log.retention.hours=24")
        overridden[key.strip()] = value.strip()
    given = resolve(given | overridden)
    if options.data is not None:
        given["log.dirs"] = options.data
        given.pop("log.dir", None)
    elif "log.dirs" not in given and "log.dir" not in given:
        given["log.dirs"] = "data"
    if options.port is not None or "listeners" not in given:
        port = options.port if options.port is not None else DEFAULT_PORT
        if not 0 <= port <= 65535:
            raise ConfigError(f"--port {port}: a port is a number from 0 to 65535")
        if options.secure is None and (secured := _secured_listener(given)):
            raise ConfigError(
                f"--port {port} would replace the listeners of the settings, of which {secured} is secured, by one "
                "without TLS and logins: leave it out and change the port in listeners, or add --secure"
            )
        # The controller of a node without others is reached inside the process: port 0 opens no second port.
        protocol = "PLAINTEXT" if options.secure is None else "SASL_SSL"
        given["listeners"] = f"{protocol}://127.0.0.1:{port},{CONTROLLER}://127.0.0.1:0"
        given["controller.listener.names"] = CONTROLLER
        for setting in ("advertised.listeners", "listener.security.protocol.map", "inter.broker.listener.name"):
            if setting not in overridden:
                given.pop(setting, None)  # the file's speaks of the file's listeners
    elif "process.roles" not in given and "controller.listener.names" not in given:
        if f"{CONTROLLER}://" not in given["listeners"].upper():
            given["listeners"] += f",{CONTROLLER}://127.0.0.1:0"
        given["controller.listener.names"] = CONTROLLER
        protocols = given.get("listener.security.protocol.map", SECURITY_PROTOCOLS)
        if f"{CONTROLLER}:" not in protocols.upper():
            given["listener.security.protocol.map"] = f"{protocols},{CONTROLLER}:PLAINTEXT"
    if "node.id" not in given and "broker.id" not in given:
        given["node.id"] = "1"
    given.setdefault("process.roles", "broker,controller")
    if "," not in given.get("controller.quorum.voters", ""):
        # A node without others cannot copy its internal topics to another one.
        for setting in ALONE:
            given.setdefault(setting, "1")
    return given


def _secured_listener(given: dict[str, str]) -> str:
    """A listener of these settings with TLS or logins; empty if no listener has them."""
    mapped = (one.partition(":") for one in given.get("listener.security.protocol.map", "").split(","))
    protocols = {name.strip(): protocol for name, _, protocol in mapped}
    names = [one.partition("://")[0].strip() for one in given.get("listeners", "").split(",") if one]
    return next((name for name in names if protocols.get(name, name).strip().upper() in SECURED_PROTOCOLS), "")


def secure(given: dict[str, str], path: str) -> SecurityFolder:
    """Complete the settings of a node that is to be secured, and give its first cluster the user admin."""
    from ottla.cli.secured_node import alone_settings, security_folder, write_first_user
    from ottla.cli.session import CommandError

    node_id = given.get("node.id") or given.get("broker.id") or "1"
    if not node_id.isdigit() or int(node_id) > MAX_SECURED_NODES:
        raise ConfigError(f"--secure: node.id {node_id} needs a certificate by hand ('ottla security node --help')")
    try:
        folder = security_folder(path, int(node_id))
        has_own_listeners = "SASL_SSL://" not in given["listeners"].upper()
        for name, value in alone_settings(folder, int(node_id)).items():
            is_about_listeners = name in ("inter.broker.listener.name", "listener.security.protocol.map")
            if not is_about_listeners or not (has_own_listeners or "security.inter.broker.protocol" in given):
                given.setdefault(name, value)
        write_first_user(folder, (given.get("log.dirs") or given["log.dir"]).split(",")[0].strip())
    except CommandError as error:
        raise ConfigError(f"--secure: {error}") from None
    except OSError as error:
        raise ConfigError(f"--secure: {error.filename}: {error.strerror}") from None
    return folder


def main(
    arguments: list[str],
    *,
    new_node: Callable[..., Node] = Node,
    new_loop: Callable[[], asyncio.AbstractEventLoop] = new_event_loop,
) -> int:
    """`new_node` and `new_loop` give the node other ports than the operating system's (`ottla.testing`)."""
    started = time.perf_counter()
    options = parser().parse_args(arguments)
    signals = Signals()
    try:
        given = properties(options)
        folder = None if options.secure is None else secure(given, options.secure)
        levels = options.log_level or ("info" if options.verbose else None)
        logged = node_log.take_settings(given, [("log.level", levels), ("log.format", options.log_format)])
        companions = _companions(options, given)
        config = BrokerConfig.parse(given)
        metrics_access = _metrics_access(options)
        node_log.set_up(
            logged.get("log.level"),
            logged.get("log.format", node_log.TEXT),
            node_id=config.node_id,
            is_terminal=node_log.is_terminal(),
        )
    except ConfigError as error:
        _complain(error)
        return 2
    _warn(config.warnings)
    _warn_of_visible_secrets(options.override)
    if not options.insecure:
        _warn_of_open_listeners(config)
    raise_descriptor_limit()
    loop = new_loop()
    asyncio.set_event_loop(loop)
    try:
        node = new_node(config, new_cluster_id=options.cluster_id)
        return loop.run_until_complete(
            _run(config, node, (options.metrics_port, metrics_access), started, signals, folder, companions)
        )
    finally:
        _end_tasks(loop)
        loop.close()


def _companions(options: argparse.Namespace, given: dict[str, str]) -> list[Companion]:
    """The processes beside the node. The node asks the registry that is started here, unless its settings name
    another one."""
    found = []
    if options.registry_port is not None:
        found.append(Companion("registry", "schema registry", options.registry_port))
        given.setdefault(REGISTRY_URL, found[0].url)
    if options.console_port is not None:
        from ottla.cli.extras import CONSOLE, need

        need("console", CONSOLE, "--console-port needs")
        console = Companion("console", "web console", options.console_port)
        if given.get(REGISTRY_URL):
            console.add_arguments("--registry", given[REGISTRY_URL])
        found.append(console)
    return found


class Signals:
    """SIGTERM and SIGINT of this process, before the loop runs and while it does."""

    def __init__(self) -> None:
        self.count = 0
        self._on_signal: Callable[[], object] | None = None
        for number in STOPPING:
            signal.signal(number, self._received)

    def deliver(self, loop: asyncio.AbstractEventLoop, on_signal: Callable[[int], object]) -> None:
        """Have the loop call `on_signal` with the count of signals so far; also for one that came before."""
        self._on_signal = lambda: loop.call_soon_threadsafe(on_signal, self.count)
        if self.count:
            self._on_signal()

    def _received(self, number: int, frame: object) -> None:
        self.count += 1
        if self.count > 2:
            os._exit(128 + number)
        if self._on_signal is not None:
            with suppress(RuntimeError):  # the loop is closed: the process is about to end
                self._on_signal()


def _end_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """End what a node that did not start, or cannot go on, had begun; after a clean stop there is nothing left."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=1))


def raise_descriptor_limit() -> None:
    """As many open files and connections as this process may have at all: the soft limit of a shell, often 1,024, is
    meant for programs that use `select`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):
            log.info("the limit of %d open files stays: it cannot be raised to %d", soft, hard)


def _warn(warnings: list[str]) -> None:
    """Once, in one line: Kafka's own server.properties has a dozen settings that Ottla has no use for."""
    unused = [warning.partition(" ")[0] for warning in warnings if warning.endswith(UNUSED)]
    if unused:
        log.warning("%s%s", ", ".join(unused), UNUSED if len(unused) == 1 else UNUSED.replace(" is ", " are "))
    for warning in warnings:
        if not warning.endswith(UNUSED):
            log.warning("%s", warning)


def _warn_of_visible_secrets(overrides: Sequence[str]) -> None:
    """Name the settings whose secrets are in the list of processes."""
    parts = (override.partition("=") for override in overrides)
    names = sorted({name.strip() for name, _, text in parts if "${" not in text and is_secret(name.strip())})
    if names:
        log.warning(
            "%s in --override: every user of this machine sees the value in the list of processes. Put it into the "
            "file of --config, or there as a variable of a config provider (docs/security/nodes.md)",
            ", ".join(names),
        )


def _metrics_access(options: argparse.Namespace) -> HttpAccess:
    """ConfigError if the metrics port would be open to other machines."""
    token = None if options.metrics_token_file is None else read_token(options.metrics_token_file)
    host = LOOPBACK if options.metrics_host is None else options.metrics_host
    access = HttpAccess(host, token, options.metrics_tls)
    access.check()
    return access


def _warn_of_open_listeners(config: BrokerConfig) -> None:
    """In the log, and to people between lines that stand out: a node without protection is rarely meant."""
    from ottla.config.open_listeners import open_listeners, warning_of

    for listener in open_listeners(config.listeners):
        warning = warning_of(str(listener), listener.security_protocol)
        log.warning("%s", warning)
        if not node_log.is_json():
            with suppress(OSError):
                print(f"{'!' * 78}\n!! WARNING: {warning}\n{'!' * 78}", file=sys.stderr)


async def _run(
    config: BrokerConfig,
    node: Node,
    metrics: tuple[int | None, HttpAccess],
    started: float,
    signals: Signals,
    folder: SecurityFolder | None = None,
    companions: Sequence[Companion] = (),
) -> int:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()

    def signalled(count: int) -> None:
        stopping.set()
        if count > 1:
            node.hurry()

    signals.deliver(loop, signalled)
    node.on_failure = stopping.set
    problem = await _start(node, *metrics, stopping)
    if problem is None and not stopping.is_set():
        settle_after_start()
        give_back_while_idle(loop, resident_bytes)
        _say(
            f"ottla: node {config.node_id} ready on {node.address} in {time.perf_counter() - started:.2f} s "
            f"(cluster {node.cluster_id}, data {', '.join(config.log_directories)})"
        )
        if folder is not None:
            _tell_how_to_connect(folder, node)
        for companion in companions:
            companion.start(node, folder)
        await stopping.wait()
        await asyncio.gather(*(companion.stop() for companion in companions))
        if folder is not None:
            folder.retract(node.address)
    if node.failure is not None:
        # Not a clean stop: the next start recovers the logs.
        _complain(problem or node.failure)
        return 1
    log.info("stopping")
    if problem is not None:
        _complain(problem)
    await node.stop()
    return 0 if problem is None else 1


def _tell_how_to_connect(folder: SecurityFolder, node: Node) -> None:
    from ottla.cli.output import notice
    from ottla.cli.secured_node import connecting, no_first_user
    from ottla.cli.security_folder import ADMIN

    with suppress(OSError):  # a folder that cannot be written, or a closed stderr
        folder.announce(node.address)
        if all(user != ADMIN for user, _ in node.ground.image.scram):
            log.warning("%s", no_first_user(folder))
        if not node_log.is_json():
            notice(connecting(folder, node.address))


async def _start(
    node: Node, metrics_port: int | None, metrics_access: HttpAccess, stopping: asyncio.Event
) -> str | None:
    """Start the node, unless it has to stop meanwhile; why it could not start, if so."""
    starting = asyncio.ensure_future(node.start(metrics_port=metrics_port, metrics_access=metrics_access))
    stopped = asyncio.ensure_future(stopping.wait())
    await asyncio.wait([starting, stopped], return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if node.failure is not None:
        await asyncio.wait([starting], timeout=1)  # it is about to say more of the failure
    starting.cancel()  # no effect on a start that has come to its end
    try:
        await starting
    except asyncio.CancelledError:
        return None
    except StartError as error:
        return str(error)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        return f"{error.filename or 'the data folder'}: the disk is full; make room"
    except KafkaError as error:
        if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
            raise
        return f"the metadata log cannot be written: {error.message}"
    return None


def _say(line: str) -> None:
    """Print a line. If stdout is a closed pipe, a terminal that is gone or a full disk, the node goes on, as servers
    do: from then on its output goes nowhere."""
    try:
        print(line, flush=True)
    except OSError:
        forget_stdout()


def _complain(problem: object) -> None:
    with suppress(OSError):
        if node_log.is_json():
            log.critical("%s", problem)
        else:
            print(f"ottla start: {problem}", file=sys.stderr)

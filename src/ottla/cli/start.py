"""`ottla start`: a node in the foreground, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import errno
import gc
import logging
import resource
import signal
import sys
import time
from collections.abc import Callable

from ottla.broker import Node, StartError
from ottla.config import BrokerConfig, ConfigError, parse_properties
from ottla.net import new_event_loop
from ottla.wire.errors import ErrorCode, KafkaError

log = logging.getLogger("ottla")

DEFAULT_PORT = 9092
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
CONTROLLER = "CONTROLLER"
SECURITY_PROTOCOLS = "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
UNUSED = " is known to Kafka but not used by Ottla: ignored"
ALONE = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
)
EXAMPLES = """\
examples:
  ottla start                                      on 127.0.0.1:9092, with its data in ./data
  ottla start --port 19092 --data /var/lib/ottla
  ottla start --config server.properties --override log.retention.hours=24
"""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
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
        help="a setting, over the file's; may be repeated",
    )
    made.add_argument("--cluster-id", metavar="ID", help="the cluster that an empty data folder is formatted for")
    made.add_argument(
        "--metrics-port", type=int, metavar="PORT", help="Prometheus metrics and health on 127.0.0.1:PORT"
    )
    made.add_argument("--verbose", action="store_true", help="log what the node does, not only what deserves attention")
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
    given |= overridden
    if options.data is not None:
        given["log.dirs"] = options.data
        given.pop("log.dir", None)
    elif "log.dirs" not in given and "log.dir" not in given:
        given["log.dirs"] = "data"
    if options.port is not None or "listeners" not in given:
        port = options.port if options.port is not None else DEFAULT_PORT
        if not 0 <= port <= 65535:
            raise ConfigError(f"--port {port}: a port is a number from 0 to 65535")
        # The controller of a node that stands alone is reached from inside: port 0 opens no second door.
        given["listeners"] = f"PLAINTEXT://127.0.0.1:{port},{CONTROLLER}://127.0.0.1:0"
        given["controller.listener.names"] = CONTROLLER
        for setting in ("advertised.listeners", "listener.security.protocol.map", "inter.broker.listener.name"):
            if setting not in overridden:
                given.pop(setting, None)  # the file's speaks of the file's listeners
    elif "process.roles" not in given and "controller.listener.names" not in given:
        given["listeners"] += f",{CONTROLLER}://127.0.0.1:0"
        given["controller.listener.names"] = CONTROLLER
        protocols = given.get("listener.security.protocol.map", SECURITY_PROTOCOLS)
        given["listener.security.protocol.map"] = f"{protocols},{CONTROLLER}:PLAINTEXT"
    if "node.id" not in given and "broker.id" not in given:
        given["node.id"] = "1"
    given.setdefault("process.roles", "broker,controller")
    if "," not in given.get("controller.quorum.voters", ""):
        # A node that stands alone has nobody to copy its internal topics to.
        for setting in ALONE:
            given.setdefault(setting, "1")
    return given


def main(
    arguments: list[str],
    *,
    new_node: Callable[..., Node] = Node,
    new_loop: Callable[[], asyncio.AbstractEventLoop] = new_event_loop,
) -> int:
    """`new_node` and `new_loop` give the node other ports than the operating system's (`ottla.testing`)."""
    started = time.perf_counter()
    options = parser().parse_args(arguments)
    logging.basicConfig(
        level=logging.INFO if options.verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    try:
        config = BrokerConfig.parse(properties(options))
    except ConfigError as error:
        print(f"ottla start: {error}", file=sys.stderr)
        return 2
    _warn(config.warnings)
    raise_descriptor_limit()
    loop = new_loop()
    asyncio.set_event_loop(loop)
    try:
        node = new_node(config, new_cluster_id=options.cluster_id)
        return loop.run_until_complete(_run(config, node, options.metrics_port, started))
    finally:
        _end_tasks(loop)
        loop.close()


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


async def _run(config: BrokerConfig, node: Node, metrics_port: int | None, started: float) -> int:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    node.on_failure = stopping.set
    try:
        await node.start(metrics_port=metrics_port)
    except StartError as error:
        print(f"ottla start: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            taken = ", ".join(f"{listener.host}:{listener.port}" for listener in config.listeners if listener.port)
            print(
                f"ottla start: {taken} is taken by another program; stop it, or choose another port with --port",
                file=sys.stderr,
            )
            return 1
        if error.errno in NO_ROOM:
            print(f"ottla start: {error.filename or 'the data folder'}: the disk is full; make room", file=sys.stderr)
            return 1
        raise
    except KafkaError as error:
        if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
            raise
        print(f"ottla start: the metadata log cannot be written: {error.message}", file=sys.stderr)
        return 1
    # What start made lives as long as the process: the collector need never look at it again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    print(
        f"ottla: node {config.node_id} ready on {node.address} in {time.perf_counter() - started:.2f} s "
        f"(cluster {node.cluster_id}, data {', '.join(config.log_directories)})",
        flush=True,
    )
    await stopping.wait()
    if node.failure is not None:
        # Not a clean stop: the next start recovers.
        print(f"ottla start: {node.failure}", file=sys.stderr)
        return 1
    log.info("stopping")
    await node.stop()
    return 0

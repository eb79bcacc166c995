"""`ottla registry`: a schema registry, a process of its own beside any Kafka cluster."""

from __future__ import annotations

import argparse
import asyncio
import signal

from ottla.cli.output import notice
from ottla.cli.session import MISUSED, CommandError, Session, add_broker_options, command_parser, run

COMMAND = "ottla registry"
EXAMPLES = """\
  ottla registry                                              http://127.0.0.1:8081, for the broker on this machine
  ottla registry --port 8081 --bootstrap-server kafka:9092    works with Apache Kafka, too
  ottla registry --port 0                                     any free port; the line on stderr says which
"""
LEVELS = ("none", "backward", "backward_transitive", "forward", "forward_transitive", "full", "full_transitive")


def parser() -> argparse.ArgumentParser:
    made = command_parser(
        COMMAND,
        "Run a schema registry with Confluent's REST interface (Avro, JSON Schema, Protobuf). Its state is the topic "
        "_schemas. Several instances on one cluster choose a leader; each answers every request.",
        EXAMPLES,
    )
    add_broker_options(made)
    made.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1)")
    made.add_argument("--port", type=int, default=8081, help="the port to listen on (8081; 0 is any)")
    made.add_argument(
        "--advertised-host", metavar="HOST", help="the name by which other instances reach this one (that of --host)"
    )
    made.add_argument("--topic", default="_schemas", help="where schemas are kept (_schemas)")
    made.add_argument(
        "--group", default="schema-registry", help="instances of this group choose one leader (schema-registry)"
    )
    made.add_argument(
        "--compatibility", choices=LEVELS, default="backward", help="the level if none was set by /config (backward)"
    )
    return made


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    return run(COMMAND, options, lambda session: serve(session, options))


async def serve(session: Session, options: argparse.Namespace) -> None:
    from ottla.client.config import AdminConfig
    from ottla.client.consumer_config import ConsumerConfig
    from ottla.client.producer_config import ProducerConfig

    try:
        from ottla.registry.faults import Fault
        from ottla.registry.server import RegistryConfig, RegistryServer
        from ottla.registry.topic import ClientSettings
    except ImportError as error:
        raise CommandError(str(error), MISUSED) from None
    await session.admin()
    config = RegistryConfig(
        host=options.host,
        port=options.port,
        advertised_host=options.advertised_host,
        topic=options.topic,
        group_id=options.group,
        level=options.compatibility.upper(),
    )
    kinds = (AdminConfig, ConsumerConfig, ProducerConfig)
    server = RegistryServer(config, ClientSettings(*(session.settings_for(kind) for kind in kinds)))
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    try:
        await server.start()
        notice(f"schema registry: {server.url}")
        await stopping.wait()
    except Fault as fault:
        raise CommandError(fault.message) from None
    finally:
        await server.stop()

"""`ottla registry`: a schema registry, a process of its own beside any Kafka cluster."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
from typing import TYPE_CHECKING, Any

from ottla.cli.companion import ENDS_WITH_STDIN, end_with_stdin
from ottla.cli.garbage import settle_after_start
from ottla.cli.output import notice
from ottla.cli.session import MISUSED, CommandError, Session, add_broker_options, command_parser, file_settings, run
from ottla.net import new_event_loop

if TYPE_CHECKING:
    import ssl

COMMAND = "ottla registry"
EXAMPLES = """\
  ottla registry                                              http://127.0.0.1:8081, for the broker on this machine
  ottla registry --port 8081 --bootstrap-server kafka:9092    works with Apache Kafka, too
  ottla registry --port 0                                     any free port; the line on stderr says which
  ottla registry --host 0.0.0.0 --login --ssl-config registry-tls.properties
                                                              users of the cluster log in, over https
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
    made.add_argument(ENDS_WITH_STDIN, action="store_true", help=argparse.SUPPRESS)
    made.add_argument(
        "--login", action="store_true", help="callers log in by HTTP Basic as users of the cluster (SCRAM or PLAIN); "
        "Kafka's ACLs say what they may do: docs/registry/logins.md has the list",
    )  # fmt: skip
    made.add_argument(
        "--login-config", metavar="FILE", help="client settings of those logins, without user and password, if the "
        "registry itself connects in another way (by default those of --command-config)",
    )  # fmt: skip
    made.add_argument(
        "--ssl-config", metavar="FILE", help="serve https: a properties file with ssl.keystore.* (and "
        "ssl.truststore.*, by which this instance trusts the others)",
    )  # fmt: skip
    made.add_argument(
        "--insecure", action="store_true", help="allow an address that other machines reach without --login or https"
    )
    return made


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    return run(COMMAND, options, lambda session: serve(session, options), new_loop=new_event_loop)


def refuse_open(options: argparse.Namespace) -> None:
    """A registry that other machines reach has logins and TLS, unless --insecure says that the network is closed."""
    from ottla.config.open_listeners import is_loopback

    if is_loopback(options.host) or options.insecure or (options.login and options.ssl_config):
        return
    missing = " and ".join(
        one for one, is_there in (("--login", options.login), ("--ssl-config FILE", options.ssl_config)) if not is_there
    )
    raise CommandError(
        f"--host {options.host}: other machines reach this address, so the registry needs {missing}; --insecure allows "
        "it without",
        MISUSED,
    )


def show_audit() -> None:
    """Audit events are lines on stderr."""
    log = logging.getLogger("ottla.audit")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)


def login_settings(session: Session, options: argparse.Namespace) -> dict[str, Any] | None:
    """Settings of the connections over which callers log in."""
    from ottla.client.config import AdminConfig, settings_for

    if not options.login:
        return None
    settings = dict(session.settings_for(AdminConfig))
    if options.login_config:
        given = file_settings(options.login_config, "--login-config")
        settings = {"bootstrap.servers": session.target.broker, **settings_for(AdminConfig, given)}
    if not str(settings.get("security.protocol", "")).upper().startswith("SASL_"):
        raise CommandError(
            "--login: callers log in at the cluster, and these settings have no login: security.protocol=SASL_SSL (and "
            "sasl.mechanism) in --command-config, or in --login-config if the registry itself uses another listener",
            MISUSED,
        )
    return settings


def tls_contexts(path: str | None) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    """The contexts of the listener and of connections to other instances."""
    if path is None:
        return None, None
    from ottla.client.config import AdminConfig
    from ottla.client.tls import listener_context, tls_context

    given = file_settings(path, "--ssl-config")
    client_auth = given.pop("ssl.client.auth", "none")
    config = AdminConfig.parse({"bootstrap.servers": "unused:1", **given, "security.protocol": "SSL"})
    return listener_context(config, client_auth), tls_context(config)


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
    refuse_open(options)
    if options.login:
        show_audit()
    tls, peer_tls = tls_contexts(options.ssl_config)
    await session.admin()
    config = RegistryConfig(
        host=options.host,
        port=options.port,
        advertised_host=options.advertised_host,
        topic=options.topic,
        group_id=options.group,
        level=options.compatibility.upper(),
        login_settings=login_settings(session, options),
        tls=tls,
        peer_tls=peer_tls,
    )
    kinds = (AdminConfig, ConsumerConfig, ProducerConfig)
    server = RegistryServer(config, ClientSettings(*(session.settings_for(kind) for kind in kinds)))
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    if options.ends_with_stdin:
        end_with_stdin(stopping)
    try:
        await server.start()
        settle_after_start()
        notice(f"schema registry: {server.url}")
        await stopping.wait()
    except Fault as fault:
        raise CommandError(fault.message) from None
    finally:
        await server.stop()

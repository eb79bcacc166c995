"""`ottla console`: a web console, a process of its own beside any Kafka cluster."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ottla.cli.companion import ENDS_WITH_STDIN, end_with_stdin
from ottla.cli.extras import CONSOLE, need
from ottla.cli.output import notice
from ottla.cli.session import (
    MISUSED,
    CommandError,
    Target,
    choose_cluster,
    command_parser,
    guarded,
    interruptible,
    show_warnings,
)

COMMAND = "ottla console"
EXAMPLES = """\
  ottla console                                      http://127.0.0.1:8080, for the broker on this machine
  ottla console -b kafka:9092 --read-only            works with Apache Kafka, too
  ottla console --cluster prod --cluster test        two clusters of 'ottla clusters list'
  ottla console --registry http://127.0.0.1:8081 --pipelines ./pipelines
  ottla console --host 0.0.0.0 --tls-certificate console.pem --tls-key console.key    logins with the cluster's users
  ottla console --oidc-issuer https://login.example.com --oidc-client-id ottla --command-config client.properties
  ottla console --mask 'orders:$.card.number' --mask '**.ssn'
"""
CLOSE_S = 5.0
THREADS = 4


def parser() -> argparse.ArgumentParser:
    made = command_parser(
        COMMAND,
        "Run a web console: messages, topics, groups, dead letters, brokers, schemas, pipelines, users and ACLs, "
        "metrics; and the same for assistants (MCP at /mcp). On this machine it works as its --command-config says; "
        "beyond it every user logs in with the cluster's own users, and ACLs say what each may do.",
        EXAMPLES,
    )
    made.add_argument(
        "-b", "--broker", "--bootstrap-server", dest="broker", metavar="HOST[:PORT]",
        help="any broker of the cluster, or several with commas",
    )  # fmt: skip
    made.add_argument(
        "--cluster", dest="cluster", action="append", metavar="CLUSTER",
        help="a cluster by its name, as 'ottla clusters list' shows it; may be repeated",
    )  # fmt: skip
    made.add_argument("--command-config", metavar="FILE", help="Kafka's client settings, as a properties file")
    made.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1)")
    made.add_argument("--port", type=int, default=8080, help="the port to listen on (8080; 0 is any)")
    made.add_argument("--read-only", action="store_true", help="refuse every change")
    made.add_argument("--login", action="store_true", help="users log in, on this machine too")
    made.add_argument(
        "--insecure", action="store_true", help="serve other machines without logins: all users act as this console"
    )
    made.add_argument("--oidc-issuer", metavar="URL", help="users log in there (OpenID Connect, OAUTHBEARER)")
    made.add_argument("--oidc-client-id", metavar="ID", help="as what the issuer knows this console")
    made.add_argument("--oidc-client-secret-file", metavar="FILE", help="its secret, if it has one")
    made.add_argument("--oidc-scope", default="openid", help="the scope of the token (openid)")
    made.add_argument(
        "--public-url", metavar="URL", help="where browsers reach this console, for the issuer's way back (its own URL)"
    )
    made.add_argument("--tls-certificate", metavar="FILE", help="HTTPS with this certificate (PEM)")
    made.add_argument("--tls-key", metavar="FILE", help="and its private key (PEM)")
    made.add_argument("--registry", metavar="URL", help="the schema registry (schema.registry.url of the settings)")
    made.add_argument("--pipelines", metavar="DIR", help="a folder of pipelines, to watch, start and stop")
    made.add_argument(
        "--mask", action="append", default=[], metavar="RULE",
        help="hide a field: [TOPIC-PATTERN:]$.path, NAME at any depth, key, value or headers.NAME; may be repeated",
    )  # fmt: skip
    made.add_argument(ENDS_WITH_STDIN, action="store_true", help=argparse.SUPPRESS)
    made.add_argument("--mcp-write", action="store_true", help="assistants may change things, too (they read only)")
    return made


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)

    def begin() -> int:
        from ottla.console.memory import bound_memory

        need("console", CONSOLE, "the console needs")
        bound_memory()
        show_warnings(COMMAND)
        _show_log()
        return asyncio.run(interruptible(COMMAND, serve(options), CLOSE_S))

    return guarded(COMMAND, begin, options)


def _show_log() -> None:
    for name, level in (("ottla.console", logging.INFO), ("ottla.audit", logging.INFO)):
        log = logging.getLogger(name)
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        log.addHandler(handler)
        log.setLevel(level)
        log.propagate = False


def targets(options: argparse.Namespace) -> dict[str, Target]:
    """The clusters by name."""
    names = options.cluster or [None]
    found = {}
    for name in names:
        options.cluster = name
        target = choose_cluster(options)
        found[target.cluster or "local"] = target
    return found


async def serve(options: argparse.Namespace) -> int:
    try:
        from ottla.console.server import ConsoleServer
    except ImportError as error:
        raise CommandError(str(error), MISUSED) from None
    server = ConsoleServer(_config(options))
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(THREADS, "console"))
    loop.add_signal_handler(signal.SIGTERM, stopping.set)
    if options.ends_with_stdin:
        end_with_stdin(stopping)
    try:
        await server.start()
        notice(f"console: {server.url}")
        await stopping.wait()
    except OSError as error:
        raise CommandError(f"cannot listen on {options.host}:{options.port}: {error.strerror or error}") from None
    finally:
        await server.stop()
    return 0


def _config(options: argparse.Namespace):  # type: ignore[no-untyped-def]
    from ottla.console.console import ConsoleConfig
    from ottla.console.logins import without_own
    from ottla.console.masking import parse_rule
    from ottla.console.server import is_loopback

    found = targets(options)
    clusters: dict[str, Mapping[str, str]] = {
        name: {**one.settings, "bootstrap.servers": one.broker} for name, one in found.items()
    }
    is_beyond = not is_loopback(options.host)
    oidc = _oidc(options)
    needs_login = options.login or oidc is not None or (is_beyond and not options.insecure)
    has_passwords = oidc is None or any(
        one.get("sasl.mechanism", "OAUTHBEARER").upper() != "OAUTHBEARER" for one in clusters.values()
    )
    if needs_login:
        for name, settings in clusters.items():
            if not settings.get("security.protocol", "").upper().startswith("SASL_"):
                raise CommandError(
                    f"logins are the cluster's own, and {name} has none: security.protocol has to be SASL_SSL "
                    "(--command-config)\n  on this machine only: --host 127.0.0.1; for all users without login:  "
                    "--insecure",
                    MISUSED,
                )
        clusters = {name: without_own(settings) for name, settings in clusters.items()}
    if is_beyond and not options.tls_certificate:
        notice("warning: the console is open to other machines without TLS (--tls-certificate, or a proxy with TLS)")
    for rule in options.mask:
        try:
            parse_rule(rule)
        except ValueError as error:
            raise CommandError(f"--mask: {error}", MISUSED) from None
    pipelines = None if options.pipelines is None else Path(options.pipelines)
    if pipelines is not None and not pipelines.is_dir():
        raise CommandError(f"--pipelines {options.pipelines} is no folder", MISUSED)
    return ConsoleConfig(
        host=options.host,
        port=options.port,
        clusters=clusters,
        is_read_only=options.read_only,
        needs_login=needs_login,
        masks=tuple(options.mask),
        registry=_registry(options, found),
        pipelines=pipelines,
        may_mcp_write=options.mcp_write,
        oidc=oidc,
        has_passwords=has_passwords,
        tls_certificate=options.tls_certificate,
        tls_key=options.tls_key,
    )


def _oidc(options: argparse.Namespace):  # type: ignore[no-untyped-def]
    from ottla.console.oidc import OidcConfig

    if options.oidc_issuer is None:
        return None
    if options.oidc_client_id is None:
        raise CommandError("--oidc-issuer needs --oidc-client-id: as what the issuer knows this console", MISUSED)
    secret = None
    try:
        if options.oidc_client_secret_file is not None:
            secret = Path(options.oidc_client_secret_file).read_text().strip()
        return OidcConfig(
            issuer=options.oidc_issuer,
            client_id=options.oidc_client_id,
            client_secret=secret,
            scope=options.oidc_scope,
            public_url=options.public_url,
        )
    except OSError as error:
        raise CommandError(f"--oidc-client-secret-file: {error.strerror}", MISUSED) from None
    except ValueError as error:
        raise CommandError(f"--oidc-issuer: {error}", MISUSED) from None


def _registry(options: argparse.Namespace, found: Mapping[str, Target]):  # type: ignore[no-untyped-def]
    from ottla.cli.registered import registry_settings

    settings = next(iter(found.values())).settings
    if options.registry is None and "schema.registry.url" not in settings:
        return None
    return registry_settings(options.registry, settings)

"""Rows 34 to 37: what TLS, logins and access control cost.

Both servers get the same settings: brokers talk to themselves in the open, clients come through SASL_SSL and
SASL_PLAINTEXT by SCRAM-SHA-512, and with an authorizer the user has its permissions by name among 1,000 ACLs.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.interop.secured_kafka import FILES, TRUST, jaas
from tests.interop.servers import Server, free_port

from bench.observation import Watch
from bench.perf_tools import RECORD_BYTES, consume, produce
from bench.session import LARGE_BATCHES, PARTITIONS, SMALL_BATCHES, Bench, Figures, run_program, settle
from bench.topics import Admin
from ottla.client import blocking
from ottla.client.admin import Acl, ScramMechanism
from ottla.wire.acls import AclOperation, AclResource, PatternType

USER, PASSWORD = "alice", "alice-secret"
PRINCIPAL = f"User:{USER}"
ACL_COUNT = 1_000
AUTHORIZER = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
)
PROTOCOLS = ("SASL_SSL", "SASL_PLAINTEXT")


@dataclass(frozen=True, slots=True)
class SecurityScale:
    """How much of everything."""

    connections: int = 1_000
    at_once: int = 20
    others: int = 20
    other_requests_per_second: int = 500
    pairs: int = 5
    """How often row 36 goes from one server to the other."""


QUICK_SECURITY = SecurityScale(connections=50, at_once=5, others=5, other_requests_per_second=100, pairs=2)


@dataclass(slots=True)
class Secured:
    """The listeners of a server, and the settings of clients that may come in."""

    ports: dict[str, int] = field(default_factory=lambda: {name: free_port() for name in PROTOCOLS})

    def overrides(self, port: int) -> list[str]:
        own = f"PLAINTEXT://127.0.0.1:{port}"
        secured = "".join(f",{name}://127.0.0.1:{number}" for name, number in self.ports.items())
        scram = jaas("scram.ScramLoginModule")
        return [
            f"listeners={own},CONTROLLER://127.0.0.1:{port + 1}{secured}",
            f"advertised.listeners={own}{secured}",
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,"
            "SASL_PLAINTEXT:SASL_PLAINTEXT",
            "ssl.keystore.type=PEM",
            f"ssl.keystore.location={FILES / 'broker.pem'}",
            "sasl.enabled.mechanisms=SCRAM-SHA-512",
            *(f"listener.name.{name.lower()}.scram-sha-512.sasl.jaas.config={scram}" for name in PROTOCOLS),
        ]

    def client(self, protocol: str) -> dict[str, str]:
        return {
            "security.protocol": protocol,
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": jaas("scram.ScramLoginModule", username=USER, password=PASSWORD),
            **(TRUST if protocol == "SASL_SSL" else {}),
        }


@dataclass(frozen=True, slots=True)
class Through:
    """A server as clients of one of its listeners see it."""

    port: int
    pids: tuple[int, ...]

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"


def prepare(server: Server, *, with_acls: bool) -> None:
    """Add the user and, for a server with an authorizer, 1,000 ACLs of which two are the user's own."""
    with blocking.Admin(bootstrap_servers=server.bootstrap) as admin:
        admin.set_scram_password(USER, PASSWORD, mechanism=ScramMechanism.SCRAM_SHA_512)
        if with_acls:
            prefixes = ("secured", "warm")
            own = [
                Acl(AclResource.TOPIC, prefix, PRINCIPAL, AclOperation.ALL, pattern=PatternType.PREFIXED)
                for prefix in prefixes
            ]
            others = [
                Acl(AclResource.TOPIC, f"topic-{number}", f"User:user-{number % 50}", AclOperation.READ)
                for number in range(ACL_COUNT - len(own))
            ]
            admin.create_acls([*own, *others])


@dataclass(frozen=True, slots=True)
class Reached:
    """A server with secured listeners, and how clients get in."""

    server: Server
    secured: Secured
    folder: Path

    def through(self, protocol: str) -> Through:
        return Through(self.secured.ports[protocol], self.server.pids)

    def client_file(self, protocol: str) -> Path:
        file = self.folder / f"{protocol.lower()}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in self.secured.client(protocol).items()))
        return file


def pair_ratios(turns: Mapping[str, Sequence[Figures]], figure: str) -> list[float]:
    """What each turn with ACLs gave to the turn without them beside it."""
    return [acls[figure] / plain[figure] for plain, acls in zip(turns["plain"], turns["acls"], strict=True)]


@dataclass(slots=True)
class SecurityBench(Bench):
    """One server in one round."""

    sizes: SecurityScale = field(default_factory=SecurityScale)

    def _run(self) -> None:
        if self.wants(34, 35, 37):
            with self._listening(with_acls=False, topics=("warm", "secured_16k", "secured_128k", "crowd")) as through:
                if self.wants(34, 35):
                    self._move(through)
                if self.wants(37):
                    self._logins(through.server, through.secured)
        if self.wants(36):
            self._alternate()

    @contextmanager
    def _listening(self, *, with_acls: bool, topics: Sequence[str]) -> Iterator[Reached]:
        """A server with secured listeners, the user and topics."""
        secured = Secured()
        server = self._make()
        server.overrides = [*secured.overrides(server.port), *(AUTHORIZER if with_acls else ())]
        try:
            server.start()
            prepare(server, with_acls=with_acls)
            with Admin(server) as admin:
                for topic in topics:
                    admin.create([topic], PARTITIONS)
                    admin.wait_for_leaders(PARTITIONS)
            yield Reached(server, secured, self.folder)
            server.stop()
        finally:
            server.kill()

    def _move(self, reached: Reached) -> None:
        """Rows 34 and 35: produce and consume a GB, after records that warm the server up."""
        server, client = reached.through("SASL_SSL"), reached.client_file("SASL_SSL")
        gigabytes = self.scale.records * RECORD_BYTES / 1e9
        produce(server, "warm", self.scale.warm_records, SMALL_BATCHES, client=client)
        shapes = (("16k", SMALL_BATCHES), ("128k", LARGE_BATCHES)) if self.wants(34) else (("16k", SMALL_BATCHES),)
        for size, settings in shapes:
            settle()
            (produced,), cost = produce(server, f"secured_{size}", self.scale.records, settings, client=client)
            self._note(f"sasl_ssl.produce_{size}.records_per_s", produced.records_per_second)
            self._note_cost(f"sasl_ssl.produce_{size}", cost, gigabytes)
        settle()
        consume(server, "secured_16k", PARTITIONS, self.scale.records, client=client)
        consumed, cost = consume(server, "secured_16k", PARTITIONS, self.scale.records, client=client)
        self._note("sasl_ssl.consume.records_per_s", consumed.records_per_second)
        self._note_cost("sasl_ssl.consume", cost, consumed.bytes / 1e9)

    # Row 36

    def _alternate(self) -> None:
        """Two servers, one with an authorizer and 1,000 ACLs, do the same in turn, and each begins every other pair:
        what the machine does meanwhile (writeback above all) meets both. The figure is the median of the pairs."""
        turns: dict[str, list[Figures]] = {"plain": [], "acls": []}
        with (
            self._listening(with_acls=False, topics=("warm",)) as plain,
            self._listening(with_acls=True, topics=("warm",)) as acls,
        ):
            servers = {"plain": plain, "acls": acls}
            for reached in servers.values():
                listener, client = reached.through("SASL_PLAINTEXT"), reached.client_file("SASL_PLAINTEXT")
                produce(listener, "warm", self.scale.warm_records, SMALL_BATCHES, client=client)
            for number in range(self.sizes.pairs):
                for name in ("plain", "acls") if number % 2 == 0 else ("acls", "plain"):
                    turns[name].append(self._turn(servers[name], name, f"secured_{number}"))
        for figure in turns["plain"][0]:
            ratios = pair_ratios(turns, figure)
            self._note(f"acls.{figure}_ratio", statistics.median(ratios))
            self.figures[f"acls.{figure}_ratio_least"] = min(ratios)
            self.figures[f"acls.{figure}_ratio_most"] = max(ratios)

    def _turn(self, reached: Reached, name: str, topic: str) -> Figures:
        """Produce and consume a GB through SASL_PLAINTEXT; speed, and CPU of the broker for each GB."""
        server, client = reached.through("SASL_PLAINTEXT"), reached.client_file("SASL_PLAINTEXT")
        with Admin(reached.server) as admin:
            admin.create([topic], PARTITIONS)
            admin.wait_for_leaders(PARTITIONS)
            settle()
            (produced,), cost = produce(server, topic, self.scale.records, SMALL_BATCHES, client=client)
            figures = {
                "produce_16k.records_per_s": produced.records_per_second,
                "produce_16k.cpu_s_per_gb": cost.cpu_seconds / (self.scale.records * RECORD_BYTES / 1e9),
            }
            settle()
            consumed, cost = consume(server, topic, PARTITIONS, self.scale.records, client=client)
            figures["consume.records_per_s"] = consumed.records_per_second
            figures["consume.cpu_s_per_gb"] = cost.cpu_seconds / (consumed.bytes / 1e9)
            admin.delete([topic])
        for figure, value in figures.items():
            self._note(f"{name}.{topic}.{figure}", value)
        return figures

    # Row 37

    def _logins(self, server: Server, secured: Secured) -> None:
        """New connections by TLS, and logins by SCRAM, while other clients go on by the clock."""
        for name, port in (("tls", secured.ports["SASL_SSL"]), ("scram", secured.ports["SASL_PLAINTEXT"])):
            settle()
            options = {"--port": port, "--count": self.sizes.connections, "--at-once": self.sizes.at_once}
            watch = Watch(server.pid)
            with ThreadPoolExecutor(1) as pool:
                others = pool.submit(self._others, server)
                time.sleep(1)
                figures = run_program("bench.logins", options, name)
                meanwhile = others.result()
            cost = watch.cost()
            for key, value in figures.items():
                self._note(f"logins.{name}.{key}", value)
            for key in ("p50_ms", "p99_ms", "max_ms"):
                self._note(f"logins.{name}.others_{key}", meanwhile[key])
            self._note_cost(f"logins.{name}", cost)

    def _others(self, server: Server) -> Figures:
        arguments = {
            "--port": server.port,
            "--topic": "crowd",
            "--partitions": PARTITIONS,
            "--idle": 0,
            "--busy": self.sizes.others,
            "--seconds": 8,
            "--requests-per-second": self.sizes.other_requests_per_second,
        }
        return run_program("bench.crowd", arguments)

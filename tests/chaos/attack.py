"""`python -m tests.chaos.attack`: attack a secured cluster of three nodes, and see what its other clients notice.

Starts `ottla cluster start --secure` with PLAIN, SCRAM and OAUTHBEARER, delegation tokens and an audit topic, and a
well-behaved client that produces (acks=all) and consumes. After a while of quiet all attacks run side by side, each
again and again. Then: what reached something that it must not reach, the client's latencies before and during the
attack, lost records, memory of the nodes, errors in their logs, and secrets in logs and the audit topic. Ends with 1 if
an attack succeeded, a record is lost, a node died or logged an error, or a secret was found.

    python -m tests.chaos.attack --seconds 1200
    python -m tests.chaos.attack --only forged_envelopes,bearer_tokens --seconds 30
    python -m tests.chaos.attack --list
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from ottla.client import Admin, Producer
from ottla.client.admin import Acl, AclOperation, AclResource, NewTopic
from tests.chaos.attack_customer import PARTITIONS, TOPIC, Customer, Seen
from tests.chaos.attack_link import CONTROLLER_STEP, INTERNAL_STEP, Broken, Link, Target
from tests.chaos.attacks import ALICE, ATTACKS, MALLORY, SECRET_RECORD, STRANGER, asked
from tests.interop.servers import PAGE_SIZE
from tests.signed_tokens import SigningKey, key_set

LISTENER = "listener.name.sasl_ssl."
OAUTH = "org.apache.kafka.common.security.oauthbearer."
CUSTOMER = "customer"
ERRORS = (" ERROR ", " CRITICAL ", "Traceback")


def first_port() -> int:
    """A port whose neighbours that the nodes need are free as well, below those that the system gives out."""
    import socket

    for first in range(24_000 + os.getpid() % 500 * 10, 30_000, 10):
        try:
            with ExitStack() as held:
                for step in (0, CONTROLLER_STEP, INTERNAL_STEP):
                    for node in range(3):
                        held.enter_context(socket.socket()).bind(("127.0.0.1", first + step + node))
        except OSError:
            continue
        return first
    raise SystemExit("no nine free ports")


@dataclass(slots=True)
class Victim:
    """The cluster."""

    folder: Path
    users: dict[str, str]
    key: SigningKey
    token_key: str
    port: int = field(default_factory=first_port)

    def settings(self) -> dict[str, str]:
        plain = " ".join(f'user_{name}="{password}"' for name, password in self.users.items())
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        keys = self.folder / "jwks.json"
        keys.write_bytes(key_set(self.key.entry()))
        bearer = LISTENER + "oauthbearer.sasl."
        return {
            LISTENER + "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN,OAUTHBEARER",
            LISTENER + "plain.sasl.jaas.config": f"{module} required {plain};",
            bearer + "jaas.config": f"{OAUTH}OAuthBearerLoginModule required;",
            bearer + "server.callback.handler.class": f"{OAUTH}OAuthBearerValidatorCallbackHandler",
            bearer + "oauthbearer.jwks.endpoint.url": f"file://{keys}",
            bearer + "oauthbearer.expected.audience": "kafka",
            bearer + "oauthbearer.expected.issuer": "https://issuer",
            "delegation.token.secret.key": self.token_key,
            "ottla.audit.topic.enable": "true",
            "num.partitions": "1",
        }

    def ottla(self, *arguments: str) -> str:
        environment = {**os.environ, "OTTLA_CLUSTERS": str(self.folder / "none.toml")}
        environment.pop("OTTLA_BROKER", None)
        done = subprocess.run(
            [sys.executable, "-m", "ottla", *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise SystemExit(f"ottla {' '.join(arguments[:2])}: {done.stdout}{done.stderr}")
        return done.stdout

    @contextmanager
    def running(self, level: str) -> Iterator[None]:
        overrides = [f"{name}={value}" for name, value in {**self.settings(), "log.level": level}.items()]
        options = [part for one in overrides for part in ("--override", one)]
        self.ottla("cluster", "start", "--secure", "--port", str(self.port), *options)
        try:
            yield
        finally:
            self.ottla("cluster", "stop")

    @property
    def pids(self) -> list[int]:
        described = json.loads((self.folder / "cluster-data" / "cluster.json").read_text())
        return [int(pid) for pid in described["pids"].values()]

    def logs(self) -> Iterator[tuple[str, str]]:
        for file in sorted((self.folder / "cluster-data").glob("*.log")):
            yield file.name, file.read_text(errors="replace")

    @property
    def admin_password(self) -> str:
        return (self.folder / "security" / "admin.password").read_text().strip()

    def client(self, user: str, password: str) -> dict[str, Any]:
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        return {
            "bootstrap.servers": ",".join(f"127.0.0.1:{self.port + node}" for node in range(3)),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.folder / "security" / "ca.pem"),
        }


def rss_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_SIZE / 1e6


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def prepare(victim: Victim) -> Target:
    """Users, topics and ACLs, and what mallory knows of alice's."""
    ports = [victim.port + node for node in range(3)]
    ca = victim.folder / "security" / "ca.pem"
    target = Target(ports, ca, victim.users, victim.admin_password, victim.key)
    async with Admin(victim.client("admin", victim.admin_password)) as admin:
        for user, password in victim.users.items():
            await admin.set_scram_password(user, password)
        names = (TOPIC, "seen", "hidden", "hidden-doomed", "parked", MALLORY)
        topics = [NewTopic(name, PARTITIONS if name == TOPIC else 1, 3) for name in names]
        topics += [
            NewTopic("mallory-recompressed", 1, 3, config={"compression.type": "zstd"}),
            NewTopic("mallory-compacted", 1, 3, config={"cleanup.policy": "compact"}),
        ]
        await admin.create_topics(topics)
        allowed = [
            Acl(AclResource.TOPIC, TOPIC, f"User:{CUSTOMER}", AclOperation.ALL),
            Acl(AclResource.TOPIC, "seen", f"User:{ALICE}", AclOperation.ALL),
            Acl(AclResource.TRANSACTIONAL_ID, "seen", f"User:{ALICE}", AclOperation.ALL),
        ]
        for name in (MALLORY, "mallory-recompressed", "mallory-compacted"):
            allowed += [
                Acl(AclResource.TOPIC, name, f"User:{MALLORY}", operation)
                for operation in (AclOperation.READ, AclOperation.WRITE)
            ]
        await admin.create_acls(allowed)
    async with Producer(victim.client("admin", victim.admin_password)) as producer:
        await producer.send("seen", SECRET_RECORD)
    await _steal(target)
    return target


async def _steal(target: Target) -> None:
    """What alice's client got and mallory learned: topic ids, a fetch session that goes on, a producer id, a token."""
    async with await Link.open(target) as link:
        if not await link.log_in_scram(ALICE, target.users[ALICE], target.rng):
            raise Broken("alice cannot log in")
        metadata = await link.ask(*asked("Metadata", 12, topics=[{"name": "seen"}]))
        (topic,) = metadata.topics
        leader = next(one.port for one in metadata.brokers if one.node_id == topic.partitions[0].leader_id)
        target.topic_ids |= dict.fromkeys(("seen", "hidden", "hidden-doomed"), topic.topic_id)
        token = await link.ask(*asked("CreateDelegationToken", 3, max_lifetime_ms=86_400_000))
        target.stolen["hmac"] = bytes(token.hmac)
        while True:
            init = {
                "transactional_id": "seen",
                "transaction_timeout_ms": 60_000,
                "producer_id": -1,
                "producer_epoch": -1,
            }
            found = await link.ask(*asked("FindCoordinator", 4, key_type=1, coordinator_keys=["seen"]))
            if found.coordinators[0].error_code == 0:
                async with await Link.as_user(target, ALICE, found.coordinators[0].port) as other:
                    made = await other.ask(*asked("InitProducerId", 4, **init))
                if made.error_code == 0:
                    target.stolen["producer_id"] = made.producer_id
                    break
            await asyncio.sleep(0.2)
    async with await Link.as_user(target, ALICE, leader) as link:
        wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100_000}
        rows = [{"topic": "seen", "partitions": [wanted]}]
        answer = await link.ask(*asked("Fetch", 12, max_wait_ms=0, session_id=0, session_epoch=0, topics=rows))
        target.stolen["session_id"] = (leader, answer.session_id)


def percentiles(seconds: Sequence[float]) -> str:
    if not seconds:
        return "none"
    at = {name: seconds[min(len(seconds) - 1, int(len(seconds) * share))] * 1000 for name, share in _SHARES.items()}
    return f"{len(seconds)} records, " + ", ".join(f"{name} {ms:.0f} ms" for name, ms in at.items())


_SHARES = {"p50": 0.5, "p99": 0.99, "max": 1.0}


async def repeat(
    name: str, target: Target, end: float, pace_s: float, rounds: Counter[str], found: dict[str, Counter[str]]
) -> None:
    while time.monotonic() < end:
        try:
            await ATTACKS[name](target)
        except Exception as error:
            errors = error.exceptions if isinstance(error, ExceptionGroup) else (error,)
            found[name].update(f"{type(one).__name__}: {one}"[:400] for one in errors)
        rounds[name] += 1
        await asyncio.sleep(pace_s * random.uniform(0.5, 1.5))


async def run(victim: Victim, names: Sequence[str], quiet_s: float, seconds: float, pace_s: float) -> bool:
    """Measure in quiet, attack, measure again; whether nothing fell."""
    target = await prepare(victim)
    rounds: Counter[str] = Counter()
    found: dict[str, Counter[str]] = defaultdict(Counter)
    with Customer(victim.client(CUSTOMER, victim.users[CUSTOMER])) as customer:
        await asyncio.sleep(5)
        stretches = [Stretch.begin("before", victim)]
        await asyncio.sleep(quiet_s)
        stretches[-1].finish()
        stretches.append(Stretch.begin("during", victim))
        async with asyncio.TaskGroup() as attackers:
            end = time.monotonic() + seconds
            for name in names:
                attackers.create_task(repeat(name, target, end, pace_s, rounds, found))
        stretches[-1].finish()
        stretches.append(Stretch.begin("after", victim))
        await asyncio.sleep(quiet_s)
        stretches[-1].finish()
        seen = await asyncio.to_thread(customer.end)
    created = await _created(victim)
    print(f"load average {os.getloadavg()[1]:.1f}")
    for name in names:
        print(f"  {name:34} {rounds[name]:5} rounds, {sum(found[name].values())} findings")
    for stretch in stretches:
        stretch.show(seen)
    print(f"records: {len(seen.sent)} sent, {len(seen.acknowledged)} acknowledged, {len(seen.lost)} lost")
    for text, count in Counter(seen.failed).most_common(5):
        print(f"  {count} failed: {text}")
    findings = [f"{name}: {count} x {text}" for name, texts in found.items() for text, count in texts.most_common(5)]
    for line in [*findings, *(f"made by the attack: {one}" for one in created)]:
        print(f"FINDING {line}")
    return not (findings or created or seen.lost or seen.failed)


@dataclass(slots=True)
class Stretch:
    """A time, and what the nodes used in it."""

    name: str
    pids: list[int]
    began: float
    cpu: list[float]
    ended: float = 0.0
    shares: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)

    @classmethod
    def begin(cls, name: str, victim: Victim) -> Self:
        return cls(name, victim.pids, time.monotonic(), [cpu_s(pid) for pid in victim.pids])

    def finish(self) -> None:
        self.ended = time.monotonic()
        used = [cpu_s(pid) - before for pid, before in zip(self.pids, self.cpu, strict=True)]
        self.shares = [one / (self.ended - self.began) for one in used]
        self.memory = [rss_mb(pid) for pid in self.pids]

    def show(self, seen: Seen) -> None:
        produced = seen.latencies(seen.acknowledged, self.began, self.ended)
        print(f"{self.name}, {self.ended - self.began:.0f} s")
        print(f"  produce: {percentiles(produced)}")
        print(f"  consume: {percentiles(seen.latencies(seen.read, self.began, self.ended))}")
        print("  cores of each node: " + ", ".join(f"{share:.2f}" for share in self.shares))
        print("  memory at the end: " + ", ".join(f"{size:.0f} MB" for size in self.memory))


async def _created(victim: Victim) -> list[str]:
    """Topics and ACLs that no permitted user created."""
    async with Admin(victim.client("admin", victim.admin_password)) as admin:
        topics = list(await admin.list_topics())
        acls = [str(acl) for acl in await admin.describe_acls()]
    return [one for one in topics if one in ("forged", "seen-new!")] + [one for one in acls if "victim" in one]


def in_logs(victim: Victim, secrets: Mapping[str, bytes]) -> list[str]:
    """Errors and secrets in the nodes' logs and data folders. `cluster.json` keeps the settings that the command line
    gave, secrets among them; only its owner may read it."""
    found: list[str] = []
    for name, text in victim.logs():
        lines = [line for line in text.splitlines() if any(word in line for word in ERRORS)]
        found += [
            f"{name}: {count} x {line}" for line, count in Counter(line[24:324] for line in lines).most_common(10)
        ]
        if "before the end of the login" in text:
            own = text.count("a request (ApiVersions) before the end of the login")
            print(f"{name}: {own} logins ended by ApiVersions (each round of steps_out_of_order makes one or two)")
    for what, secret in secrets.items():
        for form in {secret, b64encode(secret).rstrip(b"="), secret.hex().encode()}:
            places = [
                str(file.relative_to(victim.folder))
                for file in sorted((victim.folder / "cluster-data").rglob("*"))
                if file.is_file() and file.name != "cluster.json" and form in file.read_bytes()
            ]
            found += [f"secret {what} in {place}" for place in places]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.attack", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60, help="how long to attack (60)")
    parser.add_argument("--quiet", type=float, default=20, help="how long to measure before and after (20)")
    parser.add_argument("--pace", type=float, default=1.0, help="seconds between two rounds of an attack (1)")
    parser.add_argument("--only", metavar="NAMES", help="attacks, with commas (all)")
    parser.add_argument("--level", default="info", help="the nodes' log.level (info)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="an empty folder for the cluster, which stays")
    parser.add_argument("--list", action="store_true", help="name the attacks")
    options = parser.parse_args()
    if options.list:
        for name, function in ATTACKS.items():
            print(f"{name:34} {(function.__doc__ or '').strip().splitlines()[0] if function.__doc__ else ''}")
        return 0
    names = options.only.split(",") if options.only else list(ATTACKS)
    if unknown := [name for name in names if name not in ATTACKS]:
        parser.error(f"no attack is named {', '.join(unknown)}")
    users = {name: f"hush-{name}-{random.randrange(10**9)}" for name in (MALLORY, STRANGER, ALICE, CUSTOMER)}
    with tempfile.TemporaryDirectory(prefix="ottla-attack-") as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        victim = Victim(folder, users, SigningKey("one"), "hush-token-key")
        with victim.running(options.level):
            began = victim.pids
            stood = asyncio.run(run(victim, names, options.quiet, options.seconds, options.pace))
            dead = [pid for pid in began if not Path(f"/proc/{pid}").exists()]
        secrets = {f"of {name}": password.encode() for name, password in users.items()}
        secrets |= {"of admin": victim.admin_password.encode(), "of delegation tokens": b"hush-token-key"}
        found = in_logs(victim, secrets)
        for line in [*found, *(f"node with pid {pid} died" for pid in dead)]:
            print(f"FINDING {line}")
    print("the cluster stood the attack" if stood and not found and not dead else "SOMETHING FELL")
    return 0 if stood and not found and not dead else 1


if __name__ == "__main__":
    sys.exit(main())

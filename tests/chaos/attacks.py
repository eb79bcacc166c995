"""Attacks by name. Each is one round: it returns when the cluster stood it, and raises `Broken` when it did not.

`mallory` may log in, and read and write topics named after her; `stranger` may log in. Both are after what belongs to
`alice`: what is named `seen`, `hidden` and `parked`. `tests.interop.access_matrix` knows what Apache Kafka answers to a
user without ACLs.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import hmac
import json
import os
import ssl
import struct
import time
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any

from ottla.records import Compression, Record, build, compress, crc32c
from ottla.security.forwarded import principal_bytes
from ottla.security.principal import USER, Principal
from ottla.wire import frames
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.api_versions import ApiVersionsRequest
from tests.chaos.attack_link import ANSWER_S, CONTROLLER_STEP, INTERNAL_STEP, Broken, Closed, Link, Target
from tests.interop.access_matrix import RECORDED, told
from tests.interop.access_requests import Case, cases
from tests.interop.servers import API_VERSIONS_V0, METADATA_V1_ALL_TOPICS

MALLORY, STRANGER, ALICE = "mallory", "stranger", "alice"
SECRET_RECORD = b"record-of-alice"
BEFORE_LOGIN = ("ApiVersions", "SaslHandshake", "SaslAuthenticate")
HANDSHAKE_END_S, LOGIN_END_S = 25.0, 50.0
"""Handshakes have to end within 10 s and logins within 30 s; the rest is for a busy machine."""
MIN_REFUSAL_S = 0.09
"""connection.failed.authentication.delay.ms is 100."""

Attack = Callable[[Target], Awaitable[None]]
ATTACKS: dict[str, Attack] = {}


def attack(function: Attack) -> Attack:
    ATTACKS[function.__name__] = function
    return function


async def many(count: int, one: Callable[[int], Awaitable[None]]) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(one(number))  # type: ignore[arg-type]


async def must_close(link: Link, what: str, within_s: float = LOGIN_END_S) -> None:
    """The node may answer with one frame or alert, and has to close the connection then."""
    end = time.monotonic() + within_s
    while await link.read(within_s):
        if time.monotonic() > end:
            raise Broken(f"{what}: the connection is still open after {within_s:.0f} s")


def asked(api: str, version: int, **fields: Any) -> tuple[int, int, Any]:
    """The arguments of `Link.ask`."""
    case = Case(api, version, fields)
    return case.key, version, case.request({})


def codes(value: Any) -> Iterator[str]:
    """All error codes in what `told` kept of an answer."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name.endswith("error_code"):
                yield inner
            else:
                yield from codes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from codes(inner)


def fetched(answer: Any) -> bytes:
    """The records in an answer to Fetch."""
    return b"".join(bytes(row.records or b"") for topic in answer.responses for row in topic.partitions)


@cache
def recorded() -> dict[str, Any]:
    """By case, what Apache Kafka answers a user without ACLs."""
    found: dict[str, Any] = {}
    for name, rows in json.loads(RECORDED.read_text()).items():
        found[name] = next(answer for answer, users in rows if "nobody" in users)
    return found


def check_denied(case: Case, answer: Any) -> None:
    """No part of the answer succeeds that does not for a user without ACLs."""
    got, allowed = list(codes(told(answer))), recorded().get(case.name)
    limit = 0 if allowed in (None, "closed") else list(codes(allowed)).count("NONE")
    if got.count("NONE") > limit:
        raise Broken(f"{case.name}: {told(answer)}")


# --- Before TLS and in its handshake


@attack
async def half_open_tls(target: Target) -> None:
    """Connections that say nothing, or half a ClientHello."""

    async def one(number: int) -> None:
        async with await Link.open(target, is_tls=False) as link:
            if number % 2:
                await link.write(bytes.fromhex("160301020001000"[:14]))
            await must_close(link, "half a ClientHello", HANDSHAKE_END_S)

    await many(60, one)


@attack
async def slow_handshake(target: Target) -> None:
    """A ClientHello of one byte every 0.2 s."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        target.context().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1").do_handshake()
    hello = outgoing.read()

    async def one(_: int) -> None:
        began = time.monotonic()
        async with await Link.open(target, is_tls=False) as link:
            with suppress(Closed):
                for byte in hello:
                    await link.write(bytes([byte]))
                    await asyncio.sleep(0.2)
                    if time.monotonic() - began > HANDSHAKE_END_S:
                        raise Broken("a handshake of one byte at a time goes on")

    await many(20, one)


@attack
async def garbage_before_tls(target: Target) -> None:
    """Random bytes, HTTP, requests in the open: none gets an answer of Kafka's."""
    plain = struct.pack(">i", len(API_VERSIONS_V0)) + API_VERSIONS_V0
    for data in (os.urandom(2_000), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", plain, b"\x80" + os.urandom(600), b"\0" * 9):
        async with await Link.open(target, is_tls=False) as link:
            with suppress(Closed):
                await link.write(data)
            answer = await link.read(HANDSHAKE_END_S)
            if answer[:1] not in (b"", b"\x15"):  # an alert of TLS
                raise Broken(f"an answer to {data[:20]!r} without TLS: {answer[:40]!r}")
            if answer:
                await must_close(link, "garbage before TLS", HANDSHAKE_END_S)


@attack
async def nodes_without_certificate(target: Target) -> None:
    """The listeners of brokers and controllers, without a client certificate."""
    for step in (INTERNAL_STEP, CONTROLLER_STEP):
        with suppress(Closed):
            async with await Link.open(target, target.port() + step) as link:
                answer = await link.ask(*asked("Metadata", 12, topics=None))
                raise Broken(f"the listener {step} answers without a certificate: {answer}")


# --- Before the login


@attack
async def frame_lengths(target: Target) -> None:
    """2 GB, negative, nothing, a little too much; and as a user what is over socket.request.max.bytes."""

    async def one(number: int) -> None:
        size = (2**31 - 1, -1, -(2**31), 0, 524_289, 100_000_000)[number % 6]
        async with await Link.open(target) as link:
            with suppress(Closed):
                await link.write(struct.pack(">i", size) + b"\0" * 2_000)
            await must_close(link, f"a frame of {size} bytes before the login")

    await many(12, one)
    for size in (2**31 - 1, -1):
        async with await Link.as_user(target, MALLORY) as link:
            with suppress(Closed):
                await link.write(struct.pack(">i", size) + b"\0" * 2_000)
            await must_close(link, f"a frame of {size} bytes")


@attack
async def slow_frames(target: Target) -> None:
    """A frame that begins and never ends, before the login."""

    async def one(number: int) -> None:
        async with await Link.open(target) as link:
            await link.write(struct.pack(">i", 500_000) + b"\0" * number)
            await must_close(link, "a frame that never ends", LOGIN_END_S)

    await many(40, one)


@attack
async def every_api_before_login(target: Target) -> None:
    """One connection for each API."""

    async def one(case: Case) -> None:
        async with await Link.open(target) as link:
            try:
                answer = await link.ask(case.key, case.version, case.request(target.topic_ids))
            except Closed:
                return
            raise Broken(f"{case.name} is answered before the login: {told(answer)}")

    chosen = [case for case in cases() if case.api not in BEFORE_LOGIN]
    for begin in range(0, len(chosen), 20):
        async with asyncio.TaskGroup() as group:
            for case in chosen[begin : begin + 20]:
                group.create_task(one(case))


@attack
async def every_key_before_login(target: Target) -> None:
    """Keys that no API has, and versions that none has."""
    for key in (*range(-2, 100), 32_767):
        if key in (17, 18, 36):
            continue
        async with await Link.open(target) as link:
            frame = struct.pack(">hhih", key, target.rng.randrange(-1, 20), 1, -1)
            await link.write(struct.pack(">i", len(frame)) + frame)
            if await link.read():
                raise Broken(f"API key {key} is answered before the login")


@attack
async def counts_before_login(target: Target) -> None:
    """Arrays and tagged fields that claim to be huge, in the three requests that are decoded before the login."""
    for key, version in ((18, 3), (18, 4), (36, 2), (17, 1)):
        for body in (
            b"\xff\xff\xff\xff\x0f",
            b"\x7f\xff\xff\xff",
            b"\1\1\xff\xff\xff\xff\x0f",
            b"\1\1" + b"\xfe\1" * 200,
        ):
            async with await Link.open(target) as link:
                await link.send_raw(key, version, body)


# --- Logins


@attack
async def steps_out_of_order(target: Target) -> None:
    """A token first, a handshake twice, requests between the tokens, the last token of another login."""
    versions = (18, 3, ApiVersionsRequest(client_software_name="a", client_software_version="1"))
    password = target.users[MALLORY]
    async with await Link.open(target) as link:
        with suppress(Closed):
            answer = await link.token(b"\0mallory\0" + password.encode())
            raise Broken(f"a token before the handshake is answered: {answer}")
    async with await Link.open(target) as link:
        with suppress(Closed):
            await link.ask(*versions)
            if (await link.ask(*versions)).error_code == 0:
                raise Broken("ApiVersions is answered twice before the login")
    async with await Link.open(target) as link:
        with suppress(Closed):
            await link.handshake("SCRAM-SHA-512")
            if (await link.handshake("PLAIN")).error_code == 0:
                raise Broken("a second handshake succeeds")
    async with await Link.open(target) as link:
        with suppress(Closed):
            await link.handshake("PLAIN")
            answer = await link.ask(*asked("Metadata", 12, topics=None))
            raise Broken(f"Metadata between the tokens of a login: {answer}")
    async with await Link.open(target) as link:
        with suppress(Closed):
            await link.handshake("SCRAM-SHA-512")
            if (await link.token(b"c=biws,r=abc,p=" + urlsafe_b64encode(b"p" * 64))).error_code == 0:
                raise Broken("a proof without a first message")
    for mechanism in ("", "GSSAPI", "ANONYMOUS", "plain", "x" * 30_000):
        async with await Link.open(target) as link:
            with suppress(Closed):
                if (await link.handshake(mechanism)).error_code == 0:
                    raise Broken(f"the mechanism {mechanism[:20]!r} is taken")
    async with await Link.as_user(target, MALLORY) as link:
        with suppress(Closed):
            if (await link.token(b"\0alice\0" + password.encode())).error_code == 0:
                raise Broken("a second login without a handshake")


@attack
async def another_user_in_reauthentication(target: Target) -> None:
    """A connection of mallory's authenticates again as alice, with her password."""
    async with await Link.as_user(target, MALLORY) as link:
        with suppress(Closed):
            if (await link.handshake("PLAIN")).error_code == 0:
                answer = await link.token(b"\0alice\0" + target.users[ALICE].encode())
                if answer.error_code == 0:
                    raise Broken("a connection of mallory becomes alice's")


@attack
async def huge_tokens(target: Target) -> None:
    """Tokens of 500 KB of each mechanism, and a JWT of 200,000 brackets."""
    big = 500_000
    deep = urlsafe_b64encode(b"[" * 200_000).decode()
    tokens = {
        "PLAIN": (b"\0" + b"u" * big + b"\0p", b"\0mallory\0" + b"p" * big, b"\0" * big, os.urandom(big)),
        "SCRAM-SHA-512": (
            b"n,,n=" + b"u" * big + b",r=x",
            b"n,,n=mallory,r=" + b"r" * 16_000,
            b"n,a=" + b"=2C" * 5_000 + b",n=mallory,r=x",
            b"n,,n=mallory,r=x" + b",x=y" * 3_000,
        ),
        "OAUTHBEARER": (
            b"n,,\1auth=Bearer " + b"a" * big + b"\1\1",
            f"n,,\1auth=Bearer {deep}.{deep[:100]}.x\1\1".encode(),
            b"n,," + b"\1k=v" * 50_000 + b"\1auth=Bearer a.b.c\1\1",
        ),
    }
    for mechanism, tried in tokens.items():
        for token in tried:
            async with await Link.open(target) as link:
                with suppress(Closed):
                    await link.handshake(mechanism)
                    answer = await link.token(token)
                    expected = {"SCRAM-SHA-512": b"r=", "OAUTHBEARER": b'"status"'}.get(mechanism, b"no answer")
                    if answer.error_code == 0 and expected not in bytes(answer.auth_bytes):
                        raise Broken(f"a token of {len(token)} bytes for {mechanism} is taken: {answer}")


@attack
async def wrong_passwords(target: Target) -> None:
    """PLAIN, forty side by side; each refusal takes its delay."""

    async def one(number: int) -> None:
        async with await Link.open(target) as link:
            await link.handshake("PLAIN")
            began = time.monotonic()
            user = (ALICE, "admin", "unknown", f"user-{number}")[number % 4]
            try:
                answer = await link.token(f"\0{user}\0guess-{number}".encode())
            except Closed:
                return
            if answer.error_code == 0:
                raise Broken(f"{user} is in with a wrong password")
            if time.monotonic() - began < MIN_REFUSAL_S:
                raise Broken("a refusal without its delay")

    await many(40, one)


@attack
async def scram_flood(target: Target) -> None:
    """First messages whose login never ends, and wrong proofs."""

    async def one(number: int) -> None:
        user = (ALICE, "unknown")[number % 2]
        async with await Link.open(target) as link:
            with suppress(Closed):
                await link.handshake("SCRAM-SHA-512")
                answer = await link.token(f"n,,n={user},r=nonce-{number}".encode())
                if answer.error_code:
                    raise Broken("an answer to client-first tells which users there are")
                if number % 4 == 0:
                    await asyncio.sleep(5)
                    return
                nonce = bytes(answer.auth_bytes).decode().split(",")[0]
                proof = urlsafe_b64encode(os.urandom(64)).decode().replace("-", "+").replace("_", "/")
                if (await link.token(f"c=biws,{nonce},p={proof}".encode())).error_code == 0:
                    raise Broken("a wrong proof is taken")

    await many(40, one)


@attack
async def scram_iterations(target: Target) -> None:
    """Credentials with 2^31 - 1 iterations, by a user without and by a user with the permission to set credentials."""
    for user in (MALLORY, "admin"):
        async with await (Link.as_user(target, user) if user == MALLORY else Link.as_admin(target)) as link:
            for iterations in (2**31 - 1, -1, 0, 16_385):
                row = {
                    "name": "victim",
                    "mechanism": 2,
                    "iterations": iterations,
                    "salt": b"s",
                    "salted_password": b"p",
                }
                answer = await link.ask(*asked("AlterUserScramCredentials", 0, upsertions=[row]))
                if answer.results[0].error_code == 0:
                    raise Broken(f"{user} sets {iterations} iterations")


@attack
async def bearer_tokens(target: Target) -> None:
    """The attack matrix of JWT."""
    now = int(time.time())
    good = {"sub": "alice", "iss": "https://issuer", "aud": "kafka", "iat": now, "exp": now + 600}

    def unsigned(header: dict[str, Any], claims: dict[str, Any]) -> str:
        return ".".join(urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=").decode() for one in (header, claims))

    hs = unsigned({"alg": "HS256", "kid": target.key.key_id}, good)
    signature = hmac.digest(target.key.public_pem(), hs.encode(), hashlib.sha256)
    right = target.key.token(good)
    tokens = {
        "alg none": unsigned({"alg": "none"}, good) + ".",
        "alg None with a kid": unsigned({"alg": "None", "kid": target.key.key_id}, good) + ".",
        "HS256 with the public key": hs + "." + urlsafe_b64encode(signature).rstrip(b"=").decode(),
        "wrong kid": target.key.token(good, kid="other"),
        "kid that is a path": target.key.token(good, kid="../../../etc/passwd"),
        "jku": unsigned({"alg": "RS256", "jku": "http://127.0.0.1:1/", "kid": "other"}, good) + ".AAAA",
        "expired": target.key.token({**good, "exp": now - 100}),
        "another audience": target.key.token({**good, "aud": "other"}),
        "another issuer": target.key.token({**good, "iss": "https://other"}),
        "claims changed": right.split(".")[0] + "." + unsigned({}, {**good, "sub": "admin"}).split(".")[1] + "."
        + right.split(".")[2],
    }  # fmt: skip
    for what, token in tokens.items():
        async with await Link.open(target) as link:
            with suppress(Closed):
                await link.handshake("OAUTHBEARER")
                answer = await link.token(f"n,,\1auth=Bearer {token}\1\1".encode())
                if answer.error_code == 0 and b"status" not in bytes(answer.auth_bytes):
                    raise Broken(f"a token is taken: {what}")


# --- As a user without permissions


@attack
async def every_api_as_a_stranger(target: Target) -> None:
    """All requests of the matrix: nothing more succeeds than for a user without ACLs in Apache Kafka."""
    link: Link | None = None
    try:
        for case in cases():
            if (case.api, case.role) == ("Fetch", "controller"):
                continue  # of the metadata log: on a broker it is the fetch of a topic that is not there
            if link is None:
                link = await Link.as_user(target, STRANGER)
            try:
                check_denied(case, await link.ask(case.key, case.version, case.request(target.topic_ids)))
            except Closed:
                link = None
    finally:
        if link is not None:
            link.close()


@attack
async def inter_broker_apis(target: Target) -> None:
    """What only nodes ask of each other, of this cluster, of logs and brokers that exist."""
    log = {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}
    epoch = 2_000_000_000
    candidate = {"partition_index": 0, "replica_epoch": epoch, "replica_id": 3, "last_offset": 2**40}
    mine = {"broker_id": 1, "broker_epoch": 1}
    voter = {"voter_id": 1, "voter_directory_id": b"\5" * 16}
    endpoint = [{"name": "CONTROLLER", "host": "127.0.0.1", "port": 1}]
    marker = {"producer_id": target.stolen.get("producer_id", 0), "producer_epoch": 0, "transaction_result": True,
              "topics": [{"name": "seen", "partition_indexes": [0]}], "coordinator_epoch": 1}  # fmt: skip
    alone = {"partition_index": 0, "leader_epoch": 0, "new_isr_with_epochs": [{"broker_id": 1}]}
    isr = {"topic_id": target.topic_ids.get("seen", b"\7" * 16), "partitions": [alone]}
    tries: tuple[tuple[str, int, dict[str, Any]], ...] = (
        ("Vote", 1, {"topics": [{"topic_name": "__cluster_metadata", "partitions": [candidate]}]}),
        ("BeginQuorumEpoch", 0, {"topics": [log]}),
        ("EndQuorumEpoch", 0, {"topics": [log]}),
        ("FetchSnapshot", 0, {"topics": []}),
        ("FetchSnapshot", 0, {"topics": [{"name": "__cluster_metadata", "partitions": [{}]}]}),
        ("AlterPartition", 3, {**mine, "topics": [isr]}),
        ("BrokerHeartbeat", 1, {**mine, "want_shut_down": True}),
        ("BrokerRegistration", 4, {"broker_id": 1, "incarnation_id": b"\5" * 16}),
        ("ControllerRegistration", 0, {"controller_id": 1, "incarnation_id": b"\5" * 16}),
        ("AllocateProducerIds", 0, mine),
        ("AssignReplicasToDirs", 0, {**mine, "directories": []}),
        ("UnregisterBroker", 0, {"broker_id": 2}),
        ("AddRaftVoter", 0, {**voter, "timeout_ms": 1_000, "listeners": endpoint}),
        ("RemoveRaftVoter", 0, voter),
        ("UpdateRaftVoter", 0, {**voter, "listeners": endpoint}),
        ("WriteTxnMarkers", 1, {"markers": [marker]}),
        ("UpdateFeatures", 1, {"feature_updates": [{"feature": "metadata.version", "max_version_level": 7}]}),
        ("ElectLeaders", 2, {"topic_partitions": None, "timeout_ms": 1_000}),
    )
    for api, version, fields in tries:
        async with await Link.as_user(target, MALLORY) as link:
            with suppress(Closed):
                answer = told(await link.ask(*asked(api, version, **fields)))
                if "NONE" in codes(answer):
                    raise Broken(f"{api} of an ordinary user: {answer}")


@attack
async def forged_envelopes(target: Target) -> None:
    """An ordinary user forwards requests in the name of admin, and of a broker."""
    topic = {"name": "forged", "num_partitions": 1, "replication_factor": 1}
    acl = {"resource_type": 2, "resource_name": "*", "resource_pattern_type": 3, "principal": "User:mallory",
           "host": "*", "operation": 2, "permission_type": 3}  # fmt: skip
    inner = (("CreateTopics", 7, {"topics": [topic], "timeout_ms": 5_000}), ("CreateAcls", 3, {"creations": [acl]}))
    for name in ("admin", "CN=node-1", MALLORY):
        for api, version, fields in inner:
            key, _, request = asked(api, version, **fields)
            data = b"".join(map(bytes, frames.encode_request(key, version, 1, "forger", request)))[4:]
            envelope = {"request_data": data, "request_principal": principal_bytes(Principal(USER, name)),
                        "client_host_address": b"\x7f\0\0\1"}  # fmt: skip
            for step in (0, INTERNAL_STEP, CONTROLLER_STEP):
                with suppress(Closed):
                    port = target.port() + step
                    async with await (Link.open(target, port) if step else Link.as_user(target, MALLORY, port)) as link:
                        answer = await link.ask(*asked("Envelope", 0, **envelope))
                        if answer.error_code == 0 or answer.response_data:
                            raise Broken(f"{api} in an Envelope as {name}: {answer}")


@attack
async def denied_names(target: Target) -> None:
    """Requests with hundreds of names of topics and groups that do not exist or are not hers."""
    async with await Link.as_user(target, MALLORY) as link:
        names = [f"seen-{target.rng.randrange(10**9)}-{'n' * target.rng.randrange(200)}"[:240] for _ in range(500)]
        topics = [{"name": name} for name in names]
        answer = await link.ask(*asked("Metadata", 12, topics=topics, allow_auto_topic_creation=True))
        if any(topic.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED for topic in answer.topics):
            raise Broken("Metadata tells a stranger something of a topic")
        groups = await link.ask(*asked("DescribeGroups", 5, groups=names))
        if any(group.error_code != ErrorCode.GROUP_AUTHORIZATION_FAILED for group in groups.groups):
            raise Broken("DescribeGroups tells a stranger something of a group")
        rows = [{"topic": name, "partitions": [{"partition": 0, "partition_max_bytes": 1}]} for name in names]
        answer = await link.ask(*asked("Fetch", 12, max_wait_ms=0, topics=rows, session_epoch=-1))
        if any(row.error_code == 0 for topic in answer.responses for row in topic.partitions):
            raise Broken("Fetch of a name that is not hers")


@attack
async def sessions_of_others(target: Target) -> None:
    """Fetches that continue, empty or end the fetch session of alice, whose id mallory knows."""
    session = target.stolen.get("session_id")
    if session is None:
        return
    port, session_id = session
    for epoch in (1, 2, 3, -1):
        async with await Link.as_user(target, MALLORY, port) as link:
            with suppress(Closed):
                fields = {"max_wait_ms": 0, "session_id": session_id, "session_epoch": epoch, "topics": []}
                answer = await link.ask(*asked("Fetch", 12, **fields))
                if SECRET_RECORD in fetched(answer):
                    raise Broken("the fetch session of alice gives mallory her records")
    for _ in range(50):
        async with await Link.as_user(target, MALLORY, port) as link:
            guess = target.rng.randrange(1, 2**31)
            answer = await link.ask(*asked("Fetch", 12, max_wait_ms=0, session_id=guess, session_epoch=1, topics=[]))
            if answer.error_code not in (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH):
                raise Broken(f"a guessed session: {answer.error_code}")


@attack
async def transactions_of_others(target: Target) -> None:
    """The transactional id, producer id and transaction of alice, which mallory knows."""
    producer_id = target.stolen.get("producer_id", 0)
    of = {"transactional_id": "seen", "producer_id": producer_id, "producer_epoch": 0}
    records = bytes(
        build([Record(0, 1, None, b"forged", ())], producer_id=producer_id, producer_epoch=0, base_sequence=0,
              is_transactional=True)
    )  # fmt: skip
    data = [{"name": name, "partition_data": [{"index": 0, "records": records}]} for name in ("seen", MALLORY)]
    commit = [{"name": "seen", "partitions": [{"partition_index": 0, "committed_offset": 9}]}]
    init = {"transactional_id": "seen", "transaction_timeout_ms": 1_000, "producer_id": -1, "producer_epoch": -1}
    adding = {"v3_and_below_transactional_id": "seen", "v3_and_below_producer_id": producer_id,
              "v3_and_below_topics": [{"name": "seen", "partitions": [0]}]}  # fmt: skip
    tries = (
        ("InitProducerId", 4, init),
        ("AddPartitionsToTxn", 3, adding),
        ("AddPartitionsToTxn", 4, {"transactions": [{**of, "topics": [{"name": "seen", "partitions": [0]}]}]}),
        ("AddOffsetsToTxn", 3, {**of, "group_id": "seen"}),
        ("TxnOffsetCommit", 3, {**of, "group_id": "seen", "topics": commit}),
        ("EndTxn", 3, {**of, "committed": True}),
        ("Produce", 9, {"transactional_id": "seen", "acks": -1, "timeout_ms": 1_000, "topic_data": data}),
        ("Produce", 9, {"acks": -1, "timeout_ms": 1_000, "topic_data": data[:1]}),
        ("DescribeTransactions", 0, {"transactional_ids": ["seen"]}),
    )
    async with await Link.as_user(target, MALLORY) as link:
        for api, version, fields in tries:
            answer = told(await link.ask(*asked(api, version, **fields)))
            if api == "AddPartitionsToTxn":
                del answer["error_code"]  # of brokers' requests
            if "NONE" in codes(answer):
                raise Broken(f"{api} with the transactional id of alice: {answer}")


@attack
async def tokens_of_others(target: Target) -> None:
    """Delegation tokens: another's renewed, expired, listed; one for another; one of a guessed HMAC."""
    async with await Link.as_user(target, MALLORY) as link:
        for stolen in (target.stolen.get("hmac", b""), os.urandom(64), b"", b"x" * 100_000):
            for api, field in (
                ("RenewDelegationToken", "renew_period_ms"),
                ("ExpireDelegationToken", "expiry_time_period_ms"),
            ):
                answer = await link.ask(*asked(api, 2, hmac=stolen, **{field: -1}))
                if answer.error_code == 0:
                    raise Broken(f"{api} of a token of alice")
        owner = {"principal_type": "User", "principal_name": ALICE}
        answer = await link.ask(*asked("DescribeDelegationToken", 3, owners=[owner]))
        if answer.tokens:
            raise Broken("DescribeDelegationToken lists tokens of alice")
        made = {"owner_principal_type": "User", "owner_principal_name": ALICE, "max_lifetime_ms": 1_000}
        if (await link.ask(*asked("CreateDelegationToken", 3, **made))).error_code == 0:
            raise Broken("a token of alice for mallory")


async def until_code(link: Link, metadata: tuple[int, int, Any], code: ErrorCode) -> None:
    """Until the node has applied a change of ACLs: Metadata of the topic has this code."""
    end = time.monotonic() + ANSWER_S
    while (await link.ask(*metadata)).topics[0].error_code != code:
        if time.monotonic() > end:
            raise Broken(f"a change of ACLs is not applied within {ANSWER_S:.0f} s")
        await asyncio.sleep(0.05)


@attack
async def acls_under_parked_fetches(target: Target) -> None:
    """A fetch parks; its ACL goes; a record comes: it is not for the fetch any more."""
    creation = {"resource_type": 2, "resource_name": "parked", "resource_pattern_type": 3,
                "principal": "User:mallory", "host": "*", "operation": 3, "permission_type": 3}  # fmt: skip
    gone = {"resource_type_filter": 2, "resource_name_filter": "parked", "pattern_type_filter": 3,
            "principal_filter": "User:mallory", "host_filter": None, "operation": 1, "permission_type": 1}  # fmt: skip
    metadata = asked("Metadata", 12, topics=[{"name": "parked"}])
    async with await Link.as_admin(target) as admin:
        described = await admin.ask(*metadata)
        leader_id = described.topics[0].partitions[0].leader_id
        leader = next(one.port for one in described.brokers if one.node_id == leader_id)
        await admin.ask(*asked("CreateAcls", 3, creations=[creation]))
        async with await Link.as_user(target, MALLORY, leader) as link, await Link.as_admin(target, leader) as writer:
            await until_code(link, metadata, ErrorCode.NONE)
            listed = [{"name": "parked", "partitions": [{"partition_index": 0, "timestamp": -1}]}]
            ends = await writer.ask(*asked("ListOffsets", 7, replica_id=-1, topics=listed))
            wanted = {
                "partition": 0,
                "fetch_offset": ends.topics[0].partitions[0].offset,
                "partition_max_bytes": 100_000,
            }
            topics = [{"topic": "parked", "partitions": [wanted]}]
            fetch = asked("Fetch", 12, max_wait_ms=15_000, min_bytes=1, session_epoch=-1, topics=topics)
            async with await Link.as_user(target, MALLORY, leader) as other:
                parked = asyncio.create_task(link.ask(*fetch))
                await asyncio.sleep(0.5)
                deleted = await admin.ask(*asked("DeleteAcls", 3, filters=[gone]))
                if len(deleted.filter_results[0].matching_acls) != 1:
                    raise Broken(f"the ACL is not deleted: {deleted}")
                await until_code(other, metadata, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            batch = bytes(build([Record(0, int(time.time() * 1000), None, SECRET_RECORD, ())]))
            rows = [{"name": "parked", "partition_data": [{"index": 0, "records": batch}]}]
            await writer.ask(*asked("Produce", 9, acks=-1, timeout_ms=5_000, topic_data=rows))
            with suppress(Closed):
                if SECRET_RECORD in fetched(await parked):
                    raise Broken("a parked fetch got a record after its ACL was gone")


# --- As a user with a topic


@cache
def bomb(codec: Compression) -> bytes:
    """A batch that says it holds one record, and unpacks to 200 MB of zeros."""
    batch = bytearray(build([Record(0, 1, None, b"x" * 10, ())], compression=codec))
    plain = bytes(200 * 1024 * 1024)
    if codec is Compression.GZIP:
        content = gzip.compress(plain, 9)
    else:
        content = bytes(compress(codec, plain))
    del batch[61:]
    batch += content
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    return bytes(batch)


@attack
async def decompression_bombs(target: Target) -> None:
    """Batches of a permitted user, and telemetry, which needs no permission."""
    for codec in (Compression.GZIP, Compression.ZSTD, Compression.LZ4, Compression.SNAPPY):
        batch = await asyncio.to_thread(bomb, codec)
        for topic in (MALLORY, "mallory-recompressed", "mallory-compacted"):
            for port in target.ports:
                async with await Link.as_user(target, MALLORY, port) as link:
                    rows = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
                    with suppress(Closed):
                        answer = await link.ask(*asked("Produce", 9, acks=1, timeout_ms=5_000, topic_data=rows))
                        if answer.responses[0].partition_responses[0].error_code == 0:
                            raise Broken(f"a bomb of {codec.name} is in {topic}")
        async with await Link.as_user(target, MALLORY) as link:
            with suppress(Closed):
                key = os.urandom(16)
                fields = {"client_instance_id": key, "subscription_id": 1, "compression_type": int(codec)}
                await link.ask(*asked("PushTelemetry", 0, metrics=batch[61:][:900_000], **fields))


@attack
async def answers_never_read(target: Target) -> None:
    """Requests whose answers pile up, since mallory reads none."""

    async def one(_: int) -> None:
        async with await Link.as_user(target, MALLORY) as link:
            request = struct.pack(">i", len(METADATA_V1_ALL_TOPICS)) + METADATA_V1_ALL_TOPICS
            with suppress(Closed, Broken):
                async with asyncio.timeout(5):
                    for _ in range(400):
                        await link.write(request * 50)

    with suppress(TimeoutError):
        await many(4, one)


@attack
async def counts_of_a_user(target: Target) -> None:
    """Arrays of 100,000 names, and of 2^31, in requests that a user without permissions may send."""
    async with await Link.as_user(target, MALLORY) as link:
        with suppress(Closed):
            await link.ask(*asked("DescribeGroups", 5, groups=[f"g{one}" for one in range(100_000)]))
    for body in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x08" + b"\1" * 500_000):
        for key, version in ((3, 12), (1, 12), (3, 1), (15, 5), (75, 0), (68, 0), (71, 0), (72, 0)):
            async with await Link.as_user(target, MALLORY) as link:
                await link.send_raw(key, version, body)


@attack
async def idle_crowd(target: Target) -> None:
    """Connections that log in and do nothing, and connections that come and go."""

    async def one(number: int) -> None:
        async with await (Link.as_user(target, MALLORY) if number % 2 else Link.open(target)):
            await asyncio.sleep(number % 5)

    await many(50, one)

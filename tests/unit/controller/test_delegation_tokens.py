"""Delegation tokens, as the controller decides on them."""

from __future__ import annotations

from random import Random

import pytest

from ottla.cluster.snapshot import snapshot_records
from ottla.controller import Controller, delegation_tokens
from ottla.security.delegation_tokens import token_secret
from ottla.security.principal import Principal
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.wire.messages.records.delegation_token_record import DelegationTokenRecord
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest

from .clusters import Cluster, config

KEY = "the-key-of-this-cluster"
NOW = 1_700_000_000_000
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
ALICE, BOB, CAROL = (Principal("User", name) for name in ("alice", "bob", "carol"))


def cluster_with_key(**overrides: str) -> Cluster:
    settings = {"delegation_token_secret_key": KEY, **overrides}
    return Cluster(1, levels=None, **settings)


def create(
    cluster: Cluster,
    requester: Principal = ALICE,
    *,
    owner: Principal | None = None,
    renewers: tuple[Principal, ...] = (),
    max_lifetime_ms: int = -1,
    now: int = NOW,
) -> CreateDelegationTokenResponse:
    request = CreateDelegationTokenRequest(
        owner_principal_type=owner.type if owner else None,
        owner_principal_name=owner.name if owner else None,
        renewers=[CreatableRenewers(principal_type=one.type, principal_name=one.name) for one in renewers],
        max_lifetime_ms=max_lifetime_ms,
    )
    return cluster.commit(cluster.controller.create_delegation_token(request, requester, now))


def renew(
    cluster: Cluster, secret: bytes, principal: Principal = ALICE, period_ms: int = -1, now: int = NOW
) -> tuple[ErrorCode, int]:
    request = RenewDelegationTokenRequest(hmac=secret, renew_period_ms=period_ms)
    reply = cluster.commit(cluster.controller.renew_delegation_token(request, principal, now))
    return ErrorCode(reply.error_code), reply.expiry_timestamp_ms


def expire(
    cluster: Cluster, secret: bytes, principal: Principal = ALICE, period_ms: int = -1, now: int = NOW
) -> tuple[ErrorCode, int]:
    request = ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=period_ms)
    reply = cluster.commit(cluster.controller.expire_delegation_token(request, principal, now))
    return ErrorCode(reply.error_code), reply.expiry_timestamp_ms


def test_a_token_has_the_times_of_the_settings_and_a_secret_that_follows_from_its_id() -> None:
    cluster = cluster_with_key()
    token = create(cluster, renewers=(BOB,))
    assert token.error_code == 0
    assert (token.principal_type, token.principal_name) == ("User", "alice")
    assert (token.token_requester_principal_type, token.token_requester_principal_name) == ("User", "alice")
    assert token.issue_timestamp_ms == NOW
    assert token.expiry_timestamp_ms == NOW + DAY_MS
    assert token.max_timestamp_ms == NOW + 7 * DAY_MS
    assert token.hmac == token_secret(token.token_id, KEY)
    assert cluster.image.delegation_tokens == {
        token.token_id: DelegationTokenRecord(
            owner="User:alice",
            requester="User:alice",
            renewers=["User:bob"],
            issue_timestamp=NOW,
            max_timestamp=NOW + 7 * DAY_MS,
            expiration_timestamp=NOW + DAY_MS,
            token_id=token.token_id,
        )
    }


def test_the_secret_is_the_hmac_sha512_that_kafka_makes() -> None:
    # What Java's HmacSHA512, which Kafka uses, makes of these two strings.
    assert token_secret("dGhlIHRva2VuJ3MgaWQ", KEY).hex() == (
        "e306ebca265afa9f7f4684a33e3e677ce79a71a3f0b941a8d727e4be657fc5bc"
        "9fc15add6a5d56a00e7cccc5c6795ab1583c90b6527f7bce80e5134e98f2acc0"
    )


def test_a_shorter_life_may_be_asked_for_but_not_a_longer_one() -> None:
    cluster = cluster_with_key()
    short = create(cluster, max_lifetime_ms=HOUR_MS)
    assert (short.expiry_timestamp_ms, short.max_timestamp_ms) == (NOW + HOUR_MS, NOW + HOUR_MS)
    long = create(cluster, max_lifetime_ms=30 * DAY_MS)
    assert long.max_timestamp_ms == NOW + 7 * DAY_MS
    assert create(cluster, max_lifetime_ms=2**63 - 1).error_code == 0


def test_a_token_for_another_owner_remembers_its_requester() -> None:
    cluster = cluster_with_key()
    token = create(cluster, ALICE, owner=CAROL)
    assert (token.principal_name, token.token_requester_principal_name) == ("carol", "alice")
    record = cluster.image.delegation_tokens[token.token_id]
    assert (record.owner, record.requester) == ("User:carol", "User:alice")
    assert renew(cluster, token.hmac, ALICE)[0] is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert renew(cluster, token.hmac, CAROL)[0] is ErrorCode.NONE


def test_without_a_secret_key_every_command_is_refused() -> None:
    for cluster in (Cluster(1), cluster_with_key(delegation_token_secret_key="")):
        refused = create(cluster)
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        assert (refused.principal_name, refused.issue_timestamp_ms, refused.hmac) == ("alice", 0, b"")
        assert renew(cluster, b"x")[0] is ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        assert expire(cluster, b"x")[0] is ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def test_an_older_metadata_version_cannot_hold_tokens() -> None:
    cluster = Cluster(1, levels={"metadata": 12, "elr": 0}, delegation_token_secret_key=KEY)
    assert create(cluster).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert renew(cluster, b"x")[0] is ErrorCode.UNSUPPORTED_VERSION
    assert expire(cluster, b"x")[0] is ErrorCode.UNSUPPORTED_VERSION


def test_renewers_are_users() -> None:
    cluster = cluster_with_key()
    assert create(cluster, renewers=(Principal("Group", "g"),)).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert cluster.image.delegation_tokens == {}


def test_owner_and_renewers_renew_a_token_up_to_its_max_timestamp() -> None:
    cluster = cluster_with_key()
    token = create(cluster, renewers=(BOB,))
    later = NOW + HOUR_MS
    assert renew(cluster, token.hmac, now=later) == (ErrorCode.NONE, later + DAY_MS)
    assert renew(cluster, token.hmac, BOB, period_ms=HOUR_MS, now=later) == (ErrorCode.NONE, later + HOUR_MS)
    assert renew(cluster, token.hmac, BOB, period_ms=30 * DAY_MS, now=later) == (ErrorCode.NONE, later + DAY_MS)
    assert cluster.image.delegation_tokens[token.token_id].expiration_timestamp == later + DAY_MS
    for day in range(1, 7):
        assert renew(cluster, token.hmac, now=NOW + day * DAY_MS)[0] is ErrorCode.NONE
    assert renew(cluster, token.hmac, now=NOW + 7 * DAY_MS) == (ErrorCode.NONE, NOW + 7 * DAY_MS)


@pytest.mark.parametrize("change", [renew, expire])
def test_others_neither_renew_nor_expire_a_token_nor_find_one_by_a_wrong_secret(change: object) -> None:
    cluster = cluster_with_key()
    token = create(cluster, renewers=(BOB,))
    assert callable(change)
    assert change(cluster, token.hmac, CAROL) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
    assert change(cluster, token.hmac[:-1] + b"?") == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)
    assert change(cluster, b"") == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)


def test_an_expired_token_is_not_renewed() -> None:
    cluster = cluster_with_key()
    token = create(cluster)
    assert renew(cluster, token.hmac, now=NOW + DAY_MS)[0] is ErrorCode.NONE
    assert renew(cluster, token.hmac, now=NOW + 2 * DAY_MS + 1)[0] is ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert renew(cluster, token.hmac, CAROL, now=NOW + 3 * DAY_MS)[0] is ErrorCode.DELEGATION_TOKEN_EXPIRED


def test_a_token_expires_after_a_period_or_now() -> None:
    cluster = cluster_with_key()
    token = create(cluster)
    assert expire(cluster, token.hmac, period_ms=HOUR_MS) == (ErrorCode.NONE, NOW + HOUR_MS)
    assert expire(cluster, token.hmac, period_ms=30 * DAY_MS) == (ErrorCode.NONE, NOW + 7 * DAY_MS)
    assert expire(cluster, token.hmac, period_ms=0) == (ErrorCode.NONE, NOW)
    assert expire(cluster, token.hmac, period_ms=0, now=NOW + 1) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, 0)
    assert expire(cluster, token.hmac, period_ms=-1, now=NOW + 1) == (ErrorCode.NONE, NOW + 1)
    assert cluster.image.delegation_tokens == {}
    assert expire(cluster, token.hmac)[0] is ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_expired_tokens_are_removed_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_tokens, "MAX_REMOVED_AT_ONCE", 2)
    cluster = cluster_with_key()
    for _ in range(3):
        create(cluster)
    left = create(cluster, now=NOW + 1)
    moment = NOW + DAY_MS + 1
    assert not cluster.controller.remove_expired_tokens(NOW + DAY_MS).records
    assert cluster.commit(cluster.controller.remove_expired_tokens(moment)) is True
    assert cluster.commit(cluster.controller.remove_expired_tokens(moment)) is False
    assert list(cluster.image.delegation_tokens) == [left.token_id]
    assert not cluster.controller.remove_expired_tokens(moment).records


def test_one_requester_cannot_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_tokens, "MAX_TOKENS_PER_REQUESTER", 2)
    monkeypatch.setattr(delegation_tokens, "MAX_RENEWERS", 1)
    cluster = cluster_with_key()
    first = create(cluster)
    create(cluster, owner=BOB)
    assert create(cluster).error_code == ErrorCode.POLICY_VIOLATION
    assert create(cluster, BOB).error_code == 0
    assert create(cluster, CAROL, renewers=(ALICE, BOB)).error_code == ErrorCode.POLICY_VIOLATION
    expire(cluster, first.hmac)
    assert create(cluster).error_code == 0


def test_the_next_controller_knows_the_tokens_of_the_last_one() -> None:
    cluster = cluster_with_key()
    token = create(cluster)
    successor = cluster_with_key()
    for record in snapshot_records(cluster.image):
        successor.controller.replay(record)
    assert renew(successor, token.hmac)[0] is ErrorCode.NONE
    third = cluster_with_key()
    config_of_third = config(delegation_token_secret_key=KEY)
    third.controller = Controller(successor.image.copy(), rng=Random(1), config=config_of_third)
    assert expire(third, token.hmac)[0] is ErrorCode.NONE

"""The mutation quota of KIP-599, as requests that change the cluster are charged."""

from __future__ import annotations

import pytest

from ottla.broker.access import Access
from ottla.broker.apis.mutations import charge
from ottla.broker.caller import Caller, Client
from ottla.broker.serving.quotas import MUTATION, Quotas
from ottla.security.principal import Principal
from ottla.wire.errors import ErrorCode, KafkaError
from tests.unit.broker.rooms import CLIENT, Ground

FIRST_STRICT_VERSION = 6


def limited() -> Quotas:
    """Ten partitions a second, for each user."""
    quotas = Quotas()
    quotas.replace({(("user", None),): {MUTATION: 10.0}})
    return quotas


def caller(version: int) -> Caller:
    return Caller("app", CLIENT, 19, version)


def test_without_a_quota_nothing_is_charged() -> None:
    assert charge(Ground(), Quotas(), caller(7), first_strict_version=FIRST_STRICT_VERSION) is None


def test_a_client_that_knows_the_error_is_refused_beyond_its_quota() -> None:
    ground, quotas, client = Ground(), limited(), caller(FIRST_STRICT_VERSION)
    count = charge(ground, quotas, client, first_strict_version=FIRST_STRICT_VERSION)
    assert count is not None
    count(160)
    assert client.throttle_ms == 0
    with pytest.raises(KafkaError) as refused:
        count(1)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert client.throttle_ms == 5_000
    ground.ms = 5_000
    count(1)


def test_an_older_client_is_only_slowed_down() -> None:
    ground, quotas, client = Ground(), limited(), caller(FIRST_STRICT_VERSION - 1)
    count = charge(ground, quotas, client, first_strict_version=FIRST_STRICT_VERSION)
    assert count is not None
    count(160)
    throttle_ms = client.throttle_ms
    assert throttle_ms > 0
    ground.ms = throttle_ms
    count(0)
    assert client.throttle_ms == throttle_ms, "the longest of several is the one that the client waits for"


def test_each_principal_has_its_own_quota_also_in_requests_that_a_broker_forwarded() -> None:
    ground, quotas = Ground(), limited()

    def sender(name: str) -> Caller:
        access = Access(None, Principal("User", name), "10.0.0.9")
        client = Client("10.0.0.9", 0, "CONTROLLER", "broker", access=access)
        return Caller("app", client, 19, FIRST_STRICT_VERSION, is_forwarded=True)

    of_alice = charge(ground, quotas, sender("alice"), first_strict_version=FIRST_STRICT_VERSION)
    of_bob = charge(ground, quotas, sender("bob"), first_strict_version=FIRST_STRICT_VERSION)
    assert of_alice is not None and of_bob is not None
    of_alice(160)
    with pytest.raises(KafkaError):
        of_alice(1)
    of_bob(160)

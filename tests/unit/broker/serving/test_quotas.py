from __future__ import annotations

from dataclasses import dataclass

import pytest

from ottla.broker.serving import quotas as module
from ottla.broker.serving.quotas import CONSUME, MUTATION, PRODUCE, REQUEST, QuotaEntity, Quotas, WindowedRate
from ottla.config import BrokerConfig
from ottla.security.principal import ANONYMOUS, Principal
from tests.unit.config.test_broker import NODE


@dataclass
class Client:
    client_id: str | None = "app"
    principal: Principal = ANONYMOUS


def entity(**names: str | None) -> QuotaEntity:
    return tuple(sorted((kind.replace("_", "-"), name) for kind, name in names.items()))


def with_quotas(*quotas: tuple[QuotaEntity, dict[str, float]]) -> Quotas:
    made = Quotas()
    made.replace(dict(quotas))
    return made


def test_without_quotas_nothing_is_measured() -> None:
    quotas = with_quotas()
    assert not quotas.is_produce_quota_set
    assert quotas.record_produced(Client(), 10**12, now=0) == 0
    assert quotas.sensor_count == 0


def test_a_client_waits_until_its_average_is_at_the_limit() -> None:
    quotas = with_quotas((entity(client_id="app"), {PRODUCE: 1000.0}))
    assert quotas.is_produce_quota_set and not quotas.is_consume_quota_set
    # Ten windows of a second count as empty: 10,000 bytes are allowed, twice that takes ten seconds more.
    assert quotas.record_produced(Client(), 10_000, now=0) == 0
    assert quotas.record_produced(Client(), 10_000, now=0) == 10_000
    # As in Kafka, a burst weighs on the average until its window is gone.
    assert quotas.record_produced(Client(), 0, now=10_999) > 0
    assert quotas.record_produced(Client("app"), 0, now=22_000) == 0


def test_what_happened_longer_ago_than_all_windows_is_forgotten() -> None:
    rate = WindowedRate(window_count=2, window_ms=1000)
    rate.record(5000, now=0)
    assert rate.measure(0) == (5000.0, 1000)
    assert rate.measure(500) == (5000 / 1.5, 1500)
    assert rate.measure(1999) == (5000 / 1.999, 1999)
    assert rate.measure(2000) == (0.0, 1000)


def test_only_as_many_windows_are_kept_as_are_measured() -> None:
    rate = WindowedRate(window_count=3, window_ms=1000)
    for second in range(100):
        rate.record(10, now=second * 1000)
        measured, window_ms = rate.measure(second * 1000)
        assert window_ms in (2000, 3000)
        assert measured <= 15
    assert len(rate._samples) <= 4


USER, CLIENT = Principal("User", "bob"), "app"
LEVELS: list[tuple[QuotaEntity, float]] = [
    (entity(client_id=None), 8.0),
    (entity(client_id=CLIENT), 7.0),
    (entity(user=None), 6.0),
    (entity(user=None, client_id=None), 5.0),
    (entity(user=None, client_id=CLIENT), 4.0),
    (entity(user="bob"), 3.0),
    (entity(user="bob", client_id=None), 2.0),
    (entity(user="bob", client_id=CLIENT), 1.0),
]


@pytest.mark.parametrize("count", range(1, 9))
def test_the_more_specific_quota_holds(count: int) -> None:
    quotas = with_quotas(*((level, {PRODUCE: limit}) for level, limit in LEVELS[:count]))
    assert quotas.limit(Client(CLIENT, USER), PRODUCE) == LEVELS[count - 1][1]


def test_a_quota_of_others_does_not_hold() -> None:
    quotas = with_quotas((entity(user="alice"), {PRODUCE: 1.0}), (entity(client_id="other"), {PRODUCE: 1.0}))
    assert quotas.limit(Client(CLIENT, USER), PRODUCE) is None
    assert quotas.record_produced(Client(CLIENT, USER), 10**9, now=0) == 0


def test_clients_of_one_user_share_the_users_quota() -> None:
    quotas = with_quotas((entity(user="bob"), {PRODUCE: 1000.0}))
    assert quotas.record_produced(Client("one", USER), 10_000, now=0) == 0
    assert quotas.record_produced(Client("two", USER), 10_000, now=0) == 10_000


def test_a_default_is_measured_for_each_client_alone() -> None:
    quotas = with_quotas((entity(client_id=None), {CONSUME: 1000.0}))
    assert quotas.record_consumed(Client("one"), 10_000, now=0) == 0
    assert quotas.record_consumed(Client("two"), 10_000, now=0) == 0
    assert quotas.record_consumed(Client("one"), 5_000, now=0) == 5_000


def test_a_throttled_fetch_can_be_taken_back() -> None:
    quotas = with_quotas((entity(client_id=None), {CONSUME: 1000.0}))
    assert quotas.record_consumed(Client(), 20_000, now=0) == 10_000
    quotas.unrecord(Client(), CONSUME, 20_000, now=0)
    assert quotas.record_consumed(Client(), 10_000, now=0) == 0
    assert quotas.max_in_window(Client(), CONSUME) == 10_000


def test_request_time_is_a_percentage_and_stops_for_a_window_at_most() -> None:
    quotas = with_quotas((entity(client_id=None), {REQUEST: 10.0}))
    assert quotas.record_request_time(Client(), 0.5, now=0) == 0
    assert quotas.record_request_time(Client(), 0.6, now=0) == 1000


def test_changes_of_the_cluster_draw_on_a_bucket() -> None:
    quotas = with_quotas((entity(user=None), {MUTATION: 10.0}))
    client = Client()
    # The burst is eleven seconds' worth; with credit any number passes, without nothing does.
    assert quotas.record_mutations(client, 160, now=0, strict=True) == 0
    assert quotas.record_mutations(client, 1, now=0, strict=True) == 5000
    assert quotas.record_mutations(client, 1, now=4000, strict=True) == 1000
    assert quotas.record_mutations(client, 1, now=5000, strict=True) == 0
    # Clients that do not know the error are let through, and slowed down.
    assert quotas.record_mutations(client, 9, now=5000, strict=False) == 1000


def test_connections_are_counted_by_address() -> None:
    quotas = with_quotas((entity(ip=None), {"connection_creation_rate": 1.0}), (entity(ip="10.0.0.1"), {}))
    assert quotas.is_connection_quota_set
    assert [quotas.record_connection("10.0.0.2", now=0) for _ in range(11)] == [0] * 10 + [1000]
    assert quotas.record_connection("10.0.0.3", now=0) == 0


def test_a_changed_quota_holds_at_once() -> None:
    quotas = with_quotas((entity(client_id=None), {PRODUCE: 1000.0}))
    assert quotas.record_produced(Client(), 20_000, now=0) == 10_000
    quotas.replace({entity(client_id=None): {PRODUCE: 2000.0}})
    assert quotas.record_produced(Client(), 0, now=0) == 0
    quotas.replace({})
    assert not quotas.is_produce_quota_set


def test_the_configured_windows_are_used() -> None:
    quotas = with_quotas((entity(client_id=None), {PRODUCE: 1000.0}))
    quotas.configure(BrokerConfig.parse(NODE | {"quota.window.num": "3", "quota.window.size.seconds": "2"}))
    assert quotas.record_produced(Client(), 4_000, now=0) == 0
    assert quotas.record_produced(Client(), 4_000, now=0) == 4_000


def test_clients_that_come_and_go_cost_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SENSORS", 50)
    quotas = with_quotas((entity(client_id=None), {PRODUCE: 1000.0, MUTATION: 5.0}))
    for number in range(500):
        quotas.record_produced(Client(f"client-{number}"), 10, now=number)
        quotas.record_mutations(Client(f"client-{number}"), 1, now=number, strict=True)
    assert quotas.sensor_count <= 100
    assert len(quotas._resolved) <= 50
    quotas.expire(now=3_600_000 + 500)
    assert quotas.sensor_count == 0


def test_a_client_without_id_has_the_default_quota() -> None:
    quotas = with_quotas((entity(client_id=None), {PRODUCE: 1000.0}))
    assert quotas.record_produced(Client(None), 20_000, now=0) == 10_000


def test_long_client_ids_are_remembered_by_a_digest() -> None:
    long_id = "x" * 32_000
    quotas = with_quotas((entity(client_id=long_id), {PRODUCE: 1000.0}))
    assert quotas.record_produced(Client(long_id), 20_000, now=0) == 10_000
    assert quotas.record_produced(Client(long_id + "y"), 20_000, now=0) == 0
    assert all(len(part) <= 200 for key in quotas._rates for part in key)


def test_long_principals_are_remembered_by_a_digest() -> None:
    name = "x" * 32_000
    quotas = with_quotas((entity(user=name), {PRODUCE: 1000.0}))
    assert quotas.record_produced(Client(principal=Principal("User", name)), 20_000, now=0) == 10_000
    assert quotas.record_produced(Client(principal=Principal("User", name + "y")), 20_000, now=0) == 0
    kept = [*quotas._rates, *quotas._resolved]
    assert all(len(part) <= module.MAX_REMEMBERED_ID_LENGTH for key in kept for part in key)

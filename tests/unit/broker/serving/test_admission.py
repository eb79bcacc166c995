"""Limits on connections by listener, and the principals of client certificates."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.serving.admission import MAX_CONNECTIONS, CreationRate, CreationRates, certified_principal, own_limit
from ottla.config import BrokerConfig
from ottla.config.keys import MAX_INT
from ottla.net.listener import ConnectionRefused
from ottla.security.certificates import from_pem
from ottla.security.principal import ANONYMOUS, Principal
from ottla.security.principal_mapping import parse_principal_mapping
from ottla.security.stores import read_pem

CLIENT = from_pem(read_pem((Path(__file__).parents[3] / "vectors" / "tls" / "client.pem").read_text()).certificates[0])
NODE = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": "/data",
    "max.connections": "7",
    "listener.name.plaintext.max.connections": "3",
}


def test_a_limit_of_a_listener_is_the_one_with_its_prefix() -> None:
    config = BrokerConfig.parse(NODE)
    assert own_limit(config, "PLAINTEXT", MAX_CONNECTIONS) == 3
    assert own_limit(config, "CONTROLLER", MAX_CONNECTIONS) == MAX_INT


def test_a_rate_without_a_limit_never_pauses_and_one_over_its_limit_does() -> None:
    config = BrokerConfig.parse(NODE)
    free, limited = CreationRate(config, MAX_INT), CreationRate(config, 10)
    assert not any(free.pause_ms(now) for now in range(1000))
    pauses = [limited.pause_ms(0) for _ in range(300)]
    assert pauses[0] == 0 and 0 < pauses[-1] <= 1000
    assert limited.pause_ms(60_000) == 0, "time has passed"


def test_the_rate_of_the_node_counts_clients_of_all_listeners_and_not_other_brokers() -> None:
    limits = {"max.connection.creation.rate": "2", "listener.name.plaintext.max.connection.creation.rate": "1"}
    config = BrokerConfig.parse(NODE | {"quota.window.num": "2"} | limits)
    rates = CreationRates(config)
    for name in ("PLAINTEXT", "CLIENTS"):
        rates.add(config, name)
    assert [rates.pause_ms("PLAINTEXT", 0, is_protected=True) > 0 for _ in range(4)] == [False, True, True, True]
    assert [rates.pause_ms("CLIENTS", 0, is_protected=False) > 0 for _ in range(3)] == [False, False, True]
    rates.use(BrokerConfig.parse(NODE))
    assert not any(rates.pause_ms(name, 0, is_protected=False) for name in ("PLAINTEXT", "CLIENTS"))


def test_a_client_is_the_principal_that_its_certificate_names() -> None:
    default = parse_principal_mapping("DEFAULT")
    assert certified_principal(None, default) is ANONYMOUS
    assert certified_principal(CLIENT, default) == Principal("User", "CN=client")
    mapping = parse_principal_mapping("RULE:^CN=(.*)$/$1/U")
    assert certified_principal(CLIENT, mapping) == Principal("User", "CLIENT")
    with pytest.raises(ConnectionRefused, match="CN=client"):
        certified_principal(CLIENT, parse_principal_mapping("RULE:^O=(.*)$/$1/"))

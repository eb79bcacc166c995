"""Which listeners are open to other hosts without a login."""

from __future__ import annotations

import pytest

from ottla.config import BrokerConfig
from ottla.config.open_listeners import is_loopback, open_entries, open_listeners


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost"])
def test_only_this_machine_reaches_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.5", "192.168.1.1", "kafka.example.org", "8.8.8.8"])
def test_every_other_address_is_public(host: str) -> None:
    assert not is_loopback(host)


def test_a_node_warns_of_open_listeners_so_that_it_cannot_be_overlooked(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    from ottla.cli.start import _warn_of_open_listeners

    settings = {"node.id": "1", "process.roles": "broker", "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": "2@127.0.0.1:9093"}  # fmt: skip
    _warn_of_open_listeners(BrokerConfig.parse({**settings, "listeners": "PLAINTEXT://:9092"}))
    said = capsys.readouterr().err
    assert "!! WARNING: listener PLAINTEXT://:9092 is without TLS and without logins" in said
    assert "--insecure" in said
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    _warn_of_open_listeners(BrokerConfig.parse({**settings, "listeners": "PLAINTEXT://127.0.0.1:9092"}))
    assert capsys.readouterr().err == ""


def test_a_listener_without_tls_on_a_public_address_is_open() -> None:
    config = BrokerConfig.parse(
        {
            "node.id": "1",
            "process.roles": "broker,controller",
            "listeners": "PLAINTEXT://0.0.0.0:9092,LOCAL://127.0.0.1:9093,TLS://:9094,LOGIN://10.0.0.5:9095,"
            "CONTROLLER://127.0.0.1:9096",
            "advertised.listeners": "PLAINTEXT://h:9092,LOCAL://127.0.0.1:9093,TLS://h:9094,LOGIN://h:9095",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOCAL:PLAINTEXT,TLS:SSL,LOGIN:SASL_PLAINTEXT,"
            "CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
        }
    )
    assert [one.name for one in open_listeners(config.listeners)] == ["PLAINTEXT", "LOGIN"]
    listeners = str(config.static["listeners"])
    entries = open_entries(listeners, config.static["listener.security.protocol.map"])
    assert entries == ["PLAINTEXT://0.0.0.0:9092", "LOGIN://10.0.0.5:9095"]

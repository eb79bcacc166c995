"""Clusters by name: the file, which cluster a command works on, and what stays secret."""

from __future__ import annotations

import argparse
import json
import stat
from pathlib import Path

import pytest

from ottla.__main__ import main
from ottla.cli.completion import candidates
from ottla.cli.named_clusters import NamedClusters, file_path
from ottla.cli.registered import registry_settings
from ottla.cli.session import (
    BROKER_VARIABLE,
    REGISTRY_VARIABLE,
    CommandError,
    Target,
    choose_cluster,
    unreachable,
    with_ports,
)
from ottla.client.errors import NoBrokerReached

PASSWORD = "open-sesame"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "folder" / "clusters.toml"
    monkeypatch.setenv("OTTLA_CLUSTERS", str(path))
    monkeypatch.delenv(BROKER_VARIABLE, raising=False)
    return path


def chosen(broker: str | None = None, cluster: str | None = None, config: str | None = None) -> Target:
    return choose_cluster(argparse.Namespace(broker=broker, cluster=cluster, command_config=config))


def test_a_cluster_is_named_used_shown_and_forgotten(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clusters", "list"]) == 0
    assert "name one: ottla clusters add" in capsys.readouterr().err
    assert main(["clusters", "add", "dev", "-b", "127.0.0.1"]) == 0
    assert main(["clusters", "add", "prod", "-b", "k1:9092,k2", "--set", "security.protocol=SSL", "--use"]) == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    capsys.readouterr()
    assert main(["-o", "json", "clusters", "list"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["name"], row["brokers"], row["current"]) for row in rows] == [
        ("dev", "127.0.0.1:9092", False),
        ("prod", "k1:9092,k2:9092", True),
    ]
    assert main(["clusters", "use", "dve"]) == 1
    assert "there is no cluster 'dve'; did you mean 'dev'?" in capsys.readouterr().err
    assert main(["clusters", "use", "dev"]) == 0
    assert chosen() == Target("127.0.0.1:9092", {}, "dev")
    assert main(["clusters", "use", "--none"]) == 0
    assert chosen() == Target("127.0.0.1:9092")
    assert candidates(["--cluster", "p"]) == ["prod"]
    assert candidates(["topics", "list", "--cluster", ""]) == ["dev", "prod"]
    assert candidates(["clusters", "use", "d"]) == ["dev"]
    assert main(["clusters", "remove", "prod", "--yes"]) == 0
    assert main(["clusters", "show", "prod"]) == 1


def test_a_broker_counts_over_a_cluster_over_the_environment_over_the_current_cluster(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert chosen() == Target("127.0.0.1:9092")
    properties = tmp_path / "folder" / "prod.properties"
    file.parent.mkdir()
    properties.write_text("acks=1\nclient.id=file\n")
    file.write_text(
        'current = "dev"\n[clusters.dev]\nbrokers = "dev"\n'
        '[clusters.prod]\nbrokers = "prod:1"\nconfig = "prod.properties"\n'
        '[clusters.prod.settings]\nclient.id = "inline"\nrequest.timeout.ms = 5000\nenable.idempotence = true\n'
    )
    inline = {"acks": "1", "client.id": "inline", "request.timeout.ms": "5000", "enable.idempotence": "true"}
    assert chosen() == Target("dev:9092", {}, "dev")
    assert chosen(cluster="prod") == Target("prod:1", inline, "prod", True)
    monkeypatch.setenv(BROKER_VARIABLE, "variable:2")
    assert chosen() == Target("variable:2", {}, None, True)
    assert chosen(cluster="prod").broker == "prod:1"
    assert chosen(broker="option") == Target("option:9092", {}, None, True)
    assert chosen(broker="tunnel:3", cluster="prod") == Target("tunnel:3", inline, "prod", True)
    mine = tmp_path / "mine.properties"
    mine.write_text("client.id=mine\n")
    assert chosen(cluster="prod", config=str(mine)).settings["client.id"] == "mine"
    with pytest.raises(CommandError, match="there is no cluster 'prd'; did you mean 'prod'"):
        chosen(cluster="prd")


def test_secrets_are_never_shown_and_an_open_file_is_warned_of(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for setting in (
        f"sasl.password={PASSWORD}",
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="u" password="{PASSWORD}";',
        f"schema.registry.url=http://user:{PASSWORD}@registry:8081",
        f"schema.registry.basic.auth.user.info=user:{PASSWORD}",
    ):
        login = ["security.protocol=SASL_SSL", "sasl.mechanism=PLAIN"] if setting.startswith("sasl") else []
        login += ["sasl.username=u"] if setting.startswith("sasl.password") else []
        settings = [word for one in (*login, setting) for word in ("--set", one)]
        assert main(["clusters", "add", "prod", "-b", "k", "--yes", *settings]) == 0
        file.chmod(0o600)
        for command in (["show", "prod"], ["show", "prod", "-o", "json"], ["list"], ["list", "-o", "yaml"]):
            assert main(["clusters", *command]) == 0
        said = capsys.readouterr()
        assert PASSWORD not in said.out + said.err
        assert "warning" not in said.err
        assert NamedClusters.read().has_secrets
        file.chmod(0o644)
        chosen(cluster="prod")
        assert f"chmod 600 {file}" in capsys.readouterr().err


def test_an_empty_broker_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BROKER_VARIABLE, "other")
    with pytest.raises(CommandError, match="--broker is empty"):
        chosen(broker="")


@pytest.mark.parametrize(
    ("broker", "hint"),
    [
        ("127.0.0.1:9092", "is it running? ottla start\n"),
        ("localhost:1", "is it running? ottla start --port 1\n"),
        ("[::1]:9092", "does a broker listen there?\n"),
        ("192.0.2.1:9092", "does a broker listen there?\n"),
    ],
)
def test_a_node_of_this_machine_can_be_started(broker: str, hint: str) -> None:
    assert hint in unreachable(NoBrokerReached(f"cannot connect to {broker}: Connection refused"), broker)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("clusters = 5", "clusters is no table"),
        ("[clusters.a]\n", "clusters.a has no brokers"),
        ('[clusters.a]\nbrokers = "h"\nport = 5\n', "clusters.a: port is unknown"),
        ('current = "b"\n[clusters.a]\nbrokers = "h"\n', "there is no such cluster"),
        ('[clusters.a]\nbrokers = "h"\n[clusters.a.settings]\nx = [1]\n', "neither a text nor"),
        ('[clusters."a b"]\nbrokers = "h"\n', "is no name of a cluster"),
        ("x\n", "it is not valid TOML: Expected"),
        ("#" * (1 << 20) + "#", "larger than"),
    ],
)
def test_a_file_that_is_wrong_is_named_with_the_reason(
    file: Path, text: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file.parent.mkdir()
    file.write_text(text)
    assert main(["clusters", "list"]) == 2
    said = capsys.readouterr().err
    assert str(file) in said and reason in said
    assert chosen(broker="h").broker == "h:9092"


def test_what_cannot_work_is_refused_when_it_is_named(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clusters", "add", "dev", "-b", "h:port"]) == 1
    assert main(["clusters", "add", "dev", "-b", "h", "--set", "reqest.timeout.ms=1"]) == 1
    assert main(["clusters", "add", "a b", "-b", "h"]) == 2
    assert main(["clusters", "add", "dev", "-b", "h", "--command-config", "/absent"]) == 2
    assert "did you mean request.timeout.ms?" in capsys.readouterr().err
    assert not file.exists()


def test_any_text_survives_the_file(file: Path) -> None:
    assert main(["clusters", "add", "dev", "-b", "h", "--set", 'client.id=a"b\\c\x7f\té\n']) == 0
    assert NamedClusters.read().clusters["dev"].settings == {"client.id": 'a"b\\c\x7f\té\n'}


def test_the_file_is_where_xdg_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OTTLA_CLUSTERS", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert file_path() == tmp_path / ".config" / "ottla" / "clusters.toml"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert file_path() == tmp_path / "xdg" / "ottla" / "clusters.toml"


@pytest.mark.parametrize(
    ("given", "brokers"),
    [
        ("host", "host:9092"),
        ("host:1, other ,", "host:1,other:9092"),
        ("::1", "[::1]:9092"),
        ("[::1]", "[::1]:9092"),
        ("[::1]:5", "[::1]:5"),
        ("SSL://host", "SSL://host:9092"),
        ("SSL://[fe80::1]:7", "SSL://[fe80::1]:7"),
        ("host:", "host:"),
    ],
)
def test_a_host_without_a_port_has_kafkas(given: str, brokers: str) -> None:
    assert with_ports(given) == brokers


def test_a_cluster_has_a_registry_and_its_credentials_go_nowhere_else(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(REGISTRY_VARIABLE, raising=False)
    login = f"schema.registry.basic.auth.user.info=user:{PASSWORD}"
    own = "http://own:8081"
    assert main(["clusters", "add", "dev", "-b", "dev", "--registry", own, "--set", login, "--use"]) == 0
    assert main(["clusters", "add", "bad", "-b", "bad", "--registry", "nonsense"]) != 0
    assert "is no address" in capsys.readouterr().err
    assert chosen().settings["schema.registry.url"] == own
    assert chosen(broker="elsewhere").settings == {}
    monkeypatch.setenv(REGISTRY_VARIABLE, "http://other:8081")
    assert chosen().settings == {"schema.registry.url": "http://other:8081"}
    assert chosen(broker="elsewhere").settings == {"schema.registry.url": "http://other:8081"}
    assert chosen(cluster="dev").settings["schema.registry.url"] == own
    config = tmp_path / "config.properties"
    config.write_text("schema.registry.url=http://file:8081\n")
    assert chosen(config=str(config)).settings["schema.registry.url"] == "http://file:8081"
    found = registry_settings("http://named:8081", chosen(cluster="dev").settings)
    assert (found.urls, found.user) == (("http://named:8081",), None)

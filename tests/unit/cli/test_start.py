"""What `ottla start` makes of its options: Kafka's settings."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from ottla.__main__ import main
from ottla.cli.start import _warn_of_visible_secrets, parser, properties, raise_descriptor_limit
from ottla.config import BrokerConfig, ConfigError


def config(*arguments: str) -> BrokerConfig:
    return BrokerConfig.parse(properties(parser().parse_args(arguments)))


def test_without_options_a_node_stands_alone_on_loopback() -> None:
    made = config()
    assert [(listener.host, listener.port) for listener in made.broker_listeners] == [("127.0.0.1", 9092)]
    assert [listener.port for listener in made.controller_listeners] == [0]
    assert (made.node_id, made.log_directories, made.is_broker, made.is_controller) == (1, ("data",), True, True)
    assert made.warnings == []


def test_port_data_and_overrides_win_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=3\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\n"
        "controller.listener.names=CONTROLLER\nlog.dirs=/somewhere\nnum.partitions=4\nnum.io.threads=8\n"
    )
    made = config("--config", str(file))
    assert (made.node_id, made.num_partitions, made.log_directories) == (3, 4, ("/somewhere",))
    assert [listener.port for listener in made.controller_listeners] == [9093]
    assert made.warnings == ["num.io.threads is known to Kafka but not used by Ottla: ignored"]
    made = config("--config", str(file), "--port", "7000", "--data", "/here", "--override", "num.partitions=6")
    assert (made.num_partitions, made.log_directories) == (6, ("/here",))
    assert [str(listener) for listener in made.broker_listeners] == ["PLAINTEXT://127.0.0.1:7000"]


def test_what_a_port_is_advertised_as_may_be_given_beside_it() -> None:
    made = config("--port", "7000", "--override", "advertised.listeners=PLAINTEXT://me:17000")
    assert [str(listener) for listener in made.advertised_broker_listeners] == ["PLAINTEXT://me:17000"]


def test_a_listener_alone_is_enough() -> None:
    made = config(
        "--override", "listeners=PLAINTEXT://0.0.0.0:9092", "--override", "advertised.listeners=PLAINTEXT://me:9092"
    )
    assert [str(listener) for listener in made.advertised_broker_listeners] == ["PLAINTEXT://me:9092"]


def test_listeners_that_name_the_controller_get_no_second_one() -> None:
    made = config("--override", "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093")
    assert [str(listener) for listener in made.controller_listeners] == ["CONTROLLER://127.0.0.1:9093"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--port", "70000"), "--port 70000"),
        (("--port", "9092", "--override", "listeners=SASL_SSL://127.0.0.1:9092"), "of which SASL_SSL is secured"),
        (
            (
                "--port",
                "9092",
                "--override",
                "listeners=IN://127.0.0.1:9092,OUT://127.0.0.1:9093",
                "--override",
                "listener.security.protocol.map=IN:PLAINTEXT,OUT:SASL_PLAINTEXT",
            ),
            "of which OUT is secured",
        ),
        (("--override", "nonsense"), "expected KEY=VALUE"),
        (("--config", "no/such/file"), "cannot be read: No such file"),
        (("--override", "log.retention.hour=3"), "did you mean log.retention.hours?"),
        (("--override", "num.partitions=0"), "num.partitions"),
        (("--override", "listeners=SSL://127.0.0.1:9092"), "SSL"),
    ],
)
def test_what_cannot_be_is_refused_in_words(arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(*arguments)
    assert said in str(caught.value)


def test_a_secret_in_an_override_is_named_without_its_value(caplog: pytest.LogCaptureFixture) -> None:
    overrides = (
        "num.partitions=6",
        "ssl.keystore.password=hunter2",
        "listener.name.in.plain.sasl.jaas.config=hunter3",
        "delegation.token.secret.key=${env:TOKEN_KEY}",
    )
    _warn_of_visible_secrets(overrides)
    (said,) = caplog.messages
    assert said.startswith("listener.name.in.plain.sasl.jaas.config, ssl.keystore.password in --override: every user")
    assert "hunter" not in said


def test_the_command_line_ends_with_2_and_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["start", "--override", "log.retention.hour=3"]) == 2
    assert "ottla start: Unknown setting log.retention.hour; did you mean" in capsys.readouterr().err


def test_an_unknown_command_gets_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["strat"]) == 2
    assert "did you mean 'start'?" in capsys.readouterr().err


def test_help_and_version_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "usage: ottla COMMAND" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert "record kernel: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("limits", "raised"), [((1024, 20_000), [(20_000, 20_000)]), ((20_000, 20_000), []), ((256, -1), [(-1, -1)])]
)
def test_a_node_may_open_as_many_files_as_the_system_allows(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], raised: list[tuple[int, int]]
) -> None:
    set_to: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, limit: set_to.append(limit))
    raise_descriptor_limit()
    assert set_to == raised


def test_a_limit_that_cannot_be_raised_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, -1))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    raise_descriptor_limit()

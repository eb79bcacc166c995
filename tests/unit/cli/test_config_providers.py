"""Variables in the settings of a node, and the files and environment that they name."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.cli.config_providers import resolve
from ottla.cli.start import parser, properties
from ottla.config import BrokerConfig, ConfigError

PACKAGE = "org.apache.kafka.common.config.provider"
PROVIDERS = {
    "config.providers": "file, dir, env",
    "config.providers.file.class": f"{PACKAGE}.FileConfigProvider",
    "config.providers.dir.class": f"{PACKAGE}.DirectoryConfigProvider",
    "config.providers.env.class": f"{PACKAGE}.EnvVarConfigProvider",
}


def value(text: str, **settings: str) -> str:
    named = {
        f"config.providers.{name.replace('__', '.param.').replace('_', '.')}": one for name, one in settings.items()
    }
    return resolve({**PROVIDERS, **named, "ssl.key.password": text})["ssl.key.password"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "secrets.properties").write_text("key = one\nstore=two\n")
    (tmp_path / "password").write_text("three")
    monkeypatch.setenv("OTTLA_TEST_PASSWORD", "four")
    return tmp_path


def test_variables_are_read_from_files_folders_and_the_environment(folder: Path) -> None:
    assert value(f"${{file:{folder}/secrets.properties:key}}") == "one"
    assert value(f"${{dir:{folder}:password}}") == "three"
    assert value("${env:OTTLA_TEST_PASSWORD}") == "four"
    assert value(f"a-${{env:OTTLA_TEST_PASSWORD}}-${{file:{folder}/secrets.properties:store}}") == "a-four-two"


def test_other_texts_stay_as_they_are() -> None:
    assert value("${other:key} ${key} $") == "${other:key} ${key} $"
    without = {"ssl.key.password": "${env:OTTLA_TEST_PASSWORD}", "config.providers.env.class": "x"}
    assert resolve(without) == without


@pytest.mark.parametrize(
    ("text", "settings", "said"),
    [
        (
            "${file:FOLDER/secrets.properties:none}",
            {},
            "ssl.key.password: ${file:FOLDER/secrets.properties:none} has no",
        ),
        ("${file:FOLDER/none.properties:key}", {}, "cannot be read: No such file or directory"),
        ("${env:OTTLA_TEST_NONE}", {}, "has no value"),
        ("${dir:FOLDER/x:../password}", {}, "may not be read"),
        ("${file:FOLDER/secrets.properties:key}", {"file__allowed_paths": "/etc/ottla"}, "may not be read"),
        ("${dir:FOLDER:password}", {"dir__allowed_paths": "FOLDER/deeper"}, "may not be read"),
        ("${env:OTTLA_TEST_PASSWORD}", {"env__allowlist_pattern": "KAFKA_.*"}, "may not be read"),
        ("${env:OTTLA_TEST_PASSWORD}", {"env__allowlist_pattern": "("}, "allowlist.pattern"),
        ("", {"env_class": "org.example.Vault"}, "config.providers.env.class cannot be org.example.Vault: Ottla has"),
    ],
)
def test_what_cannot_be_read_is_refused_without_its_value(
    text: str, settings: dict[str, str], said: str, folder: Path
) -> None:
    given = {name: one.replace("FOLDER", str(folder)) for name, one in settings.items()}
    with pytest.raises(ConfigError) as caught:
        value(text.replace("FOLDER", str(folder)), **given)
    assert said.replace("FOLDER", str(folder)) in str(caught.value)
    assert "four" not in str(caught.value)


def test_allowed_paths_and_names_are_read(folder: Path) -> None:
    assert value(f"${{dir:{folder}:password}}", dir__allowed_paths=f"/etc/ottla, {folder}") == "three"
    assert value("${env:OTTLA_TEST_PASSWORD}", env__allowlist_pattern="OTTLA_.*") == "four"


def test_a_node_has_the_values_and_no_warning_about_the_providers(folder: Path) -> None:
    file = folder / "server.properties"
    lines = {**PROVIDERS, "delegation.token.secret.key": "${env:OTTLA_TEST_PASSWORD}"}
    file.write_text("".join(f"{name}={text}\n" for name, text in lines.items()))
    made = BrokerConfig.parse(properties(parser().parse_args(["--config", str(file)])))
    assert made.delegation_token_secret_key == "four"
    assert made.warnings == []

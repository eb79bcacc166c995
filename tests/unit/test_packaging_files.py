"""The files of packaging/ start nodes with settings that a node accepts."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
from pathlib import Path

import yaml

from ottla.config.broker import BrokerConfig
from ottla.config.properties import parse_properties

PACKAGING = Path(__file__).resolve().parents[2] / "packaging"


def overrides(arguments: list[str]) -> dict[str, str]:
    given = [value for option, value in itertools.pairwise(arguments) if option == "--override"]
    return dict(text.split("=", 1) for text in given)


def test_pods_are_nodes_one_to_three_of_one_quorum(tmp_path: Path) -> None:
    pods = yaml.safe_load((PACKAGING / "kubernetes" / "statefulset.yaml").read_text())
    settings = parse_properties((PACKAGING / "kubernetes" / "server.properties").read_text())
    (node,) = pods["spec"]["template"]["spec"]["containers"]
    stand_in = tmp_path / "ottla"
    stand_in.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    stand_in.chmod(0o755)
    for ordinal in range(pods["spec"]["replicas"]):
        environment = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "HOSTNAME": f"ottla-{ordinal}"}
        environment |= {each["name"]: each["value"] for each in node["env"]}
        started = subprocess.run(
            [*node["command"], *node["args"]], env=environment, capture_output=True, text=True, check=True
        )
        config = BrokerConfig.parse({**settings, **overrides(started.stdout.splitlines())})
        assert config.node_id == ordinal + 1
        (advertised,) = config.advertised_broker_listeners
        assert advertised.host == f"ottla-{ordinal}.ottla"
        assert f"{ordinal + 1}@ottla-{ordinal}.ottla:9093" in settings["controller.quorum.voters"]


def test_the_container_starts_a_node_with_settings_that_are_accepted() -> None:
    text = (PACKAGING / "container" / "Containerfile").read_text().replace("\\\n", "")
    (command,) = re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)
    given = overrides(json.loads(command))
    node = {"node.id": "1", "process.roles": "broker,controller", "controller.listener.names": "CONTROLLER"}
    config = BrokerConfig.parse({**node, "controller.quorum.voters": "1@127.0.0.1:9093", **given})
    assert [listener.port for listener in config.broker_listeners] == [9092]
    assert "USER ottla" in text

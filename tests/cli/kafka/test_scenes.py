"""What our console tools print is what Kafka's own print, line by line, on Ottla and on Apache Kafka.

By default ours play the scenes on Ottla and are compared with the recordings. OTTLA_INTEROP_ALL=1 also plays them with
the originals on Apache Kafka (so that a recording that is out of date is found), with ours on Apache Kafka, and with
the originals on Ottla.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.kafka.scenes import READING, Stage, original_tools, our_tools, read_scene, scene_names
from tests.cli.kafka.servers import kill_of, places, scene_server
from tests.interop.servers import SINCE_4_4, kafka_anchor
from tests.interop.toolbox import Toolbox

needs_all = pytest.mark.skipif(os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="OTTLA_INTEROP_ALL=1 plays it")
SINGLE = [name for name in scene_names() if not read_scene(name).needs_cluster]
CLUSTERED = [name for name in scene_names() if read_scene(name).needs_cluster]
OURS_CLUSTERED = [name for name in CLUSTERED if name not in ("cluster_features", "cluster_nodes")]
"""Those that play with tools which Ottla has, too."""
ALWAYS = ("cluster_moves", "cluster_topics")
SETTLE_SECONDS = 120


@pytest.fixture(scope="module")
def originals() -> Iterator[Toolbox]:
    if kafka_anchor() is None:
        pytest.skip("Kafka's command line tools: no anchor script or no java")
    toolbox = Toolbox()
    yield toolbox
    toolbox.close()


def _as_of_4_3(printed: str) -> str:
    """Without the lines of settings that Kafka 4.3.1, which the recordings are of, does not have."""
    lines = printed.split("\n")
    return "\n".join(line for line in lines if not any(f"  {setting}=" in line for setting in SINCE_4_4))


def play(name: str, folder: Path, kind: str, originals: Toolbox | None = None) -> None:
    if kind == "kafka" and kafka_anchor() is None:
        pytest.skip("Apache Kafka 4.3.1: no anchor script or no java")
    scene = read_scene(name)
    with scene_server(folder, kind, scene) as server:
        run = our_tools if originals is None else original_tools(originals)
        stage = Stage(run, places(server, folder), kill_of(server))
        for number, (command, attempt) in enumerate(stage.play(scene)):
            expected = scene.printed[number]
            printed = _as_of_4_3(attempt().text())
            # A Kafka broker applies a change a little after its client got the answer.
            ends_at = time.monotonic() + SETTLE_SECONDS
            while printed != expected and READING.search(command) and time.monotonic() < ends_at:
                time.sleep(0.1)
                printed = _as_of_4_3(attempt().text())
            assert printed == expected, f"{name}: $ {command}"


@pytest.mark.parametrize("name", SINGLE)
def test_ours_on_ottla(name: str, tmp_path: Path) -> None:
    play(name, tmp_path, "ottla")


@needs_all
@pytest.mark.parametrize("name", SINGLE)
def test_ours_on_kafka(name: str, tmp_path: Path) -> None:
    play(name, tmp_path, "kafka")


@needs_all
@pytest.mark.parametrize("name", SINGLE)
def test_originals_on_kafka(name: str, tmp_path: Path, originals: Toolbox) -> None:
    play(name, tmp_path, "kafka", originals)


@needs_all
@pytest.mark.parametrize("name", SINGLE)
def test_originals_on_ottla(name: str, tmp_path: Path, originals: Toolbox) -> None:
    play(name, tmp_path, "ottla", originals)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in ALWAYS else needs_all) for name in OURS_CLUSTERED]
)
def test_ours_on_a_cluster_of_ottla(name: str, tmp_path: Path) -> None:
    play(name, tmp_path, "ottla")


@needs_all
@pytest.mark.parametrize("name", CLUSTERED)
def test_originals_on_a_cluster_of_ottla(name: str, tmp_path: Path, originals: Toolbox) -> None:
    play(name, tmp_path, "ottla", originals)


@needs_all
@pytest.mark.parametrize("name", OURS_CLUSTERED)
def test_ours_on_a_cluster_of_kafka(name: str, tmp_path: Path) -> None:
    play(name, tmp_path, "kafka")


@needs_all
@pytest.mark.parametrize("name", CLUSTERED)
def test_originals_on_a_cluster_of_kafka(name: str, tmp_path: Path, originals: Toolbox) -> None:
    play(name, tmp_path, "kafka", originals)

"""`python -m tests.cli.kafka.record [SCENE ...]`: the originals print on Apache Kafka what the tests compare with."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.cli.kafka.scenes import READING, Printed, Stage, original_tools, read_scene, scene_names, write_scene
from tests.cli.kafka.servers import kill_of, places, scene_server
from tests.interop.toolbox import Toolbox

NOTICED_S, DONE_S = 20.0, 2.0


def record(names: list[str]) -> None:
    toolbox = Toolbox()
    try:
        for name in names:
            scene = read_scene(name)
            with tempfile.TemporaryDirectory() as folder, scene_server(Path(folder), "kafka", scene) as server:
                stage = Stage(original_tools(toolbox), places(server, Path(folder)), kill_of(server))
                scene.printed = [recorded(command, run) for command, run in stage.play(scene)]
            write_scene(scene)
            print(f"{name}: {len(scene.commands)} commands")
    finally:
        toolbox.close()


def recorded(command: str, run: Callable[[], Printed]) -> str:
    """What a command printed. The next one finds what it did: a killed node is noticed, a small move done."""
    printed = run().text()
    if not READING.search(command):
        time.sleep(NOTICED_S if command.startswith("kill ") else DONE_S)
    return printed


if __name__ == "__main__":
    record(sys.argv[1:] or scene_names())

"""`python -m tests.cli.kafka.record [SCENE ...]`: the originals print on Apache Kafka what the tests compare with."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.cli.kafka.scenes import Stage, original_tools, read_scene, scene_names, write_scene
from tests.cli.kafka.servers import places, scene_server
from tests.interop.toolbox import Toolbox


def record(names: list[str]) -> None:
    toolbox = Toolbox()
    try:
        for name in names:
            scene = read_scene(name)
            with tempfile.TemporaryDirectory() as folder, scene_server(Path(folder), "kafka", scene) as server:
                stage = Stage(original_tools(toolbox), places(server, Path(folder)))
                scene.printed = [run().text() for _, run in stage.play(scene)]
            write_scene(scene)
            print(f"{name}: {len(scene.commands)} commands")
    finally:
        toolbox.close()


if __name__ == "__main__":
    record(sys.argv[1:] or scene_names())

"""Groups of clients in Go (franz-go, sarama, segmentio/kafka-go) and Node (kafkajs), each a program that checks itself.

They run when OTTLA_INTEROP_ALL=1 (`make interop`), as the other tests of these clients do.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.interop.servers import Server
from tests.interop.test_other_languages import HERE, go_programs, node_folder, pytestmark, succeeds

__all__ = ["go_programs", "node_folder", "pytestmark"]


@pytest.mark.parametrize("client", ["franzgroups", "franzshares", "saramagroups", "segmentiogroups"])
def test_go_client(group_broker: Server, go_programs: Path, client: str) -> None:
    assert succeeds([str(go_programs / client), group_broker.bootstrap], go_programs).strip() == "ok"


def test_kafkajs(group_broker: Server, node_folder: Path) -> None:
    shutil.copy(HERE / "node" / "kafkajs_groups.js", node_folder / "kafkajs_groups.js")
    assert succeeds(["node", "kafkajs_groups.js", group_broker.bootstrap], node_folder).strip() == "ok"

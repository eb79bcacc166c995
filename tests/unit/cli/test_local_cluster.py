"""`cluster.json`: what a cluster of this machine was made with."""

from __future__ import annotations

from pathlib import Path

from ottla.cli.local_cluster import FILE, LocalCluster


def test_only_the_owner_may_read_what_a_cluster_was_made_with(tmp_path: Path) -> None:
    file = tmp_path / FILE
    cluster = LocalCluster(tmp_path)
    file.touch()
    file.chmod(0o644)  # as earlier versions wrote it
    cluster.make(1, 29_000, ["sasl.jaas.config=... password=secret;"])
    assert file.stat().st_mode & 0o777 == 0o600
    assert LocalCluster.existing(tmp_path).node_ids == [1]

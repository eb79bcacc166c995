"""`cluster.json`: what a cluster of this machine was made with."""

from __future__ import annotations

from pathlib import Path

from ottla.cli.local_cluster import FILE, LocalCluster, printed_error


def test_only_the_owner_may_read_what_a_cluster_was_made_with(tmp_path: Path) -> None:
    file = tmp_path / FILE
    cluster = LocalCluster(tmp_path)
    file.touch()
    file.chmod(0o644)  # as earlier versions wrote it
    cluster.make(1, 29_000, ["sasl.jaas.config=... password=secret;"])
    assert file.stat().st_mode & 0o777 == 0o600
    assert LocalCluster.existing(tmp_path).node_ids == [1]


def test_the_error_of_a_node_is_found_before_what_it_logs_while_it_stops() -> None:
    taken = "ottla start: 127.0.0.1:9092 is taken by another program; stop it, or choose another port"
    stopping = [f"2026-11-19 23:30:57,4{n} INFO ottla.node: stopping, step {n}" for n in range(10, 14)]
    assert printed_error(["2026-11-19 23:30:57,000 INFO ottla: starting", taken, *stopping]) == taken
    assert printed_error(stopping) == ""

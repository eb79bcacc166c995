"""--bootstrap-controller while the quorum has no leader, or nothing listens: the reason is shown, no traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.interop.servers import free_port


def quorum_tool(port: int, folder: Path) -> subprocess.Popen[str]:
    """kafka-metadata-quorum, which gives up after three seconds."""
    settings = folder / "client.properties"
    settings.write_text("default.api.timeout.ms=3000\n")
    arguments = [
        "--bootstrap-controller",
        f"127.0.0.1:{port}",
        "--command-config",
        str(settings),
        "describe",
        "--status",
    ]
    program = [sys.executable, "-m", "ottla", "kafka-metadata-quorum", *arguments]
    return subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_controller_without_a_quorum_is_named(tmp_path: Path) -> None:
    port, other = free_port(), free_port()
    overrides = [
        "node.id=1",
        "process.roles=controller",
        f"listeners=CONTROLLER://127.0.0.1:{port}",
        "controller.listener.names=CONTROLLER",
        f"controller.quorum.voters=1@127.0.0.1:{port},2@127.0.0.1:{other},3@127.0.0.1:{other + 1}",
    ]
    node = subprocess.Popen(
        [sys.executable, "-m", "ottla", "start", "--data", str(tmp_path / "data"), "--cluster-id", "A" * 22]
        + [f"--override={one}" for one in overrides],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert node.stderr is not None
        for line in node.stderr:
            if "waiting for controllers" in line:
                break
        _, said = quorum_tool(port, tmp_path).communicate(timeout=120)
    finally:
        node.send_signal(signal.SIGTERM)
        node.communicate(timeout=120)
    assert f"the controller at 127.0.0.1:{port} knows no active controller: the quorum has no leader" in said
    assert "Traceback" not in said


def test_a_port_where_nothing_listens_is_named(tmp_path: Path) -> None:
    port = free_port()
    _, said = quorum_tool(port, tmp_path).communicate(timeout=120)
    assert f"cannot connect to 127.0.0.1:{port}: Connection refused; the client keeps trying" in said
    assert "Traceback" not in said

"""A cluster made at Kafka 4.3's level is raised to 4.4's by a command, and stays there over a restart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.__main__ import main
from ottla.client.blocking import Admin
from ottla.client.errors import KafkaError
from ottla.testing import Broker
from ottla.wire.errors import ErrorCode


def test_features_are_raised_to_a_release(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def ottla(broker: Broker, *arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main([*arguments, "-b", broker.bootstrap_servers])
        return code, *capfd.readouterr()

    def in_force(broker: Broker) -> dict[str, int]:
        _, out, _ = ottla(broker, "cluster", "features", "-o", "json")
        return {row["feature"]: row["finalized"] for row in json.loads(out)}

    with Broker(data=str(tmp_path / "data")) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        before = in_force(broker)
        assert (before["metadata.version"], before["share.version"]) == (30, 1)
        with pytest.raises(KafkaError) as caught:
            admin.unregister_controller(9)
        assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
        code, _, err = ottla(broker, "cluster", "features", "upgrade", "4.4")
        assert (code, in_force(broker)) == (2, before)
        assert "raise metadata.version 30 to 33, share.version 1 to 2" in err
        code, _, err = ottla(broker, "cluster", "features", "upgrade", "9.9", "--yes")
        assert code != 0 and "there is no release 9.9: expected one from 3.3-IV3 to 4.4-IV2, such as 4.4" in err
        code, out, _ = ottla(broker, "cluster", "features", "upgrade", "4.4", "--yes")
        assert code == 0 and "metadata.version" in out
        after = {**before, "metadata.version": 33, "share.version": 2}
        assert in_force(broker) == after
        assert "nothing to do" in ottla(broker, "cluster", "features", "upgrade", "--yes")[2]
        with pytest.raises(KafkaError) as caught:
            admin.unregister_controller(9)
        assert caught.value.code is ErrorCode.CONTROLLER_ID_NOT_REGISTERED
        admin.unregister_controller(1)
        broker.kill()
        broker.start()
        assert in_force(broker) == after

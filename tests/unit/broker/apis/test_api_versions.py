"""ApiVersions: what a client learns first, and whether it talks to the node that it takes this one for."""

from __future__ import annotations

from pathlib import Path

from ottla.broker.apis.api_versions import api_versions
from ottla.broker.caller import Caller
from ottla.broker.serving.telemetry import Telemetry
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.api_versions import ApiVersionsRequest
from tests.unit.broker.rooms import CLIENT, Ground, make_metadata, run_timed


def test_a_client_that_means_another_node_or_cluster_has_to_begin_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        ground = Ground(tmp_path)
        metadata = make_metadata(ground)
        cluster_id, node_id = metadata.cluster_id, ground.node_id

        def code(cluster_id: str | None, node_id: int) -> int:
            request = ApiVersionsRequest(
                client_software_name="tester", client_software_version="1", cluster_id=cluster_id, node_id=node_id
            )
            response = api_versions(request, ground, metadata, Telemetry(), Caller("tester", CLIENT, 18, 5))
            assert bool(response.api_keys) == (response.error_code == ErrorCode.NONE)
            return response.error_code

        assert code(None, -1) == ErrorCode.NONE
        assert code(cluster_id, -1) == ErrorCode.NONE
        assert code(None, node_id) == ErrorCode.NONE
        assert code(cluster_id, node_id) == ErrorCode.NONE
        assert code("another", node_id) == ErrorCode.REBOOTSTRAP_REQUIRED
        assert code(cluster_id, node_id + 1) == ErrorCode.REBOOTSTRAP_REQUIRED

    run_timed(scenario())

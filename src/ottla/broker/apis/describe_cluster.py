"""DescribeCluster v0-v2: the cluster and its brokers, or its controllers when asked through a controller's door."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.apis.metadata import NOT_ASKED
from ottla.broker.caller import Caller
from ottla.broker.ground import Ground
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, Need
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS, CONTROLLERS = 1, 2


def describe_cluster(
    request: DescribeClusterRequest, ground: Ground, metadata: Metadata, caller: Caller
) -> DescribeClusterResponse:
    if caller.client.role == "controller" and not caller.is_allowed_on_cluster(AclOperation.ALTER):
        return _refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED.text)
    expected = CONTROLLERS if caller.client.role == "controller" else BROKERS
    if request.endpoint_type not in (BROKERS, CONTROLLERS):
        return _refused(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {request.endpoint_type}")
    if request.endpoint_type != expected:
        reached = "brokers" if expected == BROKERS else "controllers"
        return _refused(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE, f"The request asks for the other kind of endpoint: here are {reached}"
        )
    found = _controllers(ground, caller) if expected == CONTROLLERS else _brokers(request, ground, caller)
    return DescribeClusterResponse(
        error_code=ErrorCode.NONE,
        error_message=None,
        endpoint_type=expected,
        cluster_id=metadata.cluster_id,
        # To clients a broker is the controller: it forwards requests for the active one (KIP-590).
        controller_id=metadata.quorum.leader_id if expected == CONTROLLERS else ground.node_id,
        brokers=list(found),
        cluster_authorized_operations=(
            caller.cluster_operations() if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _brokers(request: DescribeClusterRequest, ground: Ground, caller: Caller) -> Iterable[DescribeClusterBroker]:
    for broker in ground.image.brokers.values():
        endpoint = broker.endpoints.get(caller.client.listener)
        if endpoint is not None and (not broker.is_fenced or request.include_fenced_brokers):
            yield DescribeClusterBroker(
                broker_id=broker.id,
                host=endpoint.host,
                port=endpoint.port,
                rack=broker.rack,
                is_fenced=broker.is_fenced,
            )


def _controllers(ground: Ground, caller: Caller) -> Iterable[DescribeClusterBroker]:
    for controller in ground.image.controllers.values():
        endpoint = controller.endpoints.get(caller.client.listener)
        if endpoint is not None:
            yield DescribeClusterBroker(broker_id=controller.id, host=endpoint.host, port=endpoint.port)


def _refused(code: ErrorCode, message: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=code, error_message=message)


api = Api(
    key=60,
    handler=describe_cluster,
    needs=(
        Need(AclOperation.DESCRIBE, AclResource.CLUSTER),
        Need(AclOperation.ALTER, AclResource.CLUSTER),
    ),
)

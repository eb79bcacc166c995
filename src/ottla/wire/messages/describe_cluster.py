"""DescribeCluster (api key 60): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int8, int16, int32, since, string


class DescribeClusterRequest(Message, api_key=60, versions=(0, 2), flexible=0):
    include_cluster_authorized_operations: bool = False
    endpoint_type: int8 = since(1, default=1)
    include_fenced_brokers: bool = since(2, default=False)


class DescribeClusterBroker(Struct):
    broker_id: int32 = 0
    host: string = ""
    port: int32 = 0
    rack: string | None = None
    is_fenced: bool = since(2, default=False)


class DescribeClusterResponse(Message, api_key=60, versions=(0, 2), flexible=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    endpoint_type: int8 = since(1, default=1)
    cluster_id: string = ""
    controller_id: int32 = -1
    brokers: array[DescribeClusterBroker] = []
    cluster_authorized_operations: int32 = -2147483648

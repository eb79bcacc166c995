"""--bootstrap-controller: an admin client that speaks to the quorum of controllers and to no broker (KIP-919)."""

from __future__ import annotations

from typing import Any

from ottla.client.admin import Admin
from ottla.client.config import split_address
from ottla.client.connection import Connection
from ottla.client.errors import KafkaError, NoBrokerReached, error_of
from ottla.wire import Message
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

CONTROLLERS = 2
"""The endpoint type of DescribeCluster."""


class ControllerAdmin(Admin):
    """Everything is asked of the active controller, found through any controller."""

    _controller: Connection | None = None

    async def close(self) -> None:
        if self._controller is not None:
            self._controller.close()
            await self._controller.closed()
        await super().close()

    async def _ask_controller(self, request: Message) -> Any:
        if isinstance(request, DescribeClusterRequest):
            request.endpoint_type = CONTROLLERS
        if self._controller is None:
            self._controller = await self._connect()
        return await _ask(self._controller, request)

    async def _ask_any(self, request: Message) -> Any:
        return await self._ask_controller(request)

    async def _connect(self) -> Connection:
        failure: KafkaError | None = None
        for address in self.config.bootstrap_servers:
            try:
                connection = await Connection.connect(*split_address(address), self.config)
                response: DescribeClusterResponse = await _ask(
                    connection, DescribeClusterRequest(endpoint_type=CONTROLLERS)
                )
                if response.error_code:
                    raise error_of(response.error_code, response.error_message)
                active = next(one for one in response.brokers if one.broker_id == response.controller_id)
                if f"{active.host}:{active.port}" == address:
                    return connection
                connection.close()
                await connection.closed()
                return await Connection.connect(active.host, active.port, self.config)
            except KafkaError as error:
                failure = error
        raise failure or NoBrokerReached("no controller is named")


async def _ask(connection: Connection, request: Message) -> Any:
    api_key = type(request).__schema__.api_key
    assert api_key is not None
    return await connection.request(request, version=connection.version_of(api_key))

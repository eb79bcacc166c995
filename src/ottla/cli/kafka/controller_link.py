"""--bootstrap-controller: an admin client that speaks to the quorum of controllers and to no broker (KIP-919)."""

from __future__ import annotations

import logging
from typing import Any

from ottla.client.admin import Admin
from ottla.client.config import split_address
from ottla.client.connection import Connection
from ottla.client.errors import ErrorCode, KafkaError, NetworkError, NoBrokerReached, error_of
from ottla.wire import Message
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

_log = logging.getLogger("ottla.client")
CONTROLLERS = 2
"""The endpoint type of DescribeCluster."""


class ControllerAdmin(Admin):
    """Everything is asked of the active controller, found through any controller."""

    _controller: Connection | None = None
    _is_warned = False

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
        connection = self._controller
        try:
            response = await _ask(connection, request)
        except NetworkError:
            self._controller = None
            connection.close()
            raise
        if getattr(response, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
            self._controller = None  # the next try looks for the controller that leads now
            connection.close()
        return response

    async def _ask_any(self, request: Message) -> Any:
        return await self._ask_controller(request)

    async def _connect(self) -> Connection:
        """A connection to the active controller; the first failure is logged, since the call is tried again."""
        failure: KafkaError = NoBrokerReached("no controller is named")
        for address in self.config.bootstrap_servers:
            try:
                return await self._active(address)
            except KafkaError as error:
                failure = error
        if not self._is_warned:
            self._is_warned = True
            _log.warning("%s; the client keeps trying", failure.message)
        raise failure

    async def _active(self, address: str) -> Connection:
        """A connection to the controller that leads, as the one at this address names it."""
        connection = await Connection.connect(*split_address(address), self.config)
        is_active = False
        try:
            request = DescribeClusterRequest(endpoint_type=CONTROLLERS)
            response: DescribeClusterResponse = await _ask(connection, request)
            if response.error_code:
                raise error_of(response.error_code, response.error_message)
            active = next((one for one in response.brokers if one.broker_id == response.controller_id), None)
            if active is None:
                raise KafkaError(
                    ErrorCode.NOT_CONTROLLER,
                    f"the controller at {address} knows no active controller: the quorum has no leader",
                )
            is_active = f"{active.host}:{active.port}" == address
            if is_active:
                return connection
            return await Connection.connect(active.host, active.port, self.config)
        finally:
            if not is_active:
                connection.close()
                await connection.closed()


async def _ask(connection: Connection, request: Message) -> Any:
    api_key = type(request).__schema__.api_key
    assert api_key is not None
    return await connection.request(request, version=connection.version_of(api_key))

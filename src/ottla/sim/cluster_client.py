"""A client of one broker's interface on a cluster: each request goes where it belongs.

To the leader of the partition it names, to the coordinator of its group or transactional id, or to any broker. So the
workloads that were written for one node run on several. Where something is, is believed for a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from ottla.sim.client import REQUEST_TIMEOUT_S, Client, NoAnswer
from ottla.sim.network import Network
from ottla.sim.router import Router
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.message import Message
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.list_offsets import ListOffsetsRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest
from ottla.wire.messages.produce import ProduceRequest

Answer = TypeVar("Answer", bound=Message)

BELIEVED_S = 1.0
GROUP, TRANSACTION = 0, 1


class ClusterClient(Client):
    def __init__(
        self,
        network: Network,
        host: str,
        brokers: Sequence[tuple[str, int]],
        newest: dict[tuple[str, int], int],
        replication_factor: int,
    ) -> None:
        super().__init__(network, host, brokers[0])
        self._replication_factor = replication_factor
        self._clients = [Client(network, host, broker) for broker in brokers]
        self._router = Router(self._clients, newest)
        self._coordinators: dict[tuple[int, str], int] = {}
        self._believed_until = 0.0
        self._failed_at = -1.0
        self._looking = asyncio.Lock()

    def close(self) -> None:
        self._router.close()

    async def create_topic(
        self, name: str, partitions: int = 1, configs: dict[str, str] | None = None, *, replicas: int = 1
    ) -> None:
        await super().create_topic(name, partitions, configs, replicas=self._replication_factor)

    async def request(
        self,
        message: Message,
        answer: type[Answer],
        *,
        version: int | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
        expects_answer: bool = True,
    ) -> Answer:
        if self._loop.time() >= self._believed_until:
            self._forget()
        came_at = self._loop.time()
        async with self._looking:
            if self._failed_at >= came_at:
                # As on one connection: requests arrive in the order in which they were sent, or the rest does not
                # arrive.
                raise NoAnswer("what was to be sent before could not be")
            try:
                client = await self._where(message)
            except (NoAnswer, KafkaError) as error:
                self._failed_at = self._loop.time()
                self._forget()
                raise NoAnswer(str(error)) from None
        self.asked_id = self._clients.index(client) + 1
        try:
            return await client.request(
                message, answer, version=version, timeout_s=timeout_s, expects_answer=expects_answer
            )
        except NoAnswer:
            self._forget()
            raise

    def _forget(self) -> None:
        self._router.forget()
        self._coordinators.clear()
        self._believed_until = self._loop.time() + BELIEVED_S

    async def _where(self, message: Message) -> Client:
        if isinstance(message, ProduceRequest):
            topic = message.topic_data[0]
            return await self._leader(str(topic.name), topic.partition_data[0].index)
        if isinstance(message, FetchRequest):
            wanted = message.topics[0].partitions[0]
            place = await self._router.place(str(message.topics[0].topic), wanted.partition)
            wanted.current_leader_epoch = place.leader_epoch
            return self._clients[place.leader_id - 1]
        if isinstance(message, ListOffsetsRequest):
            row = message.topics[0].partitions[0]
            place = await self._router.place(str(message.topics[0].name), row.partition_index)
            row.current_leader_epoch = place.leader_epoch
            return self._clients[place.leader_id - 1]
        if isinstance(message, OffsetFetchRequest) and message.groups:
            return await self._coordinator(GROUP, message.groups[0].group_id)
        group_id = getattr(message, "group_id", "")
        if group_id and not isinstance(message, AddOffsetsToTxnRequest):
            return await self._coordinator(GROUP, group_id)
        for name in ("transactional_id", "v3_and_below_transactional_id"):
            if transactional_id := getattr(message, name, None):
                return await self._coordinator(TRANSACTION, transactional_id)
        return self._router.any_broker()

    async def _leader(self, topic: str, partition: int) -> Client:
        place = await self._router.place(topic, partition)
        return self._clients[place.leader_id - 1]

    async def _coordinator(self, key_type: int, key: str) -> Client:
        if (key_type, key) not in self._coordinators:
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
            response = await self._router.any_broker().request(request, FindCoordinatorResponse, timeout_s=2.0)
            found = response.coordinators[0]
            if found.error_code:
                raise KafkaError(ErrorCode(found.error_code))
            self._coordinators[key_type, key] = found.node_id
        return self._clients[self._coordinators[key_type, key] - 1]

"""Connections that come faster than `max.connection.creation.rate` or `connection_creation_rate` of an ip allow."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from ottla.sim.client import Client, NoAnswer
from ottla.sim.cluster import PORT
from ottla.sim.replicas import Cluster
from ottla.sim.shape import SASL_PORT, Shape
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    OpData,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

NAME = "max.connection.creation.rate"
WINDOWS = {"quota.window.num": "2", "quota.window.size.seconds": "1"}
COUNT, RATE = 20, 4
"""Two windows take 8 connections at once, or what comes before the first is full."""


def new_cluster(properties: Mapping[str, str] | None = None) -> Cluster:
    """One node with two listeners; SASL_PLAINTEXT is that of brokers."""
    shape = Shape(broker_count=1, combined_count=1, has_logins=True)
    return Cluster(1, shape=shape, properties=WINDOWS | dict(properties or {}))


async def answer_times(sim: Cluster, port: int, count: int = COUNT) -> list[float]:
    """Seconds until each of so many new connections was answered."""
    began = sim.loop.time()

    async def one(number: int) -> float:
        client = Client(sim.network, f"client-{number}", (sim.names[0], port))
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        await client.request(request, ApiVersionsResponse, version=3, timeout_s=60)
        client.close()
        return sim.loop.time() - began

    return sorted(await asyncio.gather(*(one(number) for number in range(count))))


def check_delayed(times: list[float]) -> None:
    assert len([one for one in times if one < 0.5]) in range(1, 2 * RATE + 1)
    assert (COUNT - 2 * RATE) / RATE <= times[-1] <= 1.5 * COUNT / RATE, "all are answered, late"


def test_connections_to_a_listener_over_its_rate_are_accepted_later() -> None:
    sim = new_cluster({f"listener.name.plaintext.{NAME}": str(RATE)})
    check_delayed(sim.run(answer_times(sim, PORT)))
    sim.finish()


def test_the_rate_of_the_node_does_not_hold_for_the_listener_of_brokers() -> None:
    sim = new_cluster({NAME: str(RATE)})

    async def both() -> tuple[list[float], list[float]]:
        return await asyncio.gather(answer_times(sim, PORT), answer_times(sim, SASL_PORT))

    clients, brokers = sim.run(both())
    check_delayed(clients)
    assert brokers[-1] < 0.5
    sim.finish()


def test_a_listener_has_a_rate_while_the_node_runs() -> None:
    sim = new_cluster()

    async def alter(value: str) -> None:
        change = AlterableConfig(name=f"listener.name.plaintext.{NAME}", config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[change])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        response = await sim.router().any_broker().request(request, IncrementalAlterConfigsResponse)
        assert response.responses[0].error_code == 0, response.responses[0].error_message

    assert sim.run(answer_times(sim, PORT))[-1] < 0.5
    sim.run(alter(str(RATE)))
    check_delayed(sim.run(answer_times(sim, PORT)))
    sim.run(alter("1000000"))
    assert sim.run(answer_times(sim, PORT))[-1] < 1.5, "after the pause that has begun"
    sim.finish()


def test_an_address_over_its_rate_is_closed_after_a_while() -> None:
    """As in Kafka: the connection is accepted, and closed when the pause is over."""
    sim = new_cluster()

    async def scenario() -> None:
        everyone = AlterClientQuotasRequestEntityData(entity_type="ip", entity_name=None)
        request = AlterClientQuotasRequest(
            entries=[
                AlterClientQuotasRequestEntryData(
                    entity=[everyone], ops=[OpData(key="connection_creation_rate", value=1.0)]
                )
            ]
        )
        response = await sim.router().any_broker().request(request, AlterClientQuotasResponse)
        assert response.entries[0].error_code == ErrorCode.NONE, response.entries[0].error_message
        began = sim.loop.time()
        with pytest.raises(NoAnswer, match="closed"):
            for _ in range(10):
                await answer_times(sim, PORT, 1)
        assert 0.1 < sim.loop.time() - began <= 2

    sim.run(scenario())
    sim.finish()

"""A topic that the client looks for: the errors name their cause."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from ottla.client.admin import ConfigResource, ResourceType
from ottla.client.cluster import Cluster
from ottla.client.errors import RequestTimedOut


class SilentCluster(Cluster):
    """No broker answers a request for metadata."""

    def __init__(self) -> None:
        self.metadata: Any = SimpleNamespace(topics={})
        self._topics = {}

    async def refresh(self, topics: Any = None, **_: Any) -> NoReturn:
        await asyncio.Event().wait()
        raise AssertionError("it is cancelled")


def test_a_topic_without_an_answer_of_any_broker_says_so() -> None:
    with pytest.raises(RequestTimedOut, match=r"topic orders was not found within 1 ms: no broker answered a request"):
        asyncio.run(SilentCluster().topic("orders", timeout_ms=1))


def test_a_resource_in_an_error_is_named_as_in_commands() -> None:
    assert [str(ConfigResource(ResourceType.BROKER, "1")), str(ConfigResource(ResourceType.CLIENT_METRICS, "m"))] == [
        "broker 1",
        "client-metrics m",
    ]

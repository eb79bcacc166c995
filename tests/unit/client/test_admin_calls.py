"""Admin calls about several items: what one of them does to the others."""

from __future__ import annotations

import asyncio

import pytest

from ottla.client.admin.calls import AdminCalls, PartialFailure, errors_by_item
from ottla.client.cluster import Cluster
from ottla.client.config import AdminConfig
from ottla.client.errors import ErrorCode, KafkaError, RequestTimedOut


class Calls(AdminCalls):
    """Sends nothing: broker 2 never answers, broker 3 refuses."""

    def __init__(self) -> None:
        self.config = AdminConfig.parse(
            {"bootstrap.servers": "127.0.0.1:1", "default.api.timeout.ms": "50", "retry.backoff.ms": "1"}
        )
        self._cluster = Cluster(self.config)

    async def describe(self, *brokers: int) -> dict[int, str]:
        async def ask(left: dict[int, None]) -> dict[int, str | KafkaError]:
            answers: dict[int, str | KafkaError] = {}
            for broker in left:
                if broker == 2:
                    await asyncio.get_running_loop().create_future()
                refusal = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")
                answers[broker] = refusal if broker == 3 else f"disk of {broker}"
            return answers

        return await self._each_alone(brokers, ask)


def test_one_that_is_silent_takes_no_time_from_the_others() -> None:
    with pytest.raises(PartialFailure) as failure:
        asyncio.run(Calls().describe(1, 2, 3, 4, 1))
    assert failure.value.results == {1: "disk of 1", 4: "disk of 4"}
    assert list(failure.value.errors) == [2, 3]
    assert isinstance(failure.value.errors[2], RequestTimedOut)


def test_all_that_answer_are_the_answer_and_a_single_error_is_itself() -> None:
    assert asyncio.run(Calls().describe(1, 4)) == {1: "disk of 1", 4: "disk of 4"}
    with pytest.raises(KafkaError) as failure:
        asyncio.run(Calls().describe(3))
    assert failure.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_errors_are_told_by_item() -> None:
    async def failing(error: KafkaError) -> None:
        raise error

    async def fine() -> None:
        return None

    refusal = KafkaError(ErrorCode.INVALID_REQUEST, "no")
    assert asyncio.run(errors_by_item(fine(), ["a"])) == {}
    assert asyncio.run(errors_by_item(failing(refusal), ["a", "b"])) == {"a": refusal, "b": refusal}
    partial = PartialFailure({"a": None}, {"b": refusal})
    assert asyncio.run(errors_by_item(failing(partial), ["a", "b"])) == {"b": refusal}

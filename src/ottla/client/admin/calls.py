"""How an admin call runs: sent to the right broker, retried while that may help, item by item."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from typing import Any, TypeVar

from ottla.client.cluster import Cluster, CoordinatorType
from ottla.client.config import AdminConfig
from ottla.client.errors import (
    ErrorCode,
    KafkaError,
    RequestTimedOut,
    UnknownTopicOrPartition,
    error_of,
)
from ottla.client.metadata import TopicPartition
from ottla.wire import Message

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
R = TypeVar("R")

RETRIED = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
"""Fewer errors than a producer retries: for an operator, a missing topic is an answer."""
_MOVED = (ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class PartialFailure(KafkaError):
    """Part of the request succeeded, part of it failed: see `results` and `errors`, by item."""

    def __init__(self, results: Mapping[Any, Any], errors: Mapping[Any, KafkaError]) -> None:
        item, first = next(iter(errors.items()))
        super().__init__(first.code, f"{len(errors)} of {len(results) + len(errors)} failed; {item}: {first}")
        self.results = dict(results)
        self.errors = dict(errors)


class AdminCalls:
    """Common to the groups of calls."""

    config: AdminConfig
    _cluster: Cluster

    async def _each(
        self, items: Mapping[K, V], ask: Callable[[dict[K, V]], Awaitable[Mapping[K, R | KafkaError]]]
    ) -> dict[K, R]:
        """The result of every item. `ask` is called with the remaining items until all have a result or the timeout is
        over. The error of a single item is raised as it is, several as PartialFailure."""
        self._cluster.check_process()
        results: dict[K, R] = {}
        errors: dict[K, KafkaError] = {}
        left = dict(items)
        attempt = 0
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + self.config.default_api_timeout_ms / 1000
        while left:
            answers: Mapping[K, R | KafkaError]
            try:
                async with asyncio.timeout_at(ends_at):
                    answers = await ask(left)
            except KafkaError as error:
                answers = dict.fromkeys(left, error)
            except TimeoutError:
                answers = dict.fromkeys(
                    left, RequestTimedOut(f"no answer within {self.config.default_api_timeout_ms} ms")
                )
            attempt += 1
            again: dict[K, V] = {}
            pause = self._cluster.retry_backoff.pause_ms(attempt) / 1000
            may_retry = loop.time() + pause < ends_at and attempt <= self.config.retries
            for item, wanted in left.items():
                answer = answers.get(item)
                if isinstance(answer, KafkaError):
                    if answer.code in RETRIED and may_retry:
                        self._cluster.retries(answer)
                        again[item] = wanted
                    else:
                        errors[item] = answer
                elif item in answers:
                    results[item] = answer  # type: ignore[assignment]
                else:
                    errors[item] = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the answer leaves out {item}")
            left = again
            if left:
                await asyncio.sleep(pause)
        if errors:
            if len(items) == 1:
                raise next(iter(errors.values()))
            raise PartialFailure(results, errors)
        return results

    async def _each_alone(
        self, items: Iterable[K], ask: Callable[[dict[K, None]], Awaitable[Mapping[K, R | KafkaError]]]
    ) -> dict[K, R]:
        """As `_each`, with a request for each item: a broker that does not answer one item delays no other."""
        asked = list(dict.fromkeys(items))
        outcomes = await asyncio.gather(*(self._each({item: None}, ask) for item in asked), return_exceptions=True)
        results: dict[K, R] = {}
        errors: dict[K, KafkaError] = {}
        for item, found in zip(asked, outcomes, strict=True):
            if isinstance(found, KafkaError):
                errors[item] = found
            elif isinstance(found, BaseException):
                raise found
            else:
                results.update(found)
        if errors:
            if len(asked) == 1:
                raise errors[asked[0]]
            raise PartialFailure(results, errors)
        return results

    async def _one(self, ask: Callable[[], Awaitable[R]]) -> R:
        """The result of a call that is about one thing."""

        async def asked(_: dict[str, None]) -> dict[str, R | KafkaError]:
            return {"": await ask()}

        return (await self._each({"": None}, asked))[""]

    async def _ask_controller(self, request: Message) -> Any:
        """The controller that metadata names is asked first; brokers forward requests for the controller."""
        try:
            return await self._cluster.send(await self._cluster.controller(), request, timeout_ms=self._timeout_ms)
        except KafkaError:
            self._cluster.request_update()
            raise

    async def _ask_any(self, request: Message) -> Any:
        return await self._cluster.send_any(request)

    async def _ask_coordinator(self, kind: CoordinatorType, key: str, request: Message, **options: Any) -> Any:
        node_id = await self._cluster.coordinator(key, kind)
        try:
            return await self._cluster.send(node_id, request, **options)
        except KafkaError as error:
            self._forget_moved(kind, key, error.code)
            raise

    def _forget_moved(self, kind: CoordinatorType, key: str, code: int) -> None:
        if code in _MOVED:
            self._cluster.forget_coordinator(key, kind)

    async def _brokers(self) -> list[int]:
        await self._cluster.refresh([])
        return sorted(self._cluster.metadata.brokers)

    async def _by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Partitions by the broker that leads them."""
        wanted = list(partitions)
        metadata = await self._cluster.refresh({partition.topic: None for partition in wanted})
        found: dict[int, list[TopicPartition]] = {}
        for partition in wanted:
            topic = metadata.topics.get(partition.topic)
            if topic is None or topic.error:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error
                raise error_of(code, f"topic {partition.topic}: {code.text}")
            known = metadata.partition(*partition)
            if known is None:
                raise UnknownTopicOrPartition(f"{partition.topic} has no partition {partition.partition}")
            if known.leader_id < 0:
                raise error_of(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader")
            found.setdefault(known.leader_id, []).append(partition)
        return found

    @property
    def _timeout_ms(self) -> int:
        return self.config.request_timeout_ms


def outcome(code: int, message: str | None, result: R) -> R | KafkaError:
    """A result, or the error in its place."""
    return error_of(code, message) if code else result


async def errors_by_item(call: Awaitable[object], items: Iterable[K]) -> dict[K, KafkaError]:
    """The errors of a call about several items, by item."""
    try:
        await call
    except PartialFailure as failure:
        return failure.errors
    except KafkaError as error:
        return dict.fromkeys(items, error)
    return {}

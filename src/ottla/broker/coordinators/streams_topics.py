"""Internal topics of Kafka Streams applications: the coordinator of a streams group has the controller create them.

A heartbeat does not wait for it. Topics that are being created are not requested twice, and after a failure a topic is
not requested again for a while; heartbeats give the reason meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

if TYPE_CHECKING:
    from ottla.broker.ground import Ground
    from ottla.broker.metadata.ports import ControllerPort

log = logging.getLogger(__name__)

CREATE_TIMEOUT_MS = 30_000
MAX_ERRORS = 1_000
"""Topics whose error is remembered; the oldest is forgotten first."""


class StreamsTopics:
    def __init__(self, ground: Ground, controller: ControllerPort) -> None:
        self._ground = ground
        self._controller = controller
        self._creating: set[str] = set()
        self._errors: dict[str, tuple[str, int]] = {}
        """Topic -> the controller's error, and until when (monotonic milliseconds) it counts."""

    def create(self, topics: Sequence[CreatableTopic], retry_ms: int) -> None:
        """Have topics created in the background; those that failed within the last `retry_ms` are left out."""
        now = self._ground.now()
        wanted = [
            topic
            for topic in topics
            if topic.name not in self._creating and self._errors.get(topic.name, ("", now))[1] <= now
        ]
        if wanted:
            self._creating.update(topic.name for topic in wanted)
            self._ground.spawn(self._create(wanted, retry_ms))

    def errors(self, names: Iterable[str]) -> dict[str, str]:
        """Why topics could not be created, by name."""
        now = self._ground.now()
        found = {name: self._errors[name] for name in names if name in self._errors}
        return {name: error for name, (error, until) in found.items() if until > now}

    async def _create(self, topics: list[CreatableTopic], retry_ms: int) -> None:
        names = [topic.name for topic in topics]
        try:
            response = await self._controller.ask(CreateTopicsRequest(topics=topics, timeout_ms=CREATE_TIMEOUT_MS))
        except KafkaError as error:
            failed = dict.fromkeys(names, error.message or error.code.name)
        else:
            failed = {
                topic.name: topic.error_message or ErrorCode(topic.error_code).name
                for topic in response.topics
                if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
            }
        finally:
            self._creating.difference_update(names)
        until = self._ground.now() + retry_ms
        for name in names:
            self._errors.pop(name, None)
            if name in failed:
                log.warning("internal topic %s of a Kafka Streams application was not created: %s", name, failed[name])
                self._errors[name] = failed[name], until
        while len(self._errors) > MAX_ERRORS:
            del self._errors[next(iter(self._errors))]

"""The topics workload reports a setting that was replaced, but not one whose request got no answer."""

from __future__ import annotations

from random import Random

import pytest

from ottla.sim.checkers import Violation
from ottla.sim.client import NoAnswer
from ottla.sim.cluster_admin import Topics
from ottla.sim.replicas import Cluster


def test_a_setting_without_an_answer_may_come_after_later_ones_and_an_answered_one_may_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sim = Cluster(1)
    topics = Topics(sim, Random(1))
    late: list[str] = []
    alter = topics._client.alter_topic_config

    async def unanswered(topic: str, name: str, value: str) -> None:
        late.append(value)
        raise NoAnswer("no answer")

    async def work() -> None:
        await topics.settle()
        with monkeypatch.context() as patch:
            patch.setattr(topics._client, "alter_topic_config", unanswered)
            await topics._alter("made-1")
        await topics._alter("made-1")
        await sim.settled()
        await topics.verify()
        await alter("made-1", "retention.ms", late[0])
        await sim.settled()
        await topics.verify()
        await alter("made-1", "retention.ms", "1000000")
        await sim.settled()
        await topics.verify()

    with pytest.raises(Violation, match=r"^configs: made-1: 1000000, none of"):
        sim.run(work())
    sim.finish()

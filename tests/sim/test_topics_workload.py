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


def test_a_topic_that_is_made_meanwhile_may_have_folders_and_one_that_is_not_there_may_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Found by seed 4204146255: a broker forwarded a request that had got no answer after the topics were looked up."""
    sim = Cluster(1)
    topics = Topics(sim, Random(1))

    async def work() -> None:
        await topics.settle()
        before = await topics._client.metadata()
        metadata = topics._client.metadata
        answers = [before]

        async def older_first() -> object:
            return answers.pop() if answers else await metadata()

        await topics._client.create_topic("made-9", 1, {})
        await sim.settled()
        with monkeypatch.context() as patch:
            patch.setattr(topics._client, "metadata", older_first)
            await topics.verify()
        assert not answers
        host = sim.host(sim.names[0])
        host.device.mount().make_directory(f"{host.config().log_directories[0]}/made-10-0")
        await topics.verify()

    with pytest.raises(Violation, match=r"^topics: folders of topics that are not there: made-10-0 on node-1$"):
        sim.run(work())
    sim.finish()

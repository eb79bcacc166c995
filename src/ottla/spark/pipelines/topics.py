"""The topics of a pipeline: those that it reads must exist, those that it writes are created."""

from __future__ import annotations

from ottla.client.admin import NewTopic
from ottla.spark.pipelines.connection import Connection
from ottla.spark.pipelines.definition import Flow, Pipeline, PipelineError
from ottla.spark.pipelines.values import nearest


def check_topics(pipeline: Pipeline, connection: Connection, *, makes_missing: bool) -> None:
    written = {name: _new_topic(name, flow) for flow in pipeline.flows for name in flow.to.names}
    read = [topic for source in pipeline.sources for topic in source.topics]
    if pipeline.counted_sources:
        written |= {name: NewTopic(name) for name in (pipeline.dead_letters, pipeline.redrive_topic)}
    elif pipeline.puts_rows_aside or pipeline.has_poison or any(flow.kind == "http" for flow in pipeline.flows):
        written[pipeline.dead_letters] = NewTopic(pipeline.dead_letters)
    if pipeline.quality_topic is not None:
        written[pipeline.quality_topic] = NewTopic(pipeline.quality_topic)
    if not pipeline.uses_topics:
        return
    with connection.admin() as admin:
        known = admin.list_topics()
        missing = [topic for topic in written if topic not in known]
        for topic in read:
            if topic not in known and topic not in missing:
                near = nearest(topic, sorted(known))
                hint = "" if near is None else f"; or did you mean '{near}'?"
                raise PipelineError(f"there is no topic {topic}: 'ottla topics create {topic}' makes it{hint}")
        if missing and makes_missing:
            admin.create_topics([written[topic] for topic in missing])


def _new_topic(name: str, flow: Flow) -> NewTopic:
    return NewTopic(name, flow.to.partitions, flow.to.replication, flow.to.config)

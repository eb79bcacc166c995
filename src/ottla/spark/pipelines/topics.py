"""The topics of a pipeline: those that are read have to exist, those that are written are created."""

from __future__ import annotations

from ottla.client.admin import NewTopic
from ottla.spark.pipelines.connection import Connection
from ottla.spark.pipelines.definition import Pipeline, PipelineError


def check_topics(pipeline: Pipeline, connection: Connection, *, makes_missing: bool) -> None:
    written = [flow.topic for flow in pipeline.flows if flow.topic is not None]
    read = [source.topic for source in pipeline.sources if source.topic is not None]
    if pipeline.counted_sources:
        written += [pipeline.dead_letters, pipeline.redrive_topic]
    if not written and not read:
        return
    with connection.admin() as admin:
        known = admin.list_topics()
        missing = [topic for topic in dict.fromkeys(written) if topic not in known]
        for topic in read:
            if topic not in known and topic not in missing:
                raise PipelineError(f"there is no topic {topic}: 'ottla topics create {topic}' makes it")
        if missing and makes_missing:
            admin.create_topics([NewTopic(topic) for topic in missing])

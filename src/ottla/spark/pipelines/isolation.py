"""Poison records of a flow: looked for in the batch that failed, set aside, and written as letters.

The parts of the batch that `poison` asks for are read once, as batch queries, and go through the whole flow up to its
target (into a database within a transaction that is rolled back). What is found is kept beside the checkpoint before
the flow begins again: from then on every start of that batch leaves those records out. Their letters are written when
the flow begins, each once: the transaction that writes them commits how far letters of a partition are written, as
offsets of a consumer group.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from ottla.client.core.partitions import TopicPartition
from ottla.client.dead_letters import EXCEPTION_CLASS, EXCEPTION_MESSAGE, OFFSET, PARTITION, PREFIX, TOPIC
from ottla.spark.pipelines import targets
from ottla.spark.pipelines.connection import Connection
from ottla.spark.pipelines.definition import Flow, Pipeline
from ottla.spark.pipelines.errors import FlowFailed, PipelineError, Unavailable
from ottla.spark.pipelines.expectations import FLOW_HEADER, OWN_PREFIX, PIPELINE_HEADER, RULE_HEADER, SOURCE_HEADER
from ottla.spark.pipelines.failures import cause_of, failure
from ottla.spark.pipelines.frames import Frames
from ottla.spark.pipelines.poison import NoPoison, PoisonSearch, Record, SetAside, Span, planned_spans
from ottla.spark.pipelines.state import PipelineState

POISON_RULE = "poison"
POISON_RECORD = "ottla.spark.pipelines.PoisonRecord"
MAX_REASON = 1000
POLL_TIMEOUT_MS = 1000
JOIN_S = 5.0


class Isolation:
    """The search for the poison records of one flow, in its own thread: the other flows continue."""

    def __init__(
        self,
        pipeline: Pipeline,
        flow: Flow,
        spark: SparkSession,
        state: PipelineState,
        connection: Connection,
        sources: Sequence[str],
    ) -> None:
        self._pipeline = replace(pipeline, flows=(flow,)) if flow in pipeline.flows else pipeline
        self._flow = flow
        self._spark = spark
        self._state = state
        self._connection = connection
        self._sources = sources
        self._stopped = threading.Event()
        self.error: PipelineError | None = None
        """Why nothing was set aside."""
        self.count = 0
        """How many records were."""
        self._thread = threading.Thread(target=self._run, name=f"isolation-{flow.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def stop(self) -> None:
        """End the search after the part that is being tried. The next run begins the search anew."""
        self._stopped.set()
        self._thread.join(JOIN_S)

    def _run(self) -> None:
        try:
            self._search()
        except NoPoison as error:
            self.error = FlowFailed(f"no record of the batch can be set aside: {error}")
        except PipelineError as error:
            self.error = error
        except Exception as error:  # of Spark or its JVM, in a thread where nothing else would say so
            self.error = failure("its poison records could not be looked for", str(error))

    def _search(self) -> None:
        planned = self._state.planned_batch(self._flow.name)
        if planned is None:
            raise NoPoison("it has failed outside of a batch")
        batch_id, offsets, before = planned
        document = self._state.read_set_aside(self._flow.name)
        known = SetAside(batch_id, {}) if document is None else SetAside.from_json(document)
        if known.batch_id != batch_id:
            known = SetAside(batch_id, {})
        whole = planned_spans(offsets, before, self._sources)
        search = PoisonSearch(whole)
        while (wanted := search.wanted()) is not None:
            if self._stopped.is_set():
                raise Unavailable("the search for its poison records was stopped")
            reason = self._reason_of(_by_source(whole, wanted), known.records)
            if reason is None:
                search.passed()
            else:
                search.failed(reason)
        self.count = len(search.found)
        self._state.write_set_aside(self._flow.name, known.with_more(batch_id, search.found).to_json())

    def _reason_of(self, spans: Mapping[str, Sequence[Span]], left_out: Collection[Record]) -> str | None:
        """Why these records fail; None: they pass."""
        try:
            frames = Frames(
                self._pipeline, self._spark, self._state, self._connection, left_out=list(left_out), spans=spans
            )
            frames.make(may_change=False)
            targets.try_rows(self._flow, frames.flow(self._flow.name))
        except Exception as error:
            found = error if isinstance(error, PipelineError) else failure("", str(error))
            if isinstance(found, Unavailable):
                raise found from None
            return str(found) if isinstance(error, PipelineError) else cause_of(str(error))
        return None


def _by_source(whole: Sequence[Span], wanted: Sequence[Span]) -> dict[str, list[Span]]:
    """The ranges to read from every source of the batch; a partition without wanted records has an empty one."""
    chosen = {(span.source, span.topic, span.partition): span for span in wanted}
    found: dict[str, list[Span]] = {}
    for span in whole:
        found.setdefault(span.source, []).append(chosen.get((span.source, span.topic, span.partition), span.emptied))
    return found


def set_aside_of(state: PipelineState, flow: str) -> SetAside | None:
    """The records that a flow leaves out of its next batch; None if there are none (any more)."""
    document = state.read_set_aside(flow)
    if document is None:
        return None
    found, planned = SetAside.from_json(document), state.planned_batch(flow)
    if planned is None or planned[0] != found.batch_id:
        state.end_set_aside(flow)
        return None
    return found


def write_letters(
    pipeline: Pipeline,
    flow: str,
    aside: SetAside,
    connection: Connection,
    redacted: Callable[[str], str],
    *,
    is_only_reader: bool,
) -> int:
    """Write the letters of records that are set aside, unless that was done before; how many were written. A letter can
    be redriven if no other flow reads the source: the others have had its record."""
    group = f"{pipeline.name}.{flow}.poison"
    with connection.admin() as admin:
        admin.connect()
        written = {place: offset.offset for place, offset in admin.group_offsets(group).items()}
    new = [
        one for one in sorted(aside.records) if one.offset >= written.get(TopicPartition(one.topic, one.partition), 0)
    ]
    if not new:
        return 0
    with connection.producer({"transactional.id": group}) as producer, producer.transaction():
        reached: dict[TopicPartition, int] = {}
        for record in new:
            place = TopicPartition(record.topic, record.partition)
            reached[place] = max(reached.get(place, 0), record.offset + 1)
            key, value, headers = _read(record, connection)
            message = redacted(aside.records[record])[:MAX_REASON]
            own = letter_headers(pipeline.name, flow, record, message, headers, is_only_reader=is_only_reader)
            producer.send(pipeline.dead_letters, value, key, own)
        producer.send_offsets(reached, group)
    return len(new)


def letter_headers(
    pipeline: str,
    flow: str,
    record: Record,
    message: str,
    headers: Sequence[tuple[str, bytes | None]],
    *,
    is_only_reader: bool,
) -> list[tuple[str, bytes | None]]:
    """The headers of a poison record's letter. One that had come back as a letter keeps where it was read first."""
    given = dict(headers)
    first = {TOPIC: record.topic, PARTITION: str(record.partition), OFFSET: str(record.offset)}
    owner = (SOURCE_HEADER, record.source) if is_only_reader else (FLOW_HEADER, flow)
    added = {
        EXCEPTION_CLASS: POISON_RECORD,
        EXCEPTION_MESSAGE: f"flow {flow}: {message}",
        PIPELINE_HEADER: pipeline,
        owner[0]: owner[1],
        RULE_HEADER: POISON_RULE,
    }
    kept = [one for one in headers if not one[0].startswith((PREFIX, OWN_PREFIX))]
    places = [(name, given.get(name) or text.encode()) for name, text in first.items()]
    return [*kept, *places, *((name, text.encode()) for name, text in added.items())]


def _read(record: Record, connection: Connection) -> tuple[Any, Any, list[Any]]:
    """The key, the value and the headers of a record; nulls if the record no longer exists."""
    place = TopicPartition(record.topic, record.partition)
    with connection.consumer({}) as consumer:
        consumer.assign([place])
        consumer.seek(place, record.offset)
        while consumer.position(place) <= record.offset:
            if consumer.end_offsets([place])[place] <= record.offset:
                break
            for one in consumer.poll(POLL_TIMEOUT_MS):
                if one.offset == record.offset:
                    return one.key, one.value, list(one.headers)
    return None, None, []

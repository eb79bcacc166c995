"""A run as OpenLineage events (https://openlineage.io): which flow read which datasets and wrote which, with columns
and rows. Pure: events of the run in, documents out; `lineage_sender` takes them where they belong.

A pipeline is a job, each of its flows is one, too, and has the pipeline's run as its parent. START comes with the first
batch, RUNNING with later ones (at most one in RUNNING_EVERY_S), COMPLETE, ABORT or FAIL at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import ottla
from ottla.spark.pipelines.definition import Flow, Pipeline, Source
from ottla.spark.pipelines.events import Event
from ottla.spark.pipelines.graph import SOURCE, VIEW, graph_of
from ottla.spark.pipelines.redaction import public_address

PRODUCER = f"urn:ottla:{ottla.__version__}"
SPEC = "https://openlineage.io/spec"
EVENT_SCHEMA = f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
RUNNING_EVERY_S = 60.0
_FACETS = {
    "schema": "1-1-1/SchemaDatasetFacet", "dataSource": "1-0-1/DatasourceDatasetFacet",
    "columnLineage": "1-2-0/ColumnLineageDatasetFacet", "outputStatistics": "1-0-2/OutputStatisticsOutputDatasetFacet",
    "parent": "1-0-1/ParentRunFacet", "errorMessage": "1-0-1/ErrorMessageRunFacet", "sql": "1-0-1/SQLJobFacet",
    "processing_engine": "1-1-1/ProcessingEngineRunFacet", "jobType": "2-0-3/JobTypeJobFacet",
}  # fmt: skip
_JDBC_PORTS = {"postgresql": ("postgres", 5432), "mysql": ("mysql", 3306), "sqlserver": ("mssql", 1433)}
_ENDED = {"done": "COMPLETE", "stopped": "ABORT", "paused": "ABORT", "failed": "FAIL", "not started": "ABORT"}


@dataclass(slots=True)
class Lineage:
    """The documents of one run. `new_id` gives ids of runs."""

    pipeline: Pipeline
    namespace: str
    broker: str
    columns: Mapping[str, str]
    """By flow: the columns that it writes, as SQL has them."""
    new_id: Callable[[], str]
    spark_version: str = ""
    _ids: dict[str, str] = field(default_factory=dict)
    _said_at: dict[str, float] = field(default_factory=dict)
    _rows: dict[str, int] = field(default_factory=dict)

    def documents(self, event: Event) -> Iterator[dict[str, Any]]:
        """An event of the run in the form of OpenLineage."""
        if event.name in ("run_started", "run_ended"):
            kind = "START" if event.name == "run_started" else _ENDED.get(str(event.fields["state"]), "COMPLETE")
            yield self._document(kind, event, None)
            return
        flow = next((one for one in self.pipeline.flows if one.name == event.flow), None)
        if flow is None:
            return
        if event.name == "flow_started":
            self._ids.pop(flow.name, None)
            self._rows[flow.name] = 0
            yield self._document("START", event, flow)
        elif event.name == "batch_done" and event.batch is not None:
            self._rows[flow.name] = self._rows.get(flow.name, 0) + event.batch.rows_out
            if event.at - self._said_at.get(flow.name, 0.0) >= RUNNING_EVERY_S:
                yield self._document("RUNNING", event, flow)
        elif event.name == "flow_ended" and flow.name in self._said_at:
            yield self._document(_ENDED[str(event.fields["state"])], event, flow)

    def _document(self, kind: str, event: Event, flow: Flow | None) -> dict[str, Any]:
        if flow is not None:
            self._said_at[flow.name] = event.at
        facets: dict[str, Any] = {
            "processing_engine": {
                "version": self.spark_version, "name": "spark", "openlineageAdapterVersion": ottla.__version__,
            },
        }  # fmt: skip
        if flow is not None:
            facets["parent"] = {"run": {"runId": self._id("")}, "job": self._job(None)}
        if event.fields.get("cause"):
            facets["errorMessage"] = {"message": str(event.fields["cause"]), "programmingLanguage": "PYTHON"}
        return {
            "eventType": kind,
            "eventTime": datetime.fromtimestamp(event.at, UTC).isoformat(),
            "producer": PRODUCER,
            "schemaURL": EVENT_SCHEMA,
            "run": {"runId": self._id(flow.name if flow is not None else ""), "facets": _facets(facets)},
            "job": {**self._job(flow), "facets": self._job_facets(flow)},
            "inputs": [] if flow is None else [self._input(source) for source in self._sources(flow)],
            "outputs": [] if flow is None else [self._output(flow)],
        }

    def _id(self, flow: str) -> str:
        return self._ids.setdefault(flow, self.new_id())

    def _job(self, flow: Flow | None) -> dict[str, Any]:
        name = self.pipeline.name if flow is None else f"{self.pipeline.name}.{flow.name}"
        return {"namespace": self.namespace, "name": name}

    def _job_facets(self, flow: Flow | None) -> dict[str, Any]:
        facets: dict[str, Any] = {
            "jobType": {
                "processingType": "STREAMING",
                "integration": "OTTLA",
                "jobType": "PIPELINE" if flow is None else "FLOW",
            }
        }  # fmt: skip
        sql = None if flow is None else self._sql(flow.reads)
        if sql is not None:
            facets["sql"] = {"query": sql, "dialect": "spark"}
        return _facets(facets)

    def _sql(self, view: str) -> str | None:
        path = next((one for one in self.pipeline.transformations if one.name == f"{view}.sql"), None)
        return None if path is None else path.read_text(encoding="utf-8").strip()

    def _sources(self, flow: Flow) -> list[Source]:
        """The sources that a flow reads, through all views."""
        graph, found = graph_of(self.pipeline), set()
        names = {node.name.lower(): node.id for node in graph.nodes if node.kind in (SOURCE, VIEW)}
        wanted = [names[flow.reads.lower()]] if flow.reads.lower() in names else []
        while wanted:
            one = wanted.pop()
            if one not in found:
                found.add(one)
                wanted += [before for before, after in graph.edges if after == one]
        return [source for source in self.pipeline.sources if f"{SOURCE}:{source.name}" in found]

    def _input(self, source: Source) -> dict[str, Any]:
        namespace, name = dataset_of(source, self.pipeline, self.broker)
        facets: dict[str, Any] = {"dataSource": {"name": source.name, "uri": f"{namespace}/{name}"}}
        if source.schema is not None and source.format not in ("avro", "protobuf"):
            facets["schema"] = {"fields": fields_of(source.schema)}
        return {"namespace": namespace, "name": name, "facets": _facets(facets)}

    def _output(self, flow: Flow) -> dict[str, Any]:
        namespace, name = dataset_of(flow, self.pipeline, self.broker)
        fields = fields_of(self.columns.get(flow.name, ""))
        facets: dict[str, Any] = {"schema": {"fields": fields}} if fields else {}
        source = next((one for one in self._sources(flow) if one.name.lower() == flow.reads.lower()), None)
        if source is not None and fields:  # it is copied: each column is that of the source
            origin, place = dataset_of(source, self.pipeline, self.broker)
            same = {"transformations": [{"type": "DIRECT", "subtype": "IDENTITY"}]}
            facets["columnLineage"] = {
                "fields": {
                    one["name"]: {"inputFields": [{"namespace": origin, "name": place, "field": one["name"], **same}]}
                    for one in fields
                }
            }
        rows = {"outputStatistics": {"rowCount": self._rows.get(flow.name, 0)}}
        return {"namespace": namespace, "name": name, "facets": _facets(facets), "outputFacets": _facets(rows)}


def dataset_of(one: Source | Flow, pipeline: Pipeline, broker: str) -> tuple[str, str]:
    """Namespace and name of a dataset, as OpenLineage's naming has them; without secrets."""
    if one.kind == "topic":
        place = one.place if isinstance(one, Source) else one.target.removeprefix("topic ")
        return f"kafka://{broker.split(',')[0]}", place
    if one.kind == "jdbc":
        return _database(public_address(one.jdbc or ""), one.table or "")
    if one.kind == "iceberg":
        return f"iceberg://{pipeline.name}", one.iceberg or ""
    if one.kind == "spark_format":
        return f"spark://{one.spark_format}", one.name
    address = public_address(pipeline.path(str(getattr(one, one.kind))))
    if "://" not in address:
        return "file", address
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}", parts.path.lstrip("/") or "/"


def _database(address: str, table: str) -> tuple[str, str]:
    kind, _, rest = address.removeprefix("jdbc:").partition(":")
    parts = urlsplit(f"x:{rest}")
    scheme, port = _JDBC_PORTS.get(kind, (kind, None))
    host = parts.hostname or "localhost"
    number = parts.port or port
    place = f"{scheme}://{host}:{number}" if number else f"{scheme}://{host}"
    database = parts.path.strip("/")
    return place, ".".join(part for part in (database, table) if part)


def fields_of(columns: str) -> list[dict[str, str]]:
    """Columns as SQL has them (`id bigint, tags array<string>`), as fields of the schema facet."""
    parts, depth, start = [], 0, 0
    for index, letter in enumerate(columns):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(columns[start:index])
            start = index + 1
    parts.append(columns[start:])
    pairs = [part.strip().partition(" ") for part in parts if part.strip()]
    return [{"name": name.strip("`"), "type": kind.strip().removesuffix(" NOT NULL")} for name, _, kind in pairs]


def _facets(facets: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: {"_producer": PRODUCER, "_schemaURL": f"{SPEC}/facets/{_facet_url(name)}", **content}
        for name, content in facets.items()
    }


def _facet_url(name: str) -> str:
    path = _FACETS[name]
    return f"{path}.json#/$defs/{path.rpartition('/')[2]}"

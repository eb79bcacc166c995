"""A flow's rows sent to an HTTP address, by the tasks of Spark. Rows that it refuses become letters.

Answers: 2xx is success; 4xx means never, so the rows of the call become letters; 408, 425, 429, 5xx and no answer mean
later, and the call is made again after a pause that grows. If it still fails after `tries`, the batch fails.
Redirects are not followed: a POST that is repeated elsewhere is nothing that a file should decide by accident.
"""

from __future__ import annotations

import hashlib
import http.client
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ottla.client.dead_letters import EXCEPTION_CLASS, EXCEPTION_MESSAGE
from ottla.spark.pipelines import batch_sink
from ottla.spark.pipelines.definition import Flow, Pipeline, PipelineError
from ottla.spark.pipelines.expectations import FLOW_HEADER, PIPELINE_HEADER, RULE_HEADER, first_line
from ottla.spark.pipelines.http_request import BATCH, HttpRequest, is_refused
from ottla.spark.pipelines.redaction import public_address
from ottla.spark.pipelines.text_forms import MOMENTS

if TYPE_CHECKING:
    import pyarrow

BODY, KEY = "body", "key"
LETTER = "value binary, headers array<struct<key: string, value: binary>>"
REFUSED = "ottla.spark.pipelines.HttpRefused"
MAX_ANSWER_BYTES = 200
MAX_CALL_BYTES = 8 * 1024 * 1024
"""Rows of one call together."""


class HttpUnavailable(Exception):
    """An address that did not take a call, for as long as it was tried."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Makes the calls of one task."""

    pipeline: str
    flow: str
    url: str
    request: HttpRequest
    batch_id: int
    sleep: Callable[[float], None] = time.sleep

    def letters(self, batches: Iterator[pyarrow.RecordBatch], partition: int) -> Iterator[pyarrow.RecordBatch]:
        """Send rows; returns the refused ones as letters."""
        connection = Connection(self.url, self.request.timeout_s)
        seen: Counter[str] = Counter()
        try:
            for bodies, keys in self._calls(batches):
                key = keys[0] or self._made_key(partition, bodies, seen)
                body = b"[" + b",".join(bodies) + b"]" if self.request.per == BATCH else bodies[0]
                refusal = self._call(connection, body, key)
                if refusal is not None:
                    yield self._as_letters(bodies, refusal)
        finally:
            connection.close()

    def _calls(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[tuple[list[bytes], list[str | None]]]:
        """The rows of each call: their JSON, and the key that they name themselves."""
        most = self.request.max_rows if self.request.per == BATCH else 1
        bodies: list[bytes] = []
        keys: list[str | None] = []
        size = 0
        for batch in batches:
            for body, key in zip(batch.column(BODY).to_pylist(), batch.column(KEY).to_pylist(), strict=True):
                encoded = body.encode()
                if bodies and (len(bodies) >= most or size + len(encoded) > MAX_CALL_BYTES):
                    yield bodies, keys
                    bodies, keys, size = [], [], 0
                bodies.append(encoded)
                keys.append(key)
                size += len(encoded)
        if bodies:
            yield bodies, keys

    def _made_key(self, partition: int, bodies: list[bytes], seen: Counter[str]) -> str:
        """The idempotency key of a call. A batch that is done again has the same keys: they are made from the flow, the
        batch, the task and the rows, and equal rows are numbered."""
        digest = hashlib.sha256(f"{self.pipeline}/{self.flow}/{self.batch_id}/{partition}".encode())
        for body in bodies:
            digest.update(len(body).to_bytes(8, "big") + body)
        key = digest.hexdigest()[:40]
        seen[key] += 1
        return f"{key}-{seen[key]}"

    def _call(self, connection: Connection, body: bytes, key: str) -> str | None:
        """Make a call until it is answered for good; why it was refused, or None."""
        headers, said = self.request.sent_headers(body, key), ""
        for attempt in range(self.request.tries):
            retry_after = None
            try:
                status, retry_after, text = connection.call(self.request.method, headers, body)
            except (OSError, http.client.HTTPException) as error:
                said = f"{type(error).__name__}: {error}"
            else:
                if 200 <= status < 300:
                    return None
                said = f"HTTP {status} {text}".strip()
                if is_refused(status):
                    return said
            if attempt + 1 < self.request.tries:
                self.sleep(self.request.pause_s(attempt, retry_after, random.random()))
        raise HttpUnavailable(
            f"{public_address(self.url)} did not take a call in {self.request.tries} tries: {said} (NetworkError)"
        )

    def _as_letters(self, bodies: list[bytes], refusal: str) -> pyarrow.RecordBatch:
        import pyarrow

        added = {
            EXCEPTION_CLASS: REFUSED,
            EXCEPTION_MESSAGE: f"{public_address(self.url)} refused it: {refusal}",
            PIPELINE_HEADER: self.pipeline,
            FLOW_HEADER: self.flow,
            RULE_HEADER: "http",
        }
        headers = [{"key": name, "value": text.encode()} for name, text in added.items()]
        kind = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))
        columns = [pyarrow.array(bodies, pyarrow.binary()), pyarrow.array([headers] * len(bodies), kind)]
        return pyarrow.RecordBatch.from_arrays(columns, ["value", "headers"])


class Connection:
    """One connection to the address, kept open between calls."""

    def __init__(self, url: str, timeout_s: float) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        made = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection: http.client.HTTPConnection = made(parts.hostname, parts.port, timeout=timeout_s)

    def call(self, method: str, headers: dict[str, str], body: bytes) -> tuple[int, str | None, str]:
        """Status, Retry-After, and the beginning of the answer on one line."""
        try:
            self._connection.request(method, self._target, body, headers)
            answer = self._connection.getresponse()
            text = answer.read(MAX_ANSWER_BYTES).decode("utf-8", "replace")
            if answer.read(1):  # more than is looked at: the connection does not serve again
                self._connection.close()
        except BaseException:
            self._connection.close()
            raise
        return answer.status, answer.getheader("Retry-After"), " ".join(text.split())

    def close(self) -> None:
        self._connection.close()


def calls(flow: Flow, rows: DataFrame, columns: list[str]) -> DataFrame:
    """Rows as bodies of calls, with the key that each names itself."""
    assert flow.request is not None
    key = F.lit(None).cast("string")
    try:
        if flow.request.idempotency_key is not None:
            key = F.expr(flow.request.idempotency_key).cast("string")
        return rows.select(F.to_json(F.struct(*columns), MOMENTS).alias(BODY), key.alias(KEY))
    except Exception as error:
        raise PipelineError(f"flows.{flow.name}.request.idempotency_key: {first_line(error)}") from None


def send(pipeline: Pipeline, flow: Flow, batch: DataFrame, batch_id: int, options: dict[str, str]) -> None:
    """Make the calls of a batch, and write refused rows to the dead-letter topic."""
    assert flow.http is not None and flow.request is not None
    caller = Caller(pipeline.name, flow.name, flow.http, flow.request, batch_id)

    def call(batches: Any) -> Any:
        from pyspark import TaskContext

        context = TaskContext.get()
        return caller.letters(batches, context.partitionId() if context is not None else 0)

    letters = batch.mapInArrow(call, LETTER)
    letters.write.format(batch_sink.NAME).mode("append").options(**options).save()

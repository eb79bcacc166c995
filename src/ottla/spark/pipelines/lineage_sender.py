"""Where OpenLineage events go: an address or a file, by OpenLineage's own variables. A thread sends them, so that a
catalog that is slow or away does not hold up a pipeline; what does not fit the queue is counted and left out.

| variable | meaning |
|---|---|
| `OPENLINEAGE_URL`, `OPENLINEAGE_ENDPOINT` | where events are sent: address and path (`api/v1/lineage`) |
| `OPENLINEAGE_API_KEY` | a bearer token |
| `OPENLINEAGE_FILE` | a file that events are appended to, one on a line |
| `OPENLINEAGE_NAMESPACE` | the namespace of jobs (`default`) |
| `OPENLINEAGE_DISABLED` | `true`: nothing is sent |
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ottla.spark.pipelines.errors import PipelineError
from ottla.spark.pipelines.events import Event
from ottla.spark.pipelines.lineage import Lineage
from ottla.spark.pipelines.redaction import public_address

MAX_WAITING = 1000
CALL_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 15.0
TRIES = 3
ENDPOINT = "api/v1/lineage"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LineageSettings:
    url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    file: str | None = None
    namespace: str = "default"

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> LineageSettings | None:
        """None: no place for events is named."""
        if environment.get("OPENLINEAGE_DISABLED", "").lower() == "true":
            return None
        url, file = environment.get("OPENLINEAGE_URL"), environment.get("OPENLINEAGE_FILE")
        if not url and not file:
            return None
        if url and not url.startswith(("http://", "https://")):
            raise PipelineError("OPENLINEAGE_URL: an address such as http://127.0.0.1:5000 is expected")
        path = environment.get("OPENLINEAGE_ENDPOINT") or ENDPOINT
        return cls(
            f"{url.rstrip('/')}/{path.lstrip('/')}" if url else None,
            environment.get("OPENLINEAGE_API_KEY") or None,
            file or None,
            environment.get("OPENLINEAGE_NAMESPACE") or "default",
        )


class LineageSender:
    """A listener of a run that sends what its events are in OpenLineage."""

    def __init__(self, lineage: Lineage, settings: LineageSettings) -> None:
        self._lineage = lineage
        self._settings = settings
        self._waiting: queue.Queue[bytes | None] = queue.Queue(MAX_WAITING)
        self._lost = 0
        self._has_warned = False
        self._thread = threading.Thread(target=self._send_all, name="lineage", daemon=True)
        self._thread.start()

    def handle(self, event: Event) -> None:
        for document in self._lineage.documents(event):
            try:
                self._waiting.put_nowait(json.dumps(document).encode())
            except queue.Full:
                self._lost += 1

    def close(self) -> None:
        """Send what waits, for a while."""
        with suppress(queue.Full):
            self._waiting.put(None, timeout=CLOSE_TIMEOUT_S)
        self._thread.join(CLOSE_TIMEOUT_S)
        lost = self._lost + max(self._waiting.qsize() - 1, 0)
        if lost:
            _log.warning("%d OpenLineage events were not sent", lost)

    def _send_all(self) -> None:
        while (body := self._waiting.get()) is not None:
            try:
                self._send(body)
            except (OSError, ValueError) as error:
                self._lost += 1
                if not self._has_warned:
                    self._has_warned = True
                    where = public_address(self._settings.url or self._settings.file or "")
                    _log.warning("OpenLineage events cannot be sent to %s: %s", where, error)

    def _send(self, body: bytes) -> None:
        if self._settings.file is not None:
            with Path(self._settings.file).open("ab") as file:
                file.write(body + b"\n")
        if self._settings.url is None:
            return
        headers = {"Content-Type": "application/json", "User-Agent": "ottla"}
        if self._settings.api_key is not None:
            headers["Authorization"] = f"Bearer {self._settings.api_key}"
        request = urllib.request.Request(self._settings.url, body, headers, method="POST")
        for attempt in range(TRIES):
            try:
                with urllib.request.urlopen(request, timeout=CALL_TIMEOUT_S):
                    return
            except urllib.error.HTTPError as error:
                if error.code < 500 or attempt + 1 == TRIES:
                    raise
            except OSError:
                if attempt + 1 == TRIES:
                    raise

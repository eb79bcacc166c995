"""Whether the brokers of a pipeline answer, asked every few seconds on a thread of its own.

A query or a producer says that its broker is gone only when a limit of its client ends, which takes a minute or two.
Until then this is how status, logs and health checks know for what they wait.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from ottla.client.blocking import Admin
from ottla.client.errors import KafkaError, NetworkError, RequestTimedOut
from ottla.spark.pipelines.connection import Connection

ASK_EVERY_S = 2.5
ANSWER_LIMIT_MS = 5_000


class Outage(NamedTuple):
    """The brokers do not answer."""

    brokers: str
    since: float
    """Seconds since 1970: the first question without an answer."""
    cause: str

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.since))
        return f"the broker at {self.brokers} has not answered since {since}: {self.cause}"


class BrokerWatch:
    """Asks the brokers of a connection from `start` to `stop`."""

    def __init__(self, connection: Connection, clock: Callable[[], float] = time.time) -> None:
        self._connection = connection
        self._clock = clock
        self._admin: Admin | None = None
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self.outage: Outage | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="ottla-broker-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(2 * ANSWER_LIMIT_MS / 1000)
            self._thread = None

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                self.look()
                self._stopped.wait(ASK_EVERY_S)
        finally:
            if self._admin is not None:
                self._admin.close()

    def look(self) -> None:
        """Ask once. An error of the cluster, such as a refused login, is an answer."""
        asked_at = self._clock()
        try:
            self.ask()
        except (NetworkError, RequestTimedOut, OSError) as error:
            since = asked_at if self.outage is None else self.outage.since
            self.outage = Outage(self._connection.bootstrap_servers, since, str(error))
        except KafkaError:
            self.outage = None
        else:
            self.outage = None

    def ask(self) -> None:
        """A request that every broker answers; an error says why there is no answer."""
        if self._admin is None:
            self._admin = self._connection.admin(limit_ms=ANSWER_LIMIT_MS)
        self._admin.describe_cluster()

"""The life of a client in its process: what is said if it is never closed, how long closing may take, and a fork.

A producer that is not closed loses the records that it has not sent. They are counted and named in the log when the
producer is garbage collected or the interpreter exits, whatever comes first. A client that is not closed and loses
nothing is a ResourceWarning.

A fork copies a client's memory, but neither its thread nor a running event loop, and both processes would write to the
same connections. So in the child every client that was made before the fork raises MadeBeforeFork. The child keeps its
copies of the parent's connections until it ends: to free them would unregister the sockets from the poll set that both
processes share.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import sys
import warnings
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster

INTERRUPTED_MS = 1_000
"""How long closing may take in a task that was cancelled, or after Ctrl-C; no time if no broker answers."""
FAILED_MS = 5_000
"""How long closing may take when a block is left by any other exception."""
SHOWN_TOPIC_COUNT = 5

_log = logging.getLogger("ottla.client")
_open: WeakSet[Open] = WeakSet()
_kept: list[Any] = []


class Open:
    """The open clients of this process."""

    def _forked(self) -> None:
        """In the child of a fork."""

    def _before_exit(self) -> None:
        """When the interpreter exits, before `_at_exit` of all."""

    def _at_exit(self) -> None:
        """When the interpreter exits."""


class Client(Open):
    """A client that has to be closed."""

    _cluster: Cluster
    _is_said_unclosed = False

    def __del__(self) -> None:
        self._at_exit()

    def _at_exit(self) -> None:
        cluster = getattr(self, "_cluster", None)
        if cluster is None or cluster.is_closed or cluster.is_forked or self._is_said_unclosed:
            return
        self._is_said_unclosed = True
        unsent = self._unsent()
        if unsent:
            _log.warning(
                "%s was not closed: %s; leave it by `with`, or call close() or flush()", self._name, in_words(unsent)
            )
        elif cluster.has_connections:
            warnings.warn(f"unclosed {self._name}", ResourceWarning, source=self, stacklevel=2)

    @property
    def _name(self) -> str:
        """The client in a line of the log."""
        config = self._cluster.config
        shown = config.client_id or ", ".join(config.bootstrap_servers)
        return f"{type(self).__name__} {shown!r}"

    def _unsent(self) -> dict[str, int]:
        """The number of records that are not written, by topic."""
        return {}


def in_words(unsent: dict[str, int]) -> str:
    """`3 records were not sent (orders: 2, payments: 1)`."""
    count = sum(unsent.values())
    shown = [f"{topic}: {unsent[topic]}" for topic in sorted(unsent)[:SHOWN_TOPIC_COUNT]]
    if len(unsent) > SHOWN_TOPIC_COUNT:
        shown.append("...")
    return f"{count} {'record was' if count == 1 else 'records were'} not sent ({', '.join(shown)})"


def opened(one: Open) -> None:
    """Register an open client."""
    _open.add(one)


def closed(one: Open) -> None:
    """Unregister a closed client."""
    _open.discard(one)


def abandon(client: Client) -> None:
    """Its process was killed (in a simulation): no warning that it was not closed."""
    client._is_said_unclosed = True
    for one in (client, client._cluster):
        closed(one)


def keep(*things: object) -> None:
    """Keep the parent's objects until this child process ends."""
    _kept.append(things)


# Closing while an exception unwinds


def close_limit_ms(error: BaseException | None, *, is_out: bool) -> int | None:
    """How long closing may take when a block is left by this exception; None: as long as the settings allow.

    `is_out` is whether no broker answers.
    """
    if _is_cancelled() or isinstance(error, asyncio.CancelledError | KeyboardInterrupt):
        return 0 if is_out else INTERRUPTED_MS
    return None if error is None else FAILED_MS


def _is_cancelled() -> bool:
    """Whether the running task was cancelled, by Ctrl-C, a timeout or a task group, and unwinds now."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # in the child of a fork no loop runs
        return False
    return task is not None and task.cancelling() > 0


def unwinding_error() -> BaseException | None:
    """KeyboardInterrupt if it is what the calling thread unwinds from: `finally: client.close()`."""
    error = sys.exc_info()[1]
    return error if isinstance(error, KeyboardInterrupt) else None


def _after_fork() -> None:
    global _open
    for one in list(_open):
        keep(one)
        one._forked()
    _open = WeakSet()


def _at_exit() -> None:
    for one in list(_open):
        one._before_exit()
    for one in list(_open):
        one._at_exit()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)

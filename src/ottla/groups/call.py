"""The caller of a command of a group shard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ottla.machine import Call as CoordinatorCall


@dataclass(frozen=True, slots=True)
class Call(CoordinatorCall):
    client_id: str = ""
    client_host: str = ""
    may_describe: Callable[[str], bool] | None = None
    """Whether the caller may see a topic of this name; None if the node has no authorizer."""

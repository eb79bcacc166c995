"""What a command of a group shard learns of its caller."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.machine import Call as CoordinatorCall


@dataclass(frozen=True, slots=True)
class Call(CoordinatorCall):
    client_id: str = ""
    client_host: str = ""

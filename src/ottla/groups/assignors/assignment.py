"""What an assignor is given and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

Assignment = dict[bytes, tuple[int, ...]]
"""Partitions by topic id, in ascending order. Never changed once made, so that groups, records and runs share it."""

EMPTY: Assignment = {}


class MemberSpec(NamedTuple):
    """A member as an assignor sees it."""

    topic_ids: tuple[bytes, ...]
    """What it is subscribed to and exists, in ascending order."""
    assignment: Assignment = EMPTY
    """What it was to have so far."""
    instance_id: str | None = None


class GroupSpec(NamedTuple):
    """A group as an assignor sees it."""

    members: dict[str, MemberSpec]
    partition_counts: dict[bytes, int]
    """By topic id, of every topic that a member is subscribed to."""
    is_homogeneous: bool
    """Whether all members are subscribed to the same topics."""


Assignor = Callable[[GroupSpec], dict[str, Assignment]]
"""Which partitions each member is to have. A member that is not named gets none."""

"""The input and the output of an assignor."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

Assignment = dict[bytes, tuple[int, ...]]
"""Partitions by topic id, in ascending order. Never changed once made, so that groups, records and runs share it."""

EMPTY: Assignment = {}


class MemberSpec(NamedTuple):
    """A member as an assignor sees it."""

    topic_ids: tuple[bytes, ...]
    """The ids of its subscribed topics that exist, in ascending order."""
    assignment: Assignment = EMPTY
    """Its last target assignment."""
    instance_id: str | None = None


class GroupSpec(NamedTuple):
    """A group as an assignor sees it."""

    members: dict[str, MemberSpec]
    partition_counts: dict[bytes, int]
    """By topic id, of every topic that a member is subscribed to."""
    is_homogeneous: bool
    """Whether all members are subscribed to the same topics."""


Assignor = Callable[[GroupSpec], dict[str, Assignment]]
"""Computes the partitions of each member. A member that is missing in the result gets none."""

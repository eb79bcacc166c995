"""Which records a reader wants: all, or only those of transactions that were committed."""

from __future__ import annotations

from enum import IntEnum


class IsolationLevel(IntEnum):
    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1

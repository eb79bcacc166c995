"""How often a process that runs for long looks for garbage that refers to itself."""

from __future__ import annotations

import gc


def settle_after_start() -> None:
    """Objects made by the start live as long as the process: exempt them from later collections, which come seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)

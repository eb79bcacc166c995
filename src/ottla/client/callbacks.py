"""Functions of the application that a client calls: on_error, on_statistics, delivery callbacks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

_log = logging.getLogger("ottla.client")


def call_back(callback: Callable[[Any], Any], argument: object) -> None:
    """Call a function of the application. What it raises is logged: the client goes on."""
    try:
        callback(argument)
    except Exception:
        _log.exception("the callback %s raised an exception", getattr(callback, "__qualname__", callback))

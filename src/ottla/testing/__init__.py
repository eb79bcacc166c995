"""A real broker for your tests: `with Broker() as broker: ...`, or pytest's fixtures `kafka` and `kafka_cluster`.

Without pytest the same classes serve unittest (`cls.enterClassContext(Broker())`), a notebook or a script.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.testing.broker import Broker, BrokerFailed
    from ottla.testing.cluster import Cluster
    from ottla.testing.pipelines import pipeline_cases

__all__ = ["Broker", "BrokerFailed", "Cluster", "pipeline_cases"]

_MODULES = {"Broker": "broker", "BrokerFailed": "broker", "Cluster": "cluster", "pipeline_cases": "pipelines"}


def __getattr__(name: str) -> Any:
    """Nothing is imported before it is used: pytest loads the plugin in every run, with or without a broker in it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"ottla.testing.{_MODULES[name]}"), name)

"""The node's loggers as Kafka's BROKER_LOGGER resource shows and sets them. Changes are not stored: a restart resets
them.
"""

from __future__ import annotations

import logging
from typing import Final

from ottla.wire.errors import ErrorCode, KafkaError

ROOT: Final = "root"
ROOMS: Final = {
    "node": "starts, stops and what they wait for",
    "metadata": "what happens to the cluster: topics, partitions, brokers, settings; the metadata log",
    "raft": "the metadata quorum: elections of its leader",
    "controller": "the active controller: fencing, elections of partition leaders",
    "peers": "connections to other nodes",
    "replicas": "partitions of this node: copying from leaders, truncations, ISR, log dirs",
    "coordinators": "groups and transactions that this node coordinates",
    "serving": "connections of clients, quotas",
    "storage": "logs on disk: rolls, retention, compaction, recovery, slow disks",
    "net": "requests to other nodes that cannot be sent",
    "audit": "logins, denials and administrative changes, as JSON in the shape of OCSF",
    "client": "Ottla's own client, in a process that uses it",
}
"""The parts of a node with a logger of their own, `ottla.<room>`, and what they log."""
LEVELS: Final = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_ROOM_LOGGERS: Final = frozenset({"ottla", *(f"ottla.{room}" for room in ROOMS if room != "client")})
SET: Final = 0
DELETE: Final = 1


def loggers() -> dict[str, str]:
    """Every logger of the node with the level it works at."""
    known = logging.root.manager.loggerDict
    names = sorted({*_ROOM_LOGGERS, *(name for name in known if name == "ottla" or name.startswith("ottla."))})
    return {name: level_name(_logger(name).getEffectiveLevel()) for name in [ROOT, *names]}


def level_name(level: int) -> str:
    for name, number in LEVELS.items():
        if level <= number:
            return name
    return "FATAL"


def check_change(name: str, operation: int, level: str | None) -> None:
    """KafkaError when a logger or level does not exist, or the operation makes no sense for one."""
    if operation not in (SET, DELETE):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The level of logger {name} can only be set or deleted")
    if name not in loggers():
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation == SET and (level or "").upper() not in LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Logger {name} cannot have the level {level}. Valid log levels are {', '.join(sorted(LEVELS))}",
        )
    if operation == DELETE and name == ROOT:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed")


def change(name: str, operation: int, level: str | None) -> None:
    _logger(name).setLevel(LEVELS[(level or "").upper()] if operation == SET else logging.NOTSET)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)

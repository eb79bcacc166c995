"""Audit events of a registry with logins: failed logins, denials and writes, in the shape of the broker's.

Each is one line of the logger `ottla.audit` and never holds a schema or a password. A write that is forwarded is an
event of both instances.
"""

from __future__ import annotations

import json
import logging
import time
from uuid import uuid4

MAX_NAME_CHARS = 200
_log = logging.getLogger("ottla.audit")


def record(kind: str, user: str, host: str, method: str, path: str, *, reason: str = "") -> None:
    """`kind` is login, denied or changed; without a reason it succeeded."""
    from ottla.broker.audit import AuditEvent  # the package of the node: a registry without logins does not need it
    from ottla.broker.ocsf import ocsf

    event = AuditEvent(
        kind=kind,
        principal=f"User:{user[:MAX_NAME_CHARS]}",
        host=host,
        listener="registry",
        is_success=not reason,
        operation="Basic" if kind == "login" else method,
        resource="" if kind == "login" else f"Schema:{path[:MAX_NAME_CHARS]}",
        reason=reason,
        details={"api": method} if kind == "denied" else {},
    )
    timestamp = time.time_ns() // 1_000_000
    made = ocsf(event, timestamp=timestamp, node_id=-1, cluster_id="", uid=str(uuid4()))
    _log.info("%s", json.dumps(made, separators=(",", ":")))

"""Audit events of the console: a line of the log for each change, in the shape of the broker's; the last ones are kept.

An event never holds what was written, nor a password: it says which operation, on what, by whom.
"""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from typing import Any

from ottla import __version__

MAX_KEPT = 1_000
API_ACTIVITY, OTHER = 6003, 99
_log = logging.getLogger("ottla.audit")


class AuditLog:
    def __init__(self) -> None:
        self._kept: deque[dict[str, Any]] = deque(maxlen=MAX_KEPT)

    def record(
        self,
        cluster: str,
        user: str | None,
        host: str,
        operation: str,
        resource: str,
        *,
        is_success: bool,
        reason: str = "",
    ) -> None:
        at = time.time_ns() // 1_000_000
        principal = user or "User:ANONYMOUS"
        self._kept.append(
            {
                "at": at,
                "principal": principal,
                "host": host,
                "operation": operation,
                "resource": resource.partition(":")[0],
                "name": resource.partition(":")[2],
                "decision": "allowed" if is_success else "denied",
                "detail": reason or None,
                "node": None,
                "cluster": cluster,
            }
        )
        event = {
            "class_uid": API_ACTIVITY,
            "class_name": "API Activity",
            "category_uid": 6,
            "category_name": "Application Activity",
            "activity_id": OTHER,
            "activity_name": "Other",
            "type_uid": API_ACTIVITY * 100 + OTHER,
            "severity_id": 1 if is_success else 2,
            "status_id": 1 if is_success else 2,
            "status": "Success" if is_success else "Failure",
            "status_detail": reason or None,
            "time": at,
            "metadata": {"version": "1.6.0", "product": {"name": "ottla console", "version": __version__}},
            "actor": {"user": {"name": principal}},
            "src_endpoint": {"ip": host},
            "api": {"operation": operation},
            "resources": [{"name": resource}] if resource else [],
            "unmapped": {"cluster": cluster},
        }
        _log.info("%s", json.dumps(event, ensure_ascii=False, separators=(",", ":")))

    def events(self, cluster: str) -> list[dict[str, Any]]:
        """The last ones of a cluster, the newest first."""
        return [
            {name: value for name, value in one.items() if name != "cluster"}
            for one in reversed(self._kept)
            if one["cluster"] == cluster
        ]

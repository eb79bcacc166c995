"""Where a node reports logins, denials and administrative changes.

Rooms call `record` with an event. A node whose audit is off has no sink, and then it costs one comparison. An event
never holds a secret: not a password, not a token, not a key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    kind: str
    """login, denied or changed."""
    principal: str
    host: str
    listener: str = ""
    is_success: bool | None = True
    """None: the client disconnected before the answer."""
    operation: str = ""
    """The operation tried: an API, an ACL operation or a SASL mechanism."""
    resource: str = ""
    """The resource: `Topic:orders`."""
    reason: str = ""
    details: dict[str, Any] = field(default_factory=dict)


class Audit:
    def __init__(self) -> None:
        self.sink: Callable[[AuditEvent], None] | None = None

    @property
    def is_on(self) -> bool:
        return self.sink is not None

    def record(self, event: AuditEvent) -> None:
        if self.sink is not None:
            self.sink(event)

"""Failed TLS handshakes as audit events, at a bounded rate.

A client needs no login to fail a handshake, so it can do so as often as it connects. For each listener the first
EVENTS_PER_PERIOD failures of a period are an event each; one event at the end of the period has the number of the
others. All of them are counted in Kafka's failed-authentication-total.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.audit import AuditEvent
from ottla.security.principal import ANONYMOUS

if TYPE_CHECKING:
    from ottla.broker.ground import Ground

EVENTS_PER_PERIOD: Final = 10
PERIOD_S: Final = 10.0


class RefusedHandshakes:
    def __init__(self, ground: Ground, listener: str) -> None:
        self._ground = ground
        self._listener = listener
        self._meter = ground.metrics.logins(listener)
        self._count = 0
        """Failures of this period; 0 if no period runs."""
        self._last_host = ""

    def add(self, host: str, reason: str) -> None:
        self._meter.failed_authentication += 1
        if not self._ground.audit.is_on:
            return
        if not self._count:
            self._ground.loop.call_later(PERIOD_S, self._end)
        self._count += 1
        self._last_host = host
        if self._count <= EVENTS_PER_PERIOD:
            self._record(host, reason)

    def _end(self) -> None:
        further, self._count = self._count - EVENTS_PER_PERIOD, 0
        if further > 0:
            reason = (
                f"{further} more TLS handshakes failed within {PERIOD_S:.0f} s; the address is that of the last one"
            )
            self._record(self._last_host, reason, further)

    def _record(self, host: str, reason: str, count: int = 1) -> None:
        self._ground.audit.record(
            AuditEvent(
                kind="login",
                principal=str(ANONYMOUS),
                host=host,
                listener=self._listener,
                is_success=False,
                operation="SSL",
                reason=reason,
                details={} if count == 1 else {"handshakes": count},
            )
        )

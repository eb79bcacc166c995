"""Which denials are log lines and audit events of their own.

A user without permissions may name hundreds of thousands of resources in one request, and the report of each takes many
times the decision itself: they would hold up the loop and fill the disk. Of each principal the first REPORTS_PER_PERIOD
denials of a period are reported one by one; one report at the end of the period has the number of the others.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ottla.broker.audit import AuditEvent

if TYPE_CHECKING:
    from ottla.broker.access import Access
    from ottla.broker.ground import Ground
    from ottla.security.principal import Principal

log = logging.getLogger("ottla.authorizer")

REPORTS_PER_PERIOD: Final = 500
PERIOD_MS: Final = 10_000
MAX_PRINCIPALS: Final = 1_000


@dataclass(slots=True)
class _Period:
    began: int
    access: Access
    """Of the last denial."""
    count: int = 0


class Denials:
    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._periods: dict[Principal, _Period] = {}

    def is_reported(self, access: Access) -> bool:
        """Count a denial; returns whether it has a report of its own."""
        period = self._periods.get(access.principal)
        if period is not None and period.count > REPORTS_PER_PERIOD:  # until `_end`
            period.access = access
            period.count += 1
            return False
        now = self._ground.now()
        if period is None or now - period.began >= PERIOD_MS:
            if len(self._periods) >= MAX_PRINCIPALS:
                self._forget(now)
            period = self._periods[access.principal] = _Period(now, access)
        period.access = access
        period.count += 1
        if period.count == REPORTS_PER_PERIOD + 1:
            self._ground.loop.call_later(PERIOD_MS / 1000, self._end, access.principal)
        return period.count <= REPORTS_PER_PERIOD

    def _forget(self, now: int) -> None:
        """Drop the periods that are over and have no report due."""
        for principal, period in list(self._periods.items()):
            if period.count <= REPORTS_PER_PERIOD and now - period.began >= PERIOD_MS:
                del self._periods[principal]

    def _end(self, principal: Principal) -> None:
        period = self._periods.pop(principal)
        further, access = period.count - REPORTS_PER_PERIOD, period.access
        reason = f"{further} more requests for resources were denied within {PERIOD_MS // 1000} s"
        log.info("Principal = %s: %s, the last of them from host = %s", principal, reason, access.host)
        self._ground.audit.record(
            AuditEvent(
                kind="denied",
                principal=str(principal),
                host=access.host,
                listener=access.listener,
                is_success=False,
                reason=reason,
                details={"denials": further},
            )
        )

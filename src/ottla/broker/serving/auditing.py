"""Sends audit events: to the logger `ottla.audit` as one line of JSON each, and to the topic `__ottla_audit`.

`ottla.audit.log.enable` is on unless set otherwise if the node has an authorizer or a listener with logins;
`ottla.audit.topic.enable` is off. An error or delay here never affects the request that an event is about.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Final

from ottla.broker.ocsf import ocsf
from ottla.broker.serving.audit_topic import AuditTopic
from ottla.wire.internal_topics import AUDIT_TOPIC

if TYPE_CHECKING:
    from ottla.broker.audit import AuditEvent
    from ottla.broker.ground import Ground
    from ottla.broker.metadata.metadata import Metadata
    from ottla.broker.peers.peers import Peers
    from ottla.broker.replicas.replicas import Replicas

log = logging.getLogger("ottla.audit")

ABOUT_THE_TOPIC: Final = f"Topic:{AUDIT_TOPIC}"


class Auditing:
    """Becomes the sink of the node's audit, if its settings ask for one."""

    def __init__(self, ground: Ground, peers: Peers, metadata: Metadata, replicas: Replicas) -> None:
        self._ground = ground
        self._metadata = metadata
        self._has_log = ground.config.has_audit_log
        self._topic = AuditTopic(ground, peers, metadata, replicas) if ground.config.has_audit_topic else None
        if self._has_log or self._topic is not None:
            ground.audit.sink = self.take

    def take(self, event: AuditEvent) -> None:
        ground = self._ground
        ground.metrics.audit_events.add()
        timestamp = ground.clock()
        uid = ground.rng.randbytes(16).hex()
        shaped = ocsf(event, timestamp=timestamp, node_id=ground.node_id, cluster_id=self._metadata.cluster_id, uid=uid)
        line = json.dumps(shaped, ensure_ascii=False, separators=(",", ":"), default=str)
        if self._has_log:
            log.info("%s", line)
        # A refused write to the audit topic is not audited itself: that would never end.
        if self._topic is not None and not (event.kind == "denied" and event.resource == ABOUT_THE_TOPIC):
            self._topic.put(event.principal, line.encode(errors="replace"), timestamp)

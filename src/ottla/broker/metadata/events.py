"""Logs what happened to the cluster's metadata, as this node's image follows it (see `ottla.cluster.events`)."""

from __future__ import annotations

import logging

from ottla.cluster import ClusterImage, ImageChanges
from ottla.cluster.events import events

log = logging.getLogger("ottla.metadata")


def log_changes(changes: ImageChanges, image: ClusterImage) -> None:
    if log.isEnabledFor(logging.INFO):
        for event in events(changes, image):
            log.info("%s", event.text, extra={"fields": event.fields})

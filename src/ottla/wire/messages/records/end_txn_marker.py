"""EndTxnMarker: a schema that is no request. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int32


class EndTxnMarker(Message, versions=(0, 0)):
    coordinator_epoch: int32 = 0

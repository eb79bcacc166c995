"""The controller: decides the cluster's metadata. A command returns a Decision; only `replay` changes state."""

from __future__ import annotations

from ottla.controller.controller import Controller
from ottla.controller.producer_ids import PRODUCER_ID_BLOCK_SIZE, ProducerIdBlock

__all__ = ["PRODUCER_ID_BLOCK_SIZE", "Controller", "ProducerIdBlock"]

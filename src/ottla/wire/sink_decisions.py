"""How the exactly-once Spark sink marks its decisions among committed offsets, for tools that show lag.

The sink stores in a group of its own the number of its last batch, as the offset of a partition that it writes to, with
a note in the offset's metadata (`ottla.spark.decisions`). Such an offset is a count of batches: its distance to the end
of the log is no lag, and without the group the sink could write its last batch twice.
"""

from __future__ import annotations

import re

DECISION_VERSION = "1"
_DECISION = re.compile(rf"{DECISION_VERSION}:[A-Za-z0-9+/]{{22}}==:[0-9a-f]{{8}}:[0-9]+:[A-Za-z0-9+/=]*")


def is_sink_decision(metadata: str | None) -> bool:
    """Whether the metadata of a committed offset is the note of a sink's decision."""
    return metadata is not None and _DECISION.fullmatch(metadata) is not None

"""Numbers in requests and responses that Kafka gives a meaning of their own.

Both sides of a connection need them: brokers, clients, tools and the simulator import them from here.
"""

from __future__ import annotations

LATEST_TIMESTAMP = -1
"""In ListOffsets in place of a timestamp: the end of the log, as far as the caller may read."""
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3
"""In ListOffsets: the record with the largest timestamp."""
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6

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

NO_LEADER = -1
"""In place of the leader's id: no broker leads the partition now."""
CONSUMER_REPLICA_ID = -1
"""In Fetch and ListOffsets in place of a follower's id: the caller is a consumer."""
NO_OFFSET = -1
"""In OffsetFetch: the group has committed no offset for the partition."""

NO_SESSION = 0
"""In Fetch: the request belongs to no fetch session, or the broker grants none (KIP-227)."""
INITIAL_SESSION_EPOCH = 0
"""In Fetch: begin a session with this request."""
FINAL_SESSION_EPOCH = -1
"""In Fetch: end the session, and begin no other."""
MAX_SESSION_EPOCH = 0x7FFFFFFF
"""In Fetch: the epoch after this one is 1."""

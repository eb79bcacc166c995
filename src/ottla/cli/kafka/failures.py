"""How Kafka's tools tell of failures: by the name of the Java exception and its message, as scripts look for them."""

from __future__ import annotations

from ottla.cli.kafka.options import ToolError
from ottla.wire.errors import ErrorCode, KafkaError

ERRORS = "org.apache.kafka.common.errors"
EXECUTION = "java.util.concurrent.ExecutionException"

_UNUSUAL = {
    ErrorCode.CORRUPT_MESSAGE: "CorruptRecord",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "CoordinatorLoadInProgress",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "DelegationTokenDisabled",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "DuplicateSequence",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "GroupAuthorization",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ClusterAuthorization",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "TopicAuthorization",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "TransactionalIdAuthorization",
    ErrorCode.INVALID_CONFIG: "InvalidConfiguration",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "InvalidPidMapping",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "InvalidTxnTimeout",
    ErrorCode.KAFKA_STORAGE_ERROR: "KafkaStorage",
    ErrorCode.MESSAGE_TOO_LARGE: "RecordTooLarge",
    ErrorCode.NON_EMPTY_GROUP: "GroupNotEmpty",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "OutOfOrderSequence",
    ErrorCode.REQUEST_TIMED_OUT: "Timeout",
    ErrorCode.STALE_CONTROLLER_EPOCH: "ControllerMoved",
    ErrorCode.TOPIC_ALREADY_EXISTS: "TopicExists",
    ErrorCode.UNKNOWN_SERVER_ERROR: "UnknownServer",
}
"""Codes whose exception is not simply named after them."""

_MESSAGES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.UNKNOWN_TOPIC_ID: "This server does not host this topic ID.",
    ErrorCode.LEADER_NOT_AVAILABLE: (
        "There is no leader for this topic-partition as we are in the middle of a leadership election."
    ),
    ErrorCode.OFFSET_OUT_OF_RANGE: (
        "The requested offset is not within the range of offsets maintained by the server."
    ),
    ErrorCode.UNSUPPORTED_VERSION: "The version of API is not supported.",
    ErrorCode.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader was not available.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "Eligible topic partition leaders are not available.",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "No partition reassignment is in progress.",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "Replica assignment is invalid.",
    ErrorCode.INVALID_REQUEST: (
        "This most likely occurs because of a request being malformed by the client library or the message was sent "
        "to an incompatible broker. See the broker logs for more details."
    ),
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it."
    ),
    ErrorCode.INVALID_PRODUCER_EPOCH: "Producer attempted to produce with an old epoch.",
    ErrorCode.INVALID_TXN_STATE: "The producer attempted a transactional operation in an invalid state.",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "The transactionalId could not be found.",
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: (
        "Indicates that the transaction coordinator sending a WriteTxnMarker is no longer the current coordinator for "
        "a given producer."
    ),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.UNKNOWN_SERVER_ERROR: "The server experienced an unexpected error when processing the request.",
}
"""What Kafka's client says when a broker sends a code and no message."""


def exception_name(code: ErrorCode) -> str:
    """The Java class of an error code."""
    name = _UNUSUAL.get(code)
    if name is None:
        name = "".join(part.capitalize() for part in code.name.removesuffix("_EXCEPTION").split("_"))
    return f"{ERRORS}.{name}Exception"


def message_of(error: KafkaError) -> str:
    return error.message or _MESSAGES.get(error.code) or error.code.text


def failure_of(error: KafkaError) -> ToolError:
    """A broker's error as Kafka's tools know it."""
    return ToolError(message_of(error), exception_name(error.code))


def execution_failure(error: KafkaError | ToolError) -> ToolError:
    """The same as Java's futures wrap it."""
    cause = error if isinstance(error, ToolError) else failure_of(error)
    return ToolError(f"{cause.exception}: {cause.message}", EXECUTION, cause)

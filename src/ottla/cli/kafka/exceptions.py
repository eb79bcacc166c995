"""What Kafka's tools say when something fails: the Java exception that stands for an error code, and log lines.

Scripts look for these names and lines in the output of the originals, so they are the same here. Stack traces are not
shown: they would be of a program that is not this one.
"""

from __future__ import annotations

import logging
import sys
import time

from ottla.cli.kafka.options import ToolError
from ottla.client.errors import TlsError
from ottla.wire.errors import ErrorCode, KafkaError

PACKAGE = "org.apache.kafka.common.errors"
_IRREGULAR = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "UnknownServerException",
    ErrorCode.CORRUPT_MESSAGE: "CorruptRecordException",
    ErrorCode.REQUEST_TIMED_OUT: "TimeoutException",
    ErrorCode.MESSAGE_TOO_LARGE: "RecordTooLargeException",
    ErrorCode.STALE_CONTROLLER_EPOCH: "ControllerMovedException",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "OffsetMetadataTooLarge",
    ErrorCode.RECORD_LIST_TOO_LARGE: "RecordBatchTooLargeException",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "TopicAuthorizationException",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "GroupAuthorizationException",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ClusterAuthorizationException",
    ErrorCode.TOPIC_ALREADY_EXISTS: "TopicExistsException",
    ErrorCode.INVALID_CONFIG: "InvalidConfigurationException",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "OutOfOrderSequenceException",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "DuplicateSequenceException",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "InvalidPidMappingException",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "InvalidTxnTimeoutException",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "TransactionalIdAuthorizationException",
    ErrorCode.KAFKA_STORAGE_ERROR: "KafkaStorageException",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "SaslAuthenticationException",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "DelegationTokenDisabledException",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "UnsupportedByAuthenticationException",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "DelegationTokenAuthorizationException",
    ErrorCode.NON_EMPTY_GROUP: "GroupNotEmptyException",
    ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE: "PrincipalDeserializationException",
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: "FetchSessionTopicIdException",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "InvalidRegularExpression",
}
_MESSAGES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.REQUEST_TIMED_OUT: "The request timed out.",
    ErrorCode.INVALID_GROUP_ID: "The configured groupId is invalid.",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "Deleting offsets of a topic is forbidden while the consumer group is "
    "actively subscribed to it.",
    ErrorCode.UNKNOWN_MEMBER_ID: "The coordinator is not aware of this member.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.OFFSET_OUT_OF_RANGE: "The requested offset is not within the range of offsets maintained by the server.",
    ErrorCode.UNKNOWN_TOPIC_ID: "This server does not host this topic ID.",
    ErrorCode.LEADER_NOT_AVAILABLE: "There is no leader for this topic-partition as we are in the middle of a "
    "leadership election.",
    ErrorCode.UNSUPPORTED_VERSION: "The version of API is not supported.",
    ErrorCode.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader was not available.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "Eligible topic partition leaders are not available.",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "No partition reassignment is in progress.",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "Replica assignment is invalid.",
    ErrorCode.INVALID_REQUEST: "This most likely occurs because of a request being malformed by the client library or "
    "the message was sent to an incompatible broker. See the broker logs for more details.",
    ErrorCode.INVALID_PRODUCER_EPOCH: "Producer attempted to produce with an old epoch.",
    ErrorCode.INVALID_TXN_STATE: "The producer attempted a transactional operation in an invalid state.",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "The transactionalId could not be found.",
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: "Indicates that the transaction coordinator sending a WriteTxnMarker is "
    "no longer the current coordinator for a given producer.",
    ErrorCode.LOG_DIR_NOT_FOUND: "The user-specified log directory is not found in the broker config.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "Delegation Token feature is not enabled.",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "Delegation Token is not found on server.",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "Specified Principal is not valid Owner/Renewer.",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "Delegation Token requests are not allowed on PLAINTEXT/1-way SSL "
    "channels and on delegation token authenticated channels.",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "Delegation Token authorization failed.",
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "Delegation Token is expired.",
    ErrorCode.INVALID_PRINCIPAL_TYPE: "Supplied principalType is not supported.",
    ErrorCode.UNKNOWN_SERVER_ERROR: "The server experienced an unexpected error when processing the request.",
}
"""What the originals say of codes that come without a message, as far as these tools meet them."""


def java_class(code: ErrorCode) -> str:
    """The class of the exception that Kafka's clients raise for a code."""
    name = _IRREGULAR.get(code)
    if name is None:
        name = "".join(part.capitalize() for part in code.name.split("_"))
        if not name.endswith("Exception"):
            name += "Exception"
    return f"{PACKAGE}.{name}"


def java_name(error: KafkaError) -> str:
    """The class of the exception that Kafka's clients raise in place of this error."""
    if isinstance(error, TlsError):
        return f"{PACKAGE}.SslAuthenticationException"
    return java_class(error.code)


def java_message(error: KafkaError) -> str:
    """The exception's message."""
    return error.message or _MESSAGES.get(error.code) or error.code.text


def default_message(code: ErrorCode) -> str:
    """The message for this code if the broker sent none."""
    return _MESSAGES.get(code) or code.text


def java_text(error: KafkaError) -> str:
    """The exception as Java prints it: class and message."""
    return f"{java_name(error)}: {java_message(error)}"


def log_line(level: str, message: str, logger: str) -> str:
    """A line of the tools' log, in the layout of Kafka's config/tools-log4j2.yaml."""
    now = time.time()
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    return f"[{at},{int(now * 1000) % 1000:03d}] {level} {message} ({logger})"


def log(level: str, message: str, logger: str, error: BaseException | None = None) -> None:
    """Write to the tools' log, which is stderr; the exception's message has its own line."""
    print(log_line(level, message, logger), file=sys.stderr)
    if isinstance(error, KafkaError):
        print(java_text(error), file=sys.stderr)
    elif isinstance(error, ToolError):
        sys.stderr.write(error.trace.replace(": \n", "\n"))
    elif error is not None:
        print(error, file=sys.stderr)
    sys.stderr.flush()


class ToolLog(logging.Handler):
    """Brings the client's warnings to stderr, as the originals' log does."""

    def emit(self, record: logging.LogRecord) -> None:
        level = "WARN" if record.levelno == logging.WARNING else record.levelname
        print(log_line(level, record.getMessage(), record.name), file=sys.stderr, flush=True)


def show_warnings() -> None:
    """Let the client's warnings and errors be seen."""
    logger = logging.getLogger("ottla")
    if not any(isinstance(handler, ToolLog) for handler in logger.handlers):
        logger.addHandler(ToolLog(logging.WARNING))
        logger.propagate = False

"""What goes wrong for a client: every error carries Kafka's code, and says whether trying again may help.

`KafkaError` is the one to catch. Some kinds have a class of their own, because programs treat them differently.
"""

from __future__ import annotations

from ottla.client.core.partitions import TopicPartition
from ottla.security.errors import AuthenticationError
from ottla.wire.errors import ErrorCode, KafkaError

__all__ = [
    "AuthenticationError",
    "AuthorizationError",
    "BufferExhausted",
    "ClientClosed",
    "CommitFailed",
    "ConfigError",
    "DeserializationFailed",
    "ErrorCode",
    "KafkaError",
    "MadeBeforeFork",
    "NetworkError",
    "NoBrokerReached",
    "OutOfOrderSequence",
    "ProducerFenced",
    "RecordTooLarge",
    "RequestTimedOut",
    "TlsError",
    "TransactionAborted",
    "UnknownTopicOrPartition",
    "UnsupportedByBroker",
    "check_error",
    "error_code",
    "error_of",
    "in_context",
    "is_retriable",
]


class NetworkError(KafkaError):
    """The connection ended or could not be made: the broker may or may not have done the request."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, message)


class NoBrokerReached(NetworkError):
    """None of the bootstrap servers answered."""


class RequestTimedOut(KafkaError, TimeoutError):
    """No answer, or no success, within the time allowed."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, message)


class BufferExhausted(RequestTimedOut):
    """The producer's buffer.memory stayed full for max.block.ms."""


class ConfigError(KafkaError, ValueError):
    """A setting that does not exist or cannot have this value."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_CONFIG, message)

    def __str__(self) -> str:
        return self.message or ""


class ClientClosed(KafkaError):
    """The client was closed before this could be done."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(ErrorCode.OPERATION_NOT_ATTEMPTED, message or "the client is closed")


class MadeBeforeFork(KafkaError):
    """The client was made in another process: a fork copies neither its thread nor its event loop, and its connections
    stay those of the parent."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(
            ErrorCode.OPERATION_NOT_ATTEMPTED,
            message or "this client was made in another process; make the client after the fork",
        )


class UnsupportedByBroker(KafkaError):
    """The broker is too old for the request."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(ErrorCode.UNSUPPORTED_VERSION, message)


class UnknownTopicOrPartition(KafkaError):
    """No such topic, or no such partition of it."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)


class RecordTooLarge(KafkaError):
    """A record, or its batch, is larger than max.request.size, buffer.memory or the topic's max.message.bytes."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(ErrorCode.MESSAGE_TOO_LARGE, message)


class ProducerFenced(KafkaError):
    """Another producer has taken over the transactional id: this one can do nothing more and has to be closed."""

    def __init__(self, message: str | None = None, code: ErrorCode = ErrorCode.PRODUCER_FENCED) -> None:
        super().__init__(code, message)


class OutOfOrderSequence(KafkaError):
    """The partition misses a batch of this producer that was sent before: records may be lost."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, message)


class TransactionAborted(KafkaError):
    """The record was in a transaction that was aborted, or that can only be aborted now."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(ErrorCode.TRANSACTION_ABORTABLE, message)


class CommitFailed(KafkaError):
    """The group has gone on without this member: others may read what it read, and commit for it."""


class DeserializationFailed(KafkaError):
    """A deserializer raised an exception. The record is met again by the next poll, unless a seek passes over it."""

    def __init__(self, partition: TopicPartition, offset: int, cause: Exception) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, f"{partition} at offset {offset}: {cause!r}")
        self.partition = partition
        self.offset = offset


class LogTruncated(KafkaError):
    """Records that were read are gone: a leader without them took over, and wrote others in their place (KIP-320).

    Seek to `divergent_offset` to read what stands there now; None if the broker does not know where that is.
    """

    def __init__(self, partition: TopicPartition, offset: int, divergent_offset: int | None) -> None:
        where = "the broker does not know from where on" if divergent_offset is None else f"from {divergent_offset} on"
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition} was read up to offset {offset}, but its log was truncated and written again ({where}), and "
            "auto.offset.reset is none: seek to an offset",
        )
        self.partition = partition
        self.offset = offset
        self.divergent_offset = divergent_offset


class AuthorizationError(KafkaError):
    """The broker does not allow it."""


class TlsError(AuthenticationError):
    """The TLS handshake failed for a reason that does not pass: a certificate, a name, or no TLS on the other side."""


_CLASSES: dict[ErrorCode, type[KafkaError]] = {
    ErrorCode.NETWORK_EXCEPTION: NetworkError,
    ErrorCode.REQUEST_TIMED_OUT: RequestTimedOut,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: UnknownTopicOrPartition,
    ErrorCode.UNSUPPORTED_VERSION: UnsupportedByBroker,
    ErrorCode.MESSAGE_TOO_LARGE: RecordTooLarge,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: OutOfOrderSequence,
    ErrorCode.TRANSACTION_ABORTABLE: TransactionAborted,
    ErrorCode.SASL_AUTHENTICATION_FAILED: AuthenticationError,
}
_FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
_FORBIDDEN = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
)


def error_code(code: int) -> ErrorCode:
    """The code of a response; a code that this client does not know becomes UNKNOWN_SERVER_ERROR."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def error_of(code: int, message: str | None = None) -> KafkaError:
    """The exception for a code of a response."""
    known = error_code(code)
    if known is ErrorCode.UNKNOWN_SERVER_ERROR and code != known:
        message = f"error code {code}" + (f": {message}" if message else "")
    if known in _FENCED:
        return ProducerFenced(message, known)
    if known in _FORBIDDEN:
        return AuthorizationError(known, message)
    cls = _CLASSES.get(known)
    return KafkaError(known, message) if cls is None else cls(message)  # type: ignore[arg-type]


def check_error(code: int, message: str | None = None) -> None:
    """Raises the error of a response's code, if it has one."""
    if code:
        raise error_of(code, message)


def in_context(error: KafkaError, context: str) -> KafkaError:
    """A copy of the error that names its subject: a query, a partition."""
    message = f"{context}: {error.message or error.code.text}"
    if isinstance(error, AuthenticationError):
        return type(error)(message, error.code)
    return ConfigError(message) if isinstance(error, ConfigError) else KafkaError(error.code, message)


def is_retriable(error: BaseException) -> bool:
    """Whether the same request may succeed when it is sent again."""
    return isinstance(error, KafkaError) and error.code.is_retriable

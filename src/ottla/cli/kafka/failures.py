"""Errors of brokers as Kafka's tools know them: Java exceptions, alone or as a future wraps them."""

from __future__ import annotations

from ottla.cli.kafka.exceptions import java_message, java_name
from ottla.cli.kafka.options import ToolError
from ottla.wire.errors import KafkaError

EXECUTION = "java.util.concurrent.ExecutionException"


def failure_of(error: KafkaError) -> ToolError:
    """The exception that Kafka's client raises for a broker's error."""
    return ToolError(java_message(error), java_name(error))


def execution_failure(error: KafkaError | ToolError) -> ToolError:
    """The exception in the form in which Java's futures wrap it."""
    cause = error if isinstance(error, ToolError) else failure_of(error)
    return ToolError(f"{cause.exception}: {cause.message}", EXECUTION, cause)

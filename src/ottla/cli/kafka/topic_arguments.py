"""`topic` and `topic:0,1,2` on the command lines of Kafka's tools, and how they complain."""

from __future__ import annotations

from ottla.cli.kafka.options import INTEGER, ToolError
from ottla.client.metadata import TopicPartition


def parse_topic_argument(argument: str) -> list[TopicPartition]:
    """The partitions of `topic:0,1,2`."""
    parts = argument.split(":")
    while parts and not parts[-1]:
        parts.pop()
    if len(parts) != 2:
        raise ToolError(f"Invalid topic arg '{argument}', expected topic name and partitions")
    topic, numbers = parts
    partitions = []
    for number in numbers.split(","):
        try:
            partitions.append(TopicPartition(topic, INTEGER.convert(number)))
        except ValueError:
            raise ToolError(f"Invalid partition '{number}' specified in topic arg '{argument}''") from None
    return partitions


def print_error(message: str) -> None:
    print(f"\nError: {message}")

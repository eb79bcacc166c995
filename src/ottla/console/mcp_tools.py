"""The tools that assistants get: routes of the console with a name, a description and a schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_TEXT, _INTEGER, _FLAG, _OBJECT = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}, {"type": "object"}
_ARRAY: dict[str, Any] = {"type": "array", "items": {}}


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    description: str
    method: str
    path: str
    properties: Mapping[str, Any] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    is_change: bool = False

    def document(self, clusters: list[str]) -> dict[str, Any]:
        cluster = {"type": "string", "enum": clusters, "description": "the first one if it is left out"}
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": {
                "type": "object",
                "properties": {"cluster": cluster, **self.properties},
                "required": list(self.required),
            },
            "annotations": {"readOnlyHint": not self.is_change, "destructiveHint": self.is_change},
        }


_SEARCH = {
    "topic": _TEXT,
    "partitions": {"type": "array", "items": _INTEGER},
    "from": {
        **_OBJECT,
        "description": 'a place: {"kind": "earliest"|"latest"|"offset"|"time", "offset": 5, "timestamp": ms}',
    },
    "to": {**_OBJECT, "description": "a place; the end if it is left out"},
    "key": {**_TEXT, "description": "exact key: reads one partition"},
    "filter": {
        **_OBJECT,
        "description": '{"text": "abc"} or {"expression": "value.amount > 100 and key startswith \'A\'"}',
    },
    "order": {"type": "string", "enum": ["newest", "oldest"]},
    "limit": {**_INTEGER, "minimum": 1, "maximum": 100},
    "cursor": {**_TEXT, "description": "of the last answer, to go on"},
}
_CONFIRM = {
    "preview": {
        **_FLAG,
        "description": "true: nothing happens; the answer says what would, and the word to confirm with",
    },
    "confirm": {**_TEXT, "description": "the word of the preview"},
}
TOOLS = (
    Tool(
        "overview",
        "What is wrong with the cluster and what to do about it, with its size and rates.",
        "GET",
        "overview",
    ),
    Tool(
        "list_topics",
        "Topics with size, rate, lag of the worst group and changed settings.",
        "GET",
        "topics",
        {"internal": _FLAG},
    ),
    Tool(
        "describe_topic",
        "One topic: partitions, replicas, offsets, groups.",
        "GET",
        "topics/{topic}",
        {"topic": _TEXT},
        ("topic",),
    ),
    Tool(
        "topic_settings",
        "Settings of a topic with documentation and origin.",
        "GET",
        "topics/{topic}/settings",
        {"topic": _TEXT},
        ("topic",),
    ),
    Tool(
        "search_messages",
        "Records of a topic that match; says how much was scanned, and goes on with the cursor.",
        "POST",
        "search",
        _SEARCH,
        ("topic",),
    ),
    Tool(
        "read_message",
        "One record.",
        "GET",
        "topics/{topic}/records/{partition}/{offset}",
        {"topic": _TEXT, "partition": _INTEGER, "offset": _INTEGER},
        ("topic", "partition", "offset"),
    ),
    Tool("list_groups", "Groups of every kind with their lag in records and seconds.", "GET", "groups"),
    Tool(
        "describe_group",
        "One group: members, committed offsets, lag by partition.",
        "GET",
        "groups/{group}",
        {"group": _TEXT},
        ("group",),
    ),
    Tool("list_brokers", "Brokers, log dirs, the controllers' quorum, features.", "GET", "brokers"),
    Tool("list_transactions", "Open and hanging transactions.", "GET", "transactions", {"hanging": _FLAG}),
    Tool("list_schemas", "Subjects of the schema registry.", "GET", "schemas"),
    Tool("show_schema", "Versions of a subject.", "GET", "schemas/{subject}", {"subject": _TEXT}, ("subject",)),
    Tool("dead_letters", "Topics of dead letters with their reasons.", "GET", "dead-letters"),
    Tool(
        "read_letters",
        "Dead letters of a topic with reason and origin.",
        "POST",
        "topics/{topic}/letters",
        {"topic": _TEXT, "limit": _INTEGER, "cursor": _TEXT},
        ("topic",),
    ),
    Tool(
        "explain_access",
        "Whether a principal may do something, and by which ACL.",
        "POST",
        "explain",
        {"principal": _TEXT, "operation": _TEXT, "resource": _TEXT, "name": _TEXT, "host": _TEXT},
        ("principal", "operation", "resource", "name"),
    ),
    Tool("list_pipelines", "Pipelines with their flows and last errors.", "GET", "pipelines"),
    Tool(
        "create_topic",
        "Create a topic.",
        "POST",
        "topics",
        {"name": _TEXT, "partition_count": _INTEGER, "replication_factor": _INTEGER, "settings": _OBJECT},
        ("name",),
        True,
    ),
    Tool(
        "change_topic_settings",
        "Change settings of a topic; null is back to the default.",
        "POST",
        "topics/{topic}/settings",
        {"topic": _TEXT, "changes": _OBJECT},
        ("topic", "changes"),
        True,
    ),
    Tool(
        "produce",
        "Write records.",
        "POST",
        "topics/{topic}/produce",
        {"topic": _TEXT, "records": _ARRAY},
        ("topic", "records"),
        True,
    ),
    Tool(
        "reset_group",
        "Set the committed offsets of a group; preview first.",
        "POST",
        "groups/{group}/reset",
        {"group": _TEXT, "topic": _TEXT, "partitions": _ARRAY, "to": _OBJECT, **_CONFIRM},
        ("group", "to"),
        True,
    ),
    Tool(
        "redrive",
        "Send dead letters back to where they came from; preview first.",
        "POST",
        "topics/{topic}/redrive",
        {"topic": _TEXT, "records": _ARRAY, "to": _TEXT, **_CONFIRM},
        ("topic", "records"),
        True,
    ),
    Tool(
        "delete_topic",
        "Delete a topic with all its records; preview first.",
        "POST",
        "topics/{topic}/delete",
        {"topic": _TEXT, **_CONFIRM},
        ("topic",),
        True,
    ),
)

"""Protobuf in the registry: the language, its two forms, and which messages are compatible."""

from __future__ import annotations

import base64

import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2

from ottla.registry.limits import Budget, Unusable
from ottla.registry.protobuf import ProtobufSchema

TEXT = """\
syntax = "proto3";
package shop;

import "google/protobuf/timestamp.proto";

option java_package = "com.shop";

message Order {
  reserved 4 to 6;
  reserved "old";
  string item = 1;
  repeated int32 counts = 2;
  optional .shop.Order.State state = 3;
  map<string, .shop.Order.Line> lines = 7;
  oneof payment {
    string card = 8;
    int64 cash = 9;
  }
  .google.protobuf.Timestamp at = 10;
  message Line {
    double price = 1;
  }
  enum State {
    NEW = 0;
    DONE = 1;
  }
}
"""


def message(body: str, name: str = "M") -> ProtobufSchema:
    return ProtobufSchema(f'syntax = "proto3"; message {name} {{ {body} }} message X {{ int32 a = 1; }}')


def test_text_is_written_as_it_was_read_and_as_a_descriptor() -> None:
    schema = ProtobufSchema(TEXT)
    assert schema.canonical() == TEXT
    again = ProtobufSchema(schema.serialized())
    assert again.canonical() == TEXT
    short = TEXT.replace(".shop.Order.State", "State").replace(".shop.Order.Line", "Order.Line")
    assert ProtobufSchema("/* a comment */" + short + "// end").canonical() == TEXT


def test_a_descriptor_of_googles_library_is_read() -> None:
    file = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(file)
    text = ProtobufSchema(base64.b64encode(file.SerializeToString()).decode()).canonical()
    assert "message Timestamp {\n  int64 seconds = 1;\n  int32 nanos = 2;\n}" in text


@pytest.mark.parametrize(
    ("reader", "writer", "expected"),
    [
        ("string a = 1;", "string a = 1;", []),
        ("string a = 1; int32 b = 2;", "string a = 1;", []),
        ("string a = 1;", "string a = 1; int32 b = 2;", []),
        ("int64 a = 1;", "int32 a = 1;", []),
        ("bytes a = 1;", "string a = 1;", []),
        ("string a = 1;", "int32 a = 1;", ["FIELD_SCALAR_KIND_CHANGED"]),
        ("sint32 a = 1;", "int32 a = 1;", ["FIELD_SCALAR_KIND_CHANGED"]),
        ("X a = 1;", "int32 a = 1;", ["FIELD_KIND_CHANGED"]),
        ("X a = 1;", "M a = 1;", ["FIELD_NAMED_TYPE_CHANGED"]),
        ("repeated int32 a = 1;", "int32 a = 1;", ["FIELD_NUMERIC_LABEL_CHANGED"]),
        ("oneof o { string a = 1; string b = 2; }", "string a = 1; string b = 2;", ["MULTIPLE_FIELDS_MOVED_TO_ONEOF"]),
        ("oneof o { string a = 1; }", "oneof o { string a = 1; string b = 2; }", ["ONEOF_FIELD_REMOVED"]),
        ("oneof p { string a = 1; string b = 2; }", "oneof o { string a = 1; string b = 2; }", []),
        (
            "oneof o { string a = 1; string b = 2; }",
            "oneof o { string a = 1; } string b = 2;",
            ["FIELD_MOVED_TO_EXISTING_ONEOF"],
        ),
        (
            "oneof o { string a = 1; string b = 2; }",
            "oneof o { string a = 1; } oneof p { string b = 2; }",
            ["FIELD_MOVED_TO_EXISTING_ONEOF"],
        ),
    ],
)
def test_fields_are_compared_by_their_bytes(reader: str, writer: str, expected: list[str]) -> None:
    assert [one.rule for one in message(reader).differences_from_writer(message(writer), Budget())] == expected


def test_messages_and_packages_stay() -> None:
    old = ProtobufSchema('syntax = "proto3"; package a; message M { message N {} }')
    new = ProtobufSchema('syntax = "proto3"; package b; message M { }')
    assert [one.rule for one in new.differences_from_writer(old, Budget())] == ["PACKAGE_CHANGED", "MESSAGE_REMOVED"]


def test_imports_are_references() -> None:
    text = 'syntax = "proto3"; import "x.proto"; message M { X x = 1; }'
    with pytest.raises(Unusable, match=r"x\.proto"):
        ProtobufSchema(text)
    schema = ProtobufSchema(text, [("x.proto", 'syntax = "proto3"; message X {}')])
    assert "  .X x = 1;" in schema.canonical()


@pytest.mark.parametrize(
    "text",
    [
        "message",
        'syntax = "proto9";',
        "message M { string a = 0; }",
        "message M { Missing a = 1; }",
        "message M { string a = 1; string b = 1; }",
        "message M {" * 1_000 + "}" * 1_000,
        'syntax = "proto3"; message M { ' + "string a = 1; " * 30_000 + "}",
        "\x00",
        "/* open",
    ],
)
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(Unusable):
        ProtobufSchema(text)


def test_messages_of_imported_files_are_compared_too() -> None:
    def importing(package: str, kind: str) -> ProtobufSchema:
        text = f'syntax = "proto3"; import "x.proto"; message M {{ .{package}.X x = 1; }}'
        return ProtobufSchema(
            text, [("x.proto", f'syntax = "proto3"; package {package}; message X {{ {kind} a = 1; X next = 2; }}')]
        )

    old = importing("a", "string")
    assert importing("b", "string").differences_from_writer(old, Budget()) == []
    found = importing("a", "int32").differences_from_writer(old, Budget())
    assert [(one.rule, one.path) for one in found] == [
        ("FIELD_SCALAR_KIND_CHANGED", "#/X/1"),
        ("FIELD_NAMED_TYPE_CHANGED", "#/M/1"),
    ]


def test_a_type_of_google_needs_an_import() -> None:
    with pytest.raises(Unusable, match="not defined"):
        ProtobufSchema('syntax = "proto3"; message M { google.protobuf.Timestamp at = 1; }')


def test_options_of_a_file_are_kept_and_sorted_when_normalised() -> None:
    text = """\
syntax = "proto3";
package shop;

option java_package = "com.shop";
option java_multiple_files = true;
option optimize_for = CODE_SIZE;
option cc_enable_arenas = false;

message M {
}
"""
    schema = ProtobufSchema(text)
    found = [line.split()[1] for line in schema.canonical().splitlines() if line.startswith("option")]
    assert sorted(found) == ["cc_enable_arenas", "java_multiple_files", "java_package", "optimize_for"]
    assert "option optimize_for = CODE_SIZE;" in schema.canonical()
    normal = schema.canonical(is_normalized=True)
    assert [line.split()[1] for line in normal.splitlines() if line.startswith("option")] == sorted(found)
    assert ProtobufSchema(schema.serialized()).canonical() == schema.canonical()

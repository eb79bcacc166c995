"""Protobuf schemas: a `FileDescriptorProto`, from the text of a .proto file or from base64, and its comparison.

Confluent's serializers for Python and Go send the descriptor as base64; the registry keeps text. Rules are about bytes:
a message is compatible if fields with the same number are written the same way.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from ottla.registry import proto_text
from ottla.registry.limits import MAX_DEPTH, Budget, Difference, Unusable

_FIELD = descriptor_pb2.FieldDescriptorProto
_SAME_BYTES = (
    ("int32", "uint32", "int64", "uint64", "bool"), ("sint32", "sint64"), ("string", "bytes"), ("fixed32", "sfixed32"),
    ("fixed64", "sfixed64"),
)  # fmt: skip
_NAMES = {number: name for name, number in proto_text.SCALARS.items()}
_LABELS = {_FIELD.LABEL_REQUIRED: "required ", _FIELD.LABEL_REPEATED: "repeated "}
_WELL_KNOWN = ("google", "confluent")
_OPTIONS = descriptor_pb2.FileOptions.DESCRIPTOR.fields_by_name
_FILE_OPTIONS = tuple(name for name, one in _OPTIONS.items() if one.message_type is None and not one.is_repeated)


class ProtobufSchema:
    """One file, and its imports."""

    kind = "PROTOBUF"
    complaint = ""

    def __init__(self, text: str, references: Sequence[tuple[str, str]] = ()) -> None:
        self.file = _load(text)
        known = {name for name, _ in references}
        self._others = [_load(one) for _, one in references]
        self._imports = {one for file in (self.file, *self._others) for one in file.dependency}
        for one in self.file.dependency:
            if one not in known and not one.startswith(("google/", "confluent/")):
                raise Unusable(f'the import "{one[:200]}" is no reference of the schema')
        self.types: dict[str, Any] = {}
        self._packages: dict[str, str] = {}
        self._own: set[str] = set()
        for file in (*self._others, self.file):
            self._package, self._is_own = file.package, file is self.file
            prefix = f".{file.package}" if file.package else ""
            self._collect(file.message_type, file.enum_type, prefix, 0)
        for file in (*self._others, self.file):
            prefix = f".{file.package}" if file.package else ""
            for message in file.message_type:
                self._resolve(message, f"{prefix}.{message.name}")

    def _collect(self, messages: Any, enums: Any, prefix: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise Unusable(f"the schema is nested more than {MAX_DEPTH} levels deep")
        for one in (*messages, *enums):
            name = f"{prefix}.{one.name}"
            self.types[name] = one
            self._packages[name] = self._package
            if self._is_own:
                self._own.add(name)
        for one in messages:
            self._collect(one.nested_type, one.enum_type, f"{prefix}.{one.name}", depth + 1)

    def _resolve(self, message: Any, scope: str) -> None:
        """Give every field the full name of its type."""
        numbers, names = set(), set()
        for field in message.field:
            if field.number in numbers or field.name in names:
                raise Unusable(f"the message {scope[1:]} has the field {field.name} = {field.number} twice")
            numbers.add(field.number)
            names.add(field.name)
            if field.type == _FIELD.TYPE_GROUP:
                raise Unusable(f"{field.name} is a group, which this registry does not keep")
            if field.type_name:
                self._resolve_field(field, scope)
        for one in message.nested_type:
            self._resolve(one, f"{scope}.{one.name}")

    def _resolve_field(self, field: Any, scope: str) -> None:
        name = field.type_name
        if not name.startswith("."):
            place = scope
            while f"{place}.{name}" not in self.types and place:
                place = place.rpartition(".")[0]
            found = f"{place}.{name}"
            if found not in self.types:
                word = name.partition(".")[0]
                if word not in _WELL_KNOWN or not any(one.startswith(f"{word}/") for one in self._imports):
                    raise Unusable(f"{field.name} is of the type {name[:200]}, which is not defined")
                found = f".{name}"
            field.type_name = found
        is_enum = isinstance(self.types.get(field.type_name), descriptor_pb2.EnumDescriptorProto)
        field.type = _FIELD.TYPE_ENUM if is_enum else _FIELD.TYPE_MESSAGE

    # Forms

    def canonical(self, *, is_normalized: bool = False) -> str:
        return "\n".join(_lines(self.file, is_normalized)) + "\n"

    def serialized(self) -> str:
        """The descriptor as base64."""
        made = descriptor_pb2.FileDescriptorProto()
        made.CopyFrom(self.file)
        made.name = made.name or "default"
        if made.syntax == "proto2":
            made.ClearField("syntax")
        return base64.b64encode(made.SerializeToString()).decode()

    def messages(self) -> dict[str, Any]:
        """The messages of the file itself, by name without the package."""
        found: dict[str, Any] = {}

        def visit(messages: Any, prefix: str) -> None:
            for one in messages:
                if not one.options.map_entry:
                    found[f"{prefix}{one.name}"] = one
                    visit(one.nested_type, f"{prefix}{one.name}.")

        visit(self.file.message_type, "")
        return found

    def top_level_fields(self) -> set[str]:
        """Names of the fields of the first message."""
        return {one.name for message in self.file.message_type[:1] for one in message.field}

    def differences_from_writer(self, writer: ProtobufSchema, budget: Budget) -> list[Difference]:
        """Why messages of this schema cannot be read from bytes that were written with another."""
        found: list[Difference] = []
        compared = _Compared(budget)
        if self.file.package != writer.file.package:
            found.append(_difference("PACKAGE_CHANGED", "#/", f"has the package {self.file.package or 'none'}"))
        mine, theirs = self.messages(), writer.messages()
        for name, message in theirs.items():
            if name not in mine:
                found.append(_difference("MESSAGE_REMOVED", f"#/{name}", "has been removed"))
            else:
                found += self._compare(mine[name], message, writer, f"#/{name}", compared)
        return found

    def _compare(
        self, mine: Any, theirs: Any, writer: ProtobufSchema, path: str, compared: _Compared
    ) -> Iterator[Difference]:
        old = {field.number: field for field in theirs.field}
        for field in mine.field:
            compared.budget.spend()
            where = f"{path}/{field.number}"
            before = old.get(field.number)
            if before is None:
                if field.label == _FIELD.LABEL_REQUIRED:
                    yield _difference("REQUIRED_FIELD_ADDED", where, "is required and was not there")
                continue
            yield from self._field(field, before, writer, where, compared)
        numbers = {one.number for one in mine.field}
        for field in theirs.field:
            if field.label == _FIELD.LABEL_REQUIRED and field.number not in numbers:
                yield _difference("REQUIRED_FIELD_REMOVED", f"{path}/{field.number}", "was required and is removed")
        yield from self._oneofs(mine, theirs, path)

    def _field(
        self, field: Any, before: Any, writer: ProtobufSchema, where: str, compared: _Compared
    ) -> Iterator[Difference]:
        mine, theirs = _kind(field), _kind(before)
        if mine in ("message", "group") and mine == theirs:
            inner = self._imported(field, before, writer, compared)
            yield from inner
            if inner or self._shape(field) != writer._shape(before):
                name = field.type_name.rpartition(".")[2]
                yield _difference("FIELD_NAMED_TYPE_CHANGED", where, f"is of the type {name}")
        elif mine == "enum" and theirs == "enum":
            pass
        elif (mine in ("message", "group")) != (theirs in ("message", "group")):
            yield _difference("FIELD_KIND_CHANGED", where, f"is {mine} and was {theirs}")
        elif _group(mine) != _group(theirs):
            yield _difference("FIELD_SCALAR_KIND_CHANGED", where, f"is {mine} and was {theirs}")
        is_repeated = field.label == _FIELD.LABEL_REPEATED
        is_numeric = mine not in ("string", "bytes", "message", "group")
        if is_repeated != (before.label == _FIELD.LABEL_REPEATED) and is_numeric:
            yield _difference("FIELD_NUMERIC_LABEL_CHANGED", where, "has changed between one and many")

    def _shape(self, field: Any) -> str:
        """A message's name without package; of a map the types of its entries."""
        message = self.types.get(field.type_name)
        if message is not None and message.options.map_entry:
            return "map " + " ".join(_group(_kind(one)) + one.type_name for one in message.field)
        package = self._packages.get(field.type_name, self.file.package)
        prefix = f".{package}." if package else "."
        return str(field.type_name.removeprefix(prefix))

    def _imported(self, field: Any, before: Any, writer: ProtobufSchema, compared: _Compared) -> list[Difference]:
        """How the messages of two fields differ, if one of them is of another file; those of the file are compared
        by themselves."""
        mine, theirs = self.types.get(field.type_name), writer.types.get(before.type_name)
        if mine is None or theirs is None or mine.options.map_entry or self._shape(field) != writer._shape(before):
            return []
        pair = (field.type_name, before.type_name)
        if (field.type_name in self._own and before.type_name in writer._own) or pair in compared.pairs:
            return []
        compared.pairs.add(pair)
        return list(self._compare(mine, theirs, writer, f"#/{self._shape(field).replace('.', '/')}", compared))

    def _oneofs(self, mine: Any, theirs: Any, path: str) -> Iterator[Difference]:
        """Fields that were separate and now share a oneof; and fields that leave one."""
        homes = {
            one.number: theirs.oneof_decl[one.oneof_index].name
            if one.HasField("oneof_index") and not one.proto3_optional
            else one.number
            for one in theirs.field
        }
        for name, fields in _oneof_fields(mine).items():
            moved = {homes[one.number] for one in fields if one.number in homes}
            if len(moved) > 1:
                is_from_oneof = any(isinstance(one, str) for one in moved)
                rule = "FIELD_MOVED_TO_EXISTING_ONEOF" if is_from_oneof else "MULTIPLE_FIELDS_MOVED_TO_ONEOF"
                yield _difference(rule, f"{path}/{name}", "has taken in fields")
        numbers = {one.number for one in mine.field}
        for name, fields in _oneof_fields(theirs).items():
            if len(fields) > 1 and any(one.number not in numbers for one in fields):
                yield _difference("ONEOF_FIELD_REMOVED", f"{path}/{name}", "has lost a field")


class _Compared:
    """Steps that are left, and pairs of messages that were looked at."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.pairs: set[tuple[str, str]] = set()


def _oneof_fields(message: Any) -> dict[str, list[Any]]:
    """The fields of each oneof."""
    found: dict[str, list[Any]] = {}
    for one in message.field:
        if one.HasField("oneof_index"):
            found.setdefault(message.oneof_decl[one.oneof_index].name, []).append(one)
    return found


def _difference(rule: str, path: str, what: str) -> Difference:
    return Difference(rule, path, f"The reader's schema at path '{path}' {what}")


def _kind(field: Any) -> str:
    words = {_FIELD.TYPE_MESSAGE: "message", _FIELD.TYPE_ENUM: "enum", _FIELD.TYPE_GROUP: "group"}
    return words.get(field.type) or _NAMES[field.type]


def _group(kind: str) -> str:
    """Types that are written as the same bytes."""
    kind = "int32" if kind == "enum" else kind
    return next((one[0] for one in _SAME_BYTES if kind in one), kind)


def _load(text: str) -> descriptor_pb2.FileDescriptorProto:
    compact = text.strip()
    if compact and all(one.isalnum() or one in "+/=" for one in compact[:200]):
        try:
            file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(compact, validate=True))
            # a descriptor may have any names and indexes: its text form is checked instead
            return proto_text.parse("\n".join(_lines(file, False)))
        except (binascii.Error, ValueError, DecodeError, LookupError):
            pass
    return proto_text.parse(text)


# Text


def _lines(file: Any, is_normalized: bool) -> Iterator[str]:
    yield f'syntax = "{file.syntax or "proto2"}";'
    if file.package:
        yield f"package {file.package};"
    if file.dependency:
        yield ""
        imports = list(enumerate(file.dependency))
        for index, one in sorted(imports, key=lambda pair: pair[1]) if is_normalized else imports:
            yield f'import {"public " if index in file.public_dependency else ""}"{one}";'
    options = [name for name in _FILE_OPTIONS if file.options.HasField(name)]
    options = sorted(options) if is_normalized else options
    if options:
        yield ""
        for name in options:
            value = getattr(file.options, name)
            yield f"option {name} = {_option_text(_OPTIONS[name], value)};"
    for one in file.message_type:
        yield ""
        yield from _message_lines(one, file.syntax == "proto3", is_normalized, "")
    for one in file.enum_type:
        yield ""
        yield from _enum_lines(one, "")
    for one in file.service:
        yield ""
        yield f"service {one.name} {{"
        for method in one.method:
            sent = "stream " if method.client_streaming else ""
            returned = "stream " if method.server_streaming else ""
            yield f"  rpc {method.name} ({sent}{method.input_type}) returns ({returned}{method.output_type});"
        yield "}"


def _option_text(option: Any, value: Any) -> str:
    if option.enum_type is not None:
        return str(option.enum_type.values_by_number[value].name)
    return str(value).lower() if isinstance(value, bool) else _quoted(value)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _message_lines(message: Any, is_proto3: bool, is_normalized: bool, indent: str) -> Iterator[str]:
    yield f"{indent}message {message.name} {{"
    inner = indent + "  "
    entries = {one.name: one for one in message.nested_type if one.options.map_entry}
    for one in message.reserved_range:
        last = one.end - 1
        yield f"{inner}reserved {one.start}{'' if last == one.start else f' to {last}'};"
    for name in message.reserved_name:
        yield f'{inner}reserved "{name}";'
    for one in message.extension_range:
        yield f"{inner}extensions {one.start} to {'max' if one.end > proto_text.MAX_TAG else one.end - 1};"
    fields = sorted(message.field, key=lambda one: one.number) if is_normalized else message.field
    oneofs = _oneof_fields(message)
    for field in fields:
        if field.HasField("oneof_index") and not field.proto3_optional:
            name = message.oneof_decl[field.oneof_index].name
            members = oneofs.pop(name, [])
            if members:
                yield f"{inner}oneof {name} {{"
                for one in sorted(members, key=lambda one: one.number) if is_normalized else members:
                    yield f"{inner}  {_field_text(one, entries, '')}"
                yield f"{inner}}}"
            continue
        label = _LABELS.get(field.label, "optional " if field.proto3_optional or not is_proto3 else "")
        yield f"{inner}{_field_text(field, entries, label)}"
    for one in message.nested_type:
        if not one.options.map_entry:
            yield from _message_lines(one, is_proto3, is_normalized, inner)
    for one in message.enum_type:
        yield from _enum_lines(one, inner)
    yield f"{indent}}}"


def _field_text(field: Any, entries: dict[str, Any], label: str) -> str:
    entry = entries.get(field.type_name.rpartition(".")[2]) if field.type_name else None
    if entry is not None and field.label == _FIELD.LABEL_REPEATED:
        key, value = (_type_text(one) for one in entry.field)
        start = f"map<{key}, {value}>"
    else:
        start = f"{label}{_type_text(field)}"
    options = []
    if field.HasField("default_value"):
        is_text = field.type in (_FIELD.TYPE_STRING, _FIELD.TYPE_BYTES)
        options.append(f"default = {_quoted(field.default_value) if is_text else field.default_value}")
    for name in ("packed", "deprecated"):
        if field.options.HasField(name):
            options.append(f"{name} = {str(getattr(field.options, name)).lower()}")
    listed = f" [{', '.join(options)}]" if options else ""
    return f"{start} {field.name} = {field.number}{listed};"


def _type_text(field: Any) -> str:
    return str(field.type_name) if field.type_name else _NAMES[field.type]


def _enum_lines(enum: Any, indent: str) -> Iterator[str]:
    yield f"{indent}enum {enum.name} {{"
    if enum.options.allow_alias:
        yield f"{indent}  option allow_alias = true;"
    for one in enum.reserved_range:
        yield f"{indent}  reserved {one.start}{'' if one.end == one.start else f' to {one.end}'};"
    for name in enum.reserved_name:
        yield f'{indent}  reserved "{name}";'
    for one in enum.value:
        yield f"{indent}  {one.name} = {one.number};"
    yield f"{indent}}}"

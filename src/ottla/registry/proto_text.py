"""The language of .proto files: text to `FileDescriptorProto`, without a compiler and in bounded time.

Types are left as they are written; `protobuf` resolves them. Options are kept only as far as they change the meaning on
the wire (`packed`, `deprecated`, `allow_alias`) or
name packages of languages; other options are read and dropped.
"""

from __future__ import annotations

import re
from typing import Any

from google.protobuf import descriptor_pb2

from ottla.registry.limits import MAX_DEPTH, MAX_NODE_COUNT, Unusable

_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"""|(?P<word>[A-Za-z_][A-Za-z0-9_.]*|\.[A-Za-z_][A-Za-z0-9_.]*)"""
    r"""|(?P<number>[0-9][0-9A-Za-z_.]*(?:(?<=[eE])[+-][0-9]+)?|\.[0-9]+)|(?P<mark>[{}()\[\]<>;=,:+\-/])""",
    re.DOTALL,
)
_FIELD = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    name.removeprefix("TYPE_").lower(): number
    for name, number in _FIELD.Type.items()
    if name not in ("TYPE_MESSAGE", "TYPE_ENUM", "TYPE_GROUP")
}
_LABELS = {
    "optional": _FIELD.LABEL_OPTIONAL, "required": _FIELD.LABEL_REQUIRED, "repeated": _FIELD.LABEL_REPEATED,
}  # fmt: skip
MAX_TAG = 2**29 - 1


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0
        self._depth = 0
        self._count = 0
        self.file = descriptor_pb2.FileDescriptorProto()

    # Tokens

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        found = self._peek()
        if not found:
            raise Unusable("the schema ends where more is expected")
        self._at += 1
        return found

    def _take(self, wanted: str) -> None:
        found = self._next()
        if found != wanted:
            raise Unusable(f"{found[:100]!r} stands where {wanted!r} is expected")

    def _accepts(self, wanted: str) -> bool:
        if self._peek() == wanted:
            self._at += 1
            return True
        return False

    def _name(self) -> str:
        found = self._next()
        if not re.fullmatch(r"\.?[A-Za-z_][A-Za-z0-9_.]*", found):
            raise Unusable(f"{found[:100]!r} stands where a name is expected")
        return found

    def _text(self) -> str:
        found = self._next()
        if found[0] not in "\"'":
            raise Unusable(f"{found[:100]!r} stands where a text is expected")
        made = found[1:-1]
        while self._peek()[:1] in ('"', "'") and self._peek():
            made += self._next()[1:-1]
        return made

    def _whole(self) -> int:
        sign = -1 if self._accepts("-") else 1
        found = self._next()
        try:
            if len(found) > 20:
                raise ValueError
            return sign * (int(found, 8) if re.fullmatch("0[0-7]+", found) else int(found, 0))
        except ValueError:
            raise Unusable(f"{found[:100]!r} stands where a whole number is expected") from None

    # The file

    def parse(self) -> descriptor_pb2.FileDescriptorProto:
        self.file.syntax = "proto2"
        while self._peek():
            match self._next():
                case "syntax" | "edition" as word:
                    self._take("=")
                    self.file.syntax = self._text()
                    if word == "edition" or self.file.syntax not in ("proto2", "proto3"):
                        raise Unusable(f"unknown syntax {self.file.syntax[:100]!r}: proto2 and proto3 are known")
                    self._take(";")
                case "package":
                    self.file.package = self._name()
                    self._take(";")
                case "import":
                    if self._peek() == "public":
                        self._next()
                        self.file.public_dependency.append(len(self.file.dependency))
                    elif self._peek() == "weak":
                        self._next()
                    self.file.dependency.append(self._text())
                    self._take(";")
                case "option":
                    self._file_option()
                case "message":
                    self._message(self.file.message_type.add())
                case "enum":
                    self._enum(self.file.enum_type.add())
                case "service":
                    self._service()
                case "extend":
                    self._extend(self.file.extension, self.file.message_type)
                case ";":
                    pass
                case other:
                    raise Unusable(f"{other[:100]!r} stands where a definition is expected")
        return self.file

    def _file_option(self) -> None:
        name, value = self._option()
        self._take(";")
        field = descriptor_pb2.FileOptions.DESCRIPTOR.fields_by_name.get(name)
        kinds = {str: "CPPTYPE_STRING", bool: "CPPTYPE_BOOL"}
        if field is not None and type(value) in kinds and field.cpp_type == getattr(field, kinds[type(value)]):
            setattr(self.file.options, name, value)
        elif field is not None and field.enum_type is not None and str(value) in field.enum_type.values_by_name:
            setattr(self.file.options, name, field.enum_type.values_by_name[str(value)].number)

    def _option(self) -> tuple[str, Any]:
        """A name and its value; a value that is a whole message is read over."""
        parts = []
        while self._peek() not in ("=", ""):
            parts.append(self._next())
        self._take("=")
        return "".join(parts), self._value()

    def _value(self) -> Any:
        found = self._peek()
        if found == "{":
            self._skip("{", "}")
            return None
        if found == "[":
            self._skip("[", "]")
            return None
        if found[:1] in ("'", '"'):
            return self._text()
        sign = self._next() if found in ("-", "+") else ""
        word = self._next()
        if word in ("true", "false"):
            return word == "true"
        return _Word(sign + word)

    def _skip(self, opening: str, closing: str) -> None:
        depth = 0
        while True:
            found = self._next()
            depth += (found == opening) - (found == closing)
            if depth == 0:
                return

    # Messages

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Unusable(f"the schema is nested more than {MAX_DEPTH} levels deep")

    def _counted(self) -> None:
        self._count += 1
        if self._count > MAX_NODE_COUNT:
            raise Unusable(f"the schema has more than {MAX_NODE_COUNT} parts")

    def _message(self, made: Any, name: str = "") -> None:
        self._enter()
        made.name = name or self._name()
        self._take("{")
        optional: list[Any] = []
        while not self._accepts("}"):
            self._counted()
            match self._next():
                case "message" if self._is_definition():
                    self._message(made.nested_type.add())
                case "enum" if self._is_definition():
                    self._enum(made.enum_type.add())
                case "oneof" if self._is_definition():
                    self._oneof(made)
                case "extend" if self._is_definition():
                    self._extend(made.extension, made.nested_type)
                case "map" if self._peek() == "<":
                    self._map(made)
                case "option":
                    name, value = self._option()
                    if name in ("deprecated", "message_set_wire_format") and isinstance(value, bool):
                        setattr(made.options, name, value)
                    self._take(";")
                case "reserved":
                    self._reserved(made, MAX_TAG, 1)
                case "extensions":
                    for start, end in self._ranges(MAX_TAG):
                        made.extension_range.add(start=start, end=end + 1)
                    if self._accepts("["):
                        self._at -= 1
                        self._skip("[", "]")
                    self._take(";")
                case ";":
                    pass
                case first:
                    field = self._field(made.field, made.nested_type, first)
                    if first == "optional" and self.file.syntax == "proto3":
                        field.proto3_optional = True
                        optional.append(field)
        for field in optional:
            field.oneof_index = len(made.oneof_decl)
            made.oneof_decl.add(name=f"_{field.name}")
        self._depth -= 1

    def _is_definition(self) -> bool:
        """Whether `message`, `enum` and the like begin a definition, and are not the name of a field's type."""
        after = self._tokens[self._at + 1] if self._at + 1 < len(self._tokens) else ""
        return after == "{"

    def _field(self, fields: Any, nested: Any, first: str) -> Any:
        field = fields.add()
        field.label = _LABELS.get(first, _FIELD.LABEL_OPTIONAL)
        if first in _LABELS:
            type_ = self._name()
        else:
            type_ = first
        if type_ == "group":
            return self._group(field, nested)
        _set_type(field, type_)
        field.name = self._name()
        self._take("=")
        field.number = self._tag()
        self._field_options(field)
        self._take(";")
        return field

    def _group(self, field: Any, nested: Any) -> Any:
        name = self._name()
        self._take("=")
        field.number = self._tag()
        field.type, field.type_name, field.name = _FIELD.TYPE_GROUP, name, name.lower()
        self._field_options(field)
        self._message(nested.add(), name)
        return field

    def _tag(self) -> int:
        number = self._whole()
        if not 1 <= number <= MAX_TAG or 19000 <= number < 20000:
            raise Unusable(f"{number} is no number of a field")
        return number

    def _field_options(self, field: Any) -> None:
        if not self._accepts("["):
            return
        while not self._accepts("]"):
            name, value = self._option()
            if name == "default":
                field.default_value = str(value) if not isinstance(value, bool) else str(value).lower()
            elif name == "json_name" and isinstance(value, str):
                field.json_name = value
            elif name in ("packed", "deprecated", "lazy") and isinstance(value, bool):
                setattr(field.options, name, value)
            self._accepts(",")

    def _map(self, made: Any) -> None:
        self._take("<")
        key = self._name()
        self._take(",")
        value = self._name()
        self._take(">")
        field = made.field.add(label=_FIELD.LABEL_REPEATED, type=_FIELD.TYPE_MESSAGE)
        field.name = self._name()
        entry = "".join(part[:1].upper() + part[1:] for part in field.name.split("_")) + "Entry"
        field.type_name = entry
        self._take("=")
        field.number = self._tag()
        self._field_options(field)
        self._take(";")
        inner = made.nested_type.add(name=entry)
        inner.options.map_entry = True
        for number, (name, type_) in enumerate((("key", key), ("value", value)), 1):
            part = inner.field.add(name=name, number=number, label=_FIELD.LABEL_OPTIONAL)
            _set_type(part, type_)

    def _oneof(self, made: Any) -> None:
        index = len(made.oneof_decl)
        made.oneof_decl.add(name=self._name())
        self._take("{")
        while not self._accepts("}"):
            self._counted()
            first = self._next()
            if first == "option":
                self._option()
                self._take(";")
            elif first != ";":
                self._field(made.field, made.nested_type, first).oneof_index = index

    def _extend(self, extensions: Any, nested: Any) -> None:
        extended = self._name()
        self._take("{")
        while not self._accepts("}"):
            self._counted()
            first = self._next()
            if first != ";":
                self._field(extensions, nested, first).extendee = extended

    def _ranges(self, last: int) -> list[tuple[int, int]]:
        found = []
        while True:
            start = end = self._whole()
            if self._accepts("to"):
                end = last if self._accepts("max") else self._whole()
            found.append((start, end))
            if not self._accepts(","):
                return found

    def _reserved(self, made: Any, last: int, past: int) -> None:
        if self._peek()[:1] in ("'", '"'):
            made.reserved_name.append(self._text())
            while self._accepts(","):
                made.reserved_name.append(self._text())
        else:
            for start, end in self._ranges(last):
                made.reserved_range.add(start=start, end=end + past)
        self._take(";")

    def _enum(self, made: Any) -> None:
        made.name = self._name()
        self._take("{")
        while not self._accepts("}"):
            self._counted()
            match self._next():
                case "option" if self._tokens[self._at + 1 : self._at + 2] != ["="] or self._peek() == "allow_alias":
                    name, value = self._option()
                    if name in ("allow_alias", "deprecated") and isinstance(value, bool):
                        setattr(made.options, name, value)
                    self._take(";")
                case "reserved":
                    self._reserved(made, 2**31 - 1, 0)
                case ";":
                    pass
                case name:
                    self._take("=")
                    value = made.value.add(name=name, number=self._enum_number())
                    if self._accepts("["):
                        self._at -= 1
                        self._skip("[", "]")
                    self._take(";")
        if not made.value:
            raise Unusable(f"the enum {made.name} has no values")

    def _enum_number(self) -> int:
        number = self._whole()
        if not -(2**31) <= number < 2**31:
            raise Unusable(f"{number} is no number of an enum")
        return number

    def _service(self) -> None:
        made = self.file.service.add(name=self._name())
        self._take("{")
        while not self._accepts("}"):
            self._counted()
            word = self._next()
            if word == "option":
                self._option()
                self._take(";")
            elif word == "rpc":
                method = made.method.add(name=self._name())
                for side in ("input", "output"):
                    if side == "output":
                        self._take("returns")
                    self._take("(")
                    first = self._name()
                    if first == "stream" and self._peek() != ")":
                        setattr(method, "client_streaming" if side == "input" else "server_streaming", True)
                        first = self._name()
                    setattr(method, f"{side}_type", first)
                    self._take(")")
                if self._peek() == "{":
                    self._skip("{", "}")
                else:
                    self._take(";")
            elif word != ";":
                raise Unusable(f"a service has {word[:100]!r} where 'rpc', 'option' or '}}' is expected")


class _Word(str):
    """A value that is neither quoted text nor a boolean."""


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise Unusable(f"the schema has {text[at : at + 20]!r} in it")
        if match.lastgroup is not None:
            found.append(match.group())
        at = match.end()
    return found


def _set_type(field: Any, name: str) -> None:
    if name in SCALARS:
        field.type = SCALARS[name]
    else:
        field.type_name = name


def parse(text: str) -> descriptor_pb2.FileDescriptorProto:
    return _Parser(text).parse()

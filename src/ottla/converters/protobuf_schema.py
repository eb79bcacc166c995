"""Protobuf messages and their Arrow types. A schema is a set of file descriptors and the name of one message.

It comes from a .proto file, which protoc compiles when a pipeline is prepared, from a compiled descriptor set, or from
a schema registry. A field without presence (a plain field of proto3) has its default where a message leaves it out; any
other is null there.
"""

from __future__ import annotations

import base64
import binascii
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow

from ottla.converters.errors import ConverterError, UnusableSchema
from ottla.converters.registry import PROTOBUF, SERIALIZED, RegisteredSchema, Registry

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
except ModuleNotFoundError as error:
    raise ConverterError("Protobuf needs google's library: pip install 'ottla[protobuf]'") from error

MAIN_FILE = "schema.proto"
WELL_KNOWN = "google/protobuf/"
TIMESTAMP, DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
PROTOC_TIMEOUT_S = 60.0
UNSIGNED = pyarrow.decimal128(20, 0)
_SCALARS = {
    FieldDescriptor.CPPTYPE_INT32: pyarrow.int32(),
    FieldDescriptor.CPPTYPE_INT64: pyarrow.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pyarrow.int64(),
    FieldDescriptor.CPPTYPE_UINT64: UNSIGNED,
    FieldDescriptor.CPPTYPE_DOUBLE: pyarrow.float64(),
    FieldDescriptor.CPPTYPE_FLOAT: pyarrow.float32(),
    FieldDescriptor.CPPTYPE_BOOL: pyarrow.bool_(),
    FieldDescriptor.CPPTYPE_ENUM: pyarrow.string(),
}


class ProtobufSchema:
    """One message of a set of files."""

    def __init__(self, files: bytes, message: str) -> None:
        pool = descriptor_pool.DescriptorPool()
        try:
            for file in descriptor_pb2.FileDescriptorSet.FromString(files).file:
                pool.AddSerializedFile(file.SerializeToString())
            self.descriptor = pool.FindMessageTypeByName(message)
        except KeyError:
            raise ConverterError(f"the Protobuf schema has no message {message}") from None
        except Exception as error:
            raise ConverterError(f"the Protobuf descriptors cannot be used: {error}") from None
        self.message_class = message_factory.GetMessageClass(self.descriptor)
        self.type = struct_of(self.descriptor, ())
        self.indexes = indexes_of(self.descriptor)


def struct_of(descriptor: Descriptor, outer: tuple[str, ...]) -> Any:
    """The struct of a message."""
    if descriptor.full_name in outer:
        raise ConverterError(f"the Protobuf message {descriptor.full_name} contains itself: Spark has no such columns")
    inner = (*outer, descriptor.full_name)
    fields = [pyarrow.field(field.name, field_type(field, inner)) for field in shown_fields(descriptor)]
    if not fields:
        raise ConverterError(f"the Protobuf message {descriptor.full_name} has no fields")
    return pyarrow.struct(fields)


def shown_fields(descriptor: Descriptor) -> list[FieldDescriptor]:
    """The fields that become columns: a message without fields has nothing to show."""
    return [field for field in descriptor.fields if field.message_type is None or field.message_type.fields]


def is_repeated(field: FieldDescriptor) -> bool:
    return bool(field.is_repeated)


def is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def map_parts(field: FieldDescriptor) -> tuple[FieldDescriptor, FieldDescriptor]:
    names = field.message_type.fields_by_name
    return names["key"], names["value"]


def field_type(field: FieldDescriptor, outer: tuple[str, ...]) -> Any:
    if is_map(field):
        key, value = map_parts(field)
        return pyarrow.map_(element_type(key, outer), element_type(value, outer))
    kind = element_type(field, outer)
    return pyarrow.list_(kind) if is_repeated(field) else kind


def element_type(field: FieldDescriptor, outer: tuple[str, ...]) -> Any:
    """The type of one value of a field."""
    message = field.message_type
    if message is None:
        if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            return pyarrow.binary() if field.type == FieldDescriptor.TYPE_BYTES else pyarrow.string()
        return _SCALARS[field.cpp_type]
    if message.full_name == TIMESTAMP:
        return pyarrow.timestamp("us", "UTC")
    if message.full_name == DURATION:
        return pyarrow.duration("us")
    if message.full_name in WRAPPERS:
        return element_type(message.fields_by_name["value"], outer)
    return struct_of(message, outer)


def indexes_of(descriptor: Descriptor) -> tuple[int, ...]:
    """The indexes of a message in its file, which the Confluent wire format writes."""
    path: list[int] = []
    one: Descriptor | None = descriptor
    while one is not None:
        siblings = (
            one.file.message_types_by_name.values() if one.containing_type is None else one.containing_type.nested_types
        )
        path.append([sibling.full_name for sibling in siblings].index(one.full_name))
        one = one.containing_type
    return tuple(reversed(path))


def message_at(file: Any, indexes: Iterable[int]) -> str | None:
    """The name of the message at some indexes of a file, or None."""
    names = [file.package] if file.package else []
    messages = file.message_type
    for index in indexes:
        if index >= len(messages):
            return None
        names.append(messages[index].name)
        messages = messages[index].nested_type
    return ".".join(names)


# --- where descriptors come from


def compiled(path: str) -> tuple[bytes, str]:
    """The descriptors of a .proto file and its imports, or of a compiled descriptor set; and the file's name."""
    if not path.endswith(".proto"):
        try:
            content = Path(path).read_bytes()
            found = descriptor_pb2.FileDescriptorSet.FromString(content)
            return content, found.file[-1].name
        except Exception as error:
            raise ConverterError(f"{path} is neither a .proto file nor a compiled descriptor set: {error}") from None
    file = Path(path)
    if not file.is_file():
        raise ConverterError(f"there is no file {path}")
    return _protoc(file.parent, file.name), file.name


def compiled_text(text: str, references: Iterable[tuple[str, str]] = ()) -> bytes:
    """The descriptors of a .proto file's text, and of the texts that it imports."""
    with tempfile.TemporaryDirectory(prefix="ottla-proto-") as folder:
        for name, one in (*references, (MAIN_FILE, text)):
            place = (Path(folder) / name).resolve()
            if not place.is_relative_to(Path(folder).resolve()):
                raise ConverterError(f"a registered Protobuf schema is imported as {name!r}, which is no plain name")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(one, encoding="utf-8")
        return _protoc(Path(folder), MAIN_FILE)


def _protoc(folder: Path, name: str) -> bytes:
    if find_spec("grpc_tools") is None:
        raise ConverterError("a .proto file is compiled by grpcio-tools: pip install 'ottla[protobuf]'")
    known = Path(str(import_module("grpc_tools").__file__)).parent / "_proto"
    with tempfile.TemporaryDirectory(prefix="ottla-protoc-") as target:
        output = Path(target) / "descriptors"
        arguments = [f"-I{folder}", f"-I{known}", "--include_imports", f"--descriptor_set_out={output}", name]
        done = subprocess.run(
            [sys.executable, "-m", "grpc_tools.protoc", *arguments],
            capture_output=True,
            text=True,
            timeout=PROTOC_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            said = [line for line in done.stderr.splitlines() if name in line] or done.stderr.splitlines()
            raise ConverterError(f"{name} cannot be compiled: {' '.join(said)[-1000:]}")
        return output.read_bytes()


def registered(registry: Registry, schema: RegisteredSchema) -> bytes:
    """The descriptors of a registered schema and of those it refers to. `schema` is as the registry gives it in the
    serialized form; a registry that knows no such form gives the text, which is compiled."""
    needed = registry.references_of(schema, SERIALIZED)
    main = serialized_file(schema.text)
    files = [(reference.name, serialized_file(one.text)) for reference, one in needed]
    if main is None or any(file is None for _, file in files):
        texts = [(reference.name, one.text) for reference, one in registry.references_of(schema)]
        return compiled_text(schema.text, texts)
    whole = descriptor_pb2.FileDescriptorSet()
    for name, file in files:
        file.name = name
        _add(whole, file)
    main.name = MAIN_FILE
    _add(whole, main)
    return bytes(whole.SerializeToString())


def serialized_file(text: str) -> Any:
    """The descriptor that a registry gives in base64; None: it is the text of a .proto file."""
    try:
        return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return None
    except Exception as error:
        raise ConverterError(f"the registered Protobuf descriptor is invalid: {error}") from None


def written_message(registry: Registry, schema_id: int, indexes: tuple[int, ...]) -> str:
    """The name of the message type of a value in the wire format. UnusableSchema if its schema does not contain it."""
    found = registry.by_id(schema_id, SERIALIZED)
    if found.kind != PROTOBUF:
        raise UnusableSchema(f"the schema with the id {schema_id} is {found.kind}, not Protobuf")
    file = serialized_file(found.text)
    if file is None:
        texts = [(one.name, needed.text) for one, needed in registry.references_of(found)]
        file = descriptor_pb2.FileDescriptorSet.FromString(compiled_text(found.text, texts)).file[-1]
    name = message_at(file, indexes)
    if name is None:
        raise UnusableSchema(f"the schema with the id {schema_id} has no message at {indexes}")
    return name


def _add(whole: Any, file: Any) -> None:
    """Add a file after Google's own files that it imports, which registries leave out."""
    present = {one.name for one in whole.file}
    for name in file.dependency:
        if name.startswith(WELL_KNOWN) and name not in present:
            try:
                module = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
            except ModuleNotFoundError:
                raise ConverterError(f"the Protobuf schema imports {name}, which is not known here") from None
            _add(whole, descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb))
            present.add(name)
    if file.name not in {one.name for one in whole.file}:
        whole.file.add().CopyFrom(file)


def imports_of(files: bytes) -> list[str]:
    """The imports of the last file of a set."""
    return list(descriptor_pb2.FileDescriptorSet.FromString(files).file[-1].dependency)


def message_of(files: bytes, name: str | None) -> str:
    """The full name of the chosen message: the named one, or the first of the last file."""
    found = descriptor_pb2.FileDescriptorSet.FromString(files).file
    if name is None:
        first = message_at(found[-1], (0,))
        if first is None:
            raise ConverterError("the Protobuf schema has no message")
        return first
    known = [message_at(file, (index,)) or "" for file in found for index in range(len(file.message_type))]
    if name not in known:
        ends = [one for one in known if one.endswith(f".{name}")]
        if len(ends) == 1:
            return ends[0]
        if "." not in name or not any(name.startswith(f"{one}.") for one in known):
            own = [one for one in known if not one.startswith("google.protobuf.")]
            raise ConverterError(f"the Protobuf schema has no message {name}: it has {', '.join(own)}")
    return name

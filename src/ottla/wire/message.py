"""The vocabulary in which Kafka's messages are declared.

A message is one class for all its versions; the version ranges stand on the fields. A declaration is an annotation (the
type on the wire) and a default, which is a plain value when the field is in every version and `since(...)` otherwise:

    class FetchRequest(Message, api_key=1, versions=(4, 18), flexible=12):
        max_wait_ms: int32 = 0
        max_bytes: int32 = since(3, default=0x7FFFFFFF, ignorable=True)
        topics: array[FetchTopic] = []

Nothing is built when a class is declared but its slots: the constructor is compiled on its first call and the codec
of a version by `ottla.wire.codec` when it is first asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias, TypeVar, dataclass_transform

int8: TypeAlias = int
int16: TypeAlias = int
int32: TypeAlias = int
int64: TypeAlias = int
uint16: TypeAlias = int
uint32: TypeAlias = int
float64: TypeAlias = float
string: TypeAlias = str
uuid: TypeAlias = bytes
Records: TypeAlias = Any
"""Record batches: a memoryview of the frame when decoded; on encoding anything bytes-like or with a length."""
array: TypeAlias = list

T = TypeVar("T")

FOREVER = 32767
"""The last version of an open range: the wire's version is an int16."""

Versions: TypeAlias = tuple[int, int]
"""First and last version, both included, as Kafka writes its ranges."""

STRUCT_FORMATS = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "int32": ("i", 4),
    "int64": ("q", 8),
    "uint16": ("H", 2),
    "uint32": ("I", 4),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}
"""Types of fixed size: their `struct` format and size."""


class NoTags(dict[int, bytes]):
    """The one empty dict that every message without unknown tagged fields shares; it cannot be filled."""

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("shared by all messages: assign a new dict to unknown_tagged_fields instead")

    __setitem__ = update = setdefault = __ior__ = _refuse

    def __deepcopy__(self, memo: object) -> NoTags:
        return self

    def __reduce__(self) -> str:
        return "NO_TAGS"


NO_TAGS = NoTags()


class Declared:
    """The value that `since` leaves in a class body for the metaclass."""

    __slots__ = ("default", "ignorable", "nullable", "tag", "tagged", "versions")

    def __init__(
        self,
        versions: Versions,
        default: object,
        nullable: Versions | None,
        tag: int | None,
        tagged: Versions | None,
        ignorable: bool,
    ) -> None:
        self.versions = versions
        self.default = default
        self.nullable = nullable
        self.tag = tag
        self.tagged = tagged
        self.ignorable = ignorable


def since(
    first: int,
    last: int = FOREVER,
    *,
    default: T,
    nullable: int | Versions | None = None,
    tag: int | None = None,
    tagged: int | None = None,
    ignorable: bool = False,
) -> T:
    """A field of the versions first to last.

    nullable: versions in which it may be null (all of them if the annotation allows None and nothing is said).
    tag, tagged: the number of a tagged field, and the first version in which it is one (default: all).
    ignorable: versions that lack the field drop its value silently; otherwise encoding them raises UnsupportedVersion.
    """
    return Declared(  # type: ignore[return-value]
        (first, last),
        default,
        (nullable, FOREVER) if isinstance(nullable, int) else nullable,
        tag,
        None if tag is None else (first if tagged is None else tagged, last),
        ignorable,
    )


class Field:
    """One declared field, resolved."""

    __slots__ = ("default", "ignorable", "is_array", "name", "nullable", "struct", "tag", "tagged", "type", "versions")

    def __init__(self, name: str, annotation: str, declared: object, namespace: dict[str, Any]) -> None:
        annotation, _, none = annotation.partition(" | ")
        self.name = name
        self.is_array = annotation.startswith("array[")
        self.type = annotation[6:-1] if self.is_array else annotation
        self.struct: type[Struct] | None = None
        if self.type not in STRUCT_FORMATS and self.type not in ("string", "bytes", "Records"):
            self.struct = namespace[self.type]
        if not isinstance(declared, Declared):
            declared = Declared((0, FOREVER), declared, None, None, None, False)
        self.versions = declared.versions
        self.nullable = declared.nullable or (declared.versions if none else None)
        self.tag = declared.tag
        self.tagged = declared.tagged
        self.ignorable = declared.ignorable
        self.default = declared.default
        if none and self.struct and not self.is_array and self.tag is not None and declared.nullable is None:
            self.nullable = None  # None is how an absent tagged struct is held; the wire has no null for it

    def is_in(self, version: int) -> bool:
        return self.versions[0] <= version <= self.versions[1]

    def is_nullable_in(self, version: int) -> bool:
        return self.nullable is not None and self.nullable[0] <= version <= self.nullable[1]

    def is_tagged_in(self, version: int) -> bool:
        return self.tagged is not None and self.tagged[0] <= version <= self.tagged[1] and self.is_in(version)

    @property
    def is_default_shared(self) -> bool:
        """Whether all instances can hold the same default object."""
        return not isinstance(self.default, list | Struct)


class Schema:
    """A message's declaration, and the codecs compiled from it so far."""

    __slots__ = (
        "_annotations",
        "_declared",
        "_fields",
        "api_key",
        "cls",
        "decoders",
        "encoders",
        "first_flexible_version",
        "versions",
    )

    def __init__(
        self,
        cls: type[Struct],
        annotations: dict[str, str],
        declared: dict[str, object],
        api_key: int | None,
        versions: Versions,
        flexible: int | None,
    ) -> None:
        self.cls = cls
        self._annotations = annotations
        self._declared = declared
        self._fields: tuple[Field, ...] | None = None
        self.api_key = api_key
        self.versions = versions
        self.first_flexible_version = flexible
        self.decoders: dict[int, Callable[[Any, int], tuple[Any, int]]] = {}
        self.encoders: dict[int, Callable[[Any, list[Any]], None]] = {}

    @property
    def fields(self) -> tuple[Field, ...]:
        if self._fields is None:
            namespace = vars(sys.modules[self.cls.__module__])
            self._fields = tuple(
                Field(name, annotation, self._declared[name], namespace)
                for name, annotation in self._annotations.items()
                if name != "unknown_tagged_fields"
            )
        return self._fields

    @property
    def first_version(self) -> int:
        return self.versions[0]

    @property
    def last_version(self) -> int:
        return self.versions[1]

    def is_flexible(self, version: int) -> bool:
        """Whether the version has compact lengths and tagged fields (KIP-482)."""
        return self.first_flexible_version is not None and version >= self.first_flexible_version


@dataclass_transform(kw_only_default=True, field_specifiers=(since,))
class MessageType(type):
    """Turns a declaration into a class with slots."""

    __schema__: Schema

    def __new__(
        mcls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        api_key: int | None = None,
        versions: Versions = (0, FOREVER),
        flexible: int | None = None,
    ) -> MessageType:
        annotations: dict[str, str] = namespace.get("__annotations__", {})
        declared = {field: namespace.pop(field) for field in annotations}
        namespace["__slots__"] = tuple(annotations)
        cls = super().__new__(mcls, name, bases, namespace)
        cls.__schema__ = Schema(cls, annotations, declared, api_key, versions, flexible)  # type: ignore[arg-type]
        return cls

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_: object) -> None:
        super().__init__(name, bases, namespace)


def _compile_constructor(cls: type[Struct]) -> Callable[..., None]:
    """A keyword-only `__init__` as one would write it by hand: mutable defaults are made anew by every call."""
    arguments, body = ["self", "*"], []
    namespace: dict[str, object] = {"NEW": object(), "NO_TAGS": NO_TAGS}
    for field in cls.__schema__.fields:
        name, default = field.name, field.default
        if field.is_default_shared:
            namespace[f"d_{name}"] = default
            arguments.append(f"{name}=d_{name}")
            body.append(f"    self.{name} = {name}\n")
        else:
            namespace[f"d_{name}"] = type(default)
            arguments.append(f"{name}=NEW")
            body.append(f"    self.{name} = d_{name}() if {name} is NEW else {name}\n")
    arguments.append("unknown_tagged_fields=NO_TAGS")
    body.append("    self.unknown_tagged_fields = unknown_tagged_fields\n")
    exec(f"def __init__({', '.join(arguments)}):\n{''.join(body)}", namespace)
    constructor: Callable[..., None] = namespace["__init__"]  # type: ignore[assignment]
    constructor.__qualname__ = f"{cls.__qualname__}.__init__"
    return constructor


def _shown(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, memoryview | bytearray):
        value = bytes(value)
    return repr(value)


class Struct(metaclass=MessageType):
    """A group of fields: the body of a message or an element of one of its arrays."""

    unknown_tagged_fields: dict[int, bytes] = NO_TAGS

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        cls.__init__ = _compile_constructor(cls)  # type: ignore[method-assign]
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        if self.unknown_tagged_fields != other.unknown_tagged_fields:
            return False
        return all(getattr(self, field.name) == getattr(other, field.name) for field in type(self).__schema__.fields)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """A constructor call with the fields that differ from their defaults."""
        shown = [
            f"{field.name}={_shown(value)}"
            for field in type(self).__schema__.fields
            if (value := getattr(self, field.name)) != field.default or type(value) is not type(field.default)
        ]
        if self.unknown_tagged_fields:
            shown.append(f"unknown_tagged_fields={self.unknown_tagged_fields!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


class Message(Struct):
    """A request, a response or a record: what has versions and, mostly, an api key."""


def schema(cls: type[Struct]) -> Schema:
    """The declaration of a message: its versions, api key and fields."""
    return cls.__schema__

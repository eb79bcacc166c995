"""Compiles the codec of one (message, version): straight-line Python from the declaration.

A decoder makes the objects and stores what it reads straight into their slots: neighbouring fields of fixed size come
from one `struct` call, together with the first byte of the length that follows them. It checks every count against the
bytes that are left before it makes anything; a slice that ends beyond the buffer is short, and the position it leaves
makes the next read, or the check at the end, fail. So broken bytes cost no more memory than their own size allows.

An encoder collects small pieces and joins them; records go into the scatter list as they are, never copied. Numbers and
short arrays of numbers that follow each other are packed by one call.
"""

from __future__ import annotations

import struct as struct_module
from collections.abc import Callable
from struct import Struct as Format
from typing import Any

from ottla.wire.message import NO_TAGS, STRUCT_FORMATS, Field, Schema, Struct
from ottla.wire.primitives import UnsupportedVersion, WireError, decode_unsigned_varint, encode_unsigned_varint

MAX_STRING_SIZE = 0x7FFF
MAX_REQUEST_ELEMENTS = 1_000_000
"""Structs, strings and ids in all arrays of a request together: each becomes an object, of two bytes or more."""
MAX_ARRAY_ELEMENTS = 1_000_000
"""Numbers in one array, as in Kafka since 4.4."""
MAX_TAGGED_FIELDS = 10_000
"""Unknown tagged fields of one struct; also how many of all structs of a request are kept. The others are skipped."""
_CACHED_FORMATS = 2048
_ONE_BYTE = [bytes((value,)) for value in range(128)]


def compile_decoder(schema: Schema, version: int) -> Callable[[Any, int], tuple[Any, int]]:
    return _DecoderSource(schema, version).compile()


def compile_encoder(schema: Schema, version: int) -> Callable[[Any, list[Any]], None]:
    return _EncoderSource(schema, version).compile()


class _ArrayFormats(dict[Any, Callable[..., Any]]):
    """`struct` functions for so many numbers, by count; bounded, since counts come from outside."""

    __slots__ = ("_code", "_pack")

    def __init__(self, code: str, pack: bool) -> None:
        super().__init__()
        self._code = code
        self._pack = pack

    def __missing__(self, count: int) -> Callable[..., Any]:
        format_ = Format(f">{count}{self._code}")
        function: Callable[..., Any] = format_.pack if self._pack else format_.unpack_from
        if count < _CACHED_FORMATS:
            self[count] = function
        return function


class _RunFormats(dict[Any, Callable[..., bytes]]):
    """`pack` functions for a run of fixed fields and small arrays of numbers, by the arrays' counts."""

    __slots__ = ("_codes",)

    def __init__(self, codes: list[str]) -> None:
        super().__init__()
        self._codes = codes  # an array's element is a code with a star

    def __missing__(self, counts: int | tuple[int, ...]) -> Callable[..., bytes]:
        left = list(counts) if isinstance(counts, tuple) else [counts]
        codes = [f"{max(left.pop(0), 0)}{code[1:]}" if code[0] == "*" else code for code in self._codes]
        function = Format(">" + "".join(codes)).pack
        if len(self) < _CACHED_FORMATS:
            self[counts] = function
        return function


_UNPACK_ARRAY = {code: _ArrayFormats(code, pack=False) for code in "bhiqHI"}
_PACK_ARRAY = {code: _ArrayFormats(code, pack=True) for code in "bhiqHI"}


_SHORT_FORMATS: dict[str, list[Callable[..., Any]]] = {}


def _short_formats(code: str) -> list[Callable[..., Any]]:
    """`unpack_from` for arrays of up to 126 numbers, by the compact length: one more than their count."""
    formats = _SHORT_FORMATS.get(code)
    if formats is None:
        formats = _SHORT_FORMATS[code] = [Format(f">{max(n - 1, 0)}{code}").unpack_from for n in range(128)]
    return formats


# Functions that the generated code calls for rare values, such as varints of several bytes.


def _long_varint(buffer: bytes | memoryview, position: int, first: int) -> tuple[int, int]:
    """The rest of a varint whose first byte said that there is more."""
    byte = buffer[position]
    if byte < 128:
        return first & 127 | byte << 7, position + 1
    value = first & 127 | (byte & 127) << 7
    byte = buffer[position + 1]
    if byte < 128:
        return value | byte << 14, position + 2
    value |= (byte & 127) << 14
    byte = buffer[position + 2]
    if byte < 128:
        return value | byte << 21, position + 3
    value |= (byte & 127) << 21
    byte = buffer[position + 3]
    if byte > 15:
        raise WireError("varint is too long")
    return value | byte << 28, position + 4


def _long_string_size(buffer: bytes | memoryview, position: int, first: int) -> tuple[int, int]:
    value, position = _long_varint(buffer, position, first)
    if value > MAX_STRING_SIZE + 1:
        raise WireError(f"string of {value - 1} bytes is too long")
    return value, position


def _long_numbers(
    buffer: bytes | memoryview, position: int, first: int, code: str, size: int, field: str
) -> tuple[list[int], int]:
    """An array of more than 126 numbers."""
    count, position = _long_varint(buffer, position, first)
    count -= 1
    if count > MAX_ARRAY_ELEMENTS:
        _raise_long(field)
    if count * size > len(buffer) - position:
        _raise_count(field)
    return [*_UNPACK_ARRAY[code][count](buffer, position)], position + count * size


def _long_string_prefix(value: int) -> bytes:
    if value > MAX_STRING_SIZE + 1:
        raise WireError(f"string of {value - 1} bytes is too long")
    return encode_unsigned_varint(value)


def _unknown_tags(buffer: bytes | memoryview, position: int, first: int) -> tuple[dict[int, bytes], int]:
    count = first
    if count > 127:
        count, position = _long_varint(buffer, position, first)
        if count > MAX_TAGGED_FIELDS:
            _raise_tag_count()
    size = len(buffer)
    tags: dict[int, bytes] = {}
    for _ in range(count):
        tag, position = decode_unsigned_varint(buffer, position)
        length, position = decode_unsigned_varint(buffer, position)
        end = position + length
        if end > size:
            raise WireError("tagged field is cut short")
        if tag in tags:
            raise WireError(f"tag {tag} comes twice")
        tags[tag] = bytes(buffer[position:end])
        position = end
    return tags, position


def _encode_tags(known: list[tuple[int, bytes]], unknown: dict[int, bytes]) -> bytes:
    tags = sorted([*known, *unknown.items()]) if unknown else known
    pieces = [encode_unsigned_varint(len(tags))]
    last = -1
    for tag, value in tags:
        if tag <= last:
            raise WireError(f"tag {tag} comes twice")
        last = tag
        pieces += (encode_unsigned_varint(tag), encode_unsigned_varint(len(value)), value)
    return b"".join(pieces)


def _raise_null(field: str) -> None:
    raise WireError(f"{field} is null, which its version does not allow")


def _raise_count(field: str) -> None:
    raise WireError(f"{field} has more elements than the bytes left can hold")


def _raise_long(field: str) -> None:
    raise WireError(f"{field} has more than {MAX_ARRAY_ELEMENTS} elements")


def _raise_many(field: str) -> None:
    raise WireError(f"a request with {field} has more than {MAX_REQUEST_ELEMENTS} elements")


def _raise_tag_count() -> None:
    raise WireError(f"a struct has more than {MAX_TAGGED_FIELDS} tagged fields")


def _raise_short() -> None:
    raise WireError("message is cut short")


def _raise_tag_size(field: str) -> None:
    raise WireError(f"tagged field {field} does not end where its size says")


def _raise_twice(tag: int) -> None:
    raise WireError(f"tag {tag} comes twice")


def _raise_unsupported(field: str, version: int) -> None:
    raise UnsupportedVersion(f"version {version} cannot carry {field}")


def _smallest(field: Field, version: int, flexible: bool) -> int:
    """The fewest bytes that one value (for an array: one element) takes."""
    if field.struct is not None:
        total = sum(
            1 if inner.is_array and flexible else 4 if inner.is_array else _smallest_value(inner, version, flexible)
            for inner in field.struct.__schema__.fields
            if inner.is_in(version) and not (flexible and inner.is_tagged_in(version))
        )
        return total + flexible
    if field.type in STRUCT_FORMATS:
        return STRUCT_FORMATS[field.type][1]
    return 1 if flexible else 2 if field.type == "string" else 4


def _smallest_value(field: Field, version: int, flexible: bool) -> int:
    if field.struct is not None and field.is_nullable_in(version):
        return 1
    return _smallest(field, version, flexible)


def _has_records(schema: Schema) -> bool:
    return any(
        field.type == "Records" or (field.struct is not None and _has_records(field.struct.__schema__))
        for field in schema.fields
    )


class _Source:
    """Python source under construction."""

    def __init__(self, schema: Schema, version: int) -> None:
        self.schema = schema
        self.version = version
        self.flexible = schema.is_flexible(version)
        self.lines: list[str] = []
        self.indent = 2
        self.variables = 0
        self.namespace: dict[str, Any] = {
            "WireError": WireError,
            "Error": struct_module.error,
            "NO_TAGS": NO_TAGS,
            "raise_null": _raise_null,
            "raise_count": _raise_count,
            "raise_short": _raise_short,
            "raise_tag_size": _raise_tag_size,
            "raise_twice": _raise_twice,
            "raise_unsupported": _raise_unsupported,
            "name": f"{schema.cls.__name__} version {version}",
        }

    def line(self, text: str) -> None:
        self.lines.append(" " * self.indent + text)

    def variable(self, prefix: str) -> str:
        self.variables += 1
        return f"{prefix}{self.variables}"

    def constant(self, name: str, value: object) -> str:
        self.namespace[name] = value
        return name

    def cls(self, struct: type[Struct]) -> str:
        return self.constant(f"C_{struct.__name__}", struct)

    def function(self, head: str, tail: str) -> Callable[..., Any]:
        source = "\n".join([head, " try:", *self.lines, *tail.splitlines()])
        name = f"<{self.schema.cls.__name__} version {self.version}>"
        exec(compile(source, name, "exec"), self.namespace)
        function: Callable[..., Any] = self.namespace["function"]
        return function

    def split(self, struct: type[Struct]) -> tuple[list[Field], list[Field], list[Field]]:
        """The fields in order, the tagged fields (by tag), and the fields that the version lacks."""
        inline, tagged, absent = [], [], []
        for field in struct.__schema__.fields:
            if not field.is_in(self.version):
                absent.append(field)
            elif self.flexible and field.is_tagged_in(self.version):
                tagged.append(field)
            else:
                inline.append(field)
        tagged.sort(key=lambda field: field.tag or 0)
        return inline, tagged, absent


def _run_name(codes: list[str]) -> str:
    return "".join(codes).replace("?", "o").replace("*", "A")


def _run_format(codes: list[str]) -> str:
    return ">" + "".join(codes)


class _DecoderSource(_Source):
    """In compiled code: b the buffer, e its end, p the position; o_ objects, l_ lists, n_ lengths, t_ tag counts;
    of requests also a the elements and g the unknown tagged fields that it may still have."""

    def __init__(self, schema: Schema, version: int) -> None:
        super().__init__(schema, version)
        self.run: list[tuple[str, int, str]] = []
        self.has_views = _has_records(schema)
        self.namespace.update(
            new=object.__new__,
            long_varint=_long_varint,
            long_string_size=_long_string_size,
            long_numbers=_long_numbers,
            varint=decode_unsigned_varint,
            unknown_tags=_unknown_tags,
            raise_long=_raise_long,
            raise_many=_raise_many,
            raise_tag_count=_raise_tag_count,
        )
        self.is_request = schema.api_key is not None and schema.cls.__name__.endswith("Request")

    def compile(self) -> Callable[..., Any]:
        head = "def function(b, p):"
        if self.has_views:
            self.line("if type(b) is not memoryview: b = memoryview(b)")
        else:  # slices of bytes cost a third of slices of a view, and nothing large is in here
            self.line("begin = 0")
            self.line("if type(b) is not bytes: begin = p; b = bytes(b[p:]) if p else bytes(b); p = 0")
        self.line("e = len(b)")
        if self.is_request:
            self.line(f"a = {MAX_REQUEST_ELEMENTS}")
            if self.flexible:
                self.line(f"g = {MAX_TAGGED_FIELDS}")
        message = self.struct(self.schema.cls)
        self.flush()
        self.line("if p > e: raise_short()")
        self.line(f"return {message}, p" + ("" if self.has_views else " + begin"))
        tail = " except (Error, IndexError) as error:\n"
        tail += "  raise WireError(f'{name} is cut short') from error\n"
        tail += " except UnicodeDecodeError as error:\n"
        tail += "  raise WireError(f'{name} has a string that is not UTF-8') from error\n"
        return self.function(head, tail)

    def fixed(self, code: str, size: int, target: str) -> None:
        self.run.append((code, size, target))

    def flush(self) -> None:
        if not self.run:
            return
        run, self.run = self.run, []
        size = sum(size for _, size, _ in run)
        targets = ", ".join(target for _, _, target in run)
        if len(run) == 1 and run[0][0] == "B":
            self.line(f"{targets} = b[p]; p += 1")
            return
        codes = [code for code, _, _ in run]
        unpack = self.constant(f"U_{_run_name(codes)}", Format(_run_format(codes)).unpack_from)
        comma = "," if len(run) == 1 else ""
        self.line(f"{targets}{comma} = {unpack}(b, p); p += {size}")

    def length(self, type_: str) -> tuple[str, str]:
        """Reads a length; gives its variable and the test for null. A flexible length stays one too big."""
        n = self.variable("n_")
        if self.flexible:
            self.fixed("B", 1, n)
            self.flush()
            longer = "long_string_size" if type_ == "string" else "long_varint"
            self.line(f"if {n} > 127: {n}, p = {longer}(b, p, {n})")
            return n, f"not {n}"
        if type_ == "string":
            self.fixed("h", 2, n)
        else:
            self.fixed("i", 4, n)
        self.flush()
        return n, f"{n} < 0"

    def string_or_bytes(self, field: Field, target: str, is_nullable: bool) -> None:
        n, is_null = self.length(field.type)
        if is_nullable:
            self.line(f"if {is_null}: {target} = None")
            self.line("else:")
            self.indent += 1
        else:
            self.line(f"if {is_null}: raise_null('{field.name}')")
        self.line(f"q = p + {n}" + (" - 1" if self.flexible else ""))
        if field.type == "string":
            value = "str(b[p:q], 'utf-8')" if self.has_views else "b[p:q].decode()"
        elif field.type == "bytes":
            value = "bytes(b[p:q])" if self.has_views else "b[p:q]"
        else:
            value = "b[p:q]"
        if field.type == "Records" or (self.has_views and field.type == "bytes"):
            self.line("if q > e: raise_short()")
        self.line(f"{target} = {value}; p = q")
        if is_nullable:
            self.indent -= 1

    def field(self, field: Field, target: str) -> None:
        is_nullable = field.is_nullable_in(self.version)
        if field.is_array:
            self.array(field, target, is_nullable)
        elif field.struct is not None:
            if is_nullable:
                marker = self.variable("n_")
                is_tagged = self.flexible and field.is_tagged_in(self.version)
                self.fixed("B" if is_tagged else "b", 1, marker)
                self.flush()
                self.line(f"if {marker} {'== 0' if is_tagged else '< 0'}: {target} = None")
                self.line("else:")
                self.indent += 1
            self.line(f"{target} = {self.struct(field.struct)}")
            if is_nullable:
                self.flush()
                self.indent -= 1
        elif field.type in STRUCT_FORMATS:
            code, size = STRUCT_FORMATS[field.type]
            self.fixed(code, size, target)
        else:
            self.string_or_bytes(field, target, is_nullable)

    def array(self, field: Field, target: str, is_nullable: bool) -> None:
        is_numbers = field.type in STRUCT_FORMATS and field.type != "uuid"
        if is_numbers and self.flexible:
            self.compact_numbers(field, target, is_nullable)
            return
        n, is_null = self.length("array")
        if is_nullable:
            self.line(f"if {is_null}: {target} = None")
            self.line("else:")
            self.indent += 1
        else:
            self.line(f"if {is_null}: raise_null('{field.name}')")
        smallest = max(1, _smallest(field, self.version, self.flexible))
        if self.flexible:
            self.line(f"{n} -= 1")
        room = f"{n} * {smallest} > e - p" if smallest > 1 else f"{n} > e - p"
        self.line(f"if {room}: raise_count('{field.name}')")
        if is_numbers:
            code, size = STRUCT_FORMATS[field.type]
            unpack = self.constant(f"A_{code}", _UNPACK_ARRAY[code])
            self.line(f"if {n} > {MAX_ARRAY_ELEMENTS}: raise_long('{field.name}')")
            self.line(f"if {n}: {target} = [*{unpack}[{n}](b, p)]; p += {n}" + (f" * {size}" if size > 1 else ""))
            self.line(f"else: {target} = []")
        else:
            elements = self.variable("l_")
            if self.is_request:
                self.line(f"a -= {n}")
                self.line(f"if a < 0: raise_many('{field.name}')")
            self.line(f"{elements} = {target} = []")
            self.line(f"for _ in range({n}):")
            self.indent += 1
            if field.struct is not None:
                element = self.struct(field.struct)
                self.flush()
            else:
                element = self.variable("v_")
                if field.type == "uuid":
                    self.fixed("16s", 16, element)
                    self.flush()
                else:
                    self.string_or_bytes(field, element, False)
            self.line(f"{elements}.append({element})")
            self.indent -= 1
        if is_nullable:
            self.indent -= 1

    def compact_numbers(self, field: Field, target: str, is_nullable: bool) -> None:
        """A short array needs no check of its count: unpacking fails before it allocates."""
        code, size = STRUCT_FORMATS[field.type]
        n = self.variable("n_")
        self.fixed("B", 1, n)
        self.flush()
        short = self.constant(f"S_{code}", _short_formats(code))
        moved = f"{n} * {size} - {size}" if size > 1 else f"{n} - 1"
        self.line(f"if 1 < {n} < 128: {target} = [*{short}[{n}](b, p)]; p += {moved}")
        self.line(f"elif {n} == 1: {target} = []")
        null = "None" if is_nullable else f"raise_null('{field.name}')"
        self.line(f"elif not {n}: {target} = {null}")
        self.line(f"else: {target}, p = long_numbers(b, p, {n}, '{code}', {size}, '{field.name}')")

    def defaults(self, fields: list[Field], target: str) -> None:
        """Stores the defaults of fields that are not there; equal ones in one chain."""
        chains: dict[str, list[str]] = {"NO_TAGS": [f"{target}.unknown_tagged_fields"]}
        for field in fields:
            name = f"{target}.{field.name}"
            if isinstance(field.default, Struct):
                self.line(f"{name} = {self.cls(type(field.default))}()")
            elif field.default == [] and field.is_array:
                self.line(f"{name} = []")
            else:
                chains.setdefault(repr(field.default), []).append(name)
        for value, names in chains.items():
            self.line(f"{' = '.join(names)} = {value}")

    def struct(self, struct: type[Struct]) -> str:
        """Reads a struct into a new object; the last run of fixed fields may be pending still."""
        target = self.variable("o_")
        inline, tagged, absent = self.split(struct)
        self.line(f"{target} = new({self.cls(struct)})")
        self.defaults(absent + tagged, target)
        for field in inline:
            self.field(field, f"{target}.{field.name}")
        if not self.flexible:
            return target
        count = self.variable("t_")
        self.fixed("B", 1, count)
        self.flush()
        if not tagged:
            self.line(f"if {count}:")
            self.indent += 1
            self.line(f"{target}.unknown_tagged_fields, p = unknown_tags(b, p, {count})")
            self.count_tags(target)
            self.indent -= 1
            return target
        tag, size, seen = count + "k", count + "e", count + "s"
        self.line(f"if {count}:")
        self.indent += 1
        self.line(f"if {count} > 127: {count}, p = long_varint(b, p, {count})")
        self.line(f"if {count} > {MAX_TAGGED_FIELDS}: raise_tag_count()")
        self.line(f"{seen} = {{}}")
        self.line(f"for _ in range({count}):")
        self.indent += 1
        self.line(f"{tag}, p = varint(b, p); {size}, p = varint(b, p); {size} += p")
        self.line(f"if {size} > e: raise_short()")
        self.line(f"if {tag} in {seen}: raise_twice({tag})")
        self.line(f"{seen}[{tag}] = None")
        for index, field in enumerate(tagged):
            self.line(f"{'el' if index else ''}if {tag} == {field.tag}:")
            self.indent += 1
            self.field(field, f"{target}.{field.name}")
            self.flush()
            self.line(f"if p != {size}: raise_tag_size('{field.name}')")
            self.indent -= 1
        self.line(f"else: {seen}[{tag}] = bytes(b[p:{size}]); p = {size}")
        self.indent -= 1
        self.line(f"{seen} = {{k: v for k, v in {seen}.items() if v is not None}}")
        self.line(f"if {seen}:")
        self.indent += 1
        self.line(f"{target}.unknown_tagged_fields = {seen}")
        self.count_tags(target)
        self.indent -= 2
        return target

    def count_tags(self, target: str) -> None:
        """Of a request only so many unknown tagged fields are kept: each is an object, in four bytes or fewer."""
        if self.is_request:
            self.line(f"g -= len({target}.unknown_tagged_fields)")
            self.line(f"if g < 0: {target}.unknown_tagged_fields = NO_TAGS")


class _EncoderSource(_Source):
    """In compiled code: m the message, out the scatter list, pieces and a (its append) what is not joined yet.

    A run is a list of (code, expression); the code of an array of numbers is starred and its expression is the pair of
    variables that hold its count (-1 for null) and its elements.
    """

    def __init__(self, schema: Schema, version: int) -> None:
        super().__init__(schema, version)
        self.run: list[tuple[str, str]] = []
        self.append = "a"
        self.namespace.update(
            one_byte=_ONE_BYTE,
            unsigned_varint=encode_unsigned_varint,
            long_string_prefix=_long_string_prefix,
            encode_tags=_encode_tags,
            join=b"".join,
        )

    def compile(self) -> Callable[..., Any]:
        self.line("pieces = []; a = pieces.append")
        self.struct(self.schema.cls, "m")
        self.flush()
        self.line("if pieces or not out: out.append(join(pieces))")
        tail = " except (Error, AttributeError, TypeError, UnicodeEncodeError, OverflowError) as error:\n"
        tail += "  raise WireError(f'{name} cannot be encoded: {error}') from error\n"
        return self.function("def function(m, out):", tail)

    # Runs of fixed fields and small arrays, packed by one call.

    def fixed(self, code: str, expression: str) -> None:
        self.run.append((code, expression))

    def take(self) -> list[tuple[str, str]]:
        run, self.run = self.run, []
        return run

    def flush(self) -> None:
        self.put(self.take())

    def put(self, run: list[tuple[str, str]]) -> None:
        if not run:
            return
        arrays = [expression for code, expression in run if code[0] == "*"]
        if not arrays:
            self.put_fixed(run)
            return
        codes: list[str] = []
        values: list[str] = []
        for code, expression in run:
            if code[0] == "*":
                n, elements = expression.split()
                codes += ("B" if self.flexible else "i", code)
                values += (f"{n} + 1" if self.flexible else n, f"*{elements}")
            else:
                codes.append(code)
                if code != "x":
                    values.append(expression)
        counts = [expression.split()[0] for expression in arrays]
        name = f"R_{_run_name(codes)}"
        if name not in self.namespace:
            self.constant(name, _RunFormats(codes))
        self.line(
            f"if {' < 127 > '.join(counts)} < 127: {self.append}({name}[{', '.join(counts)}]({', '.join(values)}))"
        )
        self.line("else:")
        self.indent += 1
        pending: list[tuple[str, str]] = []
        for code, expression in run:
            if code[0] != "*":
                pending.append((code, expression))
                continue
            n, elements = expression.split()
            if self.flexible:
                self.put_fixed(pending)
                pending = []
                self.line(f"{self.append}(unsigned_varint({n} + 1))")
            else:
                self.put_fixed([*pending, ("i", n)])
                pending = []
            pack = self.constant(f"A_{code[1:]}", _PACK_ARRAY[code[1:]])
            self.line(f"if {n} > 0: {self.append}({pack}[{n}](*{elements}))")
        self.put_fixed(pending)
        self.indent -= 1

    def put_fixed(self, run: list[tuple[str, str]]) -> None:
        if not run:
            return
        values = [expression for code, expression in run if code != "x"]
        if not values:
            self.line(f"{self.append}({bytes(len(run))!r})")
            return
        codes = [code for code, _ in run]
        pack = self.constant(f"P_{_run_name(codes)}", Format(_run_format(codes)).pack)
        self.line(f"{self.append}({pack}({', '.join(values)}))")

    def prefix(self, n: str, type_: str) -> None:
        """Writes the compact length in n, with the pending run when it takes one byte, or three as large records do."""
        longer = "long_string_prefix" if type_ == "string" else "unsigned_varint"
        run = self.take()
        if not run:
            self.line(f"{self.append}(one_byte[{n}] if {n} < 128 else {longer}({n}))")
            return
        self.line(f"if {n} < 128:")
        self.indent += 1
        self.put([*run, ("B", n)])
        self.indent -= 1
        if type_ == "Records":
            self.line(f"elif 0x3FFF < {n} < 0x200000:")
            self.indent += 1
            self.put([*run, ("B", f"{n} & 127 | 128"), ("B", f"{n} >> 7 & 127 | 128"), ("B", f"{n} >> 14")])
            self.indent -= 1
        self.line("else:")
        self.indent += 1
        self.put(run)
        self.line(f"{self.append}({longer}({n}))")
        self.indent -= 1

    def string_or_bytes(self, field: Field, value: str, is_nullable: bool) -> None:
        x, n = self.variable("v_"), self.variable("n_")
        text = ".encode()" if field.type == "string" else ""
        more = " + 1" if self.flexible else ""
        if is_nullable:
            self.line(f"{x} = {value}")
            self.line(f"if {x} is None: {x} = b''; {n} = {0 if self.flexible else -1}")
            again = f"{x} = {x}{text}; " if text else ""
            self.line(f"else: {again}{n} = len({x}){more}")
        else:
            self.line(f"{x} = {value}{text}; {n} = len({x}){more}")
        if self.flexible:
            self.prefix(n, field.type)
        else:
            self.fixed("h" if field.type == "string" else "i", n)
            self.flush()
        if field.type == "Records":
            present = f"{n} > {1 if self.flexible else 0}"
            self.line(f"if {present}: out.append(join(pieces)); pieces.clear(); out.append({x})")
        else:
            self.line(f"{self.append}({x})")

    def field(self, field: Field, owner: str) -> None:
        is_nullable = field.is_nullable_in(self.version)
        value = f"{owner}.{field.name}"
        if field.is_array:
            self.array(field, value, is_nullable)
        elif field.struct is not None:
            x = self.variable("o_")
            self.line(f"{x} = {value}")
            if is_nullable:
                self.flush()
                null = b"\0" if self.flexible and field.is_tagged_in(self.version) else b"\xff"
                self.line(f"if {x} is None: {self.append}({null!r})")
                self.line("else:")
                self.indent += 1
                self.fixed("b", "1")
            self.struct(field.struct, x)
            if is_nullable:
                self.flush()
                self.indent -= 1
        elif field.type in STRUCT_FORMATS:
            self.fixed(STRUCT_FORMATS[field.type][0], value)
        else:
            self.string_or_bytes(field, value, is_nullable)

    def array(self, field: Field, value: str, is_nullable: bool) -> None:
        x, n = self.variable("l_"), self.variable("n_")
        is_numbers = field.type in STRUCT_FORMATS and field.type != "uuid"
        more, null = (" + 1", 0) if self.flexible and not is_numbers else ("", -1)
        self.line(f"{x} = {value}")
        if is_nullable:
            self.line(f"if {x} is None: {x} = (); {n} = {null}")
            self.line(f"else: {n} = len({x}){more}")
        else:
            self.line(f"{n} = len({x}){more}")
        if is_numbers:
            self.fixed("*" + STRUCT_FORMATS[field.type][0], f"{n} {x}")
            return
        if self.flexible:
            self.prefix(n, "array")
        else:
            self.fixed("i", n)
            self.flush()
        element = self.variable("o_")
        self.line(f"for {element} in {x}:")
        self.indent += 1
        if field.struct is not None:
            self.struct(field.struct, element)
        elif field.type == "uuid":
            self.fixed("16s", element)
        else:
            self.string_or_bytes(field, element, False)
        self.flush()
        self.indent -= 1

    def differs(self, field: Field, owner: str) -> str:
        """The condition under which the field differs from its default."""
        value, default = f"{owner}.{field.name}", field.default
        if default is None:
            return f"{value} is not None"
        if isinstance(default, Struct):
            return f"{value} != {self.constant(f'D_{type(default).__name__}', default)}"
        if field.is_array:
            return f"({value} is None or {value})" if field.nullable else value
        if default is False or (default == 0 and field.type != "float64"):
            return value
        return f"{value} != {default!r}"

    def struct(self, struct: type[Struct], owner: str) -> None:
        inline, tagged, absent = self.split(struct)
        for field in absent:
            if not field.ignorable:
                what = f"{struct.__name__}.{field.name}"
                self.line(f"if {self.differs(field, owner)}: raise_unsupported('{what}', {self.version})")
        for field in inline:
            self.field(field, owner)
        unknown = f"{owner}.unknown_tagged_fields"
        if not self.flexible:
            what = f"{struct.__name__}.unknown_tagged_fields"
            self.line(f"if {unknown}: raise_unsupported('{what}', {self.version})")
            return
        tests = [unknown, *(self.differs(field, owner) for field in tagged)]
        run = self.take()
        self.line(f"if {' or '.join(tests)}:")
        self.indent += 1
        self.put(run)
        if tagged:
            known = self.variable("k_")
            self.line(f"{known} = []")
            outer = self.append
            for field, test in zip(tagged, tests[1:], strict=True):
                self.line(f"if {test}:")
                self.indent += 1
                inner = self.variable("f_")
                self.line(f"{inner} = []; {inner}a = {inner}.append")
                self.append = f"{inner}a"
                self.field(field, owner)
                self.flush()
                self.append = outer
                self.line(f"{known}.append(({field.tag}, join({inner})))")
                self.indent -= 1
        else:
            known = "()"
        self.line(f"{self.append}(encode_tags({known}, {unknown}))")
        self.indent -= 1
        self.line("else:")
        self.indent += 1
        self.put([*run, ("x", "")])
        self.indent -= 1

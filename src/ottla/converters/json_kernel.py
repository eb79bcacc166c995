"""JSON values straight into columns: no Python object per value.

A `Column` has buffers of Arrow's layout, but a byte for each validity. `JsonKernel.read` fills the columns of all
values that it understands, and gives up on any other: `json_reader` reads those with care. What this kernel accepts,
that reader accepts with the same result. Cython compiles this file (types in json_kernel.pxd), and it runs as it
stands.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ottla.records import uncompiled as cython

from typing import Any

from ottla.converters.json_kinds import (
    ANY,
    BOOLEAN,
    DATE,
    DECIMAL,
    FLOATING,
    LIST,
    LOCAL_MOMENT,
    MAP,
    MAX_DEPTH,
    MOMENT,
    OTHER,
    STRING,
    STRUCT,
    WHOLE,
)

COMPILED = cython.compiled
MAX_DIGITS = 18
MAX_POWER = 22
MAX_EXACT = 1 << 53
NO_DATE = -1_000_000
"""Before any date that there is."""


class Column:
    """A column, or a part of one, that grows. Of whole numbers `low` and `high` are the least and the greatest; of a
    decimal `high` is the first that has too many digits; of a floating number `high` is up to where every whole number
    is one, and `limit` the greatest."""

    def __init__(
        self, kind: int, name: bytes, is_nullable: bool, low: int = 0, high: int = 0, scale: int = 0, limit: float = 0.0
    ) -> None:
        self.kind = kind
        self.name = name
        self.is_nullable = is_nullable
        self.low = low
        self.high = high
        self.scale = scale
        self.limit = limit
        self.children: list[Column] = []
        self.by_name: dict[bytes, Column] = {}
        self.lower_names: set[str] = set()
        self.unexpected: dict[bytes, int] = {}
        """Fields that this struct does not have, and how often they came."""
        self.next = 0
        self.count = 0
        self.has_nulls = False
        self.room = 0
        self.size = 0
        self.content_room = 0
        self.validity: Any = bytearray()
        self.content: Any = bytearray()
        self.numbers: Any = memoryview(bytearray()).cast("q")
        self.doubles: Any = memoryview(bytearray()).cast("d")
        self.ends: Any = memoryview(bytearray(4)).cast("i")
        self.reserve(16)

    def add(self, child: Column) -> None:
        """Add a field of a struct, the element of a list, or the key and then the value of a map."""
        self.children.append(child)
        if self.kind == STRUCT:
            self.by_name[child.name] = child
            self.lower_names.add(child.name.decode().lower())

    def reserve(self, room: int) -> None:
        """Make room for so many rows."""
        if room <= self.room:
            return
        room = max(room, 2 * self.room)
        grown = bytearray(room)
        grown[: self.count] = bytes(self.validity[: self.count])
        self.validity = grown
        if self.kind == FLOATING:
            self.doubles = _grown(self.doubles, 8 * room, "d")
        elif self.kind < STRING or self.kind in (DATE, MOMENT, LOCAL_MOMENT):
            self.numbers = _grown(self.numbers, 16 * room if self.kind == DECIMAL else 8 * room, "q")
        elif self.kind != STRUCT and self.kind != OTHER:
            self.ends = _grown(self.ends, 4 * room + 4, "i")
        self.room = room

    def reserve_content(self, size: int) -> None:
        """Make room for so many bytes of strings."""
        if size > self.content_room:
            self.content_room = max(size, 2 * self.content_room, 1024)
            grown = bytearray(self.content_room)
            grown[: self.size] = bytes(self.content[: self.size])
            self.content = grown

    def put_null(self) -> None:
        if self.count == self.room:
            self.reserve(2 * self.room)
        index = self.count
        self.has_nulls = True
        self.validity[index] = 0
        self.count = index + 1
        kind = self.kind
        if kind == STRUCT:
            for child in self.children:
                child.put_null()
        elif kind in (STRING, ANY):
            self.ends[index + 1] = self.size
        elif kind in (LIST, MAP):
            self.ends[index + 1] = self.children[0].count
        elif kind == FLOATING:
            self.doubles[index] = 0.0
        elif kind == DECIMAL:
            self.numbers[2 * index] = 0
            self.numbers[2 * index + 1] = 0
        elif kind != OTHER:
            self.numbers[index] = 0

    def put(self) -> None:
        """The row exists; its fields have been written."""
        self.validity[self.count] = 1
        self.count += 1

    def truncate(self, count: int) -> None:
        """Remove the rows from `count` on, and the parts of a row that was begun."""
        self.count = count
        kind = self.kind
        if kind == STRUCT:
            for child in self.children:
                child.truncate(count)
        elif kind in (STRING, ANY):
            self.size = self.ends[count]
        elif kind in (LIST, MAP):
            for child in self.children:
                child.truncate(self.ends[count])


def _grown(view: Any, size: int, letter: Any) -> Any:
    """A larger memory with the same beginning."""
    old = bytes(view)
    grown = bytearray(size)
    grown[: len(old)] = old
    return memoryview(grown).cast(letter)


class JsonKernel:
    """Reads values into the columns of `root`, a struct. `rescued` is a STRING column for fields that it does not
    have, or None. `is_open`: a value may have none of the struct's fields."""

    def __init__(self, root: Column, rescued: Column | None, is_open: bool, is_utc: bool) -> None:
        self.root = root
        self.rescued = rescued
        self.is_open = is_open
        self.is_utc = is_utc
        self.source = b""
        self.position = 0
        self.end = 0
        self.is_negative = False
        self.has_fraction = False
        self.has_exponent = False
        self.mantissa = 0
        self.digits = 0
        self.scale = 0
        self.exponent = 0
        self.start = 0
        self.unexpected: list[tuple[Column, bytes]] = []
        self.kept: list[tuple[int, int]] = []

    def read(self, source: bytes, ends: Any, validity: Any) -> list[int]:
        """Read values that lie one after the other in `source`: `ends` has where each ends, after where the first
        begins; `validity` a byte a row, 0 for null, 2 for what is left out. The rows that were not read."""
        given: list[int] = []
        count = len(ends) - 1
        self.source = source
        self.root.reserve(count)
        for row in range(count):
            self.position = ends[row]
            self.end = ends[row + 1]
            if validity[row] == 1 and self.read_row():
                continue
            self.root.truncate(row)
            self.root.put_null()
            if self.rescued is not None:
                self.rescued.truncate(row)
                self.rescued.put_null()
            given.append(row)
        return given

    def read_row(self) -> bool:
        root = self.root
        if self.unexpected:
            self.unexpected = []
            self.kept = []
        self.skip_blank()
        if self.position >= self.end or self.source[self.position] != 0x7B or not self.read_struct(root, 1):
            return False
        self.skip_blank()
        if self.position != self.end:
            return False
        if self.rescued is not None:
            self.rescue(self.rescued)
        for column, name in self.unexpected:
            column.unexpected[name] = column.unexpected.get(name, 0) + 1
        return True

    def rescue(self, rescued: Column) -> None:
        """Keep the fields of this row that the schema does not have, as an object."""
        if not self.kept:
            rescued.put_null()
            return
        rescued.reserve(rescued.count + 1)
        text = b"{" + b",".join([self.source[start:end] for start, end in self.kept]) + b"}"
        size = len(text)
        rescued.reserve_content(rescued.size + size)
        for index in range(size):
            rescued.content[rescued.size + index] = text[index]
        rescued.size += size
        rescued.ends[rescued.count + 1] = rescued.size
        rescued.put()

    # Structure

    def skip_blank(self) -> None:
        source = self.source
        position = self.position
        end = self.end
        while position < end and (
            source[position] == 0x20 or source[position] == 0x0A or source[position] == 0x0D or source[position] == 0x09
        ):
            position += 1
        self.position = position

    def peek(self) -> int:
        """The next byte that is not blank; 0 at the end."""
        self.skip_blank()
        return self.source[self.position] if self.position < self.end else 0

    def literal(self, text: bytes) -> bool:
        size = len(text)
        position = self.position
        if position + size > self.end:
            return False
        for index in range(size):
            if self.source[position + index] != text[index]:
                return False
        self.position = position + size
        return True

    def skip_string(self) -> int:
        """Go behind a string: 1, or 2 if it has escapes, or 0 if there is no string."""
        source = self.source
        position = self.position + 1
        end = self.end
        result = 1
        while position < end:
            byte = source[position]
            if byte == 0x22:
                self.position = position + 1
                return result
            if byte < 0x20:
                return 0
            position += 1
            if byte == 0x5C:
                result = 2
                if position >= end:
                    return 0
                byte = source[position]
                position += 1
                if byte == 0x75:
                    if position + 4 > end or self.hex4(position) < 0:
                        return 0
                    position += 4
                elif not (
                    byte == 0x22
                    or byte == 0x5C
                    or byte == 0x2F
                    or byte == 0x62
                    or byte == 0x66
                    or byte == 0x6E
                    or byte == 0x72
                    or byte == 0x74
                ):
                    return 0
        return 0

    def hex4(self, position: int) -> int:
        """A number of four hexadecimal digits; -1 if there are other characters."""
        number = 0
        for index in range(4):
            byte = self.source[position + index]
            if 0x30 <= byte <= 0x39:
                number = number * 16 + byte - 0x30
            elif 0x41 <= byte <= 0x46:
                number = number * 16 + byte - 0x37
            elif 0x61 <= byte <= 0x66:
                number = number * 16 + byte - 0x57
            else:
                return -1
        return number

    def skip_value(self, depth: int) -> bool:
        """Go behind a value that may be anything."""
        byte = self.peek()
        if byte == 0x22:
            return self.skip_string() != 0
        if byte == 0x74:
            return self.literal(b"true")
        if byte == 0x66:
            return self.literal(b"false")
        if byte == 0x6E:
            return self.literal(b"null")
        if byte != 0x7B and byte != 0x5B:
            return self.read_number()
        if depth >= MAX_DEPTH:
            return False
        closing = 0x7D if byte == 0x7B else 0x5D
        self.position += 1
        if self.peek() == closing:
            self.position += 1
            return True
        while True:
            if closing == 0x7D:
                if self.peek() != 0x22 or self.skip_string() == 0 or self.peek() != 0x3A:
                    return False
                self.position += 1
            if not self.skip_value(depth + 1):
                return False
            byte = self.peek()
            self.position += 1
            if byte == closing:
                return True
            if byte != 0x2C:
                return False

    def read_struct(self, column: Column, depth: int) -> bool:
        """An object; the position is at its bracket."""
        index = column.count
        column.next = 0
        seen: list[bytes] | None = None
        is_known = False
        self.position += 1
        if self.peek() == 0x7D:
            self.position += 1
        else:
            while True:
                if self.peek() != 0x22:
                    return False
                start = self.position
                if self.skip_string() != 1:
                    return False
                end = self.position
                if self.peek() != 0x3A:
                    return False
                self.position += 1
                child = self.find(column, start + 1, end - 1)
                if child is not None:
                    if child.count != index or not self.read_value(child, depth):
                        return False
                    is_known = True
                else:
                    name = self.source[start + 1 : end - 1]
                    if seen is None:
                        seen = []
                    if name in seen or not self.is_unexpected(column, name, depth):
                        return False
                    seen.append(name)
                    self.peek()
                    if not self.skip_value(depth):
                        return False
                    self.unexpected.append((column, name))
                    self.kept.append((start, self.position))
                byte = self.peek()
                self.position += 1
                if byte == 0x7D:
                    break
                if byte != 0x2C:
                    return False
        if seen is not None and not is_known and column is self.root and not self.is_open:
            return False
        for child in column.children:
            if child.count == index:
                if not child.is_nullable:
                    return False
                child.put_null()
        if index == column.room:
            column.reserve(2 * column.room)
        column.put()
        return True

    def find(self, column: Column, start: int, end: int) -> Column | None:
        """The field of a name: most often the one after that before."""
        if column.next < len(column.children):
            child = column.children[column.next]
            name = child.name
            size = len(name)
            if size == end - start:
                index = 0
                while index < size and self.source[start + index] == name[index]:
                    index += 1
                if index == size:
                    column.next += 1
                    return child
        found = column.by_name.get(self.source[start:end])
        if found is not None:
            column.next = column.children.index(found) + 1
        return found

    def is_unexpected(self, column: Column, name: bytes, depth: int) -> bool:
        """Whether a field may be there though the schema does not have it."""
        if self.rescued is not None and depth > 1:
            return False  # its name has the whole way to it
        if name in column.unexpected:
            return True
        return name.decode().lower() not in column.lower_names

    # Values of the schema

    def read_value(self, column: Column, depth: int) -> bool:
        byte = self.peek()
        if byte == 0x6E:
            if not column.is_nullable or not self.literal(b"null"):
                return False
            column.put_null()
            return True
        if column.count == column.room:
            column.reserve(2 * column.room)
        kind = column.kind
        if kind == STRING:
            return byte == 0x22 and self.read_string(column)
        if kind in (WHOLE, FLOATING, DECIMAL):
            return self.read_number() and self.put_number(column, kind)
        if kind in (MOMENT, LOCAL_MOMENT, DATE):
            return byte == 0x22 and self.read_moment(column, kind)
        if kind == BOOLEAN:
            if byte == 0x74:
                column.numbers[column.count] = 1
                column.put()
                return self.literal(b"true")
            column.numbers[column.count] = 0
            column.put()
            return self.literal(b"false")
        if kind == ANY:
            return self.read_string(column) if byte == 0x22 else self.read_any(column, depth)
        if depth >= MAX_DEPTH:
            return False
        if kind == STRUCT:
            return byte == 0x7B and self.read_struct(column, depth + 1)
        if kind == LIST:
            return byte == 0x5B and self.read_list(column, depth + 1)
        if kind == MAP:
            return byte == 0x7B and self.read_map(column, depth + 1)
        return False

    def read_list(self, column: Column, depth: int) -> bool:
        element = column.children[0]
        self.position += 1
        if self.peek() == 0x5D:
            self.position += 1
        else:
            while True:
                if not self.read_value(element, depth):
                    return False
                byte = self.peek()
                self.position += 1
                if byte == 0x5D:
                    break
                if byte != 0x2C:
                    return False
        column.ends[column.count + 1] = element.count
        column.put()
        return True

    def read_map(self, column: Column, depth: int) -> bool:
        key = column.children[0]
        value = column.children[1]
        seen: set[bytes] = set()
        self.position += 1
        if self.peek() == 0x7D:
            self.position += 1
        else:
            while True:
                if self.peek() != 0x22:
                    return False
                if key.count == key.room:
                    key.reserve(2 * key.room)
                start = key.size
                if not self.read_string(key):
                    return False
                name = bytes(key.content[start : key.size])
                if name in seen or self.peek() != 0x3A:
                    return False
                seen.add(name)
                self.position += 1
                if not self.read_value(value, depth):
                    return False
                byte = self.peek()
                self.position += 1
                if byte == 0x7D:
                    break
                if byte != 0x2C:
                    return False
        column.ends[column.count + 1] = key.count
        column.put()
        return True

    def read_any(self, column: Column, depth: int) -> bool:
        """The text of a value that is no string."""
        start = self.position
        if not self.skip_value(depth):
            return False
        size = column.size
        column.reserve_content(size + self.position - start)
        for index in range(self.position - start):
            column.content[size + index] = self.source[start + index]
        column.size = size + self.position - start
        column.ends[column.count + 1] = column.size
        column.put()
        return True

    def read_string(self, column: Column) -> bool:
        """A string; the position is at its quote."""
        source = self.source
        position = self.position + 1
        end = self.end
        column.reserve_content(column.size + end - position)
        content = column.content
        size = column.size
        while position < end:
            byte = source[position]
            if byte == 0x22:
                self.position = position + 1
                column.size = size
                column.ends[column.count + 1] = size
                column.put()
                return True
            if byte < 0x20:
                return False
            position += 1
            if byte != 0x5C:
                content[size] = byte
                size += 1
                continue
            if position >= end:
                return False
            byte = source[position]
            position += 1
            if byte == 0x75:
                if position + 4 > end:
                    return False
                code = self.hex4(position)
                position += 4
                if code < 0 or 0xDC00 <= code < 0xE000:
                    return False
                if code >= 0xD800 and code < 0xDC00:
                    if position + 6 > end or source[position] != 0x5C or source[position + 1] != 0x75:
                        return False
                    low = self.hex4(position + 2)
                    if low < 0xDC00 or low >= 0xE000:
                        return False
                    position += 6
                    code = 0x10000 + ((code - 0xD800) << 10) + low - 0xDC00
                if code < 0x80:
                    content[size] = code
                    size += 1
                elif code < 0x800:
                    content[size] = 0xC0 | code >> 6
                    content[size + 1] = 0x80 | code & 0x3F
                    size += 2
                elif code < 0x10000:
                    content[size] = 0xE0 | code >> 12
                    content[size + 1] = 0x80 | code >> 6 & 0x3F
                    content[size + 2] = 0x80 | code & 0x3F
                    size += 3
                else:
                    content[size] = 0xF0 | code >> 18
                    content[size + 1] = 0x80 | code >> 12 & 0x3F
                    content[size + 2] = 0x80 | code >> 6 & 0x3F
                    content[size + 3] = 0x80 | code & 0x3F
                    size += 4
                continue
            if byte == 0x6E:
                byte = 0x0A
            elif byte == 0x74:
                byte = 0x09
            elif byte == 0x72:
                byte = 0x0D
            elif byte == 0x62:
                byte = 0x08
            elif byte == 0x66:
                byte = 0x0C
            elif byte != 0x22 and byte != 0x5C and byte != 0x2F:
                return False
            content[size] = byte
            size += 1
        return False

    def read_number(self) -> bool:
        """Take a number apart: `mantissa` has its digits if they are at most MAX_DIGITS, `scale` how many of them are
        behind the point."""
        source = self.source
        position = self.position
        end = self.end
        self.is_negative = position < end and source[position] == 0x2D
        if self.is_negative:
            position += 1
        mantissa = 0
        digits = 0
        scale = 0
        first = position
        while position < end and 0x30 <= source[position] <= 0x39:
            if digits > 0 or source[position] != 0x30:
                digits += 1
                if digits <= MAX_DIGITS:
                    mantissa = mantissa * 10 + (source[position] - 0x30)
            position += 1
        if position == first or (source[first] == 0x30 and position > first + 1):
            return False
        self.has_fraction = position < end and source[position] == 0x2E
        if self.has_fraction:
            position += 1
            first = position
            while position < end and 0x30 <= source[position] <= 0x39:
                if digits > 0 or source[position] != 0x30:
                    digits += 1
                    if digits <= MAX_DIGITS:
                        mantissa = mantissa * 10 + (source[position] - 0x30)
                position += 1
            scale = position - first
            if scale == 0:
                return False
        self.has_exponent = position < end and (source[position] == 0x65 or source[position] == 0x45)
        exponent = 0
        if self.has_exponent:
            position += 1
            is_negative = position < end and source[position] == 0x2D
            if position < end and (is_negative or source[position] == 0x2B):
                position += 1
            first = position
            while position < end and 0x30 <= source[position] <= 0x39:
                if exponent < 100000:
                    exponent = exponent * 10 + (source[position] - 0x30)
                position += 1
            if position == first:
                return False
            if is_negative:
                exponent = -exponent
        self.mantissa = mantissa
        self.digits = digits
        self.scale = scale
        self.exponent = exponent
        self.start = self.position
        self.position = position
        return True

    def put_number(self, column: Column, kind: int) -> bool:
        if kind == FLOATING:
            return self.put_floating(column)
        if self.has_exponent or self.digits > MAX_DIGITS:
            return False
        number = self.mantissa
        if kind == WHOLE:
            if self.has_fraction:
                return False
            if self.is_negative:
                number = -number
            if number < column.low or number > column.high:
                return False
            column.numbers[column.count] = number
            column.put()
            return True
        scale = self.scale
        while scale > column.scale:
            if number % 10 != 0:
                return False
            number = number // 10
            scale -= 1
        if self.digits + column.scale - scale > MAX_DIGITS:
            return False
        number = number * self.power(column.scale - scale)
        if number >= column.high:
            return False
        if self.is_negative:
            number = -number
        column.numbers[2 * column.count] = number
        column.numbers[2 * column.count + 1] = -1 if number < 0 else 0
        column.put()
        return True

    def power(self, exponent: int) -> int:
        result = 1
        for _ in range(exponent):
            result *= 10
        return result

    def put_floating(self, column: Column) -> bool:
        """Exact where the mantissa and a power of ten are floating numbers, which one operation rounds once; else the
        way of Python's float."""
        if self.position - self.start > 100:
            return False
        power = self.exponent - self.scale
        if not self.has_fraction and not self.has_exponent:
            if self.digits > MAX_DIGITS or self.mantissa > column.high:
                return False
            number = float(self.mantissa)
        elif self.digits <= MAX_DIGITS and self.mantissa <= MAX_EXACT and -MAX_POWER <= power <= MAX_POWER:
            number = float(self.mantissa)
            scale = 1.0
            for _ in range(power if power > 0 else -power):
                scale *= 10.0
            number = number * scale if power > 0 else number / scale
        else:
            number = abs(float(self.source[self.start : self.position]))
        if number > column.limit:
            return False
        column.doubles[column.count] = -number if self.is_negative else number
        column.put()
        return True

    def two(self, position: int) -> int:
        """A number of two digits; larger than any year if there are other characters."""
        tens = self.source[position] - 0x30
        ones = self.source[position + 1] - 0x30
        if tens < 0 or tens > 9 or ones < 0 or ones > 9:
            return 100_000
        return tens * 10 + ones

    def days(self, start: int) -> int:
        """The days from 1970 to a date of ten characters; a huge number if it is no date."""
        source = self.source
        year = self.two(start) * 100 + self.two(start + 2)
        month = self.two(start + 5)
        day = self.two(start + 8)
        if source[start + 4] != 0x2D or source[start + 7] != 0x2D or year < 1 or year > 9999 or month < 1 or month > 12:
            return NO_DATE
        is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        if day < 1 or day > self.month_days(month, is_leap):
            return NO_DATE
        if month <= 2:
            year -= 1
            month += 12
        return 365 * year + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5 + day - 719469

    def month_days(self, month: int, is_leap: bool) -> int:
        if month == 2:
            return 29 if is_leap else 28
        return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31

    def read_moment(self, column: Column, kind: int) -> bool:
        """A date, or a timestamp with seconds and no more than six digits behind them."""
        source = self.source
        start = self.position + 1
        if self.skip_string() != 1:
            return False
        end = self.position - 1
        if end - start < 10:
            return False
        days = self.days(start)
        if days == NO_DATE:
            return False
        if kind == DATE:
            if end - start != 10:
                return False
            column.numbers[column.count] = days
            column.put()
            return True
        if end - start < 19 or (source[start + 10] != 0x54 and source[start + 10] != 0x20):
            return False
        hour = self.two(start + 11)
        minute = self.two(start + 14)
        second = self.two(start + 17)
        if hour > 23 or minute > 59 or second > 59 or source[start + 13] != 0x3A or source[start + 16] != 0x3A:
            return False
        micros = 0
        position = start + 19
        if position < end and source[position] == 0x2E:
            position += 1
            first = position
            while position < end and 0x30 <= source[position] <= 0x39:
                if position - first >= 6:
                    return False
                micros = micros * 10 + (source[position] - 0x30)
                position += 1
            if position == first:
                return False
            micros = micros * self.power(6 - (position - first))
        offset = 0
        if kind == LOCAL_MOMENT:
            if position != end:
                return False
        elif position == end:
            if not self.is_utc:
                return False
        elif end - position == 6 and source[position + 3] == 0x3A:
            hours = self.two(position + 1)
            minutes = self.two(position + 4)
            if hours > 14 or minutes > 59 or (source[position] != 0x2B and source[position] != 0x2D):
                return False
            offset = hours * 60 + minutes
            if source[position] == 0x2D:
                offset = -offset
        elif end - position != 1 or source[position] != 0x5A:
            return False
        seconds = days * 86400 + hour * 3600 + minute * 60 + second - offset * 60
        column.numbers[column.count] = seconds * 1000000 + micros
        column.put()
        return True

"""The four codecs of record batches. The only file that knows cramjam.

Decompression never holds more than `max_size` bytes of output: it writes into a buffer whose size comes from the
stream's own header where that has one (and is believable), and otherwise grows by doubling up to the limit.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct, unpack_from
from typing import TYPE_CHECKING, Final

import cramjam

from ottla.records.batch import Compression
from ottla.records.errors import CorruptRecords

if TYPE_CHECKING:
    from typing_extensions import Buffer

DEFAULT_MAX_SIZE: Final = 128 * 1024 * 1024

LEVELS: Final = {
    Compression.GZIP: (1, 9, 6),
    Compression.LZ4: (1, 17, 9),
    Compression.ZSTD: (-131072, 22, 3),
}
"""Lowest, highest and default level, as Kafka's compression.<type>.level has them (gzip also knows -1: the default)."""

_OUTPUT_IS_FULL = "failed to write whole buffer"
_SMALLEST_GUESS = 16 * 1024

_SNAPPY_MAGIC = b"\x82SNAPPY\0"
_SNAPPY_HEADER = _SNAPPY_MAGIC + b"\0\0\0\x01\0\0\0\x01"
_SNAPPY_BLOCK_SIZE = 32 * 1024
_SNAPPY_MAX_RATIO = 64
_SIZE = Struct(">i")

# magic, version 1 with independent blocks (Java reads no others), 64 KB blocks, header checksum of those two bytes
_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK_SIZE = 64 * 1024
_LZ4_STORED = 0x80000000
_LZ4_MAX_RATIO = 256
_LZ4_SIZE = Struct("<I")
_GZIP_MAX_RATIO = 1040


def compress(codec: Compression, data: Buffer, level: int | None = None) -> bytes:
    """One codec stream of the form Kafka's Java client writes. `level` is Kafka's; None is the codec's default."""
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            return bytes(cramjam.gzip.compress(data, 6 if level is None or level == -1 else level))
        case Compression.SNAPPY:
            return _compress_snappy(memoryview(data).cast("B"))
        case Compression.LZ4:
            return _compress_lz4(memoryview(data).cast("B"), level)
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(data, 3 if level is None else level))


def decompress(codec: int, data: Buffer, max_size: int = DEFAULT_MAX_SIZE) -> bytearray:
    """The bytes of one or more concatenated codec streams; CorruptRecords when there are more than max_size."""
    view = memoryview(data).cast("B")
    if codec == Compression.SNAPPY:
        return _decompress_snappy(view, max_size)
    try:
        if codec == Compression.LZ4:
            return _grow(cramjam.lz4.decompress_into, view, _lz4_bound(view), max_size)
        if codec == Compression.ZSTD:
            return _grow(cramjam.zstd.decompress_into, view, _zstd_content_size(view), max_size)
        if codec == Compression.GZIP:
            guess = unpack_from("<I", view, len(view) - 4)[0] if len(view) >= 18 else 0
            return _grow(cramjam.gzip.decompress_into, view, min(guess, _GZIP_MAX_RATIO * len(view)), max_size)
    except cramjam.DecompressionError as error:
        raise CorruptRecords(f"bad {Compression(codec).name.lower()} stream: {error}") from None
    if codec == Compression.NONE:
        if len(view) > max_size:
            raise CorruptRecords(f"{len(view)} bytes of records, {max_size} allowed")
        return bytearray(view)
    raise CorruptRecords(f"unknown compression type {codec}")


def _grow(decompress_into: Callable[[Buffer, Buffer], int], data: memoryview, guess: int, max_size: int) -> bytearray:
    size = min(max(guess, _SMALLEST_GUESS), max_size)
    while True:
        output = bytearray(size)
        try:
            count = decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if str(error) != _OUTPUT_IS_FULL:
                raise
            del output
            if size >= max_size:
                raise CorruptRecords(f"records decompress to more than the {max_size} bytes allowed") from None
            size = min(4 * size, max_size)
        else:
            del output[count:]
            return output


def _lz4_bound(data: memoryview) -> int:
    """The most that the blocks of a frame can hold; Java's frames do not say how much they do."""
    if len(data) < 11 or data[:4] != _LZ4_HEADER[:4]:
        return 0
    flags = data[4]
    block_max_size = 1 << 8 + 2 * (data[5] >> 4 & 7)
    block_checksum_size = 4 if flags & 0x10 else 0
    position = 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    bound = 0
    while position + 4 <= len(data):
        (size,) = _LZ4_SIZE.unpack_from(data, position)
        if size == 0:
            break
        position += 4 + (size & ~_LZ4_STORED) + block_checksum_size
        bound += min(block_max_size, size & ~_LZ4_STORED if size & _LZ4_STORED else _LZ4_MAX_RATIO * size)
    return bound


def _zstd_content_size(data: memoryview) -> int:
    """The size that the first frame declares, or a guess if it declares none (as a streaming writer's does)."""
    unknown = 4 * len(data)
    if len(data) < 6:
        return unknown
    descriptor = data[4]
    single_segment = descriptor >> 5 & 1
    position = 5 + (1 - single_segment) + (0, 1, 2, 4)[descriptor & 3]
    width = (single_segment, 2, 4, 8)[descriptor >> 6]
    if width == 0 or position + width > len(data):
        return unknown
    size = int.from_bytes(data[position : position + width], "little")
    return size + 256 if width == 2 else size


def _compress_snappy(data: memoryview) -> bytes:
    output = bytearray(_SNAPPY_HEADER)
    for position in range(0, len(data), _SNAPPY_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(data[position : position + _SNAPPY_BLOCK_SIZE]))
        output += _SIZE.pack(len(block))
        output += block
    return bytes(output)


def _decompress_snappy(data: memoryview, max_size: int) -> bytearray:
    """Java's length-prefixed blocks, or one raw stream as librdkafka and others send."""
    try:
        if data[: len(_SNAPPY_MAGIC)] != _SNAPPY_MAGIC:
            return _decompress_snappy_blocks([data], max_size)
        end = len(data)
        position = len(_SNAPPY_HEADER)
        if end < position:
            raise CorruptRecords("snappy header is cut off")
        blocks = []
        while position < end:
            if end - position >= len(_SNAPPY_HEADER) and data[position : position + 8] == _SNAPPY_MAGIC:
                position += len(_SNAPPY_HEADER)  # streams may be concatenated
                continue
            if end - position < _SIZE.size:
                raise CorruptRecords("snappy block size is cut off")
            (size,) = _SIZE.unpack_from(data, position)
            position += _SIZE.size
            if not 0 <= size <= end - position:
                raise CorruptRecords(f"snappy block of {size} bytes, {end - position} left")
            blocks.append(data[position : position + size])
            position += size
        return _decompress_snappy_blocks(blocks, max_size)
    except cramjam.DecompressionError as error:
        raise CorruptRecords(f"bad snappy stream: {error}") from None


def _decompress_snappy_blocks(blocks: list[memoryview], max_size: int) -> bytearray:
    sizes = []
    total = 0
    for block in blocks:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > _SNAPPY_MAX_RATIO * len(block):
            raise CorruptRecords(f"snappy block of {len(block)} bytes says that it holds {size}")
        sizes.append(size)
        total += size
        if total > max_size:
            raise CorruptRecords(f"records decompress to more than the {max_size} bytes allowed")
    output = bytearray(total)
    with memoryview(output) as view:
        position = 0
        for block, size in zip(blocks, sizes, strict=True):
            written = cramjam.snappy.decompress_raw_into(block, view[position : position + size])
            if written != size:
                raise CorruptRecords(f"snappy block holds {written} bytes, not {size}")
            position += size
    return output


def _compress_lz4(data: memoryview, level: int | None) -> bytes:
    """An LZ4 frame as Java's client writes it. cramjam's own frames link their blocks, which Java refuses to read."""
    output = bytearray(_LZ4_HEADER)
    is_fast = level is None or level == LEVELS[Compression.LZ4][2]  # Kafka's default level is LZ4's fast mode
    for position in range(0, len(data), _LZ4_BLOCK_SIZE):
        plain = data[position : position + _LZ4_BLOCK_SIZE]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False)) if is_fast else _lz4_high(plain, level)
        if len(block) < len(plain):
            output += _LZ4_SIZE.pack(len(block))
            output += block
        else:
            output += _LZ4_SIZE.pack(len(plain) | _LZ4_STORED)
            output += plain
    output += b"\0\0\0\0"
    return bytes(output)


def _lz4_high(plain: memoryview, level: int | None) -> bytes:
    """One block at a high compression level, out of a frame of its own: cramjam has levels for frames only."""
    frame = memoryview(cramjam.lz4.compress(plain, level=max(level or 0, 3)))
    position = 15 if frame[4] & 0x08 else 7
    (size,) = _LZ4_SIZE.unpack_from(frame, position)
    return bytes(plain) if size & _LZ4_STORED else bytes(frame[position + 4 : position + 4 + size])

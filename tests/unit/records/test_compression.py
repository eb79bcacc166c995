"""The codecs: streams of other writers, and streams made to hurt."""

from __future__ import annotations

import gzip
import tracemalloc
from random import Random

import cramjam
import pytest

from ottla.records import Compression, CorruptRecords, compress, decompress
from ottla.records.compression import LEVELS

CODECS = [codec for codec in Compression if codec is not Compression.NONE]
TEXT = b" ".join(b"word%d" % (index * index % 997) for index in range(40_000))


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("size", [0, 1, 100, 32 * 1024, 64 * 1024, 64 * 1024 + 1, len(TEXT)])
def test_what_is_compressed_decompresses(codec: Compression, size: int) -> None:
    data = TEXT[:size]
    assert decompress(codec, compress(codec, data), size) == data
    assert decompress(codec, memoryview(compress(codec, bytearray(data))), size) == data


@pytest.mark.parametrize("codec", list(LEVELS))
def test_levels_are_kafkas_and_a_higher_one_is_smaller(codec: Compression) -> None:
    low, high, default = LEVELS[codec]
    streams = {level: compress(codec, TEXT, level) for level in (max(low, 1), default, high)}
    for stream in streams.values():
        assert decompress(codec, stream) == TEXT
    assert len(streams[high]) <= len(streams[max(low, 1)])
    assert compress(codec, TEXT) == streams[default]


def test_gzips_level_may_be_minus_one() -> None:
    assert compress(Compression.GZIP, TEXT, -1) == compress(Compression.GZIP, TEXT, 6)


@pytest.mark.parametrize("codec", CODECS)
def test_more_than_the_limit_is_refused_without_holding_it(codec: Compression) -> None:
    """A bomb: 64 MB of zeros in a few kilobytes."""
    bomb = compress(codec, bytes(64 * 1024 * 1024))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecords):
            decompress(codec, bomb, 1024 * 1024)
        assert tracemalloc.get_traced_memory()[1] < 2 * 1024 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", CODECS)
def test_a_stream_that_lies_about_its_size_is_refused(codec: Compression) -> None:
    if codec is Compression.SNAPPY:
        raw = b"\xff\xff\xff\xff\x07" + bytes(cramjam.snappy.compress_raw(b"abc"))[1:]
        lies = [raw, compress(codec, b"")[:16] + len(raw).to_bytes(4, "big") + raw]
    elif codec is Compression.GZIP:
        lies = [compress(codec, b"abc")[:-4] + b"\xff\xff\xff\x7f"]
    elif codec is Compression.ZSTD:  # content size of 8 bytes in the frame header
        lies = [b"\x28\xb5\x2f\xfd\xe0" + (1 << 40).to_bytes(8, "little") + b"\1\0\0"]
    else:
        lies = [b"\x04\x22\x4d\x18\x60\x70\x73" + b"\xff\xff\xff\x7f" + bytes(20)]
    for lie in lies:
        tracemalloc.start()
        try:
            with pytest.raises(CorruptRecords):
                decompress(codec, lie, 4 * 1024 * 1024)
            assert tracemalloc.get_traced_memory()[1] < 5 * 1024 * 1024
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("codec", CODECS)
def test_every_cut_stream_is_refused(codec: Compression) -> None:
    stream = compress(codec, TEXT[:3000])
    framing = {Compression.SNAPPY: {16}}.get(codec, set())  # Java's header with no blocks behind it is an empty stream
    for size in range(len(stream)):
        if size in framing:
            assert decompress(codec, stream[:size]) == b""
        else:
            with pytest.raises(CorruptRecords):
                decompress(codec, stream[:size])


def test_concatenated_members_and_frames_are_one_stream() -> None:
    for codec in CODECS:
        assert decompress(codec, compress(codec, b"one ") + compress(codec, b"two")) == b"one two"
    assert decompress(Compression.GZIP, gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"


def test_a_frame_of_unknown_content_size_decompresses() -> None:
    compressor = cramjam.zstd.Compressor(3)
    compressor.compress(TEXT)
    stream = bytes(compressor.finish())
    assert decompress(Compression.ZSTD, stream) == TEXT


def test_lz4_frames_with_linked_blocks_and_checksums_decompress() -> None:
    frame = bytes(cramjam.lz4.compress(TEXT))
    assert frame[4] & 0x20 == 0, "linked blocks: what cramjam writes and Java does not read"
    assert decompress(Compression.LZ4, frame) == TEXT
    assert compress(Compression.LZ4, TEXT)[4] & 0x20, "what is written here has independent ones"


def test_raw_snappy_as_librdkafka_writes_it_decompresses() -> None:
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)), len(TEXT)) == TEXT


def test_snappy_blocks_that_do_not_fit_are_refused() -> None:
    stream = bytearray(compress(Compression.SNAPPY, TEXT[:1000]))
    for size in (-1, 0x7FFFFFFF, len(stream)):
        stream[16:20] = size.to_bytes(4, "big", signed=True)
        with pytest.raises(CorruptRecords):
            decompress(Compression.SNAPPY, stream)


def test_unknown_codecs_are_refused() -> None:
    for codec in (5, 6, 7):
        with pytest.raises(CorruptRecords):
            decompress(codec, b"abc")
    with pytest.raises(CorruptRecords):
        decompress(Compression.NONE, b"abc", 2)


def test_mutated_streams_decompress_or_are_corrupt() -> None:
    """Whatever the bytes: no other exception, and no more output than allowed."""
    rng = Random(9)
    sources = [TEXT[:20], TEXT[:3000], bytes(100_000), rng.randbytes(3000)]
    streams = [(codec, compress(codec, source)) for codec in CODECS for source in sources]
    refused = 0
    for _ in range(4000):
        codec, stream = rng.choice(streams)
        mutated = bytearray(stream)
        for _ in range(rng.randrange(1, 5)):
            position = rng.randrange(min(len(mutated), 40) if rng.random() < 0.6 else len(mutated))
            mutated[position] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        try:
            assert len(decompress(codec, mutated, 200_000)) <= 200_000
        except CorruptRecords:
            refused += 1
    assert refused > 1000

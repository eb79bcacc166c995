"""The hash by which a consumer group notices that a topic it reads has changed: XXH3 with 64 bits, as in Kafka.

A group's record holds one number instead of a list of topics with their partitions and racks. It is 0 while none of
the group's topics exists.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct, pack, unpack_from

from ottla.cluster import ClusterImage
from ottla.cluster.topic import TopicImage

_MAGIC = b"\x00"
"""The version of the hashed data."""

_M32 = 0xFFFFFFFF
_M64 = 0xFFFFFFFFFFFFFFFF
_PRIME32_1, _PRIME32_2, _PRIME32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_PRIME64_1, _PRIME64_2, _PRIME64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_PRIME64_4, _PRIME64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_PRIME_MX1, _PRIME_MX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25
_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248e"
    "e03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d"
    "8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc"
    "8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_STRIPE = 64
_EIGHT = Struct("<8Q")


def topic_hash(topic: TopicImage, image: ClusterImage) -> int:
    """The hash of a topic's id, name and partitions, and of their racks."""
    pieces = [_MAGIC, pack("<q", _long(topic.id[:8])), pack("<q", _long(topic.id[8:])), _text(topic.name)]
    pieces.append(pack("<i", len(topic.partitions)))
    for partition in range(len(topic.partitions)):
        pieces.append(pack("<i", partition))
        brokers = (image.brokers.get(replica) for replica in topic.partitions[partition].replicas)
        for rack in sorted(broker.rack for broker in brokers if broker is not None and broker.rack is not None):
            pieces.append(pack("<i", len(rack)) + _text(rack))
    return xxh3(b"".join(pieces))


def group_hash(hashes: Iterable[int]) -> int:
    """The hash over the hashes of a group's topics, in the order of their names."""
    data = b"".join(pack("<q", hash) for hash in hashes)
    return xxh3(data) if data else 0


def _long(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


def _text(text: str) -> bytes:
    """A string as hash4j takes it: its UTF-16 units and their count."""
    data = text.encode("utf-16-le")
    return data + pack("<i", len(data) // 2)


def xxh3(data: bytes) -> int:
    """XXH3_64bits without a seed, as a signed number."""
    length = len(data)
    if length <= 16:
        hash = _short(data, length)
    elif length <= 240:
        hash = _medium(data, length)
    else:
        hash = _long_input(data, length)
    return hash - (1 << 64) if hash >> 63 else hash


def _read32(data: bytes, at: int) -> int:
    value: int = unpack_from("<I", data, at)[0]
    return value


def _read64(data: bytes, at: int) -> int:
    value: int = unpack_from("<Q", data, at)[0]
    return value


def _fold(left: int, right: int) -> int:
    product = left * right
    return (product ^ (product >> 64)) & _M64


def _avalanche(hash: int) -> int:
    hash = (hash ^ (hash >> 37)) * _PRIME_MX1 & _M64
    return hash ^ (hash >> 32)


def _avalanche64(hash: int) -> int:
    hash = (hash ^ (hash >> 33)) * _PRIME64_2 & _M64
    hash = (hash ^ (hash >> 29)) * _PRIME64_3 & _M64
    return hash ^ (hash >> 32)


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _M64


def _short(data: bytes, length: int) -> int:
    if length > 8:
        low = _read64(data, 0) ^ _read64(_SECRET, 24) ^ _read64(_SECRET, 32)
        high = _read64(data, length - 8) ^ _read64(_SECRET, 40) ^ _read64(_SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche((length + swapped + high + _fold(low, high)) & _M64)
    if length >= 4:
        keyed = (_read32(data, length - 4) + (_read32(data, 0) << 32)) ^ _read64(_SECRET, 8) ^ _read64(_SECRET, 16)
        keyed ^= _rotate(keyed, 49) ^ _rotate(keyed, 24)
        keyed = keyed * _PRIME_MX2 & _M64
        keyed ^= (keyed >> 35) + length
        keyed = keyed * _PRIME_MX2 & _M64
        return keyed ^ (keyed >> 28)
    if length:
        combined = (data[0] << 16) | (data[length >> 1] << 24) | data[length - 1] | (length << 8)
        return _avalanche64(combined ^ (_read32(_SECRET, 0) ^ _read32(_SECRET, 4)))
    return _avalanche64(_read64(_SECRET, 56) ^ _read64(_SECRET, 64))


def _mix16(data: bytes, at: int, secret: int) -> int:
    return _fold(_read64(data, at) ^ _read64(_SECRET, secret), _read64(data, at + 8) ^ _read64(_SECRET, secret + 8))


def _medium(data: bytes, length: int) -> int:
    hash = length * _PRIME64_1
    if length <= 128:
        for index in range((length - 1) // 32, -1, -1):
            hash += _mix16(data, 16 * index, 32 * index)
            hash += _mix16(data, length - 16 * (index + 1), 32 * index + 16)
        return _avalanche(hash & _M64)
    for index in range(8):
        hash += _mix16(data, 16 * index, 16 * index)
    hash = _avalanche(hash & _M64)
    for index in range(8, length // 16):
        hash += _mix16(data, 16 * index, 16 * (index - 8) + 3)
    hash += _mix16(data, length - 16, 136 - 17)
    return _avalanche(hash & _M64)


def _long_input(data: bytes, length: int) -> int:
    sums = [
        _PRIME32_3, _PRIME64_1, _PRIME64_2, _PRIME64_3, _PRIME64_4, _PRIME32_2, _PRIME64_5, _PRIME32_1,
    ]  # fmt: skip
    stripes_per_block = (len(_SECRET) - _STRIPE) // 8
    stripe_count = (length - 1) // _STRIPE
    keys = [_EIGHT.unpack_from(_SECRET, 8 * index) for index in range(stripes_per_block)]
    scramble = _EIGHT.unpack_from(_SECRET, len(_SECRET) - _STRIPE)
    for stripe in range(stripe_count):
        index = stripe % stripes_per_block
        _accumulate(sums, _EIGHT.unpack_from(data, stripe * _STRIPE), keys[index])
        if index == stripes_per_block - 1:
            for lane in range(8):
                value = sums[lane]
                sums[lane] = (value ^ (value >> 47) ^ scramble[lane]) * _PRIME32_1 & _M64
    _accumulate(
        sums, _EIGHT.unpack_from(data, length - _STRIPE), _EIGHT.unpack_from(_SECRET, len(_SECRET) - _STRIPE - 7)
    )
    hash = length * _PRIME64_1
    for index in range(4):
        left = sums[2 * index] ^ _read64(_SECRET, 11 + 16 * index)
        right = sums[2 * index + 1] ^ _read64(_SECRET, 19 + 16 * index)
        hash += _fold(left, right)
    return _avalanche(hash & _M64)


def _accumulate(sums: list[int], values: tuple[int, ...], keys: tuple[int, ...]) -> None:
    for lane in range(8):
        value = values[lane]
        keyed = value ^ keys[lane]
        sums[lane ^ 1] += value
        sums[lane] = (sums[lane] + (keyed & _M32) * (keyed >> 32)) & _M64
    for lane in range(8):
        sums[lane] &= _M64

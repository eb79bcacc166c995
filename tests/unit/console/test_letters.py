from __future__ import annotations

from ottla.client.core.fetching import ConsumerRecord, RawRecord
from ottla.console.letters import letter_of, origin_of, own_headers

CONNECT = (
    ("__connect.errors.topic", b"orders"),
    ("__connect.errors.partition", b"3"),
    ("__connect.errors.offset", b"17"),
    ("__connect.errors.exception.class.name", b"ValueError"),
    ("__connect.errors.exception.message", b"no amount"),
)
SHARE = (
    ("__dlq.errors.topic", b"jobs"),
    ("__dlq.errors.partition", b"1"),
    ("__dlq.errors.offset", b"5"),
    ("__dlq.errors.group", b"workers"),
    ("__dlq.errors.delivery.count", b"6"),
    ("__dlq.errors.message", b"Offset delivery count exceeded the threshold."),
)


def record(headers: tuple[tuple[str, bytes | None], ...]) -> RawRecord:
    return ConsumerRecord("letters", 0, 0, 0, b"k", b"v", (("mine", b"x"), *headers))


def test_letters_of_three_kinds() -> None:
    found = letter_of(CONNECT)
    assert found is not None
    assert (found.kind, found.topic, found.partition, found.offset, found.reason) == (
        "connect", "orders", 3, 17, "no amount",
    )  # fmt: skip
    found = letter_of(SHARE)
    assert found is not None
    assert (found.kind, found.group, found.delivery_count) == ("share", "workers", 6)
    found = letter_of((*CONNECT, ("ottla.pipeline", b"shop"), ("ottla.flow", b"clean"), ("ottla.rule", b"positive")))
    assert found is not None
    assert (found.kind, found.flow) == ("pipeline", "shop/clean")
    assert letter_of((("mine", b"x"),)) is None


def test_hostile_headers_are_no_numbers() -> None:
    found = letter_of((("__connect.errors.topic", b"\xff"), ("__connect.errors.partition", "٣".encode())))
    assert found is not None
    assert (found.topic, found.partition, found.offset) == ("\ufffd", None, None)


def test_where_letters_go_back_to() -> None:
    connect, share = letter_of(CONNECT), letter_of(SHARE)
    assert connect is not None and share is not None
    assert origin_of(connect, ["orders"]) == ("orders", 3)
    assert origin_of(share, ["jobs"]) == ("jobs", 1)
    # only the group that gave up reads its retry topic
    assert origin_of(share, ["jobs", "jobs.retry.workers"]) == ("jobs.retry.workers", None)


def test_headers_of_a_letter_are_taken_off() -> None:
    assert own_headers(record((*CONNECT, ("ottla.pipeline", b"shop")))) == [("mine", b"x")]
    assert dict(own_headers(record(SHARE)))["ottla.redrive.count"] == b"1"
    assert not any(name.startswith("__dlq") for name, _ in own_headers(record(SHARE)))

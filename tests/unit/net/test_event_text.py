"""What a line of a log shows of an event."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from ottla.net import event_text
from ottla.raft.effects import AppendFetched, Destination, Send
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.records.config_record import ConfigRecord
from ottla.wire.messages.records.topic_record import TopicRecord
from ottla.wire.messages.vote import VoteRequest, VoteRequestTopicData


class Color(Enum):
    RED = "red"


class Place(NamedTuple):
    id: int
    host: str


@dataclass(frozen=True)
class Login:
    name: str
    password: str = field(default="letmein")
    sasl_secret: str | None = None


def test_a_dataclass_is_its_constructors_call() -> None:
    assert event_text(Place(1, "h")) == "Place(id=1, host='h')"
    request = VoteRequest(topics=[VoteRequestTopicData(topic_name="t")])
    assert event_text(Send(1, Destination(2, "h", 9), request)) == (
        "Send(id=1, to=Destination(id=2, host='h', port=9), "
        "request=VoteRequest(topics=[VoteRequestTopicData(topic_name='t')]))"
    )


def test_ids_are_shown() -> None:
    assert event_text(TopicRecord(name="t", topic_id=b"i" * 16)) == f"TopicRecord(name='t', topic_id='{'69' * 16}')"


def test_bytes_are_a_count() -> None:
    assert event_text(AppendFetched(b"x" * 70_000)) == "AppendFetched(records=<70000 bytes>)"
    assert event_text([bytearray(2), memoryview(b"abc")]) == "[<2 bytes>, <3 bytes>]"


def test_long_lists_and_texts_are_cut() -> None:
    assert event_text(list(range(1_000))) == "[0, 1, 2, 3, 4, 995 more]"
    assert event_text(dict.fromkeys(range(7), "x")) == "{0: 'x', 1: 'x', 2: 'x', 3: 'x', 4: 'x', 2 more}"
    assert event_text("x" * 500) == repr("x" * 80 + "...")


def test_what_is_nested_deeply_is_cut() -> None:
    nested: list[object] = []
    for _ in range(20):
        nested = [nested]
    assert event_text(nested) == "[[[[[[[[...]]]]]]]]"


def test_names_of_enums_and_texts_of_errors_are_shown() -> None:
    assert event_text([Color.RED, ErrorCode.NOT_CONTROLLER]) == "[RED, NOT_CONTROLLER]"
    assert event_text(KafkaError(ErrorCode.NOT_CONTROLLER, "no")).startswith("KafkaError('")


def test_other_objects_are_their_kind_only() -> None:
    assert event_text(object()) == "<object>"


def test_secrets_are_not_shown() -> None:
    assert event_text(Login("ann")) == "Login(name='ann', password=[hidden], sasl_secret=None)"
    setting = ConfigRecord(resource_type=4, resource_name="1", name="ssl.key.password", value="letmein")
    assert event_text(setting) == (
        "ConfigRecord(resource_type=4, resource_name='1', name='ssl.key.password', value=[hidden])"
    )
    request = AlterUserScramCredentialsRequest(
        upsertions=[ScramCredentialUpsertion(name="ann", mechanism=1, salt=b"salt", salted_password=b"letmein")]
    )
    assert "letmein" not in event_text(request) and "b'salt'" not in event_text(request)

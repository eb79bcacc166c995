from __future__ import annotations

import copy
import pickle

import pytest

from ottla.wire.errors import ErrorCode, KafkaError


def test_codes_run_from_minus_one_to_136_without_a_gap() -> None:
    assert [code.value for code in ErrorCode] == list(range(-1, 137))


@pytest.mark.parametrize(
    ("code", "name", "is_retriable"),
    [
        (-1, "UNKNOWN_SERVER_ERROR", False),
        (0, "NONE", False),
        (3, "UNKNOWN_TOPIC_OR_PARTITION", True),
        (6, "NOT_LEADER_OR_FOLLOWER", True),
        (45, "OUT_OF_ORDER_SEQUENCE_NUMBER", False),
        (51, "CONCURRENT_TRANSACTIONS", True),
        (100, "UNKNOWN_TOPIC_ID", True),
        (120, "TRANSACTION_ABORTABLE", False),
        (133, "SHARE_SESSION_LIMIT_REACHED", True),
        (136, "CONTROLLER_ID_NOT_REGISTERED", False),
    ],
)
def test_a_code_has_kafkas_name_and_retriability(code: int, name: str, is_retriable: bool) -> None:
    assert ErrorCode(code).name == name
    assert ErrorCode(code).is_retriable is is_retriable
    assert ErrorCode[name] == code


def test_codes_are_the_ones_kio_knows() -> None:
    kio_errors = pytest.importorskip("kio.schema.errors")
    for theirs in kio_errors.ErrorCode:
        ours = ErrorCode(theirs.value)
        assert ours.name.lower() == theirs.name
        assert ours.is_retriable == theirs.retriable


def test_every_code_explains_itself_differently() -> None:
    texts = [code.text for code in ErrorCode]
    assert all(texts) and len(set(texts)) == len(texts)


def test_a_kafka_error_carries_a_code_and_a_message() -> None:
    error = KafkaError(ErrorCode.INVALID_CONFIG, "no such setting")
    assert (error.code, error.message, str(error)) == (40, "no such setting", "INVALID_CONFIG: no such setting")
    plain = KafkaError(ErrorCode.NOT_CONTROLLER)
    assert plain.message is None
    assert str(plain) == f"NOT_CONTROLLER: {ErrorCode.NOT_CONTROLLER.text}"
    assert pickle.loads(pickle.dumps(error)).code is copy.copy(error).code is ErrorCode.INVALID_CONFIG

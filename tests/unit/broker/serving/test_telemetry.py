from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TypedDict, Unpack

import pytest

from ottla.broker.apis.api_versions import api_versions
from ottla.broker.caller import Caller
from ottla.broker.serving import telemetry as module
from ottla.broker.serving.telemetry import Telemetry, TelemetryClient
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.primitives import uuid_text
from tests.unit.broker.rooms import CLIENT, Ground, make_metadata, run_timed

NO_ID = bytes(16)
ONE = b"1" * 16
LABELS = {"client_id": "app-7", "client_source_address": "127.0.0.1"}


def made(**subscriptions: dict[str, str]) -> Telemetry:
    telemetry = Telemetry()
    telemetry.replace(subscriptions.items())
    return telemetry


def ask(telemetry: Telemetry, now: int, client_instance_id: bytes = ONE) -> TelemetryClient:
    return telemetry.subscribe(client_instance_id, LABELS, now, Random(1))[1]


class Pushed(TypedDict, total=False):
    """What of a push is not as usual."""

    client_instance_id: bytes
    is_terminating: bool
    compression_type: int
    size: int


def push(telemetry: Telemetry, now: int, *, subscription_id: int, **pushed: Unpack[Pushed]) -> ErrorCode:
    try:
        telemetry.push(
            pushed.get("client_instance_id", ONE),
            LABELS,
            subscription_id=subscription_id,
            is_terminating=pushed.get("is_terminating", False),
            compression_type=pushed.get("compression_type", 0),
            size=pushed.get("size", 100),
            max_bytes=1000,
            now=now,
        )
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def test_a_client_without_subscription_is_asked_for_nothing() -> None:
    client = ask(made(), now=0)
    assert client.metrics == []
    assert client.interval_ms == 300_000


def test_a_client_without_id_gets_one() -> None:
    telemetry = made()
    client_instance_id, _ = telemetry.subscribe(NO_ID, LABELS, 0, Random(1))
    assert len(client_instance_id) == 16 and client_instance_id != NO_ID
    assert telemetry.client(client_instance_id) is not None


def test_all_matching_subscriptions_add_up_and_the_shortest_interval_holds() -> None:
    telemetry = made(
        a={"metrics": "producer.,consumer.", "interval.ms": "5000", "match": "client_id=app-.*"},
        b={"metrics": "consumer.,admin.", "interval.ms": "1000"},
        c={"metrics": "*", "match": "client_id=app"},
        d={"metrics": "*", "match": "client_id=app-.*,client_software_name=java"},
    )
    client = ask(telemetry, now=0)
    assert client.metrics == ["admin.", "consumer.", "producer."]
    assert client.interval_ms == 1000


def test_all_metrics_swallow_the_others() -> None:
    assert ask(made(a={"metrics": "*"}, b={"metrics": "x."}), now=0).metrics == ["*"]


def test_a_subscription_can_be_for_one_instance() -> None:
    telemetry = made(a={"metrics": "x.", "match": f"client_instance_id={uuid_text(ONE)}"})
    assert ask(telemetry, now=0).metrics == ["x."]
    assert ask(telemetry, now=0, client_instance_id=b"2" * 16).metrics == []


def test_a_client_may_ask_once_per_interval() -> None:
    telemetry = made(a={"metrics": "x.", "interval.ms": "1000"})
    ask(telemetry, now=0)
    with pytest.raises(KafkaError) as refused:
        ask(telemetry, now=999)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    ask(telemetry, now=1000)


def test_a_changed_subscription_is_told_at_once() -> None:
    telemetry = made(a={"metrics": "x.", "interval.ms": "1000"})
    before = ask(telemetry, now=0).subscription_id
    telemetry.replace([("a", {"metrics": "y.", "interval.ms": "1000"})])
    assert push(telemetry, 500, subscription_id=before) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    client = ask(telemetry, now=501)
    assert client.metrics == ["y."]
    assert push(telemetry, 502, subscription_id=client.subscription_id) is ErrorCode.NONE


def test_the_first_push_may_come_soon_and_the_next_after_the_interval() -> None:
    telemetry = made(a={"metrics": "x.", "interval.ms": "1000"})
    identity = ask(telemetry, now=0).subscription_id
    assert push(telemetry, 500, subscription_id=identity) is ErrorCode.NONE
    assert push(telemetry, 1400, subscription_id=identity) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert push(telemetry, 1500, subscription_id=identity) is ErrorCode.NONE
    client = telemetry.client(ONE)
    assert client is not None and client.push_count == 2 and client.last_push_size == 100
    assert (telemetry.push_count, telemetry.pushed_bytes) == (2, 200)


def test_the_last_push_may_come_early_and_is_the_last() -> None:
    telemetry = made(a={"metrics": "x.", "interval.ms": "1000"})
    identity = ask(telemetry, now=0).subscription_id
    assert push(telemetry, 10, subscription_id=identity) is ErrorCode.NONE
    assert push(telemetry, 20, subscription_id=identity, is_terminating=True) is ErrorCode.NONE
    assert push(telemetry, 9000, subscription_id=identity) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"client_instance_id": NO_ID}, ErrorCode.INVALID_REQUEST),
        ({"client_instance_id": bytes(15) + b"\x01"}, ErrorCode.INVALID_REQUEST),
        ({"compression_type": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"compression_type": -1}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"size": 1001}, ErrorCode.TELEMETRY_TOO_LARGE),
        ({"size": 1000}, ErrorCode.NONE),
    ],
)
def test_a_push_is_checked(changes: Pushed, code: ErrorCode) -> None:
    telemetry = made(a={"metrics": "x."})
    identity = ask(telemetry, now=0).subscription_id
    assert push(telemetry, 10, subscription_id=identity, **changes) is code


def test_a_client_that_sent_a_wrong_push_may_ask_again_at_once() -> None:
    telemetry = made(a={"metrics": "x.", "interval.ms": "1000"})
    identity = ask(telemetry, now=0).subscription_id
    assert push(telemetry, 10, subscription_id=identity + 1) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert ask(telemetry, now=20).subscription_id == identity


def test_silent_clients_are_forgotten() -> None:
    telemetry = made(a={"metrics": "x.", "interval.ms": "30000"})
    ask(telemetry, now=0)
    telemetry.expire(now=89_999)
    assert telemetry.client_count == 1
    telemetry.expire(now=90_000)
    assert telemetry.client_count == 0


def test_the_number_of_clients_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CLIENTS", 10)
    telemetry = made()
    for number in range(50):
        ask(telemetry, now=number, client_instance_id=number.to_bytes(16, "big", signed=False)[::-1] or ONE)
    assert telemetry.client_count == 10


def test_a_stored_subscription_that_cannot_be_read_is_left_out() -> None:
    telemetry = made(a={"match": "client_id=["}, b={"metrics": "x."})
    assert telemetry.subscription_names == ["b"]


def test_clients_are_offered_telemetry_while_a_subscription_exists(tmp_path: Path) -> None:
    async def scenario() -> None:
        ground = Ground(tmp_path)
        metadata, telemetry = make_metadata(ground), Telemetry()

        def is_offered() -> bool:
            request = ApiVersionsRequest(client_software_name="tester", client_software_version="1")
            response = api_versions(request, ground, metadata, telemetry, Caller("tester", CLIENT, 18, 4))
            offered = {row.api_key for row in response.api_keys} & {71, 72}
            assert len(offered) != 1
            return bool(offered)

        assert not is_offered()
        telemetry.replace([("all", {"metrics": "*"})])
        assert is_offered()
        telemetry.replace([])
        assert not is_offered()

    run_timed(scenario())

"""When a client says that brokers do not answer."""

from __future__ import annotations

from ottla.client.core.outages import Outages

REASON = "none of h:1 answers: cannot connect to h:1: refused"


def texts(*notices: object) -> list[str]:
    return [getattr(notice, "text", "") for notice in notices if notice is not None]


def test_an_outage_of_the_cluster_is_said_at_once_every_30_seconds_and_when_it_is_over() -> None:
    outages = Outages()
    said = [outages.cluster_failed(REASON, now) for now in range(1_000, 62_000, 500)]
    assert texts(*said) == [
        f"{REASON}; the client keeps trying",
        f"{REASON}; no broker has answered for 30 s, the client keeps trying",
        f"{REASON}; no broker has answered for 60 s, the client keeps trying",
    ]
    assert outages.is_cluster_out
    over = outages.cluster_answered(63_000)
    assert over is not None and over.is_over and over.text == "a broker answers again after 62 s"
    assert outages.cluster_answered(64_000) is None
    assert not outages.is_cluster_out


def test_a_second_outage_is_said_again() -> None:
    outages = Outages()
    outages.cluster_failed(REASON, 0)
    outages.cluster_answered(100)
    assert texts(outages.cluster_failed(REASON, 200)) == [f"{REASON}; the client keeps trying"]


def test_one_broker_of_three_is_one_line_for_that_broker() -> None:
    outages = Outages()
    said = [outages.broker_failed("broker 2 at h:2", "refused", now, now) for now in range(0, 31_500, 500)]
    assert texts(*said) == [
        "broker 2 at h:2 does not answer: refused; the client keeps trying",
        "broker 2 at h:2 has not answered for 31 s: refused; the client keeps trying",
    ]
    assert texts(outages.broker_answered("broker 2 at h:2", 32_000)) == ["broker 2 at h:2 answers again after 32 s"]
    assert outages.broker_answered("broker 2 at h:2", 33_000) is None


def test_a_broker_that_is_back_within_a_second_is_not_worth_a_line() -> None:
    outages = Outages()
    assert outages.broker_failed("broker 2 at h:2", "refused", 0, 0) is None
    assert outages.broker_failed("broker 2 at h:2", "refused", 900, 900) is None
    assert outages.broker_answered("broker 2 at h:2", 950) is None


def test_an_attempt_that_took_long_is_said_when_it_fails() -> None:
    outages = Outages()
    assert texts(outages.broker_failed("broker 2 at h:2", "silence", 0, 5_000)) == [
        "broker 2 at h:2 does not answer: silence; the client keeps trying"
    ]


def test_while_no_broker_answers_single_brokers_are_not_named() -> None:
    outages = Outages()
    outages.broker_failed("broker 1 at h:1", "refused", 0, 0)
    assert len(texts(outages.cluster_failed(REASON, 10))) == 1
    said = [outages.broker_failed(f"broker {node} at h:{node}", "refused", 0, 5_000) for node in (1, 2, 3)]
    assert texts(*said) == []
    outages.cluster_answered(6_000)
    assert outages.broker_answered("broker 1 at h:1", 6_000) is None
    assert texts(outages.broker_failed("broker 2 at h:2", "refused", 7_000, 7_000)) == [
        "broker 2 at h:2 does not answer: refused; the client keeps trying"
    ]


def test_a_broker_that_left_the_cluster_is_forgotten() -> None:
    outages = Outages()
    outages.broker_failed("broker 2 at h:2", "refused", 0, 2_000)
    outages.broker_left("broker 2 at h:2")
    assert outages.broker_answered("broker 2 at h:2", 3_000) is None

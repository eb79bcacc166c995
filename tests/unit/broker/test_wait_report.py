"""When a node that waits says so, and in which words."""

from __future__ import annotations

import pytest

from ottla.broker.wait_report import (
    ControllerSeen,
    Found,
    GaveUp,
    Line,
    WaitBegan,
    WaitEnded,
    WaitReport,
    controllers_text,
)

REFUSED = "connection refused"
TWO = ControllerSeen(2, "127.0.0.1", 9094, "")
THREE = ControllerSeen(3, "node-3", 9095, "")


def waiting(began_at: int = 5_000) -> WaitReport:
    report = WaitReport()
    assert report.handle(WaitBegan(), began_at) == []
    return report


def test_a_wait_is_announced_after_a_second_and_again_now_and_then() -> None:
    report = waiting(5_000)
    spoken_at = []
    for now in range(5_000, 130_000, 500):
        lines = report.handle(Found("waiting for controllers"), now)
        spoken_at += [(now - 5_000, line.text) for line in lines]
        assert all(line.is_notable for line in lines)
    assert [at for at, _ in spoken_at] == [1_000, 11_000, 21_000, 31_000, 61_000, 91_000, 121_000]
    assert [text for _, text in spoken_at][:2] == ["waiting for controllers", "waiting for controllers, for 11 s now"]


def test_each_line_names_what_is_waited_for_at_that_moment() -> None:
    report = waiting(0)
    assert report.handle(Found("waiting for 2, 3"), 1_000) == [Line("waiting for 2, 3", True)]
    assert report.handle(Found("waiting for 3"), 2_000) == []
    assert report.handle(Found("waiting for 3"), 11_000) == [Line("waiting for 3, for 11 s now", True)]


def test_the_deadline_is_when_the_next_line_is_due() -> None:
    report = WaitReport()
    assert report.deadline() is None
    report.handle(WaitBegan(), 100)
    assert report.deadline() == 1_100
    report.handle(Found("x"), 1_100)
    assert report.deadline() == 11_100
    report.handle(WaitEnded("done"), 11_050)
    assert report.deadline() is None


def test_the_end_of_a_wait_is_notable_only_if_the_wait_was_spoken_of() -> None:
    report = waiting(0)
    assert report.handle(WaitEnded("controller 2 leads"), 400) == [Line("controller 2 leads, after 0.4 s", False)]
    report.handle(WaitBegan(), 1_000)
    report.handle(Found("waiting"), 2_000)
    assert report.handle(WaitEnded("controller 2 leads"), 3_500) == [Line("controller 2 leads, after 2.5 s", True)]


def test_nothing_is_said_outside_a_wait() -> None:
    report = WaitReport()
    assert report.handle(Found("waiting"), 60_000) == []
    assert report.handle(WaitEnded("done"), 60_000) == []


def test_an_unknown_event_is_refused() -> None:
    with pytest.raises(TypeError):
        WaitReport().handle("waiting", 0)


def test_a_wait_that_is_given_up_says_nothing_more() -> None:
    report = WaitReport()
    report.handle(WaitBegan(), 0)
    assert report.handle(GaveUp(), 500) == []
    assert report.deadline() is None
    assert report.handle(Found("waiting"), 5_000) == [] and report.handle(WaitEnded("done"), 6_000) == []


@pytest.mark.parametrize(
    ("others", "is_voter", "text"),
    [
        (
            [TWO._replace(trouble=REFUSED), THREE._replace(trouble=REFUSED)],
            True,
            "waiting for controllers 2 at 127.0.0.1:9094, 3 at node-3:9095: connection refused "
            "(1 of 3 is up, 2 are needed)",
        ),
        (
            [TWO._replace(trouble=REFUSED), THREE._replace(trouble="name not found")],
            True,
            "waiting for controllers 2 at 127.0.0.1:9094: connection refused; 3 at node-3:9095: name not found "
            "(1 of 3 is up, 2 are needed)",
        ),
        (
            [TWO._replace(host="::1", trouble=REFUSED)],
            False,
            "waiting for controller 2 at [::1]:9094: connection refused (0 of 1 are up, 1 is needed)",
        ),
        (
            [TWO, THREE._replace(trouble=REFUSED)],
            True,
            "waiting for the controllers to elect a leader (2 of 3 are up; not up: 3 at node-3:9095: "
            "connection refused)",
        ),
        ([TWO, THREE], False, "waiting for the controllers to elect a leader (2 of 2 are up)"),
        (
            [TWO._replace(id=-1, trouble=REFUSED), THREE._replace(id=-1, trouble=REFUSED)],
            False,
            "waiting for a controller at 127.0.0.1:9094, node-3:9095: connection refused "
            "(controller.quorum.bootstrap.servers)",
        ),
        (
            [TWO._replace(id=-1), THREE._replace(id=-1, trouble=REFUSED)],
            False,
            "waiting for the controllers at 127.0.0.1:9094, node-3:9095 to name the leader of the quorum",
        ),
        ([], False, "waiting for the controllers: none is known; set controller.quorum.bootstrap.servers"),
        ([], True, "waiting to become leader of the quorum"),
    ],
)
def test_the_text_names_controllers_addresses_and_reasons(
    others: list[ControllerSeen], is_voter: bool, text: str
) -> None:
    assert controllers_text(others, is_voter=is_voter) == text

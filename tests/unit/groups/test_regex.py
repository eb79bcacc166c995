"""Regular expressions of subscriptions: whole names, RE2's syntax, bounded."""

from __future__ import annotations

import pytest

from ottla.groups.regex import MAX_PATTERN_BYTES, check_regex, matching_topics
from ottla.wire.errors import ErrorCode, KafkaError


def test_the_whole_name_has_to_match() -> None:
    assert matching_topics("foo.*", ["xfoo", "foobar", "foo", "afoo"]) == ("foo", "foobar")
    assert matching_topics("a|b", ["ab", "b", "a"]) == ("a", "b")


@pytest.mark.parametrize(
    "pattern", ["", "a.*", r"\Qa.b\E", "(?i)ab", "(?P<name>a)", "(?<name>a)", r"\p{Greek}", "[[:alpha:]]"]
)
def test_what_re2_reads_is_taken(pattern: str) -> None:
    check_regex(pattern)


@pytest.mark.parametrize(
    "pattern", ["(", "[a", "*a", "a**", "a++", "(?=a)", r"\1", "a{2001}", "[z-a]", "\\", r"\Z", "(?x)a"]
)
def test_what_re2_does_not_read_is_refused(pattern: str) -> None:
    with pytest.raises(KafkaError) as caught:
        check_regex(pattern)
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert caught.value.message is not None and pattern in caught.value.message
    assert matching_topics(pattern, ["a", "(", pattern]) == ()


def test_a_pattern_that_no_record_can_hold_is_refused() -> None:
    check_regex("a" * MAX_PATTERN_BYTES)
    for pattern in ("a" * (MAX_PATTERN_BYTES + 1), "ä" * MAX_PATTERN_BYTES):
        with pytest.raises(KafkaError) as caught:
            check_regex(pattern)
        assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_hostile_pattern_needs_no_more_time_than_another() -> None:
    assert matching_topics("(a*)*b", ["a" * 249]) == ()
    assert matching_topics("(x+x+)+y", ["x" * 249]) == ()

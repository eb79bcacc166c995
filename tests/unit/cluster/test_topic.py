"""Rules for the names of topics."""

from __future__ import annotations

import pytest

from ottla.cluster.topic import collision_name, why_topic_name_is_invalid


@pytest.mark.parametrize("name", ["a", "A-z_0.9", "...", "x" * 249, "__consumer_offsets"])
def test_names_that_are_allowed(name: str) -> None:
    assert why_topic_name_is_invalid(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\x00", "a:b"])
def test_names_that_are_not(name: str) -> None:
    assert why_topic_name_is_invalid(name) is not None


def test_dots_and_underscores_collide() -> None:
    assert collision_name("a.b_c") == collision_name("a_b.c") == "a_b_c"
    assert collision_name("abc") is None

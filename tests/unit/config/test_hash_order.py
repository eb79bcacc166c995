from __future__ import annotations

from ottla.config.hash_order import entity_hash, hash_order, string_hash


def test_hashes_are_javas() -> None:
    assert string_hash("") == 0
    assert string_hash("retention.ms") == 0xFFFFFFFF & sum(
        ord(letter) * 31 ** (len("retention.ms") - 1 - index) for index, letter in enumerate("retention.ms")
    )
    assert string_hash("\U0001f600") == 0xD83D * 31 + 0xDE00, "two UTF-16 code units"
    assert entity_hash([("user", None)]) == 31 + string_hash("user")


def test_an_entity_has_one_hash_whatever_the_order_of_its_parts_is() -> None:
    parts: list[tuple[str, str | None]] = [("user", "amy"), ("client-id", None)]
    assert entity_hash(parts) == entity_hash(parts[::-1])


def test_keys_that_share_a_place_stand_in_the_order_in_which_they_came() -> None:
    assert string_hash("Aa") == string_hash("BB")
    assert hash_order(["BB", "Aa"], string_hash) == ["BB", "Aa"]
    assert hash_order(["Aa", "BB"], string_hash) == ["Aa", "BB"]


def test_the_table_grows_at_three_quarters() -> None:
    names = [chr(letter) for letter in range(ord("A"), ord("L"))]
    assert hash_order([*names, "P"], string_hash) == ["P", *names], "12 keys: P, 80, has the first of 16 places"
    assert hash_order([*names, "P", "L"], string_hash) == [*names, "L", "P"], "13 keys: P has the 17th of 32"

"""sasl.jaas.config as Java's clients have it."""

from __future__ import annotations

import pytest

from ottla.security.jaas import MAX_TEXT_LENGTH, parse_jaas

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        (f'{SCRAM} required username="a" password="b";', "ScramLoginModule", {"username": "a", "password": "b"}),
        (f"{SCRAM} REQUIRED username='a' password=b-c.d;", "ScramLoginModule", {"username": "a", "password": "b-c.d"}),
        (f'{SCRAM} required\n  username = "a"\n  password="b"\n;\n', "ScramLoginModule", None),
        (f'{SCRAM} required // who\n username="a" /* and */ password="b";', "ScramLoginModule", None),
        (f"{SCRAM} required;", "ScramLoginModule", {}),
        ('kafkashaded.x.PlainLoginModule required username="$Connection";', "PlainLoginModule", None),
        (f'{SCRAM} required password="a\\"b\\\\c\\n\\101;= \'";', "ScramLoginModule", {"password": "a\"b\\c\nA;= '"}),
        (f'{SCRAM} required password="";', "ScramLoginModule", {"password": ""}),
    ],
)
def test_a_login_module_and_its_options(text: str, name: str, options: dict[str, str] | None) -> None:
    module = parse_jaas(text)
    assert module.name == name
    if options is not None:
        assert module.options == options
    else:
        assert set(module.options) <= {"username", "password"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "LOGIN_MODULE required"),
        (";", "LOGIN_MODULE required"),
        (SCRAM, "LOGIN_MODULE required"),
        (f'{SCRAM} username="a";', "comes one of required"),
        (f'{SCRAM} required username="a" password="hush"', "end with a semicolon"),
        (f'{SCRAM} required username="a" password="hush', "has no end"),
        (f"{SCRAM} required username;", "NAME="),
        (f'{SCRAM} required username "hush";', "NAME="),
        (f'{SCRAM} required ="hush";', "NAME="),
        (f"{SCRAM} required; {SCRAM} required;", "one login module"),
        ("x" * (MAX_TEXT_LENGTH + 1), "too long"),
    ],
)
def test_what_is_none_is_refused_without_repeating_it(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as failed:
        parse_jaas(text)
    assert "hush" not in str(failed.value)


def test_options_are_not_shown() -> None:
    assert "hush" not in repr(parse_jaas(f'{SCRAM} required username="a" password="hush";'))

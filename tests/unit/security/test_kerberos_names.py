"""Users by the names of Kerberos principals, as Kafka's rules make them."""

from __future__ import annotations

import pytest

from ottla.security.kerberos_names import LocalNames, NoLocalName

REALM = "EXAMPLE.ORG"


@pytest.mark.parametrize(
    ("rules", "principal", "expected"),
    [
        (["DEFAULT"], "alice@EXAMPLE.ORG", "alice"),
        (["DEFAULT"], "kafka/a.example.org@EXAMPLE.ORG", "kafka"),
        (["DEFAULT"], "alice", "alice"),
        (["RULE:[1:$1](.*)s/^/x-/", "DEFAULT"], "alice@OTHER.ORG", "x-alice"),
        (["RULE:[2:$1.$2](kafka\\..*)s/\\..*//", "DEFAULT"], "kafka/b1@EXAMPLE.ORG", "kafka"),
        (["RULE:[1:$1@$0](.*@OTHER.ORG)s/@.*//"], "bob@OTHER.ORG", "bob"),
        (["RULE:[1:$1@$0](.*@OTHER.ORG)s/@.*///L", "DEFAULT"], "BOB@OTHER.ORG", "bob"),
        (["RULE:[1:$1]/U"], "bob@OTHER.ORG", "BOB"),
        (["RULE:[1:$1](a.*)s/a/b/g"], "banana@X", None),
        (["RULE:[1:$1](.*)s/a/o/g"], "banana@X", "bonono"),
        (["RULE:[1:$1](.*)s/a/o/"], "banana@X", "bonana"),
        (["RULE:[1:$1](.*)s/(b)(.*)/$2$1/"], "bob@X", "obb"),
        (["DEFAULT"], "alice@OTHER.ORG", None),
        (["RULE:[1:$1@$0]"], "alice@OTHER.ORG", None),
        (["RULE:[2:$1]", "RULE:[1:$1]"], "alice@OTHER.ORG", "alice"),
        (["DEFAULT"], "a/b/c@EXAMPLE.ORG", None),
    ],
)
def test_the_first_rule_that_applies_gives_the_name(rules: list[str], principal: str, expected: str | None) -> None:
    names = LocalNames(rules)
    if expected is None:
        with pytest.raises(NoLocalName):
            names.name(principal, REALM)
    else:
        assert names.name(principal, REALM) == expected


@pytest.mark.parametrize("rule", ["", "RULE:1:$1", "default", "RULE:[1:$1](*)s/a/b/", "RULE:[1:$1]s/a/b"])
def test_a_rule_that_cannot_be_read_is_named(rule: str) -> None:
    with pytest.raises(ValueError, match=r"rule|regular"):
        LocalNames([rule])

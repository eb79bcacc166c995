"""Which principal a certificate's name becomes."""

from __future__ import annotations

import pytest

from ottla.security.principal_mapping import NoMatchingRule, parse_principal_mapping

RULES = ", ".join(
    (
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L",
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
        "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U",
        "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
        "DEFAULT",
    )
)


@pytest.mark.parametrize(
    ("name", "mapped"),
    [
        ("CN=Ada,OU=ServiceUsers,O=Org,C=US", "ada"),
        ("CN=Ada,OU=Shop,O=Example,L=Rome,ST=RM,C=IT", "ada@shop"),
        ("cn=ada,ou=shop,dc=example,dc=com", "ADA@SHOP"),
        ("cN=ada,OU=Shop,O=Example", "ADA"),
        ("OU=Shop,O=Example,C=IT", "OU=Shop,O=Example,C=IT"),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_wins(name: str, mapped: str) -> None:
    assert parse_principal_mapping(RULES).name(name) == mapped


def test_a_name_that_no_rule_matches_is_refused() -> None:
    with pytest.raises(NoMatchingRule, match="CN=eve"):
        parse_principal_mapping("RULE:^CN=(a.*)$/$1/").name("CN=eve")
    with pytest.raises(NoMatchingRule):
        parse_principal_mapping("RULE:CN=e/x/").name("CN=eve")
    with pytest.raises(NoMatchingRule):
        parse_principal_mapping("").name("CN=eve")


def test_empty_rules_are_passed_over_and_spaces_around_rules_do_not_count() -> None:
    mapping = parse_principal_mapping(" ,, RULE:CN=(.*)/$1/U   ,, DEFAULT ,")
    assert mapping.name("CN=ada") == "ADA"
    assert mapping.name("O=x") == "O=x"


def test_escapes_and_numbers_without_a_group_stand_for_themselves() -> None:
    mapping = parse_principal_mapping(r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT")
    assert mapping.name("CN=Lovelace\\, Ada,OU=x") == "Lovelace\\, Ada"
    assert parse_principal_mapping("RULE:CN=(.*)/$1@$4/").name("CN=ada") == "ada@$4"
    assert parse_principal_mapping("RULE:CN=(.*)/$12/").name("CN=ada") == "ada2"
    assert parse_principal_mapping(r"RULE:CN=(.*)\/x/$1\/y/").name("CN=ada/x") == "ada/y"


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "rule:^CN=(.*?)$/$1/",
        "RULE:^CN=(.*?)$/$1/L/U",
        "RULE:^CN=(.*?)$/LU",
        "RULE:^CN=((.*?)$/$1/",
    ],
)
def test_what_is_no_rule_is_refused(rules: str) -> None:
    with pytest.raises(ValueError, match=r"ssl\.principal\.mapping\.rules"):
        parse_principal_mapping(rules)

"""Names of Kerberos principals made into user names, by `sasl.kerberos.principal.to.local.rules`.

    RULE:[n:string](regexp)s/pattern/replacement/g/L     for names of n components: `$0` is the realm, `$1` the first
    DEFAULT                                              the first component of a name in this machine's own realm

The first rule that applies decides. `kafka/broker.example.org@EXAMPLE.ORG` has two components and a realm.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_NAME = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_RULE = re.compile(r"RULE:\[(\d*):([^\]]*)\](?:\(([^)]*)\))?(?:s/([^/]*)/([^/]*)/(g)?)?/?([LU])?")
_PARAMETER = re.compile(r"\$(\d+)")
DEFAULT = "DEFAULT"


class NoLocalName(ValueError):
    """Why a principal has no user name."""


@dataclass(frozen=True, slots=True)
class _Rule:
    component_count: int
    form: str
    wanted: re.Pattern[str] | None
    pattern: re.Pattern[str] | None
    replacement: str
    is_global: bool
    letters: str

    def apply(self, parts: Sequence[str]) -> str | None:
        """`parts`: realm, first component, perhaps a second one. None if the rule does not apply to such a name."""
        if self.component_count != len(parts) - 1:
            return None
        try:
            base = _PARAMETER.sub(lambda found: parts[int(found[1])], self.form)
        except IndexError:
            raise NoLocalName(
                f"the rule for names of {self.component_count} components has no such parameter"
            ) from None
        if self.wanted is not None and not self.wanted.fullmatch(base):
            return None
        if self.pattern is not None:
            base = self.pattern.sub(self.replacement, base, count=0 if self.is_global else 1)
        if "/" in base or "@" in base:
            raise NoLocalName(f"a rule makes {base!r} of it, which is no user name: / and @ are left in it")
        return base.lower() if self.letters == "L" else base.upper() if self.letters == "U" else base


class LocalNames:
    """The rules of a listener. ValueError names a rule that cannot be parsed."""

    def __init__(self, rules: Sequence[str]) -> None:
        self._rules: list[_Rule | None] = [None if rule.strip() == DEFAULT else _parse(rule.strip()) for rule in rules]

    def name(self, principal: str, default_realm: str) -> str:
        """The user name of a principal; NoLocalName if no rule gives one."""
        found = _NAME.fullmatch(principal)
        if found is None:
            if "@" in principal or "/" in principal:
                raise NoLocalName("it is no name of the form NAME[/HOST]@REALM")
            return principal
        first, second, realm = found.groups()
        parts = [realm, first] if second is None else [realm, first, second]
        for rule in self._rules:
            if rule is None:
                if realm == default_realm:
                    return first
            elif (made := rule.apply(parts)) is not None:
                return made
        raise NoLocalName("no rule of sasl.kerberos.principal.to.local.rules applies to it")


def _parse(rule: str) -> _Rule:
    found = _RULE.fullmatch(rule)
    if found is None:
        raise ValueError(f"{rule!r} is no rule: expected DEFAULT or RULE:[n:string](regexp)s/pattern/replacement/g/L")
    count, form, wanted, pattern, replacement, is_global, letters = found.groups()
    try:
        return _Rule(
            int(count or 0),
            form,
            re.compile(wanted) if wanted else None,
            re.compile(pattern) if pattern is not None else None,
            re.sub(r"\$(\d)", r"\\\1", replacement or ""),
            is_global is not None,
            letters or "",
        )
    except re.error as error:
        raise ValueError(f"{rule!r} has a wrong regular expression: {error}") from None

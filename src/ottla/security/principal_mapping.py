r"""`ssl.principal.mapping.rules`: which principal a TLS client has, by the distinguished name of its certificate.

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT

Rules are tried in order and the first that matches the whole name wins. DEFAULT keeps the name. `$1` is a group of the
pattern, L and U turn the result into lower or upper case. A name that no rule matches is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_RULES_LENGTH = 64 * 1024
_RULE = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|(?P<empty>(?=[,\s]|$))"
    r"|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))\s*(?:,|$)"
)
_REPLACEMENT = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)


class NoMatchingRule(ValueError):
    """No rule matches a name: its owner is not let in."""


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str] | None
    """None keeps every name as it is."""
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        mapped = self.pattern.sub(self._replaced, name)
        return mapped.lower() if self.case == "L" else mapped.upper() if self.case == "U" else mapped

    def _replaced(self, found: re.Match[str]) -> str:
        def expand(part: re.Match[str]) -> str:
            if part[1] is not None:
                return part[1]
            # As many digits as make a group of the pattern. A number without a group stands for itself.
            digits = part[2]
            while len(digits) > 1 and int(digits) > found.re.groups:
                digits = digits[:-1]
            if int(digits) > found.re.groups:
                return part[0]
            return (found[int(digits)] or "") + part[2][len(digits) :]

        return _REPLACEMENT.sub(expand, self.replacement)


class PrincipalMapping:
    """The rules of a listener."""

    def __init__(self, rules: tuple[_Rule, ...]) -> None:
        self._rules = rules

    def name(self, distinguished_name: str) -> str:
        """The principal's name; NoMatchingRule if no rule matches."""
        for rule in self._rules:
            mapped = rule.apply(distinguished_name)
            if mapped is not None:
                return mapped
        raise NoMatchingRule(f"no rule of ssl.principal.mapping.rules matches {distinguished_name}")


def parse_principal_mapping(text: str) -> PrincipalMapping:
    """The rules of a setting; ValueError names a rule that cannot be parsed."""
    if len(text) > MAX_RULES_LENGTH:
        raise ValueError(f"ssl.principal.mapping.rules has {len(text)} characters; at most {MAX_RULES_LENGTH} are read")
    rules: list[_Rule] = []
    position = 0
    text = text.strip()
    while position < len(text):
        found = _RULE.match(text, position)
        if found is None:
            raise ValueError(
                f"ssl.principal.mapping.rules cannot be read at {text[position : position + 60]!r}: a rule is DEFAULT "
                "or RULE:pattern/replacement/ with L or U after it"
            )
        position = found.end()
        if found["empty"] is not None:
            continue
        if found["default"]:
            rules.append(_Rule(None))
            continue
        try:
            pattern = re.compile(found["pattern"], re.ASCII)  # as in Java, where \w is ASCII
        except re.error as error:
            raise ValueError(
                f"ssl.principal.mapping.rules: the pattern {found['pattern']!r} is no regular expression here: {error}"
            ) from None
        rules.append(_Rule(pattern, found["replacement"], found["case"]))
    return PrincipalMapping(tuple(rules))

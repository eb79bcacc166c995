"""Logins with the cluster's own users: what a form or an assistant sends, as settings of a client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.console.faults import invalid
from ottla.console.search_request import document

MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
MAX_LENGTH = 1_000
OWN_CREDENTIALS = (
    "sasl.jaas.config", "sasl.username", "sasl.password", "sasl.mechanism", "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.credentials.client.secret",
    "ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.key", "ssl.keystore.certificate.chain",
    "ssl.key.password", "ssl.certificate.location", "ssl.key.location",
)  # fmt: skip


def without_own(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings of a cluster without the credentials that the console was started with: users log in themselves."""
    return {name: value for name, value in settings.items() if name not in OWN_CREDENTIALS}


def credentials_of(body: Any) -> tuple[str, dict[str, str]]:
    asked = document(body)
    name, password, mechanism = asked.get("username"), asked.get("password"), asked.get("mechanism") or MECHANISMS[0]
    if not isinstance(name, str) or not isinstance(password, str) or not name or not password:
        raise invalid("username and password are missing")
    if len(name) > MAX_LENGTH or len(password) > MAX_LENGTH:
        raise invalid(f"username and password have at most {MAX_LENGTH} characters")
    if mechanism not in MECHANISMS:
        raise invalid(f"mechanism is one of {', '.join(MECHANISMS)}")
    return name, {"sasl.mechanism": mechanism, "sasl.username": name, "sasl.password": password}


def principal_of(name: str) -> str:
    return f"User:{name}"

"""SASL GSSAPI (RFC 4752) through the package `gssapi`, both sides; the only file that imports it.

The package is an extra (`ottla[gssapi]`): it has no wheel and needs the headers of MIT Kerberos. Import this module
where it is needed: without the package that is an ImportError.

    client                                   broker
    token of the KDC's ticket       ->
                                    <-       token (the broker proves itself), unless the client did not ask for it
    empty token                     ->
                                    <-       wrapped: which security layers are offered (none), and how much it takes
    wrapped: no layer, the name     ->
                                    <-       empty: the login is complete

Each step may wait for a disk or a KDC, so it runs in a thread.
"""

from __future__ import annotations

from typing import Any, Final

import gssapi

from ottla.security.errors import AuthenticationError
from ottla.security.kerberos_names import LocalNames, NoLocalName
from ottla.security.login import Identity, LoginRefused
from ottla.security.principal import USER, Principal

NO_LAYER: Final = 1
"""The bit for "no security layer": Kafka leaves encryption to TLS."""
_LAYERS_SIZE: Final = 4
MAX_NAME_BYTES: Final = 1_024


class KerberosError(Exception):
    """What Kerberos says, in one line."""


def acceptor(principal: str, keytab: str) -> Any:
    """The credentials of a broker; KerberosError if the keytab has no key of this principal."""
    try:
        name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
        return gssapi.Credentials(name=name, usage="accept", store={"keytab": keytab})
    except gssapi.exceptions.GSSError as error:
        raise KerberosError(_line(error)) from None


def initiator(principal: str | None, keytab: str | None, ticket_cache: str | None) -> Any:
    """The credentials of a client: from a keytab, else from the ticket cache (of `kinit`)."""
    try:
        name = gssapi.Name(principal, gssapi.NameType.kerberos_principal) if principal else None
        store: dict[str, str] = {}
        if keytab:
            store = {"client_keytab": keytab, "ccache": f"MEMORY:ottla-{abs(hash((principal, keytab)))}"}
        elif ticket_cache:
            store = {"ccache": ticket_cache}
        return gssapi.Credentials(name=name, usage="initiate", **({"store": store} if store else {}))
    except gssapi.exceptions.GSSError as error:
        raise KerberosError(_line(error)) from None


def default_realm() -> str:
    """The realm of names that have none, by this machine's krb5.conf; empty if there is none."""
    try:
        whole = gssapi.Name("x", gssapi.NameType.kerberos_principal).canonicalize(gssapi.MechType.kerberos)
    except gssapi.exceptions.GSSError:
        return ""
    return str(whole).partition("@")[2]


class GssapiServer:
    """A broker's side of one login. `prepare` processes a token, in a thread; `respond` returns the answer."""

    def __init__(self, principal: str, keytab: str, names: LocalNames) -> None:
        self._principal = principal
        self._keytab = keytab
        self._names = names
        self._context: Any = None
        self._is_offered = False
        self._outcome: bytes | LoginRefused | None = None
        self.identity: Identity | None = None
        self.claimed = ""

    def prepare(self, token: bytes) -> None:
        try:
            self._outcome = self._step(token)
        except gssapi.exceptions.GSSError as error:
            self._outcome = LoginRefused(f"Kerberos: {_line(error)}")
        except KerberosError as error:
            self._outcome = LoginRefused(f"Kerberos: {error}")
        except LoginRefused as error:
            self._outcome = error

    def respond(self, token: bytes, timestamp: int) -> bytes:
        outcome, self._outcome = self._outcome, None
        if outcome is None:
            raise LoginRefused("a token that was not prepared")
        if isinstance(outcome, LoginRefused):
            raise outcome
        return outcome

    def _step(self, token: bytes) -> bytes:
        if self._context is None:
            self._context = gssapi.SecurityContext(creds=acceptor(self._principal, self._keytab), usage="accept")
        if not self._context.complete:
            answer = self._context.step(token)
            if not self._context.complete or answer:
                return bytes(answer or b"")
            return self._offer()
        if not self._is_offered:
            if token:
                raise LoginRefused("a token where an empty one was expected")
            return self._offer()
        self._conclude(token)
        return b""

    def _offer(self) -> bytes:
        self.claimed = str(self._context.initiator_name)[:MAX_NAME_BYTES]
        self._is_offered = True
        return bytes(self._context.wrap(bytes([NO_LAYER, 0, 0, 0]), False).message)

    def _conclude(self, token: bytes) -> None:
        chosen = self._context.unwrap(token).message
        if len(chosen) < _LAYERS_SIZE or chosen[0] != NO_LAYER:
            raise LoginRefused("the client chose a security layer that was not offered")
        wanted = chosen[_LAYERS_SIZE:].decode(errors="replace")
        if wanted and wanted != self.claimed:
            raise LoginRefused("the client asked for another name than that of its ticket")
        try:
            name = self._names.name(self.claimed, default_realm())
        except NoLocalName as error:
            raise LoginRefused(f"{self.claimed}: {error}") from None
        self.identity = Identity(Principal(USER, name))


class GssapiClient:
    """A client's side of one login to a broker on a host. It blocks. The broker has to prove itself as well."""

    is_slow = True

    def __init__(
        self, service: str, host: str, principal: str | None, keytab: str | None, ticket_cache: str | None
    ) -> None:
        self._target = f"{service}@{host}"
        self._from = (principal, keytab, ticket_cache)
        self._context: Any = None
        self._is_done = False

    def initial(self) -> bytes:
        try:
            self._context = gssapi.SecurityContext(
                name=gssapi.Name(self._target, gssapi.NameType.hostbased_service),
                creds=initiator(*self._from),
                usage="initiate",
                mech=gssapi.MechType.kerberos,
                flags=gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity,
            )
            return bytes(self._context.step() or b"")
        except (gssapi.exceptions.GSSError, KerberosError) as error:
            raise self._failed(error) from None

    def respond(self, challenge: bytes) -> bytes | None:
        if self._is_done:
            if challenge:
                raise AuthenticationError("GSSAPI: the broker sent a token after the end of the login")
            return None
        try:
            if not self._context.complete:
                return bytes(self._context.step(challenge) or b"")
            offered = self._context.unwrap(challenge).message
            if len(offered) != _LAYERS_SIZE or not offered[0] & NO_LAYER:
                raise AuthenticationError(
                    "GSSAPI: the broker wants a security layer; Kafka's listeners have TLS for it"
                )
            self._is_done = True
            return bytes(self._context.wrap(bytes([NO_LAYER, 0, 0, 0]), False).message)
        except gssapi.exceptions.GSSError as error:
            raise self._failed(error) from None

    def _failed(self, error: Exception) -> AuthenticationError:
        said = _line(error) if isinstance(error, gssapi.exceptions.GSSError) else str(error)
        return AuthenticationError(
            f"GSSAPI: no login to {self._target}: {said}. Is there a ticket (kinit) or a keytab, and does the broker "
            "have this name (sasl.kerberos.service.name and its host) in its keytab?"
        )


def _line(error: Exception) -> str:
    return " ".join(str(error).split())

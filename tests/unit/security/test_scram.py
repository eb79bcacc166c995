"""SCRAM against the vector of RFC 7677, and against a server written down here that keeps Kafka's stored keys."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from random import Random

import pytest

from ottla.client.errors import AuthenticationError
from ottla.security.scram import MAX_ITERATIONS, MECHANISMS, Scram

SALT = b"0123456789abcdef"


class FixedNonce(Random):
    """Chance that gives the nonce of the RFC's example."""

    def randbytes(self, n: int) -> bytes:
        return b64decode("rOprNGfwEbeRWgbNEkqO")


def test_the_exchange_of_rfc_7677() -> None:
    scram = Scram("SCRAM-SHA-256", "user", "pencil", FixedNonce())
    assert scram.initial() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    nonce = b"rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    final = scram.respond(b"r=" + nonce + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    assert final == b"c=biws,r=" + nonce + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert scram.respond(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


class Server:
    """A broker's side: it keeps the salted keys only (RFC 5802, 3)."""

    def __init__(self, mechanism: str, password: str, iterations: int = 4096) -> None:
        self._hash = MECHANISMS[mechanism]
        self._iterations = iterations
        salted = hashlib.pbkdf2_hmac(self._hash, password.encode(), SALT, iterations)
        self._stored_key = hashlib.new(self._hash, self._hmac(salted, b"Client Key")).digest()
        self._server_key = self._hmac(salted, b"Server Key")

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)

    def first(self, client_first: bytes) -> bytes:
        self._bare = client_first.removeprefix(b"n,,")
        nonce = dict(part.split(b"=", 1) for part in self._bare.split(b","))[b"r"]
        self._first = b"r=%bserver,s=%b,i=%d" % (nonce, b64encode(SALT), self._iterations)
        return self._first

    def final(self, client_final: bytes) -> bytes:
        without_proof, _, proof = client_final.rpartition(b",p=")
        signed = b",".join([self._bare, self._first, without_proof])
        signature = self._hmac(self._stored_key, signed)
        key = bytes(one ^ other for one, other in zip(b64decode(proof), signature, strict=True))
        if hashlib.new(self._hash, key).digest() != self._stored_key:
            return b"e=invalid-proof"
        return b"v=" + b64encode(self._hmac(self._server_key, signed))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("username", ["alice", "a=b,c", "jürgen"])
def test_both_sides_prove_that_they_know_the_password(mechanism: str, username: str) -> None:
    scram, server = Scram(mechanism, username, "grüße, =x", Random(1)), Server(mechanism, "grüße, =x", 8192)
    first = scram.initial()
    assert first.count(b",") == 3, "a comma of the name would be taken for the end of it"
    final = scram.respond(server.first(first))
    assert final is not None
    assert scram.respond(server.final(final)) is None


def test_a_wrong_password_is_refused() -> None:
    scram, server = Scram("SCRAM-SHA-512", "alice", "wrong", Random(1)), Server("SCRAM-SHA-512", "right")
    final = scram.respond(server.first(scram.initial()))
    assert final is not None
    with pytest.raises(AuthenticationError, match="refused the credentials: invalid-proof"):
        scram.respond(server.final(final))


def test_a_broker_that_does_not_know_the_password_is_found_out() -> None:
    scram = Scram("SCRAM-SHA-256", "alice", "right", Random(1))
    impostor = Server("SCRAM-SHA-256", "a guess")
    assert scram.respond(impostor.first(scram.initial())) is not None
    with pytest.raises(AuthenticationError, match="signature is wrong"):
        scram.respond(b"v=" + b64encode(b"x" * 32))


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        (b"r=other,s=MDEy,i=4096", "nonce"),
        (b"r={nonce},s=MDEy,i=4096", "nonce"),
        (b"r={nonce}x,s=MDEy,i=4095", "4095 iterations; 4096 to"),
        (b"r={nonce}x,s=MDEy,i=%d" % (MAX_ITERATIONS + 1), "are accepted"),
        (b"r={nonce}x,s=MDEy,i=99999999999999999999", "count of iterations"),
        (b"r={nonce}x,s=MDEy,i=-1", "count of iterations"),
        (b"r={nonce}x,s=MDEy", "count of iterations"),
        (b"r={nonce}x,s=*,i=4096", "no base64"),
        (b"r={nonce}x,s=,i=4096", "no base64"),
        (b"m=x,r={nonce}x,s=MDEy,i=4096", "extension"),
        (b"r={nonce}x,r={nonce}y,s=MDEy,i=4096", "name=value"),
        (b"nonsense", "name=value"),
        (b"", "name=value"),
        (b"\xff\xfe", "no text"),
    ],
)
def test_a_challenge_that_makes_no_sense_ends_the_exchange(challenge: bytes, reason: str) -> None:
    scram = Scram("SCRAM-SHA-256", "alice", "secret", Random(1))
    nonce = scram.initial().rpartition(b"r=")[2]
    with pytest.raises(AuthenticationError, match=reason):
        scram.respond(challenge.replace(b"{nonce}", nonce))


def test_a_delegation_token_is_told_from_a_user() -> None:
    first = Scram("SCRAM-SHA-256", "id", "hmac", Random(1), is_delegation_token=True).initial()
    assert first.endswith(b",tokenauth=true")

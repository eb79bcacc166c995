"""A broker's side of SCRAM (RFC 5802, RFC 7677) with the keys that the metadata log holds: no password is hashed here.

    respond(client-first)  -> server-first   r=nonce+ours,s=salt,i=iterations
    respond(client-final)  -> server-final   v=signature, and `identity` is there

An unknown user gets a server-first like any other, with a salt made from its name and a key that clients do not know,
and is refused at the proof: neither answers nor their time show which users exist. Invariants: S1 a proof is checked
against the nonce of this login only; S2 the channel binding is the one that client-first announced.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

from ottla.security.login import Identity, LoginRefused
from ottla.security.principal import Principal
from ottla.security.scram import MECHANISMS, MIN_ITERATIONS, NONCE_BYTES

MAX_MESSAGE_BYTES = 16 * 1024
USUAL_SALT_BYTES = 26
"""The length of the salts that Kafka's tools make."""


@dataclass(frozen=True, slots=True)
class StoredCredential:
    """A broker's record of a password, or of a delegation token's HMAC."""

    principal: Principal
    """The user; of a delegation token its owner."""
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int
    expires_at: int | None = None
    """Wall-clock milliseconds at which a delegation token expires."""


FindCredential = Callable[[str, bool], StoredCredential | None]
"""(user name or token id, whether it is a delegation token) -> its credential; None if it does not exist."""


@dataclass(frozen=True, slots=True)
class Decoys:
    """The answer for an unknown user: a salt and iterations like those of existing users."""

    key: bytes = field(repr=False)
    iterations: int = MIN_ITERATIONS
    salt_bytes: int = USUAL_SALT_BYTES

    def salt(self, name: str) -> bytes:
        return hmac.digest(self.key, name.encode(errors="replace"), "sha512")[: self.salt_bytes]


def decoys_like(credentials: Iterable[tuple[str, bytes, bytes, int]]) -> Decoys:
    """Decoys like the (user, salt, server key, iterations) of a mechanism's users.

    All brokers of a cluster give an unknown user the same salt, since they share these keys. No client knows all of
    them, so none can tell such a salt from a stored one."""
    digest = hashlib.sha512()
    iterations: Counter[int] = Counter()
    sizes: Counter[int] = Counter()
    for user, salt, server_key, count in sorted(credentials):
        digest.update(user.encode(errors="replace") + b"\0" + server_key)
        iterations[count] += 1
        sizes[len(salt)] += 1
    if not iterations:
        return Decoys(digest.digest())
    return Decoys(digest.digest(), iterations.most_common(1)[0][0], min(64, sizes.most_common(1)[0][0]))


class ScramServer:
    """One login by SCRAM."""

    def __init__(self, mechanism: str, find: FindCredential, decoys: Decoys, rng: Random) -> None:
        self._hash = MECHANISMS[mechanism]
        self._find = find
        self._decoys = decoys
        self._nonce = b64encode(rng.randbytes(NONCE_BYTES)).decode()
        self._credential: StoredCredential | None = None
        self._is_token = False
        self._salt = b""
        self._iterations = 0
        self._gs2_header = self._client_first = self._server_first = ""
        self.identity: Identity | None = None
        self.claimed = ""
        self.failure: str | None = None

    def wanted_token(self, message: bytes) -> str | None:
        """The id of the delegation token that a client-first message names; None for any other message."""
        if self._server_first or len(message) > MAX_MESSAGE_BYTES or b",tokenauth=" not in message:
            return None
        try:
            fields = _fields(message.decode().split(",", 2)[2])
            return _unescaped(fields["n"]) if _is_token_login(fields) else None
        except (LoginRefused, UnicodeDecodeError, IndexError, KeyError):
            return None

    def respond(self, token: bytes, timestamp: int) -> bytes:
        if len(token) > MAX_MESSAGE_BYTES:
            raise LoginRefused(f"a SCRAM message of {len(token)} bytes; at most {MAX_MESSAGE_BYTES} are taken")
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise LoginRefused("a SCRAM message that is no text") from None
        if not self._server_first:
            return self._begin(text)
        return self._finish(text, timestamp)

    def _begin(self, text: str) -> bytes:
        binding, _, rest = text.partition(",")
        authorization, comma, bare = rest.partition(",")
        fields = _fields(bare)
        if binding != "n" or not comma or list(fields)[:2] != ["n", "r"] or not fields["n"] or not fields["r"]:
            raise LoginRefused("a SCRAM client-first message that is not n,[a=USER],n=USER,r=NONCE")
        name = _unescaped(fields["n"])
        self.claimed = name
        self._is_token = _is_token_login(fields)
        if authorization and authorization != f"a={fields['n']}":
            message = "Authentication failed: Client requested an authorization id that is different from username"
            raise LoginRefused(message, message)
        found = self._credential = self._find(name, self._is_token)
        decoy_salt = self._decoys.salt(name)  # also made if it is not needed: it takes time
        salt, iterations = (
            (found.salt, found.iterations) if found is not None else (decoy_salt, self._decoys.iterations)
        )
        if iterations < MIN_ITERATIONS:
            raise LoginRefused(f"the stored credential has {iterations} iterations; at least {MIN_ITERATIONS} are used")
        self._gs2_header = f"{binding},{authorization},"
        self._client_first = bare
        self._nonce = fields["r"] + self._nonce
        self._server_first = f"r={self._nonce},s={b64encode(salt).decode()},i={iterations}"
        return self._server_first.encode()

    def _finish(self, text: str, timestamp: int) -> bytes:
        without_proof, _, proof_text = text.rpartition(",p=")
        fields = _fields(without_proof)
        if list(fields)[:2] != ["c", "r"]:
            raise LoginRefused("a SCRAM client-final message that is not c=BINDING,r=NONCE,p=PROOF")
        if _decoded(fields["c"]) != self._gs2_header.encode():
            raise LoginRefused("the SCRAM channel binding changed between the client's messages")
        if not hmac.compare_digest(fields["r"].encode(), self._nonce.encode()):
            raise LoginRefused("the SCRAM nonce is not the one of this login")
        credential = self._credential
        stored_key = credential.stored_key if credential is not None else self._decoys.key
        signed = f"{self._client_first},{self._server_first},{without_proof}".encode()
        signature = hmac.digest(stored_key, signed, self._hash)
        proof = _decoded(proof_text)
        if len(proof) != len(signature):
            raise LoginRefused("the SCRAM proof has a wrong length")
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        is_right = hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), stored_key)
        if credential is None or not is_right:
            raise LoginRefused(self._why())
        if credential.expires_at is not None and credential.expires_at <= timestamp:
            raise LoginRefused("the delegation token has expired")
        self.identity = Identity(credential.principal, credential.expires_at)
        return b"v=" + b64encode(hmac.digest(credential.server_key, signed, self._hash))

    def _why(self) -> str:
        what = "delegation token" if self._is_token else "user with a SCRAM credential"
        return f"there is no such {what}" if self._credential is None else "the password is wrong"


def _fields(text: str) -> dict[str, str]:
    """`name=value,...` in order. An attribute given twice and the mandatory extension `m` are refused."""
    fields: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or name in fields or name == "m":
            raise LoginRefused("a SCRAM message that is no list of name=value, or asks for an unknown extension")
        fields[name] = value
    return fields


def _is_token_login(fields: dict[str, str]) -> bool:
    return fields.get("tokenauth", "").lower() == "true"


def _unescaped(name: str) -> str:
    """RFC 5802: a comma is written =2C and an equals sign =3D."""
    if "=" in name.replace("=2C", "").replace("=3D", ""):
        raise LoginRefused("a SCRAM user name with an equals sign that is not escaped")
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise LoginRefused("a SCRAM message with a value that is no base64") from None

"""Tokens that a broker accepts, and every way known to forge one (CVE-2026-110985, CVE-2026-33557)."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable
from typing import Any

import pytest

from ottla.security.jwt import MAX_TOKEN_LENGTH, TokenRules, UnknownKey, validate
from ottla.security.login import Identity, LoginRefused
from ottla.security.principal import Principal
from ottla.security.signatures import KeySet, KeySetError, parse_key_set
from tests.signed_tokens import SigningKey, base64url, key_set, unsigned

NOW_S = 1_700_000_000
RULES = TokenRules("https://issuer", ("kafka", "other"))
CLAIMS: dict[str, Any] = {
    "sub": "alice",
    "iss": "https://issuer",
    "aud": "kafka",
    "iat": NOW_S - 60,
    "exp": NOW_S + 600,
    "scope": "read write",
}
KEY = SigningKey("one")
STRANGER = SigningKey("one")
"""A key with the same name that is not in the key set."""
CURVES = {algorithm: SigningKey(algorithm, algorithm) for algorithm in ("ES256", "ES384", "ES512")}
KEYS = parse_key_set(key_set(KEY.entry(), *(key.entry() for key in CURVES.values())))


def check(token: str, rules: TokenRules = RULES, keys: KeySet = KEYS) -> Identity:
    return validate(token, keys, rules, NOW_S * 1000)


def claims(**changed: Any) -> dict[str, Any]:
    return {name: value for name, value in {**CLAIMS, **changed}.items() if value is not None}


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", *CURVES])
def test_a_token_signed_with_a_key_of_the_set_is_accepted(algorithm: str) -> None:
    key = CURVES.get(algorithm, KEY)
    assert check(key.token(CLAIMS, alg=algorithm)) == Identity(Principal("User", "alice"), (NOW_S + 600) * 1000)


def hmac_with(secret: bytes) -> str:
    """The classic: the public key, which anyone has, as the secret of an HMAC."""
    signed = unsigned({"alg": "HS256", "kid": "one", "typ": "JWT"}, CLAIMS)
    return f"{signed}.{base64url(hmac.digest(secret, signed.encode(), 'sha256'))}"


def changed_payload() -> str:
    header, _, signature = KEY.token(CLAIMS).split(".")
    return f"{header}.{base64url(json.dumps(claims(sub='admin')).encode())}.{signature}"


def with_header(**header: Any) -> str:
    """Signed rightly, with this said in the header."""
    signed = unsigned({"alg": "RS256", "kid": "one", **header}, CLAIMS)
    return f"{signed}.{base64url(KEY.sign('RS256', signed.encode()))}"


FORGED: dict[str, Callable[[], str]] = {
    "alg none": lambda: unsigned({"alg": "none"}, CLAIMS) + ".",
    "alg none with a signature": lambda: unsigned({"alg": "none", "kid": "one"}, CLAIMS) + ".AAAA",
    "alg NONE": lambda: with_header(alg="NONE"),
    "no alg": lambda: with_header(alg=None),
    "alg no text": lambda: with_header(alg=["RS256"]),
    "HS256 with the public key": lambda: hmac_with(KEY.public_pem()),
    "HS256 with the modulus": lambda: hmac_with(KEY.entry()["n"].encode()),
    "HS256 with nothing": lambda: hmac_with(b""),
    "unknown kid": lambda: KEY.token(CLAIMS, kid="two"),
    "no kid where several keys are": lambda: CURVES["ES256"].token(CLAIMS, kid=None, alg="ES256")[:-8] + "AAAAAAAA",
    "kid no text": lambda: KEY.token(CLAIMS, kid=1),
    "kid of a key of another kind": lambda: KEY.token(CLAIMS, kid="ES256"),
    "a stranger's key of the same name": lambda: STRANGER.token(CLAIMS),
    "a key in the header (jwk)": lambda: STRANGER.token(CLAIMS, jwk=STRANGER.entry()),
    "an address in the header (jku)": lambda: STRANGER.token(CLAIMS, jku="https://attacker/keys"),
    "critical headers": lambda: KEY.token(CLAIMS, crit=["exp"]),
    "changed claims": changed_payload,
    "no signature": lambda: KEY.token(CLAIMS).rpartition(".")[0] + ".",
    "two parts": lambda: KEY.token(CLAIMS).rpartition(".")[0],
    "five parts": lambda: "a.b.c.d.e",
    "another algorithm than was signed": lambda: with_header(alg="RS512"),
    "PSS for PKCS1": lambda: with_header(alg="PS256"),
    "ES256 all zeros": lambda: unsigned({"alg": "ES256", "kid": "ES256"}, CLAIMS) + "." + base64url(bytes(64)),
    "ES256 of a wrong length": lambda: unsigned({"alg": "ES256", "kid": "ES256"}, CLAIMS) + "." + base64url(bytes(8)),
    "expired": lambda: KEY.token(claims(exp=NOW_S - 31)),
    "expired long ago": lambda: KEY.token(claims(exp=1, iat=0)),
    "no exp": lambda: KEY.token(claims(exp=None)),
    "exp no number": lambda: KEY.token(claims(exp="9999999999")),
    "exp true": lambda: KEY.token(claims(exp=True)),
    "exp infinite": lambda: KEY.token(claims(exp=float("inf"))),
    "exp not a number": lambda: KEY.token(claims(exp=float("nan"))),
    "no iat": lambda: KEY.token(claims(iat=None)),
    "exp before iat": lambda: KEY.token(claims(iat=NOW_S + 601)),
    "not valid yet": lambda: KEY.token(claims(nbf=NOW_S + 31)),
    "another issuer": lambda: KEY.token(claims(iss="https://attacker")),
    "no issuer": lambda: KEY.token(claims(iss=None)),
    "issuer a list": lambda: KEY.token(claims(iss=["https://issuer"])),
    "another audience": lambda: KEY.token(claims(aud="grafana")),
    "another audience in a list": lambda: KEY.token(claims(aud=["grafana", "kafk"])),
    "no audience": lambda: KEY.token(claims(aud=None)),
    "audience an object": lambda: KEY.token(claims(aud={"kafka": 1})),
    "no subject": lambda: KEY.token(claims(sub=None)),
    "empty subject": lambda: KEY.token(claims(sub=" ")),
    "subject a list": lambda: KEY.token(claims(sub=["alice"])),
    "scope a number": lambda: KEY.token(claims(scope=1)),
    "claims no object": lambda: "eyJhbGciOiJSUzI1NiJ9.W10.AAAA",
    "padding": lambda: KEY.token(CLAIMS) + "==",
    "white space": lambda: KEY.token(CLAIMS) + "\n",
    "too large": lambda: KEY.token(claims(more="x" * MAX_TOKEN_LENGTH)),
    "deep": lambda: base64url(b"[" * 40_000) + ".e30.AAAA",
    "empty": lambda: "",
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_cve_2026_110985_and_33557_a_token_that_is_forged_expired_or_meant_for_another_is_refused(
    forge: Callable[[], str],
) -> None:
    with pytest.raises(LoginRefused) as refused:
        check(forge())
    assert len(refused.value.reason) < 300
    assert refused.value.public_message is None


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_cve_2026_110985_without_keys_no_token_is_accepted(forge: Callable[[], str]) -> None:
    for token in (forge(), KEY.token(CLAIMS)):
        with pytest.raises(LoginRefused):
            check(token, keys=KeySet())


def test_a_repeated_claim_is_refused() -> None:
    payload = json.dumps(CLAIMS)[:-1] + ', "sub": "admin"}'
    header = json.dumps({"alg": "RS256", "kid": "one"})
    signed = f"{base64url(header.encode())}.{base64url(payload.encode())}"
    with pytest.raises(LoginRefused, match="cannot be read"):
        check(f"{signed}.{base64url(KEY.sign('RS256', signed.encode()))}")


def test_a_token_without_kid_is_accepted_if_one_key_alone_is_for_its_algorithm() -> None:
    assert check(KEY.token(CLAIMS, kid=None)).principal.name == "alice"
    two = parse_key_set(key_set(KEY.entry(), STRANGER.entry(kid="two")))
    with pytest.raises(UnknownKey):
        check(KEY.token(CLAIMS, kid=None), keys=two)


def test_clocks_may_differ_by_the_skew() -> None:
    check(KEY.token(claims(exp=NOW_S - 29)))
    check(KEY.token(claims(nbf=NOW_S + 30)))
    with pytest.raises(LoginRefused, match="expired"):
        check(KEY.token(claims(exp=NOW_S - 1)), TokenRules("https://issuer", ("kafka",), clock_skew_seconds=0))


def test_without_an_expected_audience_a_token_for_an_audience_is_refused_as_in_kafka() -> None:
    rules = TokenRules()
    assert check(KEY.token(claims(aud=None, iss=None)), rules).principal.name == "alice"
    with pytest.raises(LoginRefused, match=r"set sasl\.oauthbearer\.expected\.audience"):
        check(KEY.token(CLAIMS), rules)


def test_another_claim_may_name_the_user() -> None:
    rules = TokenRules("https://issuer", ("kafka",), subject_claim="preferred_username")
    assert check(KEY.token(claims(preferred_username="bob")), rules).principal.name == "bob"
    with pytest.raises(LoginRefused, match="preferred_username"):
        check(KEY.token(CLAIMS), rules)


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [{"kty": "oct", "k": "c2VjcmV0", "kid": "one"}],
        [KEY.entry(use="enc")],
        [KEY.entry(alg="HS256")],
        [KEY.entry(n="!")],
        [KEY.entry(kid=1)],
        [{"kty": "EC", "crv": "P-256", "x": "AQ", "y": "AQ", "kid": "one"}],
        [{"kty": "EC", "crv": "secp256k1", "x": "AQ", "y": "AQ"}],
        [SigningKey("one", bits=1024).entry()],
        ["text", 1, None],
        [KEY.entry()] * 101,
    ],
)
def test_a_key_set_without_a_usable_key_is_refused(entries: list[Any]) -> None:
    with pytest.raises(KeySetError):
        parse_key_set(key_set(*entries))


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"keys": 1}', b"\xff", b"[" * 100_000])
def test_what_is_no_key_set_is_refused(text: bytes) -> None:
    with pytest.raises(KeySetError):
        parse_key_set(text)


def test_an_algorithm_in_the_key_set_is_the_only_one_for_its_key() -> None:
    keys = parse_key_set(key_set(KEY.entry(alg="RS512")))
    check(KEY.token(CLAIMS, alg="RS512"), keys=keys)
    with pytest.raises(UnknownKey):
        check(KEY.token(CLAIMS), keys=keys)

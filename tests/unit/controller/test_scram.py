"""SCRAM credentials in the metadata log."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

from .clusters import Cluster

SHA_256, SHA_512 = 1, 2
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
NONCE = b"r=rOprNGfwEbeRWgbNEkqO"
WHOLE_NONCE = NONCE + b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
EXCHANGE = b"n=user," + NONCE + b"," + WHOLE_NONCE + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws," + WHOLE_NONCE
"""What client and server say in the example of RFC 7677, section 3."""


def put(name: str, mechanism: int = SHA_256, iterations: int = 4096) -> ScramCredentialUpsertion:
    algorithm = "sha256" if mechanism == SHA_256 else "sha512"
    salted = hashlib.pbkdf2_hmac(algorithm, b"pencil", SALT, iterations)
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=SALT, salted_password=salted
    )


def drop(name: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter(cluster: Cluster, *changes: ScramCredentialUpsertion | ScramCredentialDeletion) -> dict[str, ErrorCode]:
    request = AlterUserScramCredentialsRequest(
        deletions=[change for change in changes if isinstance(change, ScramCredentialDeletion)],
        upsertions=[change for change in changes if isinstance(change, ScramCredentialUpsertion)],
    )
    reply = cluster.commit(cluster.controller.alter_user_scram_credentials(request))
    return {result.user: ErrorCode(result.error_code) for result in reply.results}


def test_with_what_is_stored_the_example_of_rfc_7677_is_accepted() -> None:
    cluster = Cluster(1)
    assert alter(cluster, put("user")) == {"user": ErrorCode.NONE}
    record = cluster.image.scram["user", SHA_256]
    signature = hmac.digest(record.stored_key, EXCHANGE, "sha256")
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
    assert hashlib.sha256(client_key).digest() == record.stored_key
    server_signature = hmac.digest(record.server_key, EXCHANGE, "sha256")
    assert base64.b64encode(server_signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert (record.salt, record.iterations) == (SALT, 4096)


def test_credentials_are_set_replaced_and_removed() -> None:
    cluster = Cluster(1)
    assert alter(cluster, put("alice"), put("bob", SHA_512)) == {"alice": ErrorCode.NONE, "bob": ErrorCode.NONE}
    assert alter(cluster, put("alice", SHA_512, 8192)) == {"alice": ErrorCode.NONE}
    assert sorted(cluster.image.scram) == [("alice", SHA_256), ("alice", SHA_512), ("bob", SHA_512)]
    assert len(cluster.image.scram["bob", SHA_512].stored_key) == 64
    assert alter(cluster, drop("alice"), put("bob", SHA_256)) == {"alice": ErrorCode.NONE, "bob": ErrorCode.NONE}
    assert sorted(cluster.image.scram) == [("alice", SHA_512), ("bob", SHA_256), ("bob", SHA_512)]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (put("", SHA_256), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (put("a", SHA_256, 4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (put("a", SHA_256, 16_385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (
            ScramCredentialUpsertion(name="a", mechanism=1, iterations=4096, salt=SALT),
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
        ),
        (put("a", 3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (drop("a", 0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (drop("a"), ErrorCode.RESOURCE_NOT_FOUND),
    ],
)
def test_what_cannot_be_is_refused(
    change: ScramCredentialUpsertion | ScramCredentialDeletion, expected: ErrorCode
) -> None:
    cluster = Cluster(1)
    assert alter(cluster, change) == {change.name: expected}
    assert cluster.image.scram == {}


def test_a_user_is_altered_once_in_a_request() -> None:
    cluster = Cluster(1)
    alter(cluster, put("alice"))
    twice: list[ScramCredentialUpsertion | ScramCredentialDeletion] = [
        put("alice"),
        put("alice", SHA_512),
        drop("alice"),
    ]
    assert alter(cluster, *twice, put("bob")) == {"bob": ErrorCode.NONE, "alice": ErrorCode.DUPLICATE_RESOURCE}
    assert sorted(cluster.image.scram) == [("alice", SHA_256), ("bob", SHA_256)]

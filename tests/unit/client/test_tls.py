"""Trust stores, key stores and handshakes, in memory: client and broker exchange their bytes without a socket."""

from __future__ import annotations

import os
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ottla.client.config import ClientConfig
from ottla.client.errors import ConfigError, KafkaError, NetworkError, TlsError, is_retriable
from ottla.client.tls import tls_context
from ottla.client.tls_failures import explain_failure
from ottla.security.stores import StoreError, read_pem, read_store

FILES = Path(__file__).parents[2] / "vectors" / "tls"
PASSWORD = "store-secret"
TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(FILES / "ca.pem")}
CLIENT = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(FILES / "client.pem")}


def config(settings: dict[str, Any]) -> ClientConfig:
    return ClientConfig.parse({"bootstrap.servers": "a:1", "security.protocol": "SSL", **settings})


def broker(certificate: str = "broker", *, wants_client: bool = False, **limits: Any) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FILES / f"{certificate}.pem")
    context.load_verify_locations(FILES / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED if wants_client else ssl.CERT_NONE
    for name, value in limits.items():
        setattr(context, name, value)
    return context


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, host: str = "127.0.0.1") -> ssl.SSLObject:
    """Both sides' steps in turn until the client is done and has read once; what fails at the client is raised."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=host)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(6):
        with suppress(ssl.SSLWantReadError):
            ours.do_handshake()
            ours.read(1)
        with suppress(ssl.SSLError):  # the client learns it from the alert that the server sends
            theirs.do_handshake()
            theirs.write(b"x")
    return ours


def failure(client: dict[str, Any], server: ssl.SSLContext, host: str = "127.0.0.1") -> KafkaError:
    with pytest.raises(ssl.SSLError) as failed:
        shake_hands(tls_context(config(client)), server, host)
    return explain_failure(failed.value, host, 9093)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "broker.test"])
def test_a_broker_is_trusted_by_its_ca_and_its_name(host: str) -> None:
    assert shake_hands(tls_context(config(TRUST)), broker(), host).version() == "TLSv1.3"


@pytest.mark.parametrize(
    "trust",
    [
        {"ssl.truststore.location": str(FILES / "trust.jks"), "ssl.truststore.password": PASSWORD},
        {"ssl.truststore.location": str(FILES / "trust.jks")},
        {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": (FILES / "ca.pem").read_text()},
        {"ssl.truststore.certificates": " ".join((FILES / "ca.pem").read_text().split())},
        {"ssl.ca.location": str(FILES / "ca.pem")},
    ],
    ids=["jks", "jks without a password", "text", "text in one line", "librdkafka"],
)
def test_a_trust_store_in_every_form(trust: dict[str, Any]) -> None:
    shake_hands(tls_context(config(trust)), broker())


@pytest.mark.parametrize(
    "identity",
    [
        CLIENT,
        {"ssl.keystore.location": str(FILES / "client.jks"), "ssl.keystore.password": PASSWORD},
        {"ssl.keystore.location": str(FILES / "client-encrypted.pem"), "ssl.key.password": PASSWORD},
        {
            "ssl.keystore.key": (FILES / "client.pem").read_text(),
            "ssl.keystore.certificate.chain": (FILES / "client.pem").read_text(),
        },
        {"ssl.certificate.location": str(FILES / "client.pem"), "ssl.key.location": str(FILES / "client.pem")},
    ],
    ids=["pem", "jks", "encrypted", "text", "librdkafka"],
)
def test_a_key_store_in_every_form(identity: dict[str, Any]) -> None:
    shake_hands(tls_context(config({**TRUST, **identity})), broker(wants_client=True))


def test_pkcs12_stores() -> None:
    pytest.importorskip("cryptography")
    settings = {"ssl.truststore.location": str(FILES / "trust.p12"), "ssl.truststore.password": PASSWORD}
    settings |= {"ssl.keystore.location": str(FILES / "client.p12"), "ssl.keystore.password": PASSWORD}
    shake_hands(tls_context(config(settings)), broker(wants_client=True))
    with pytest.raises(ConfigError, match=r"trust\.p12 cannot be read: its password is wrong"):
        tls_context(config({**settings, "ssl.truststore.password": "wrong"}))


def test_a_pkcs12_store_that_is_encrypted_in_an_unknown_way(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cryptography")
    from cryptography.exceptions import UnsupportedAlgorithm

    def load(*_: Any) -> Any:
        raise UnsupportedAlgorithm("RC2")

    monkeypatch.setattr("ottla.security.asymmetric.load_pkcs12", load)
    with pytest.raises(StoreError, match="not known here: RC2"):
        read_store((FILES / "trust.p12").read_bytes(), PASSWORD, None, "x.p12", wants_key=False)


def test_pkcs12_without_the_package_says_what_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ottla.security.asymmetric", None)
    with pytest.raises(StoreError, match=r"pip install 'ottla\[pkcs12\]'.*openssl pkcs12 -in x\.p12"):
        read_store((FILES / "trust.p12").read_bytes(), PASSWORD, None, "x.p12", wants_key=False)


def test_jks_gives_what_pem_has() -> None:
    pem = read_pem((FILES / "client.pem").read_text())
    jks = read_store((FILES / "client.jks").read_bytes(), PASSWORD, None, "x", wants_key=True)
    assert jks.key == pem.key
    assert jks.certificates[0] == pem.certificates[0]


@pytest.mark.parametrize("size", [*range(0, 925, 37), 924])
def test_a_jks_that_is_cut_off_is_refused(size: int) -> None:
    whole = (FILES / "client.jks").read_bytes()
    for password in (None, PASSWORD):
        with pytest.raises(StoreError):
            read_store(whole[:size], password, PASSWORD, "x", wants_key=True)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"ssl.truststore.location": "/nowhere/ca.pem"}, r"ssl\.truststore\.location /nowhere/ca\.pem cannot be read"),
        ({"ssl.ca.location": str(FILES / "make.py")}, "neither PEM nor PKCS12 nor JKS"),
        ({**TRUST, "ssl.ca.location": str(FILES / "ca.pem")}, "say the same thing twice"),
        ({"ssl.truststore.certificates": "none"}, "holds no certificate"),
        ({"ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----*-----END CERTIFICATE-----"}, "no base64"),
        ({"ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----aGk=-----END CERTIFICATE-----"}, "no certificate"),
        ({"ssl.truststore.location": str(FILES / "trust.jks"), "ssl.truststore.password": "hush"}, "password is wrong"),
        ({"ssl.keystore.location": str(FILES / "ca.pem")}, "no private key in it"),
        ({"ssl.keystore.location": str(FILES / "client-encrypted.pem")}, "ssl.key.password has to be set"),
        (
            {"ssl.keystore.location": str(FILES / "client-encrypted.pem"), "ssl.key.password": "hush"},
            "is ssl.key.password right",
        ),
        (
            {"ssl.keystore.location": str(FILES / "client.jks"), "ssl.key.password": "hush"},
            "password of its private key",
        ),
        (
            {"ssl.certificate.location": str(FILES / "ca.pem"), "ssl.key.location": str(FILES / "client.pem")},
            "cannot be used together",
        ),
    ],
)
def test_what_cannot_be_used_names_the_setting(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as failed:
        tls_context(config(settings))
    assert "hush" not in str(failed.value)


def test_a_renewed_file_is_read_and_an_old_one_is_not(tmp_path: Path) -> None:
    file = tmp_path / "client.pem"
    file.write_bytes((FILES / "client-expired.pem").read_bytes())
    settings = config({**TRUST, "ssl.keystore.location": str(file)})
    first = tls_context(settings)
    assert tls_context(settings) is first
    file.write_bytes((FILES / "client.pem").read_bytes())
    os.utime(file, ns=(1, 1))
    assert tls_context(settings) is not first


@pytest.mark.parametrize(
    ("client", "server", "host", "expected"),
    [
        ({}, broker(), "127.0.0.1", r"signed by no CA that this client trusts.*put the certificate of its CA"),
        (TRUST, broker("broker-expired"), "127.0.0.1", "has expired: it has to be renewed on the broker"),
        (TRUST, broker("broker-elsewhere"), "127.0.0.1", r"for another name than 127\.0\.0\.1.*ssl\.endpoint\.ident"),
        (TRUST, broker("broker-elsewhere"), "localhost", "for another name than localhost"),
        (TRUST, broker(wants_client=True), "127.0.0.1", "wants a certificate of this client"),
        (
            {**TRUST, "ssl.keystore.location": str(FILES / "client-of-another.pem")},
            broker(wants_client=True),
            "127.0.0.1",
            "does not trust this client's certificate",
        ),
        (
            {**TRUST, "ssl.keystore.location": str(FILES / "client-expired.pem")},
            broker(wants_client=True),
            "127.0.0.1",
            "this client's certificate has expired",
        ),
        (
            {**TRUST, "ssl.enabled.protocols": "TLSv1.2"},
            broker(minimum_version=ssl.TLSVersion.TLSv1_3),
            "127.0.0.1",
            "no version of TLS that ssl.enabled.protocols names",
        ),
    ],
)
def test_a_handshake_that_fails_says_why_and_what_to_do(
    client: dict[str, Any], server: ssl.SSLContext, host: str, expected: str
) -> None:
    error = failure(client, server, host)
    assert isinstance(error, TlsError)
    assert not is_retriable(error)
    with pytest.raises(TlsError, match=f"{host}:9093.*{expected}"):
        raise error


def test_the_check_of_names_can_be_turned_off() -> None:
    settings = {**TRUST, "ssl.endpoint.identification.algorithm": ""}
    shake_hands(tls_context(config(settings)), broker("broker-elsewhere"))


def test_a_server_that_speaks_something_else() -> None:
    incoming = ssl.MemoryBIO()
    incoming.write(b"HTTP/1.1 400 Bad Request\r\n")
    client = tls_context(config(TRUST)).wrap_bio(incoming, ssl.MemoryBIO(), server_hostname="localhost")
    with pytest.raises(ssl.SSLError) as failed:
        client.do_handshake()
    with pytest.raises(TlsError, match=r"does not speak TLS: set security\.protocol to PLAINTEXT"):
        raise explain_failure(failed.value, "localhost", 9092)


def test_a_connection_that_ends_in_the_handshake_may_be_tried_again() -> None:
    error = explain_failure(ConnectionResetError(), "localhost", 9092)
    assert isinstance(error, NetworkError)
    assert "does this listener speak TLS" in str(error)

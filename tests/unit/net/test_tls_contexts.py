"""Settings to TLS contexts: every kind of store, versions and ciphers, as a listener and as a client."""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ottla.net.tls_contexts import (
    TlsSettings,
    TlsSettingsError,
    client_context,
    server_context,
    shaken_context,
    stamp,
    trusted_certificates,
)
from ottla.security.stores import read_pem

FILES = Path(__file__).parents[2] / "vectors" / "tls"
PASSWORD = "store-secret"
CA = stamp("trust", str(FILES / "ca.pem"))
CLIENT = read_pem((FILES / "client.pem").read_text())


def file(name: str) -> Any:
    return stamp("ssl.keystore.location", str(FILES / name))


def shaken(server: TlsSettings, client: TlsSettings) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends of a connection after their handshake, in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client_context(client._replace(checks_name=False)).wrap_bio(to_client, to_server),
        server_context(server).wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(4):
        for end in ends:
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    return ends


@pytest.mark.parametrize(
    "settings",
    [
        TlsSettings(keystore=file("client.jks"), keystore_password=PASSWORD),
        TlsSettings(keystore=file("client.p12"), keystore_password=PASSWORD),
        TlsSettings(keystore=file("client.pem")),
        TlsSettings(keystore=file("client-encrypted.pem"), key_password=PASSWORD),
        TlsSettings(keystore_key=CLIENT.key, keystore_certificate_chain="".join(CLIENT.certificates)),
    ],
    ids=["jks", "pkcs12", "pem", "encrypted pem", "inline"],
)
def test_a_listener_has_its_key_from_every_kind_of_store(settings: TlsSettings) -> None:
    if settings.keystore is not None and settings.keystore.path.endswith("p12"):
        pytest.importorskip("cryptography")
    client, server = shaken(settings, TlsSettings(truststore=CA))
    assert client.version() == server.version() == "TLSv1.3"
    certificate = client.getpeercert()
    assert certificate is not None and certificate["subject"] == ((("commonName", "client"),),)


@pytest.mark.parametrize(("name", "password"), [("trust.jks", PASSWORD), ("trust.p12", PASSWORD), ("ca.pem", None)])
def test_a_listener_trusts_clients_by_every_kind_of_store(name: str, password: str | None) -> None:
    if name.endswith("p12"):
        pytest.importorskip("cryptography")
    trust = TlsSettings(keystore=file("broker.pem"), truststore=file(name), truststore_password=password)
    _, server = shaken(trust._replace(client_auth="required"), TlsSettings(truststore=CA, keystore=file("client.pem")))
    assert server.getpeercert(binary_form=True)


def test_a_listener_without_a_key_is_refused() -> None:
    with pytest.raises(TlsSettingsError, match=r"ssl\.keystore\.location"):
        server_context(TlsSettings(truststore=CA))


@pytest.mark.parametrize(
    ("suites", "version", "cipher"),
    [
        (("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",), "TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        (("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",), "TLSv1.2", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        (("ECDHE-ECDSA-AES256-GCM-SHA384",), "TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        (
            ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"),
            "TLSv1.3",
            "TLS_AES_256_GCM_SHA384",
        ),
    ],
)
def test_ciphers_are_named_as_in_java_or_as_in_openssl(suites: tuple[str, ...], version: str, cipher: str) -> None:
    client, _ = shaken(TlsSettings(keystore=file("broker.pem"), cipher_suites=suites), TlsSettings(truststore=CA))
    found = client.cipher()
    assert client.version() == version and found is not None and found[0] == cipher


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"cipher_suites": ("TLS_AES_128_GCM_SHA256",)}, "cannot choose among the ciphers of TLS 1.3"),
        ({"cipher_suites": ("TLS_NO_WITH_SUCH",)}, "OpenSSL knows none"),
        (
            {"cipher_suites": ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",), "protocols": ("TLSv1.3",)},
            "has no cipher of a version",
        ),
    ],
)
def test_ciphers_that_cannot_be_had_are_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(TlsSettingsError, match=reason):
        server_context(TlsSettings(keystore=file("broker.pem"))._replace(**settings))


def test_a_store_that_does_not_trust_itself_fails_the_handshake_with_itself() -> None:
    shaken_context(TlsSettings(keystore=file("broker.pem"), truststore=CA, client_auth="required"))
    shaken_context(TlsSettings(keystore=file("broker.pem")))
    with pytest.raises(TlsSettingsError, match="a handshake of the key store with itself failed"):
        shaken_context(TlsSettings(keystore=file("client-of-another.pem"), truststore=CA))
    with pytest.raises(TlsSettingsError, match="a handshake of the key store with itself failed"):
        shaken_context(TlsSettings(keystore=file("broker-expired.pem"), truststore=CA))


def test_the_same_settings_share_a_context_and_a_changed_file_makes_another(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_text((FILES / "broker.pem").read_text())
    first = server_context(TlsSettings(keystore=stamp("x", str(path))))
    assert server_context(TlsSettings(keystore=stamp("x", str(path)))) is first
    path.write_text((FILES / "broker-elsewhere.pem").read_text())
    assert server_context(TlsSettings(keystore=stamp("x", str(path)))) is not first


def test_no_secret_is_in_the_text_of_settings() -> None:
    settings = TlsSettings(truststore=CA, keystore_password="very-secret", key_password="very-secret")
    assert "very-secret" not in repr(settings) and "very-secret" not in str(settings)
    assert "CERTIFICATE" in (trusted_certificates(settings) or "")

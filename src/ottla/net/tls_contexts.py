"""TLS settings made into contexts of OpenSSL, for clients and for listeners.

Contexts are kept and shared by all connections with the same settings and files. When a file changes (a renewed
certificate), the next connection gets a new context; the process need not restart.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple

from ottla.security.stores import MAX_STORE_BYTES, Store, StoreError, read_pem, read_store

TLS_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
TLS_13_CIPHERS = frozenset(["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"])
CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_NO_RENEGOTIATION: int = getattr(ssl, "OP_NO_RENEGOTIATION", 0)


class TlsSettingsError(ValueError):
    """Which setting is wrong, and why; never a secret."""


class FileStamp(NamedTuple):
    """A file's identity and time of change, to see whether it has changed."""

    path: str
    changed_at_ns: int
    size: int


class TlsSettings(NamedTuple):
    """The settings and files of a context."""

    truststore: FileStamp | None = None
    truststore_password: str | None = None
    truststore_certificates: str | None = None
    ca: FileStamp | None = None
    keystore: FileStamp | None = None
    keystore_password: str | None = None
    keystore_key: str | None = None
    keystore_certificate_chain: str | None = None
    certificate: FileStamp | None = None
    key: FileStamp | None = None
    key_password: str | None = None
    checks_name: bool = True
    protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] = ()
    client_auth: str = "none"
    """Of a listener: none, requested or required."""

    def __repr__(self) -> str:
        return "TlsSettings(...)"  # passwords and a key are in it

    @property
    def has_key(self) -> bool:
        return any((self.keystore, self.keystore_key, self.keystore_certificate_chain, self.certificate, self.key))


def stamp(name: str, path: str | None) -> FileStamp | None:
    """The stamp of the file that a setting names; None without a path."""
    if not path:
        return None
    try:
        found = os.stat(path)
    except OSError as error:
        raise TlsSettingsError(f"{name} {path} cannot be read: {error.strerror}") from None
    if found.st_size > MAX_STORE_BYTES:
        raise TlsSettingsError(f"{name} {path} has {found.st_size} bytes: that is no store of certificates")
    return FileStamp(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=32)
def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context for connections to brokers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.checks_name
    _limit(context, settings)
    _trust(context, settings, ssl.Purpose.SERVER_AUTH)
    _identify(context, settings)
    return context


@lru_cache(maxsize=32)
def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context for the connections of a listener."""
    if not settings.has_key:
        raise TlsSettingsError(
            "ssl.keystore.location (or ssl.keystore.key) is not set: a listener with TLS needs a key"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= _NO_RENEGOTIATION
    context.verify_mode = CLIENT_AUTH[settings.client_auth]
    _limit(context, settings)
    if context.verify_mode is not ssl.CERT_NONE:
        _trust(context, settings, ssl.Purpose.CLIENT_AUTH)
    _identify(context, settings)
    return context


def shaken_context(settings: TlsSettings) -> ssl.SSLContext:
    """A listener's context after a handshake with itself, in memory: proof that key and certificate go together and,
    if the settings have a trust store, that this node trusts its own certificate."""
    server = server_context(settings)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    if settings.truststore is None and settings.truststore_certificates is None:
        client.verify_mode = ssl.CERT_NONE
    else:
        client = client_context(settings._replace(checks_name=False))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_side=False),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as error:
                reason = getattr(error, "verify_message", "") or error.reason or str(error)
                raise TlsSettingsError(
                    f"a handshake of the key store with itself failed: {reason}. The trust store must hold the CA that "
                    "signed the certificate of the key store"
                ) from None
    return server


def trusted_certificates(settings: TlsSettings) -> str | None:
    """The certificates of the CAs, as PEM; None: those of the system."""
    given = [
        name
        for name, value in (
            ("ssl.truststore.certificates", settings.truststore_certificates),
            ("ssl.truststore.location", settings.truststore),
            ("ssl.ca.location", settings.ca),
        )
        if value is not None
    ]
    if not given:
        return None
    name = _single(given)
    if settings.truststore_certificates is not None:
        store = _from_text(name, settings.truststore_certificates)
    else:
        file = settings.truststore or settings.ca
        assert file is not None
        store = _from_file(name, file, settings.truststore_password, None, wants_key=False)
    if not store.certificates:
        raise TlsSettingsError(f"{name} holds no certificate of a CA")
    return "".join(store.certificates)


def own_certificates(settings: TlsSettings) -> list[str]:
    """The certificates of the key store as PEM, the key's own first."""
    return _key_store(settings)[1].certificates


# Protocols and ciphers


def _limit(context: ssl.SSLContext, settings: TlsSettings) -> None:
    protocols = set(settings.protocols)
    if settings.cipher_suites:
        older = [_openssl_name(name) for name in settings.cipher_suites if name not in TLS_13_CIPHERS]
        newer = TLS_13_CIPHERS.intersection(settings.cipher_suites)
        if newer and newer != TLS_13_CIPHERS and "TLSv1.3" in protocols:
            raise TlsSettingsError(
                f"ssl.cipher.suites names {', '.join(sorted(newer))}: Python's ssl cannot choose among the ciphers of "
                f"TLS 1.3. Name all of {', '.join(sorted(TLS_13_CIPHERS))}, or none of them to have TLS 1.2 only"
            )
        protocols -= {name for name, ciphers in (("TLSv1.2", older), ("TLSv1.3", newer)) if not ciphers}
        if older:
            try:
                context.set_ciphers(":".join(older))
            except ssl.SSLError:
                raise TlsSettingsError(
                    f"ssl.cipher.suites: OpenSSL knows none of {', '.join(settings.cipher_suites)}"
                ) from None
    if not protocols:
        raise TlsSettingsError(
            f"ssl.cipher.suites ({', '.join(settings.cipher_suites)}) has no cipher of a version in "
            f"ssl.enabled.protocols ({', '.join(settings.protocols)})"
        )
    versions = sorted(TLS_VERSIONS[name] for name in protocols)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]


def _openssl_name(name: str) -> str:
    """OpenSSL's name of a cipher that Java calls TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256; names of OpenSSL stay."""
    if "_WITH_" not in name:
        return name
    exchange, _, cipher = name.removeprefix("TLS_").removeprefix("SSL_").partition("_WITH_")
    cipher = (
        cipher.replace("AES_128", "AES128")
        .replace("AES_256", "AES256")
        .replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    )
    cipher = cipher.replace("_CBC_SHA", "_SHA")
    exchange = "" if exchange == "RSA" else exchange + "_"
    return (exchange + cipher).replace("_", "-")


# What is trusted


def _trust(context: ssl.SSLContext, settings: TlsSettings, purpose: ssl.Purpose) -> None:
    # As in Java: every certificate in a trust store is trusted, even if it is not the root of a chain.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    trusted = trusted_certificates(settings)
    if trusted is None:
        context.load_default_certs(purpose)
        return
    try:
        context.load_verify_locations(cadata=trusted)
    except (ssl.SSLError, ValueError) as error:
        raise TlsSettingsError(f"the trust store has an entry that is no certificate: {error}") from None


# The key and certificate of this side


def _identify(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Give the context the certificate of this side, if the settings have one."""
    if not settings.has_key:
        return
    name, store = _key_store(settings)
    if store.key is None or not store.certificates:
        missing = "private key" if store.key is None else "certificate"
        raise TlsSettingsError(f"{name}: there is no {missing} in it; both it and its other half are needed")
    if store.key_is_encrypted and settings.key_password is None:
        raise TlsSettingsError(f"{name}: the private key is encrypted; ssl.key.password has to be set")
    password = (settings.key_password or "").encode()
    try:
        with _as_file(store.key + "".join(store.certificates)) as path:
            # Given always: without one OpenSSL would ask on the terminal.
            context.load_cert_chain(path, password=lambda: password)
    except (ssl.SSLError, ValueError) as error:
        if store.key_is_encrypted:
            raise TlsSettingsError(f"{name}: the private key cannot be read; is ssl.key.password right?") from None
        reason = getattr(error, "reason", None) or error
        raise TlsSettingsError(f"{name}: private key and certificate cannot be used together: {reason}") from None


def _key_store(settings: TlsSettings) -> tuple[str, Store]:
    """The setting that names the key, and what it holds."""
    pair = ("ssl.keystore.key and ssl.keystore.certificate.chain", "ssl.certificate.location and ssl.key.location")
    given = [
        name
        for name, values in (
            ("ssl.keystore.location", (settings.keystore,)),
            (pair[0], (settings.keystore_key, settings.keystore_certificate_chain)),
            (pair[1], (settings.certificate, settings.key)),
        )
        if any(value is not None for value in values)
    ]
    name = _single(given)
    if settings.keystore is not None:
        return name, _from_file(
            name, settings.keystore, settings.keystore_password, settings.key_password, wants_key=True
        )
    certificates, key = Store(), Store()
    if name == pair[0]:
        certificates = _from_text(name, settings.keystore_certificate_chain or "")
        key = _from_text(name, settings.keystore_key or "")
    else:
        if settings.certificate is not None:
            certificates = _from_file(name, settings.certificate, None, None, wants_key=True)
        key = certificates
        if settings.key is not None:
            key = _from_file(name, settings.key, None, None, wants_key=True)
    return name, Store(certificates.certificates, key.key, key.key_is_encrypted)


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Gives OpenSSL a key as a file, which is the only way it takes one: in memory if the system can, else for a moment
    on the disk.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("ottla")
        try:
            with open(descriptor, "w", closefd=False) as file:
                file.write(text)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile("w") as named:
            named.write(text)
            named.flush()
            yield named.name


def _single(given: list[str]) -> str:
    if len(given) > 1:
        raise TlsSettingsError(f"{' and '.join(given)} say the same thing twice: set one of them")
    return given[0]


def _from_text(name: str, text: str) -> Store:
    try:
        return read_pem(text)
    except StoreError as error:
        raise TlsSettingsError(f"{name} cannot be read: {error}") from None


def _from_file(name: str, file: FileStamp, password: str | None, key_password: str | None, *, wants_key: bool) -> Store:
    try:
        with open(file.path, "rb") as opened:
            content = opened.read(MAX_STORE_BYTES)
        return read_store(content, password, key_password, file.path, wants_key=wants_key)
    except OSError as error:
        raise TlsSettingsError(f"{name} {file.path} cannot be read: {error.strerror}") from None
    except StoreError as error:
        raise TlsSettingsError(f"{name} {file.path} cannot be read: {error}") from None

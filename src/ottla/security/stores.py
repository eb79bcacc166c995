"""Trust stores and key stores: the certificates and keys in the files that Kafka's clients are set up with.

PEM files hold them as text. JKS, Java's old format, is read here: its certificates stand in the open, its keys behind a
stream of SHA-1. PKCS12, Java's format since version 9 (also under the name x.jks), needs the package `cryptography`.
What a file is, it says itself in its first bytes, whatever the type in the settings is, as Java's own stores do it.

Everything leaves as PEM: what TLS is set up with.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from struct import Struct
from struct import error as StructError

MAX_STORE_BYTES = 16 * 1024 * 1024
JKS_MAGIC = b"\xfe\xed\xfe\xed"
JCEKS_MAGIC = b"\xce\xce\xce\xce"
PEM_MARK = b"-----BEGIN "
DER_SEQUENCE = b"\x30"
_INT, _SHORT, _HEADER, _TIME = Struct(">i"), Struct(">H"), Struct(">4sii"), Struct(">q")
_SHA1_BYTES = 20
_SIGNED_WITH = b"Mighty Aphrodite"
"""The text between password and content in a store's digest, as Sun defined it."""
_PRIVATE_KEY, _TRUSTED_CERTIFICATE = 1, 2
_SUN_KEY_PROTECTOR = bytes.fromhex("060a2b060104012a02110101")
_BLOCK = re.compile(r"-+BEGIN ([A-Z0-9 ]+)-+(.*?)-+END \1-+", re.DOTALL)


class StoreError(ValueError):
    """A store cannot be read; the message says why and what would help, and never quotes the store."""


@dataclass(slots=True)
class Store:
    """The contents of a store, as PEM."""

    certificates: list[str] = field(default_factory=list)
    """The certificates of CAs (a trust store), or a key's own and those between it and its CA (a key store)."""
    key: str | None = field(default=None, repr=False)
    key_is_encrypted: bool = False


def read_store(content: bytes, password: str | None, key_password: str | None, path: str, *, wants_key: bool) -> Store:
    """The content of a store's file: its private key and that key's certificates, or the certificates to trust."""
    if content.startswith(JKS_MAGIC):
        return _read_jks(content, password, key_password, wants_key=wants_key)
    if PEM_MARK in content:
        return read_pem(content.decode("utf-8", "replace"))
    if content.startswith(DER_SEQUENCE):
        from ottla.security.pkcs12 import read_pkcs12

        return read_pkcs12(content, password, path)
    if content.startswith(JCEKS_MAGIC):
        raise StoreError(f"it is a JCEKS store. {_conversion(path)}")
    raise StoreError("it is neither PEM nor PKCS12 nor JKS")


def _conversion(path: str) -> str:
    """The command that converts one of Java's stores to a readable one."""
    return (
        f"This makes one of it that can be read: keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12 "
        f"-deststoretype PKCS12, then: openssl pkcs12 -in {path}.p12 -out {path}.pem"
    )


# PEM


def read_pem(text: str) -> Store:
    """The certificates and the first private key of a text."""
    store = Store()
    for label, body in _BLOCK.findall(text):
        if label.endswith("CERTIFICATE"):
            store.certificates.append(_pem("CERTIFICATE", _decoded(body)))
        elif label.endswith("PRIVATE KEY") and store.key is None:
            store.key_is_encrypted = label.startswith("ENCRYPTED") or "ENCRYPTED" in body
            # A header, which old encrypted keys have, belongs to the text; what has none may have lost its lines.
            headed = ":" in body
            store.key = (
                f"-----BEGIN {label}-----{body}-----END {label}-----\n" if headed else _pem(label, _decoded(body))
            )
    return store


def _decoded(body: str) -> bytes:
    try:
        return base64.b64decode("".join(body.split()), validate=True)
    except ValueError:
        raise StoreError("a block of it is no base64") from None


def _pem(label: str, der: bytes) -> str:
    text = base64.b64encode(der).decode()
    lines = "\n".join(text[at : at + 64] for at in range(0, len(text), 64))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"


def certificates_pem(certificates: Iterable[bytes]) -> list[str]:
    """Certificates in DER as PEM."""
    return [_pem("CERTIFICATE", one) for one in certificates]


def key_pem(der: bytes) -> str:
    """A private key in PKCS8 as PEM."""
    return _pem("PRIVATE KEY", der)


# JKS


class _Reader:
    """Java's DataInputStream over bytes."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.position = 0

    def read(self, size: int) -> bytes:
        end = self.position + size
        if size < 0 or end > len(self._content):
            raise StoreError("it is cut off or damaged")
        piece = self._content[self.position : end]
        self.position = end
        return piece

    def number(self, shape: Struct) -> int:
        (value,) = shape.unpack(self.read(shape.size))
        return int(value)

    def text(self) -> str:
        return self.read(self.number(_SHORT)).decode("utf-8", "replace")

    def certificate(self, version: int) -> bytes:
        if version == 2 and (kind := self.text()) not in ("X.509", "X509"):
            raise StoreError(f"it holds a certificate of the kind {kind[:20]!r}")
        return self.read(self.number(_INT))


def _read_jks(content: bytes, password: str | None, key_password: str | None, *, wants_key: bool) -> Store:
    body, digest = content[:-_SHA1_BYTES], content[-_SHA1_BYTES:]
    if password is not None:
        # SHA-1 is what the format has; without a password Java, too, leaves the digest alone.
        found = hashlib.sha1(password.encode("utf-16-be") + _SIGNED_WITH + body, usedforsecurity=False).digest()
        if not hmac.compare_digest(found, digest):
            raise StoreError("its password is wrong, or the file is damaged")
    reader = _Reader(body)
    try:
        _, version, count = _HEADER.unpack(reader.read(_HEADER.size))
    except StructError:
        raise StoreError("it is cut off or damaged") from None
    if version not in (1, 2):
        raise StoreError(f"it is a JKS store of version {version}, which does not exist")
    trusted: list[bytes] = []
    keys: list[tuple[bytes, list[bytes]]] = []
    for _ in range(count):
        tag = reader.number(_INT)
        reader.text()
        reader.number(_TIME)
        if tag == _TRUSTED_CERTIFICATE:
            trusted.append(reader.certificate(version))
        elif tag == _PRIVATE_KEY:
            protected = reader.read(reader.number(_INT))
            chain = [reader.certificate(version) for _ in range(_checked_count(reader.number(_INT)))]
            keys.append((protected, chain))
        else:
            raise StoreError("it holds an entry that is neither a certificate nor a private key")
    if not wants_key:
        # As in Java, where whatever stands in a trust store is trusted: of a key, the certificate it belongs to.
        return Store(certificates_pem(trusted + [chain[0] for _, chain in keys if chain]))
    if not keys:
        return Store()
    protected, chain = keys[0]
    opened = key_password if key_password is not None else password
    return Store(certificates_pem(chain), key_pem(_unprotected(protected, opened or "")))


def _checked_count(count: int) -> int:
    if not 0 <= count <= 100:
        raise StoreError("it is cut off or damaged")
    return count


def _unprotected(protected: bytes, password: str) -> bytes:
    """A private key of a JKS: the format's own stream of SHA-1 over password and salt, and a digest at the end."""
    place = protected.find(_SUN_KEY_PROTECTOR)
    if not 0 <= place < 32:
        raise StoreError("its private key is protected in a way that JKS does not have")
    # After the algorithm's name: NULL, and the octet string with salt, key and digest that runs to the end.
    octets = protected[place + len(_SUN_KEY_PROTECTOR) :]
    if octets.startswith(b"\x05\x00"):
        octets = octets[2:]
    octets = _octet_string(octets)
    if len(octets) < 2 * _SHA1_BYTES:
        raise StoreError("its private key is cut off or damaged")
    secret = password.encode("utf-16-be")
    block, encrypted, digest = octets[:_SHA1_BYTES], octets[_SHA1_BYTES:-_SHA1_BYTES], octets[-_SHA1_BYTES:]
    stream = bytearray()
    while len(stream) < len(encrypted):
        block = hashlib.sha1(secret + block, usedforsecurity=False).digest()
        stream += block
    key = bytes(one ^ other for one, other in zip(encrypted, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key, usedforsecurity=False).digest(), digest):
        raise StoreError("the password of its private key is wrong (ssl.key.password, if it is not the store's)")
    return key


def _octet_string(der: bytes) -> bytes:
    """The content of a DER octet string that runs to the end."""
    if len(der) < 2 or der[0] != 0x04:
        raise StoreError("its private key is cut off or damaged")
    length, start = der[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(der[2:start], "big")
    if start > 6 or start + length != len(der):
        raise StoreError("its private key is cut off or damaged")
    return der[start:]

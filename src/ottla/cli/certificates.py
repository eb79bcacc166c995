"""A certificate authority of one's own, and certificates that it signs, made with the package `cryptography`.

The package is an extra (`ottla[security]`): a node that is given its certificates does not need it. In a checkout it is
installed when it is first needed, with the version that requirements-security.lock pins.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from ottla.cli.output import notice
from ottla.cli.session import MISUSED, CommandError

LOCK = Path(__file__).resolve().parents[3] / "requirements-security.lock"
MISSING = "certificates are made with the package cryptography: pip install 'ottla[security]'"
CA_DAYS, DAYS = 3_650, 825
CLOCK_SKEW = timedelta(hours=1)
"""How far the clock of another machine may be behind."""
MAX_COMMON_NAME = 64
"""RFC 5280's ub-common-name."""
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*\.?")


def need_cryptography() -> None:
    """Returns when the package can be imported; installs it into the virtual environment of a checkout."""
    if importlib.util.find_spec("cryptography") is not None:
        return
    if not LOCK.is_file() or sys.prefix == sys.base_prefix:
        raise CommandError(MISSING)
    notice("installing the package cryptography (once)")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(LOCK)]
    if subprocess.run(install, stdout=sys.stderr).returncode:
        raise CommandError(f"it could not be installed. {MISSING}")
    importlib.invalidate_caches()
    if importlib.util.find_spec("cryptography") is None:
        raise CommandError(f"it was installed, but {sys.executable} cannot import it. {MISSING}")


@dataclass(frozen=True, slots=True)
class Certificate:
    """A key with its certificate, as PEM."""

    key: str = field(repr=False)
    certificate: str
    chain: str
    """The certificate, then those of its issuers."""

    @property
    def store(self) -> str:
        """What Kafka takes as a key store of type PEM."""
        return self.key + self.chain


class Authority:
    """Signs certificates. Keys are ECDSA P-256: a handshake costs a node a tenth of what RSA 2048 costs."""

    def __init__(self, key: Any, certificate: Any) -> None:
        self._key = key
        self._certificate = certificate

    @classmethod
    def create(cls, common_name: str, now: datetime | None = None) -> Authority:
        need_cryptography()
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
        from cryptography.hazmat.primitives.hashes import SHA256

        key = generate_private_key(SECP256R1())
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        builder = _builder(common_name, key.public_key(), CA_DAYS, now).issuer_name(_name(common_name))
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(usage, critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        return cls(key, builder.sign(key, SHA256()))

    @classmethod
    def load(cls, key: bytes, certificate: bytes) -> Authority:
        """An authority that was made before; ValueError if it is none."""
        need_cryptography()
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        return cls(load_pem_private_key(key, None), x509.load_pem_x509_certificate(certificate))

    @property
    def key(self) -> str:
        return _key_text(self._key)

    @property
    def certificate(self) -> str:
        return _certificate_text(self._certificate)

    def issue(
        self,
        common_name: str,
        names: Iterable[str] = (),
        *,
        is_server: bool,
        days: int = DAYS,
        now: datetime | None = None,
    ) -> Certificate:
        """A new key with a certificate for clients, or for servers of these names, which are clients of each other."""
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.x509.oid import ExtendedKeyUsageOID

        if not common_name or len(common_name) > MAX_COMMON_NAME:
            raise CommandError(
                f"{common_name!r}: the name in a certificate has 1 to {MAX_COMMON_NAME} letters", MISUSED
            )
        key = generate_private_key(SECP256R1())
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if is_server else [])]
        builder = _builder(common_name, key.public_key(), days, now).issuer_name(self._certificate.subject)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        if names:
            alternatives = [_alternative(one) for one in dict.fromkeys(names)]
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        text = _certificate_text(builder.sign(self._key, SHA256()))
        return Certificate(_key_text(key), text, text + self.certificate)


def _builder(common_name: str, public_key: Any, days: int, now: datetime | None) -> Any:
    from cryptography import x509

    start = now or datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(common_name))
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - CLOCK_SKEW)
        .not_valid_after(start + timedelta(days=days))
    )


def _name(common_name: str) -> Any:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternative(name: str) -> Any:
    """An address or a host name, as the certificate of a server has it."""
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        pass
    if not _HOST.fullmatch(name):
        raise CommandError(f"{name!r} is neither a host name nor an address", MISUSED)
    return x509.DNSName(name)


def _key_text(key: Any) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    text: str = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return text


def _certificate_text(certificate: Any) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    text: str = certificate.public_bytes(Encoding.PEM).decode()
    return text

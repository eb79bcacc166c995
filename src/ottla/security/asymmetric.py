"""Keys, signatures, certificates and PKCS12 stores: everything that needs the package `cryptography`; no other file
imports it.

The package is an extra (`ottla[security]`, `ottla[pkcs12]`). Import this module where it is needed, not at the top of a
file: without the package that is an ImportError. Keys are DER or PEM outside, and objects without a type inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_HASHES: Final[dict[str, Any]] = {"256": hashes.SHA256, "384": hashes.SHA384, "512": hashes.SHA512}
_CURVES: Final[dict[str, Any]] = {"P-256": ec.SECP256R1, "P-384": ec.SECP384R1, "P-521": ec.SECP521R1}

# Signatures


def rsa_public_key(modulus: int, exponent: int) -> Any:
    """ValueError if the numbers are no key."""
    return rsa.RSAPublicNumbers(exponent, modulus).public_key()


def elliptic_public_key(curve: str, x: int, y: int) -> Any:
    """The key of a point on one of the curves P-256, P-384 and P-521; ValueError if it is not on it."""
    return ec.EllipticCurvePublicNumbers(x, y, _CURVES[curve]()).public_key()


def is_signed(public_key: Any, algorithm: str, message: bytes, signature: bytes) -> bool:
    """Whether a signature by an algorithm of RFC 7518 (RS256, PS384, ES512, ...) is this key's for the message."""
    digest = _HASHES[algorithm[2:]]()
    try:
        if algorithm.startswith("ES"):
            size = (public_key.curve.key_size + 7) // 8
            if len(signature) != 2 * size:
                return False
            r, s = int.from_bytes(signature[:size], "big"), int.from_bytes(signature[size:], "big")
            public_key.verify(encode_dss_signature(r, s), message, ec.ECDSA(digest))
        elif algorithm.startswith("PS"):
            salted = padding.PSS(padding.MGF1(digest), salt_length=digest.digest_size)
            public_key.verify(signature, message, salted, digest)
        else:
            public_key.verify(signature, message, padding.PKCS1v15(), digest)
    except InvalidSignature:
        return False
    return True


def sign(key: Any, algorithm: str, message: bytes) -> bytes:
    """A signature by RS256 or ES256. ValueError if the key is not one for that."""
    if algorithm == "ES256":
        if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
            raise ValueError("ES256 needs a key of the curve P-256")
        r, s = decode_dss_signature(key.sign(message, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")
    if not isinstance(key, rsa.RSAPrivateKey):
        raise ValueError(f"{algorithm} needs an RSA key")
    return key.sign(message, padding.PKCS1v15(), hashes.SHA256())


# Stores


def read_pkcs12(content: bytes, password: str | None) -> tuple[bytes | None, list[bytes]]:
    """The private key and the certificates of a store as DER, the key's own certificate first. PermissionError if the
    password is wrong or missing or it is no store, NotImplementedError if its encryption is not known."""
    try:
        found = load_pkcs12(content, None if password is None else password.encode())
    except ValueError:
        raise PermissionError from None
    except UnsupportedAlgorithm as error:
        raise NotImplementedError(str(error)) from None
    certificates = [] if found.cert is None else [found.cert.certificate]
    certificates += [one.certificate for one in found.additional_certs]
    key = None
    if found.key is not None:
        key = found.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return key, [one.public_bytes(Encoding.DER) for one in certificates]


# Certificates


def new_key() -> Any:
    """A private key for ECDSA P-256: a handshake costs a node a tenth of what RSA 2048 costs."""
    return ec.generate_private_key(ec.SECP256R1())


def load_key(pem: bytes, password: str | None = None) -> Any:
    """ValueError if the bytes are no private key, or the password is wrong."""
    try:
        return load_pem_private_key(pem, None if password is None else password.encode())
    except TypeError as error:
        raise ValueError(str(error)) from None


def load_certificate(pem: bytes) -> Any:
    return x509.load_pem_x509_certificate(pem)


def key_text(key: Any) -> str:
    text: str = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return text


def certificate_text(certificate: Any) -> str:
    text: str = certificate.public_bytes(Encoding.PEM).decode()
    return text


def authority_certificate(key: Any, common_name: str, valid: tuple[datetime, datetime]) -> Any:
    """A certificate that an authority signs for itself."""
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = _builder(common_name, key.public_key(), valid).issuer_name(_name(common_name))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(usage, critical=True)
    return builder.sign(key, hashes.SHA256())


def signed_certificate(
    authority: tuple[Any, Any],
    key: Any,
    common_name: str,
    names: Sequence[str | IPv4Address | IPv6Address],
    valid: tuple[datetime, datetime],
    *,
    is_server: bool,
) -> Any:
    """A certificate of this key, signed by an authority (its key, its certificate): for clients, or for servers of
    these names, which are clients of each other."""
    authority_key, authority_certificate = authority
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if is_server else [])]
    builder = _builder(common_name, key.public_key(), valid).issuer_name(authority_certificate.subject)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    builder = builder.add_extension(issuer, critical=False)
    if names:
        alternatives = [x509.DNSName(one) if isinstance(one, str) else x509.IPAddress(one) for one in names]
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return builder.sign(authority_key, hashes.SHA256())


def _builder(common_name: str, public_key: Any, valid: tuple[datetime, datetime]) -> Any:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(common_name))
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(valid[0])
        .not_valid_after(valid[1])
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _name(common_name: str) -> Any:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])

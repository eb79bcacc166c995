"""Names in certificates, as Java writes them."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

import pytest

from ottla.security.certificates import CertificateError, from_pem, subject_alternative_names, subject_name
from ottla.security.stores import read_pem

FILES = Path(__file__).parents[2] / "vectors" / "tls"


def certificate(*attributes: tuple[str, str], names: tuple[str, ...] = ()) -> bytes:
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.ObjectIdentifier(oid), value) for oid, value in attributes])
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "issuer")])
    start = datetime.datetime(2020, 1, 1)
    builder = x509.CertificateBuilder(issuer, name, key.public_key(), 7, start, start + datetime.timedelta(days=9))
    if names:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.DNSName(one) for one in names]), critical=False
        )
    made: bytes = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)
    return made


CN, ORG, OU, C, DC, MAIL = (
    "2.5.4.3",
    "2.5.4.10",
    "2.5.4.11",
    "2.5.4.6",
    "0.9.2342.19200300.100.1.25",
    "1.2.840.113549.1.9.1",
)


def test_a_name_has_its_most_specific_part_first() -> None:
    der = certificate((C, "IT"), (ORG, "Example"), (OU, "Shop"), (CN, "orders"))
    assert subject_name(der) == "CN=orders,OU=Shop,O=Example,C=IT"


def test_special_characters_are_escaped() -> None:
    der = certificate((DC, "example"), (ORG, 'a,b+c="d"'), (CN, " ada;#<> "))
    assert subject_name(der) == 'CN=\\ ada\\;\\#\\<\\>\\ ,O=a\\,b\\+c\\=\\"d\\",DC=example'


def test_an_attribute_without_a_keyword_is_a_number_and_hex() -> None:
    assert subject_name(certificate((CN, "a"), (MAIL, "a@b.c"))) == "1.2.840.113549.1.9.1=#16056140622e63,CN=a"


def test_alternative_names_are_a_set() -> None:
    first, same, more = (certificate((CN, "a"), names=names) for names in (("x", "y"), ("y", "x"), ("x", "y", "z")))
    assert subject_alternative_names(first) == subject_alternative_names(same)
    assert subject_alternative_names(first) < subject_alternative_names(more)
    assert subject_alternative_names(certificate((CN, "a"))) == frozenset()


def test_the_certificate_of_a_file_is_read() -> None:
    der = from_pem(read_pem((FILES / "broker.pem").read_text()).certificates[0])
    assert subject_name(der) == "CN=broker"
    assert b"\x87" + ipaddress.ip_address("127.0.0.1").packed in subject_alternative_names(der)


def test_no_part_of_a_certificate_and_no_damaged_one_ends_in_anything_but_a_refusal() -> None:
    der = from_pem(read_pem((FILES / "broker.pem").read_text()).certificates[0])
    for size in range(len(der)):
        with pytest.raises(CertificateError):
            subject_name(der[:size])
    for place in range(len(der)):
        damaged = der[:place] + bytes([der[place] ^ 0xFF]) + der[place + 1 :]
        try:
            subject_name(damaged)
            subject_alternative_names(damaged)
        except CertificateError:
            pass

"""Makes the certificates and stores beside it, good until 2100: `python tests/vectors/tls/make.py`, with the package
cryptography and Java's keytool. Run it only to add one: all are signed by one CA, whose key is not kept."""

from __future__ import annotations

import subprocess
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

HERE = Path(__file__).parent
PASSWORD = "store-secret"
START, END, EXPIRED = datetime(2000, 1, 1), datetime(2100, 1, 1), datetime(2001, 1, 1)
NAMES = [x509.DNSName("localhost"), x509.DNSName("broker.test"), x509.IPAddress(ip_address("127.0.0.1"))]


def name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


class Authority:
    """A CA."""

    def __init__(self, common_name: str) -> None:
        self.name = name(common_name)
        self.key = generate_private_key(SECP256R1())
        self.certificate = self.signed(common_name, self.key, [], is_authority=True)

    def signed(
        self,
        common_name: str,
        key: EllipticCurvePrivateKey,
        names: list[x509.GeneralName],
        end: datetime = END,
        is_authority: bool = False,
    ) -> x509.Certificate:
        builder = (
            x509.CertificateBuilder()
            .subject_name(name(common_name))
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(START)
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self.key, SHA256())

    def write(self, file: str, common_name: str, names: list[x509.GeneralName], end: datetime = END) -> None:
        """A key and its certificate in one PEM file."""
        key = generate_private_key(SECP256R1())
        text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        certificate = pem(self.signed(common_name, key, names, end))
        (HERE / f"{file}.pem").write_text(text + certificate + pem(self.certificate))
        if file == "client":
            hidden = BestAvailableEncryption(PASSWORD.encode())
            encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, hidden).decode()
            (HERE / "client-encrypted.pem").write_text(encrypted + certificate + pem(self.certificate))


def keytool(*arguments: str) -> None:
    subprocess.run(["keytool", "-noprompt", *arguments], cwd=HERE, check=True, capture_output=True)


def main() -> None:
    authority, stranger = Authority("Ottla test CA"), Authority("Another CA")
    (HERE / "ca.pem").write_text(pem(authority.certificate))
    authority.write("broker", "broker", NAMES)
    authority.write("broker-expired", "broker", NAMES, EXPIRED)
    authority.write("broker-elsewhere", "elsewhere", [x509.DNSName("elsewhere.test")])
    authority.write("client", "client", [])
    authority.write("client-expired", "client", [], EXPIRED)
    stranger.write("client-of-another", "client", [])
    for kind, ending in (("JKS", "jks"), ("PKCS12", "p12")):
        for store in HERE.glob(f"*.{ending}"):
            store.unlink()
        stored = ("-storetype", kind, "-storepass", PASSWORD)
        keytool("-importcert", "-alias", "ca", "-file", "ca.pem", "-keystore", f"trust.{ending}", *stored)
        subprocess.run(
            ["openssl", "pkcs12", "-export", "-in", "client.pem", "-out", "once.p12", "-passout", f"pass:{PASSWORD}"],
            cwd=HERE,
            check=True,
        )
        source = ("-srckeystore", "once.p12", "-srcstorepass", PASSWORD)
        target = ("-destkeystore", f"client.{ending}", "-deststoretype", kind, "-deststorepass", PASSWORD)
        keytool("-importkeystore", *source, *target)
        (HERE / "once.p12").unlink()


if __name__ == "__main__":
    main()

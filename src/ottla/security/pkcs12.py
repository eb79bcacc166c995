"""PKCS12 stores, read through the package `cryptography`. (`cli/certificates.py` makes certificates with it.)

It is an extra, `ottla[pkcs12]`: whoever keeps certificates as PEM or JKS does not need it.
"""

from __future__ import annotations

from ottla.security.stores import Store, StoreError, certificates_pem, key_pem


def read_pkcs12(content: bytes, password: str | None, path: str) -> Store:
    """The private key with its certificates, and whatever other certificates the store holds."""
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise StoreError(
            "it is a PKCS12 store, which needs the package cryptography: pip install 'ottla[pkcs12]', or make a PEM "
            f"file of it: openssl pkcs12 -in {path} -out {path}.pem"
        ) from None
    try:
        found = load_pkcs12(content, None if password is None else password.encode())
    except ValueError:
        raise StoreError("its password is wrong or missing, or it is no PKCS12 store") from None
    except UnsupportedAlgorithm as error:
        raise StoreError(f"it is encrypted in a way that is not known here: {error}") from None
    certificates = [] if found.cert is None else [found.cert.certificate]
    certificates += [one.certificate for one in found.additional_certs]
    store = Store(certificates_pem(one.public_bytes(Encoding.DER) for one in certificates))
    if found.key is not None:
        store.key = key_pem(found.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()))
    return store

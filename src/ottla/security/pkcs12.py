"""PKCS12 stores.

They need the package `cryptography`, an extra (`ottla[pkcs12]`): PEM and JKS do not.
"""

from __future__ import annotations

from ottla.security.stores import Store, StoreError, certificates_pem, key_pem


def read_pkcs12(content: bytes, password: str | None, path: str) -> Store:
    """The private key with its certificates, and whatever other certificates the store holds."""
    try:
        from ottla.security.asymmetric import read_pkcs12
    except ImportError:
        raise StoreError(
            "it is a PKCS12 store, which needs the package cryptography: pip install 'ottla[pkcs12]', or make a PEM "
            f"file of it: openssl pkcs12 -in {path} -out {path}.pem"
        ) from None
    try:
        key, certificates = read_pkcs12(content, password)
    except PermissionError:
        raise StoreError("its password is wrong or missing, or it is no PKCS12 store") from None
    except NotImplementedError as error:
        raise StoreError(f"it is encrypted in a way that is not known here: {error}") from None
    store = Store(certificates_pem(certificates))
    if key is not None:
        store.key = key_pem(key)
    return store

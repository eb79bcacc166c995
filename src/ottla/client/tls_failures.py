"""Explains a failed TLS handshake, or a connection that ends before it works: what happened, what was expected, what to
do."""

from __future__ import annotations

import ssl

from ottla.client.errors import KafkaError, NetworkError, TlsError
from ottla.client.security_config import SecurityConfig

TLS_ALERT = b"\x15\x03"
"""How a broker that expects TLS begins its complaint."""
_EXPIRED, _NOT_YET_VALID = 10, 9
_UNTRUSTED = (2, 18, 19, 20, 21)
"""OpenSSL's codes for a chain that ends at no trusted CA."""
_WRONG_NAME = (62, 63, 64)
_NO_TLS = (
    "WRONG_VERSION_NUMBER",
    "HTTP_REQUEST",
    "HTTPS_PROXY_REQUEST",
    "PACKET_LENGTH_TOO_LONG",
    "RECORD_LAYER_FAILURE",
)
_OTHER_VERSION = ("UNSUPPORTED_PROTOCOL", "TLSV1_ALERT_PROTOCOL_VERSION", "NO_PROTOCOLS_AVAILABLE", "VERSION_TOO_LOW")


def explain_end(
    error: Exception | None, host: str, port: int, config: SecurityConfig, answer_count: int, first_bytes: bytes
) -> KafkaError:
    """Why a broker ended a connection before it answered more than one request: most often the two sides expect another
    security.protocol. That is sure only where the broker complained in the language of TLS."""
    where, protocol = f"{host}:{port}", config.security_protocol
    ended = "ended the connection" + (f" ({error})" if error is not None and str(error) else "")
    if not answer_count:
        if first_bytes == TLS_ALERT and not config.has_tls:
            return TlsError(
                f"{where} speaks TLS, and security.protocol is {protocol}: set it to SSL or SASL_SSL, or name the port "
                "of a listener without TLS"
            )
        return NetworkError(
            f"{where} {ended} before it answered anything: does this listener expect another "
            f"security.protocol than {protocol}?"
        )
    if config.has_sasl:
        return NetworkError(f"{where} {ended} during the login")
    expected = "SASL_SSL" if config.has_tls else "SASL_PLAINTEXT"
    return NetworkError(
        f"{where} {ended} at the first request: if this listener expects a login, security.protocol is "
        f"{expected}, not {protocol}"
    )


def explain_failure(error: OSError, host: str, port: int) -> KafkaError:
    """The error of a handshake that failed, or of a connection that ended with an alert. What may pass (a connection
    that just ended) is a NetworkError, all else final."""
    where = f"{host}:{port}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsError(f"{where}: {_distrust(error, host)}")
    if isinstance(error, ssl.SSLEOFError | ConnectionError) or not isinstance(error, ssl.SSLError):
        return NetworkError(
            f"{where} ended the connection in the TLS handshake: does this listener speak TLS at all? If not, "
            "security.protocol is PLAINTEXT or SASL_PLAINTEXT"
        )
    reason = error.reason or str(error)
    if reason in _NO_TLS:
        return TlsError(
            f"{where} answers, but does not speak TLS: set security.protocol to PLAINTEXT or SASL_PLAINTEXT, or name "
            f"the port of a listener with TLS ({reason})"
        )
    if reason in _OTHER_VERSION:
        return TlsError(f"{where} speaks no version of TLS that ssl.enabled.protocols names ({reason})")
    if "ALERT" in reason:
        return TlsError(f"{where} broke off the TLS handshake: {_alert(reason)} ({reason})")
    return TlsError(f"{where}: the TLS handshake failed: {reason}")


def _distrust(error: ssl.SSLCertVerificationError, host: str) -> str:
    code = error.verify_code
    if code == _EXPIRED:
        return (
            "the broker's certificate, or one it is signed by, has expired: it has to be renewed on the broker (is "
            "this machine's clock right?)"
        )
    if code == _NOT_YET_VALID:
        return "the broker's certificate is not valid yet: is this machine's clock right?"
    if code in _WRONG_NAME:
        return (
            f"the broker's certificate is for another name than {host} ({error.verify_message}): connect by a name "
            "that it has, or have it name this one; an empty ssl.endpoint.identification.algorithm turns the check off"
        )
    if code in _UNTRUSTED:
        return (
            f"the broker's certificate is signed by no CA that this client trusts ({error.verify_message}): put the "
            "certificate of its CA into ssl.truststore.location (or ssl.ca.location)"
        )
    return f"the broker's certificate was refused: {error.verify_message}"


def _alert(reason: str) -> str:
    if "CERTIFICATE_EXPIRED" in reason:
        return "this client's certificate has expired; renew it and its key store"
    if "UNKNOWN_CA" in reason or "CERTIFICATE_UNKNOWN" in reason:
        return "it does not trust this client's certificate; the broker's trust store has to hold the CA that signed it"
    if "CERTIFICATE_REQUIRED" in reason or "BAD_CERTIFICATE" in reason:
        return "it wants a certificate of this client that it trusts; set ssl.keystore.location"
    if "CERTIFICATE" in reason:
        return "it does not accept this client's certificate (ssl.keystore.location)"
    if "HANDSHAKE_FAILURE" in reason:
        return (
            "the two sides have no cipher in common, or it wants a certificate of this client (ssl.keystore.location)"
        )
    return "it did not say more than this"

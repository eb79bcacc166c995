"""The error of a login that failed."""

from __future__ import annotations

from ottla.wire.errors import ErrorCode, KafkaError


class AuthenticationError(KafkaError):
    """The broker refused this client's credentials, or this client refused the broker's. A client does not repeat the
    attempt by itself: credentials, certificates or settings have to be corrected first."""

    def __init__(self, message: str | None = None, code: ErrorCode = ErrorCode.SASL_AUTHENTICATION_FAILED) -> None:
        super().__init__(code, message)

    def __str__(self) -> str:
        return self.message or self.code.text

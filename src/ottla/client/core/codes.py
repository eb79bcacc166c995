"""Error codes as they come from brokers, which may be newer than this client."""

from __future__ import annotations

from ottla.wire.errors import ErrorCode


def error_code(code: int) -> ErrorCode:
    """The code of a response; a code that this client does not know becomes UNKNOWN_SERVER_ERROR."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR

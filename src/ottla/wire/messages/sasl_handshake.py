"""SaslHandshake (api key 17): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, array, int16, string


class SaslHandshakeRequest(Message, api_key=17, versions=(0, 1)):
    mechanism: string = ""


class SaslHandshakeResponse(Message, api_key=17, versions=(0, 1)):
    error_code: int16 = 0
    mechanisms: array[string] = []

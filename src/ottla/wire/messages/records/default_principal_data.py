"""DefaultPrincipalData: a schema that is no request. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, string


class DefaultPrincipalData(Message, versions=(0, 0), flexible=0):
    type: string = ""
    name: string = ""
    token_authenticated: bool = False

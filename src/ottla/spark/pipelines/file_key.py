"""The declaration of a key of pipeline.yml. Each parser declares the keys of its section beside it, so that the parser,
its messages and the tables in docs/pipelines (`tools/pipeline_keys.py`) have the same ones.
"""

from __future__ import annotations

from typing import NamedTuple

TEXT, NUMBER, TIME, FLAG = "text", "number", "time", "true or false"
LIST, TEXTS, NAMED = "list", "names with texts", "names with definitions"
SQL = "SQL expression"


class FileKey(NamedTuple):
    """A key: the type of its value, its meaning in Markdown (links are relative to docs/pipelines) and its default."""

    type: str
    meaning: str
    default: str = ""
    """In the form of the file. Empty if there is none: the meaning then says what happens without the key."""


def one_of(*choices: str) -> str:
    """The type of a key with a few possible values."""
    *others, last = (f"`{choice}`" for choice in choices)
    return f"{', '.join(others)} or {last}" if others else last


SIGN_KEYS = {
    "secret": FileKey(TEXT, "the secret of the HMAC-SHA256 of the body"),
    "header": FileKey(
        TEXT, "the header that has the signature, as `sha256=` and hexadecimal digits", "X-Hub-Signature-256"
    ),
}
"""The keys of `sign`, of a webhook and of a flow's request."""

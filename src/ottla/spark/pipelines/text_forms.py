"""How columns are written as text: the options of Spark's JSON and CSV."""

from __future__ import annotations

MOMENTS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][XXX]"}
"""Timestamps in JSON and CSV to the microsecond; Spark's own form cuts them to the millisecond."""
EXACT_CSV = {**MOMENTS, "escape": '"', "ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
"""CSV by RFC 4180: quotes are doubled. Spark's own form has backslashes and cuts blanks off."""

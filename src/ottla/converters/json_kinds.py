"""The kinds of columns of `json_kernel`, by number, and the greatest depth of a value."""

from __future__ import annotations

BOOLEAN = 1
WHOLE = 2
FLOATING = 3
DECIMAL = 4
STRING = 5
DATE = 6
MOMENT = 7
LOCAL_MOMENT = 8
ANY = 9
STRUCT = 10
LIST = 11
MAP = 12
OTHER = 13
"""A type that this kernel leaves to the careful reader."""

MAX_DEPTH = 64
"""Objects and arrays within each other."""

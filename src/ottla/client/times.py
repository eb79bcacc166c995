"""Times that a program gives to a client: whole milliseconds, never seconds.

`poll(1.0)` waits a second in confluent-kafka. Here it would be a millisecond, and a timestamp of `time.time()` would be
a day in January 1970, so floats are refused.
"""

from __future__ import annotations


def check_ms(given: object, what: str) -> None:
    """Raises TypeError for a duration that is neither a whole number nor None."""
    if given is not None and not hasattr(given, "__index__"):
        raise TypeError(f"{what} takes milliseconds as a whole number, not {given!r}: a second is 1000")


def check_timestamp(given: object) -> None:
    """Raises TypeError for a moment that is a float."""
    if isinstance(given, float):
        raise TypeError(
            f"a timestamp is a whole number of milliseconds since 1970, as int(time.time() * 1000), not {given!r}"
        )

"""Options that Kafka 4.2 has replaced by others: both work, one at a time, and the old one warns."""

from __future__ import annotations

from ottla.cli.kafka.options import Options, UsageError


def refuse_both(options: Options, first: str, second: str) -> None:
    """An option and its forerunner contradict each other."""
    if options.has(first) and options.has(second):
        raise UsageError(f"Options --{first} and --{second} cannot be specified together.")


def in_use(options: Options, old: str, new: str, warning: str) -> str:
    """The name that the option was given by; `warning` begins the line that is printed for the old one."""
    if not options.has(old):
        return new
    print(f"{warning} --{old} is deprecated and will be removed in a future version. Use --{new} instead.")
    return old

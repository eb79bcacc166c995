"""How a tool begins and ends: its arguments are read, its errors become messages and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from ottla.cli.kafka.options import Exit, OptionError, OptionParser, Options, ToolError, UsageError, show_usage


def run_tool(
    parser: OptionParser, arguments: Sequence[str], body: Callable[[Options], int], *, is_usage_shown: bool = True
) -> int:
    """The exit code of a tool. Arguments that are no options of it are answered with the table of options, or
    (is_usage_shown=False) with nothing but the exception, as the original does it."""
    try:
        try:
            options = parser.parse(arguments)
        except OptionError as error:
            if is_usage_shown:
                raise UsageError(error.message) from None
            raise
        return body(options)
    except Exit as exit_:
        return exit_.code
    except UsageError as error:
        sys.stdout.flush()
        return show_usage(parser, error)
    except ToolError as error:
        sys.stdout.flush()
        sys.stderr.write(f'Exception in thread "main" {error.trace}')
        return 1
    except BrokenPipeError:
        discard_output()
        return 1


def discard_output() -> None:
    """Stdout was closed: drop what is still buffered."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115


def run_async(work: Coroutine[Any, Any, int]) -> int:
    """Run a tool's work on an event loop of its own."""
    import asyncio

    from ottla.net import new_event_loop

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)

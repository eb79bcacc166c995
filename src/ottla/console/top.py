"""`ottla top`: the console's overview as a live text screen, for terminals without a browser."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import termios
import tty
from collections.abc import Iterable
from typing import Any

from ottla.cli.output import bytes_text, counted, printable
from ottla.cli.session import Session, add_broker_options, command_parser, run
from ottla.client.errors import KafkaError
from ottla.console.call import Call, Routes
from ottla.console.console import Console, ConsoleConfig
from ottla.console.faults import Fault
from ottla.console.groups import groups
from ottla.console.overview import overview
from ottla.console.topics import topics

COMMAND = "ottla top"
EXAMPLES = """\
  ottla top                        every 5 seconds, until q or Ctrl-C
  ottla top --every 2 -b kafka:9092
  ottla top --once                 one frame, for a script or a mail
"""
CLEAR, HOME, HIDE, SHOW, ALTERNATE, BACK = "\x1b[J", "\x1b[H", "\x1b[?25l", "\x1b[?25h", "\x1b[?1049h", "\x1b[?1049l"
RED, YELLOW, GREEN, BOLD, DIM, PLAIN = "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[1m", "\x1b[2m", "\x1b[0m"
RATE_WAIT_S = 1.0


def parser() -> argparse.ArgumentParser:
    made = command_parser(
        COMMAND,
        "Show what is wrong, the busiest topics and the groups that are behind, live in the terminal.",
        EXAMPLES,
    )
    add_broker_options(made)
    made.add_argument("--every", type=float, default=5.0, metavar="SECONDS", help="how often to look (5)")
    made.add_argument("--once", action="store_true", help="print one frame and end")
    return made


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    return run(COMMAND, options, lambda session: show(session, options))


async def show(session: Session, options: argparse.Namespace) -> int:
    await session.admin()  # fails at once if the cluster does not answer
    settings = {**session.target.settings, "bootstrap.servers": session.target.broker}
    console = Console(ConsoleConfig(clusters={"cluster": settings}), Routes([]))
    try:
        if options.once:
            await _sampled(console)
            await asyncio.sleep(RATE_WAIT_S)
            lines = await _frame(console, session.target.broker, is_fresh=True)
            print("\n".join(draw(lines, shutil.get_terminal_size((100, 10_000)), is_colored=sys.stdout.isatty())))
        else:
            await _live(console, session.target.broker, max(options.every, 1.0))
    finally:
        await console.close()
    return 0


async def _sampled(console: Console) -> None:
    await console.sampler(console.connections.find("cluster", None, {})).current(is_fresh=True)


async def _frame(console: Console, where: str, *, is_fresh: bool) -> dict[str, Any]:
    """The content of a frame, or the reason why there is none."""
    connection = console.connections.find("cluster", None, {})
    call = Call(console, connection, query={"refresh": "true"} if is_fresh else {})
    try:
        seen = await overview(call)
        call.query = {}
        return {"where": where, "overview": seen, "topics": (await topics(call))["topics"],
                "groups": (await groups(call))["groups"], "error": None}  # fmt: skip
    except (KafkaError, Fault) as error:
        return {"where": where, "error": str(error)}


async def _live(console: Console, where: str, every_s: float) -> None:
    keys = _Keys()
    sys.stdout.write(ALTERNATE + HIDE)
    try:
        while not keys.is_ended:
            found = await _frame(console, where, is_fresh=True)
            size = shutil.get_terminal_size()
            lines = draw(found, size, is_colored=True)[: max(size.lines - 1, 1)]
            sys.stdout.write(HOME + "".join(f"{line}\x1b[K\n" for line in lines) + CLEAR)
            sys.stdout.flush()
            await keys.wait(every_s)
    finally:
        keys.close()
        sys.stdout.write(SHOW + BACK)
        sys.stdout.flush()


class _Keys:
    """q ends it; any other key looks again at once."""

    def __init__(self) -> None:
        self.is_ended = False
        self._pressed = asyncio.Event()
        self._before: list[Any] | None = None
        if sys.stdin.isatty():
            self._before = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)
            asyncio.get_running_loop().add_reader(sys.stdin, self._read)

    def _read(self) -> None:
        pressed = os.read(sys.stdin.fileno(), 100)
        self.is_ended = not pressed or b"q" in pressed.lower()
        self._pressed.set()

    async def wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._pressed.wait()
        except TimeoutError:
            pass
        self._pressed.clear()

    def close(self) -> None:
        if self._before is not None:
            asyncio.get_running_loop().remove_reader(sys.stdin)
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)


# Drawing


def draw(found: dict[str, Any], size: os.terminal_size, *, is_colored: bool) -> list[str]:
    """The lines of a frame, none wider than the terminal."""

    def paint(color: str, text: str) -> str:
        return f"{color}{text}{PLAIN}" if is_colored and text else text

    width = max(size.columns, 40)
    where = printable(found["where"])[: width - 20]
    if found["error"] is not None:
        return [paint(BOLD, where), paint(RED, printable(f"no answer: {found['error']}")[:width])]
    seen = found["overview"]
    # Metadata names any broker as the controller of a quorum: the check of the quorum has its leader
    fenced = f"{seen['fenced_count']} fenced, " if seen["fenced_count"] else ""
    head = (
        f"{counted(seen['broker_count'], 'broker')}, {fenced}"
        f"{counted(seen['topic_count'], 'topic')}, {counted(seen['partition_count'], 'partition')}, "
        f"{counted(seen['group_count'], 'group')}, {_size(seen['size_bytes'])}, "
        f"{_rate(seen['in_per_s'])}"
    )
    lines = [f"{paint(BOLD, where)}  {head[: max(width - len(where) - 2, 0)]}", ""]
    for check in seen["checks"]:
        if check["ok"] and not check["findings"]:
            lines.append(paint(GREEN, "ok       ") + f"{check['check']}: {check['summary']}"[: width - 9])
        for one in check["findings"]:
            label = paint(RED, "PROBLEM  ") if one["is_problem"] else paint(YELLOW, "note     ")
            lines.append(label + printable(f"{check['check']}: {one['what']}")[: width - 9])
            lines.append(paint(DIM, printable(f"         -> {one['todo']}")[:width]))
    busiest = sorted(found["topics"], key=lambda one: (-(one["in_per_s"] or 0), -(one["size_bytes"] or 0)))
    behind = sorted(found["groups"], key=lambda one: -(one["lag_records"] or 0))
    room = max(size.lines - len(lines) - 6, 6)
    lines += _table(("TOPIC", "RECORDS/S", "SIZE", "RECORDS", "WORST LAG"), map(_topic, busiest[: room // 2]), width)
    return lines + _table(("GROUP", "STATE", "MEMBERS", "LAG", "BEHIND"), map(_group, behind[: room // 2]), width)


def _topic(one: dict[str, Any]) -> tuple[str, ...]:
    count = f"{one['record_count']:,}"
    return one["name"], _rate(one["in_per_s"]), _size(one["size_bytes"]), count, _lag(one["worst_lag"])


def _group(one: dict[str, Any]) -> tuple[str, ...]:
    members, lag = _known(one["member_count"]), _known(one["lag_records"])
    return one["group"], one["state"], members, lag, _age(one["lag_seconds"])


def _table(names: tuple[str, ...], rows: Iterable[tuple[str, ...]], width: int) -> list[str]:
    cells = [names, *(tuple(printable(cell) for cell in row) for row in rows)]
    if len(cells) == 1:
        return []
    widths = [max(len(row[column]) for row in cells) for column in range(len(names))]
    widths[0] = max(min(widths[0], width - sum(widths[1:]) - 2 * (len(names) - 1)), 8)
    lines = [""]
    for row in cells:
        first = row[0] if len(row[0]) <= widths[0] else f"{row[0][: widths[0] - 1]}…"
        rest = "  ".join(cell.rjust(widths[column]) for column, cell in enumerate(row) if column)
        lines.append(f"{first.ljust(widths[0])}  {rest}"[:width].rstrip())
    return lines


def _known(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _rate(per_s: float | None) -> str:
    return "-" if per_s is None else f"{per_s:,.0f}/s" if per_s >= 10 else f"{per_s:.1f}/s"


def _size(size: int | None) -> str:
    return "-" if size is None else bytes_text(size)


def _age(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7_200
        else f"{seconds / 3600:.0f} h"
    )


def _lag(worst: dict[str, Any] | None) -> str:
    return "-" if not worst or not worst["records"] else f"{worst['records']:,} ({worst['group']})"

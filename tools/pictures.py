"""Draws the pictures of docs/concepts.md as SVG: python tools/pictures.py DIR. `make docs` calls it."""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

INK, SOFT, ACCENT, PAPER = "#22303c", "#8795a1", "#2f6f8f", "#ffffff"
LEADER, FOLLOWER, BEHIND = "#2f6f8f", "#9cc3d5", "#e3ebf0"


class Picture:
    """Boxes, arrows and words on a white page."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.size = (width, height)
        self.parts = [
            f"<title>{escape(title)}</title>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            f'<path d="M0 0 8 4 0 8z" fill="{SOFT}"/></marker></defs>',
            f'<rect width="{width}" height="{height}" fill="{PAPER}"/>',
        ]

    def box(self, x: int, y: int, width: int, height: int, text: str = "", fill: str = PAPER, ink: str = INK) -> None:
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" fill="{fill}" stroke="{INK}"/>'
        )
        if text:
            self.text(x + width // 2, y + height // 2 + 5, text, ink=ink, anchor="middle")

    def text(self, x: int, y: int, text: str, *, ink: str = INK, anchor: str = "start", size: int = 13) -> None:
        self.parts.append(
            f'<text x="{x}" y="{y}" font-family="system-ui, sans-serif" font-size="{size}" fill="{ink}" '
            f'text-anchor="{anchor}">{escape(text)}</text>'
        )

    def arrow(self, x1: int, y1: int, x2: int, y2: int) -> None:
        self.parts.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{SOFT}" stroke-width="1.5" marker-end="url(#tip)"/>'
        )

    def svg(self) -> str:
        width, height = self.size
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
        return "\n".join([head, *self.parts, "</svg>\n"])


def topic() -> Picture:
    """A topic of three partitions: producers append, offsets count."""
    picture = Picture(640, 220, "A topic is three partitions; records have offsets")
    picture.box(10, 90, 90, 40, "producer")
    for row, count in enumerate((7, 5, 6)):
        y = 30 + row * 60
        picture.text(190, y + 20, f"partition {row}", anchor="end")
        for offset in range(count):
            picture.box(200 + offset * 40, y, 36, 32, str(offset), fill=BEHIND)
        picture.text(206 + count * 40, y + 21, "← next record", ink=SOFT)
        picture.arrow(102, 110, 118, y + 16)
    picture.text(200, 212, "the key decides the partition: murmur2(key) mod partitions", ink=SOFT)
    return picture


def groups() -> Picture:
    """Two groups read one topic: within a group each partition has one member."""
    picture = Picture(640, 240, "Two consumer groups read the same topic")
    for row in range(3):
        picture.box(265, 30 + row * 60, 110, 36, f"partition {row}", fill=BEHIND)
        picture.arrow(377, 48 + row * 60, 498, 98 + row * 10)
    picture.text(80, 20, "group billing", anchor="middle", ink=ACCENT)
    for row in range(2):
        picture.box(30, 55 + row * 90, 100, 40, f"member {row + 1}")
    picture.arrow(263, 48, 132, 70)
    picture.arrow(263, 108, 132, 82)
    picture.arrow(263, 168, 132, 165)
    picture.text(550, 20, "group search", anchor="middle", ink=ACCENT)
    picture.box(500, 88, 100, 40, "member 1")
    note = "each group has committed offsets of its own: every group reads the whole topic"
    picture.text(320, 228, note, ink=SOFT, anchor="middle")
    return picture


def replicas() -> Picture:
    """A partition on three brokers: the high watermark is what all in-sync replicas have."""
    picture = Picture(640, 240, "A leader, a follower in sync and one that is behind")
    names = ("broker 1: leader", "broker 2: follower, in sync", "broker 3: follower, behind")
    for row, (name, count, fill) in enumerate(zip(names, (7, 6, 3), (LEADER, FOLLOWER, FOLLOWER), strict=True)):
        y = 24 + row * 62
        picture.text(20, y + 22, name)
        for offset in range(count):
            picture.box(220 + offset * 40, y, 36, 34, str(offset), fill=fill, ink=PAPER if fill == LEADER else INK)
    picture.parts.append(f'<line x1="459" y1="10" x2="459" y2="190" stroke="{ACCENT}" stroke-dasharray="5 4"/>')
    picture.text(452, 208, "high watermark: consumers read up to here", anchor="end", ink=ACCENT)
    picture.text(
        20, 230, "ISR = {1, 2}; acks=all waits for the ISR, min.insync.replicas says how small it may be", ink=SOFT
    )
    return picture


def semantics() -> Picture:
    """When the offset is committed decides what a crash leaves."""
    picture = Picture(640, 200, "At most once, at least once, exactly once")
    rows = (
        ("at most once", ("poll", "commit", "process"), "a crash after the commit loses the record"),
        ("at least once", ("poll", "process", "commit"), "a crash before the commit repeats it"),
        ("exactly once", ("begin", "process + send", "offsets in txn", "commit txn"), "all of it or nothing"),
    )
    for row, (name, steps, consequence) in enumerate(rows):
        y = 16 + row * 60
        picture.text(10, y + 22, name, ink=ACCENT)
        x = 110
        for number, step in enumerate(steps):
            width = 24 + 7 * len(step)
            picture.box(x, y, width, 34, step, fill=BEHIND)
            if number:
                picture.arrow(x - 14, y + 17, x - 2, y + 17)
            x += width + 16
        picture.text(110, y + 50, consequence, ink=SOFT, size=12)
    return picture


def main() -> int:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for draw in (topic, groups, replicas, semantics):
        page = folder / f"{draw.__name__}.svg"
        text = draw().svg()
        if not page.exists() or page.read_text() != text:
            page.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A pipeline's graph as SVG, Graphviz DOT, Mermaid and text. Names are those of the file: each is escaped as its form
needs, and a name that is too long for its box is cut, with the whole one as its title."""

from __future__ import annotations

from html import escape

from ottla.spark.pipelines.graph import FLOW, LETTERS, SOURCE, VIEW, Graph, Node
from ottla.spark.pipelines.graph_layout import Layout, layout_of

FORMS = ("text", "svg", "dot", "mermaid")
BOX_WIDTH, BOX_HEIGHT, BEND_HEIGHT = 208, 54, 18
GAP_X, GAP_Y, MARGIN, HEAD = 84, 22, 28, 52
NAME_LETTERS, DETAIL_LETTERS = 22, 30
_KINDS = {SOURCE: "source", VIEW: "view", FLOW: "flow", LETTERS: "dead letters"}
_STYLE = """\
text { font-family: ui-sans-serif, system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif; fill: #1b2430; }
.title { font-size: 17px; font-weight: 600; } .name { font-size: 14px; font-weight: 600; }
.detail { font-size: 11.5px; fill: #5a6675; } .kind { font-size: 10.5px; fill: #5a6675; }
.paper { fill: #ffffff; } .box { fill: #f7f9fb; stroke: #c9d2dc; stroke-width: 1; }
.edge { fill: none; stroke: #93a1b1; stroke-width: 1.6; } .edge.letters { stroke: #d0793a; stroke-dasharray: 5 4; }
.head { fill: #93a1b1; } .head.letters { fill: #d0793a; }
.source .mark { fill: #2f7de1; } .view .mark { fill: #7a5bd0; }
.flow .mark { fill: #1e9e6a; } .letters .mark { fill: #d0793a; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6ebf1; } .detail, .kind { fill: #9aa7b6; } .paper { fill: #12171e; }
  .box { fill: #1b222c; stroke: #35404d; } .edge { stroke: #66758a; } .head { fill: #66758a; }
}
"""


def drawn(graph: Graph, form: str) -> str:
    return {"text": as_text, "svg": as_svg, "dot": as_dot, "mermaid": as_mermaid}[form](graph)


# --- SVG


def as_svg(graph: Graph) -> str:
    layout = layout_of(graph)
    places = _places(layout)
    width = MARGIN * 2 + len(layout.columns) * (BOX_WIDTH + GAP_X) - GAP_X
    height = max(
        (y + (BEND_HEIGHT if layout.is_bend(one) else BOX_HEIGHT) for one, (_, y) in places.items()), default=HEAD
    )
    height += MARGIN + 22
    letters = {node.id for node in graph.nodes if node.kind == LETTERS}
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(_cut(graph.name, 500))}</title>",
        f"<style>\n{_STYLE}</style>",
        f'<rect class="paper" width="{width}" height="{height}"/>',
        f'<text class="title" x="{MARGIN}" y="{MARGIN + 4}">{escape(_cut(graph.name, 60))}</text>',
    ]
    for (_, after), route in layout.routes.items():
        lines += _edge([places[one] for one in route], [layout.is_bend(one) for one in route], after in letters)
    for node in graph.nodes:
        lines += _box(node, *places[node.id])
    lines += _legend(graph, height - 16)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _places(layout: Layout) -> dict[str, tuple[int, int]]:
    """The upper left corner of each box and bend; columns are centred on the highest one."""
    heights = {
        index: sum((BEND_HEIGHT if layout.is_bend(one) else BOX_HEIGHT) + GAP_Y for one in column) - GAP_Y
        for index, column in enumerate(layout.columns)
    }
    most, places = max(heights.values(), default=0), {}
    for index, column in enumerate(layout.columns):
        y = HEAD + (most - heights[index]) // 2
        for one in column:
            places[one] = (MARGIN + index * (BOX_WIDTH + GAP_X), y)
            y += (BEND_HEIGHT if layout.is_bend(one) else BOX_HEIGHT) + GAP_Y
    return places


def _edge(places: list[tuple[int, int]], bends: list[bool], is_letters: bool) -> list[str]:
    """A curve through the bends, with an arrow's head at its end."""
    kind = " letters" if is_letters else ""
    middles = [y + (BEND_HEIGHT if bend else BOX_HEIGHT) // 2 for (_, y), bend in zip(places, bends, strict=True)]
    x, y = places[0][0] + BOX_WIDTH, middles[0]
    path = f"M{x},{y}"
    for index in range(1, len(places)):
        to_x, to_y = places[index][0], middles[index]
        end = to_x if bends[index] else to_x - 7
        half = (end - x) // 2
        path += f" C{x + half},{y} {end - half},{to_y} {end},{to_y}"
        x, y = end, to_y
        if bends[index]:
            x += BOX_WIDTH
            path += f" L{x},{y}"
    head = f"M{x + 7},{y} l-9,-4.5 v9 z"
    return [f'<path class="edge{kind}" d="{path}"/>', f'<path class="head{kind}" d="{head}"/>']


def _box(node: Node, x: int, y: int) -> list[str]:
    whole = _cut(f"{_KINDS[node.kind]} {node.name}: {node.detail}", 500)
    return [
        f'<g class="{node.kind}"><title>{escape(whole)}</title>',
        f'<rect class="box" x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="7"/>',
        f'<rect class="mark" x="{x}" y="{y + 8}" width="4" height="{BOX_HEIGHT - 16}" rx="2"/>',
        f'<text class="name" x="{x + 15}" y="{y + 23}">{escape(_cut(node.name, NAME_LETTERS))}</text>',
        f'<text class="detail" x="{x + 15}" y="{y + 41}">{escape(_cut(node.detail, DETAIL_LETTERS))}</text></g>',
    ]


def _legend(graph: Graph, y: int) -> list[str]:
    lines, x = [], MARGIN
    for kind in (one for one in _KINDS if any(node.kind == one for node in graph.nodes)):
        lines.append(
            f'<g class="{kind}"><rect class="mark" x="{x}" y="{y - 9}" width="9" height="9" rx="2"/>'
            f'<text class="kind" x="{x + 15}" y="{y}">{_KINDS[kind]}</text></g>'
        )
        x += 30 + 7 * len(_KINDS[kind])
    return lines


def _cut(text: str, letters: int) -> str:
    """One line without control characters, which XML does not have either."""
    clean = "".join(letter if letter.isprintable() else " " for letter in text)
    return clean if len(clean) <= letters else f"{clean[: letters - 1]}…"


# --- other forms


def as_dot(graph: Graph) -> str:
    def quoted(text: str) -> str:
        return '"' + _cut(text, 500).replace("\\", "\\\\").replace('"', '\\"') + '"'

    lines = [f"digraph {quoted(graph.name)} {{", "  rankdir=LR;", "  node [shape=box, style=rounded];"]
    for node in graph.nodes:
        label = f"{quoted(node.name)[:-1]}\\n{quoted(node.detail)[1:]}"
        lines.append(f"  {quoted(node.id)} [label={label}];")
    for before, after in graph.edges:
        style = " [style=dashed]" if graph.node(after).kind == LETTERS else ""
        lines.append(f"  {quoted(before)} -> {quoted(after)}{style};")
    return "\n".join([*lines, "}"]) + "\n"


def as_mermaid(graph: Graph) -> str:
    def shown(text: str) -> str:
        marks = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;"}
        return "".join(marks.get(letter, letter) for letter in _cut(text, 500))

    numbers = {node.id: f"n{index}" for index, node in enumerate(graph.nodes)}
    shapes = {SOURCE: '(["{}"])', VIEW: '["{}"]', FLOW: '[["{}"]]', LETTERS: '[/"{}"/]'}
    lines = ["flowchart LR"]
    for node in graph.nodes:
        label = f"{shown(node.name)}<br/>{shown(node.detail)}" if node.detail else shown(node.name)
        lines.append(f"  {numbers[node.id]}{shapes[node.kind].format(label)}")
    for before, after in graph.edges:
        arrow = "-.->" if graph.node(after).kind == LETTERS else "-->"
        lines.append(f"  {numbers[before]} {arrow} {numbers[after]}")
    return "\n".join(lines) + "\n"


def as_text(graph: Graph) -> str:
    """A tree for each source; a node that was shown above is named again, without its children."""
    lines: list[str] = [_cut(graph.name, 200)]
    seen: set[str] = set()

    def show(node_id: str, prefix: str, branch: str) -> None:
        node, after = graph.node(node_id), graph.targets_of(node_id)
        arrow = " -> " if node.kind in (FLOW, LETTERS) else "  "
        is_repeated = node_id in seen and bool(after)
        more = "  (see above)" if is_repeated else ""
        lines.append(f"{prefix}{branch}{_cut(node.name, 80)}{arrow}{_cut(node.detail, 200)}{more}")
        seen.add(node_id)
        inner = prefix + ("" if not branch else "   " if branch.startswith("└") else "│  ")
        for index, one in enumerate([] if is_repeated else after):
            show(one, inner, "└─ " if index == len(after) - 1 else "├─ ")

    read = {after for _, after in graph.edges}
    for node in graph.nodes:
        if node.id not in read:
            lines.append("")
            show(node.id, "", "")
    return "\n".join(lines) + "\n"

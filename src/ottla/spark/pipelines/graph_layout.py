"""Where the boxes of a pipeline's graph stand: sources on the left, flows on the right, as few crossings as a few
sweeps find. Pure: a graph in, places out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from ottla.spark.pipelines.graph import FLOW, LETTERS, Graph

SWEEPS = 8


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns of ids from left to right. An edge that passes a column has a bend there, which is an id, too."""

    columns: tuple[tuple[str, ...], ...]
    routes: dict[tuple[str, str], tuple[str, ...]]
    """By edge: where it begins, its bends, where it ends."""

    def is_bend(self, place: str) -> bool:
        return place.startswith("bend:")


def layout_of(graph: Graph) -> Layout:
    depths = _depths(graph)
    columns: list[list[str]] = [[] for _ in range(max(depths.values(), default=0) + 1)]
    for node in graph.nodes:
        columns[depths[node.id]].append(node.id)
    routes: dict[tuple[str, str], tuple[str, ...]] = {}
    for before, after in graph.edges:
        bends = [f"bend:{before}>{after}:{depth}" for depth in range(depths[before] + 1, depths[after])]
        for depth, bend in enumerate(bends, depths[before] + 1):
            columns[depth].append(bend)
        routes[before, after] = (before, *bends, after)
    pairs = [pair for route in routes.values() for pair in pairwise(route)]
    return Layout(tuple(tuple(column) for column in _with_few_crossings(columns, pairs)), routes)


def _depths(graph: Graph) -> dict[str, int]:
    """The column of each node: behind everything it reads; flows and letters together in the last one. A circle, which
    Spark refuses later, is cut where it is met again."""
    depths: dict[str, int] = {}

    def depth(node_id: str, path: tuple[str, ...]) -> int:
        if node_id not in depths:
            reads = [before for before, after in graph.edges if after == node_id and before not in path]
            depths[node_id] = max((depth(one, (*path, node_id)) + 1 for one in reads), default=0)
        return depths[node_id]

    for node in graph.nodes:
        depth(node.id, ())
    last = max([1, *depths.values()])
    for node in graph.nodes:
        if node.kind in (FLOW, LETTERS):
            depths[node.id] = last
    return depths


def _with_few_crossings(columns: list[list[str]], pairs: list[tuple[str, str]]) -> list[list[str]]:
    best, least = columns, _crossings(columns, pairs)
    current = [list(column) for column in columns]
    for sweep in range(SWEEPS):
        if sweep % 2 == 0:
            for index in range(1, len(current)):
                current[index] = _sorted_by(current[index], current[index - 1], [(b, a) for a, b in pairs])
        else:
            for index in range(len(current) - 2, -1, -1):
                current[index] = _sorted_by(current[index], current[index + 1], pairs)
        found = _crossings(current, pairs)
        if found < least:
            best, least = [list(column) for column in current], found
    return best


def _sorted_by(column: list[str], others: list[str], pairs: list[tuple[str, str]]) -> list[str]:
    """A column in the order of the mean place of its neighbours."""
    places = {one: index for index, one in enumerate(others)}

    def mean(index: int, one: str) -> float:
        near = [places[other] for mine, other in pairs if mine == one and other in places]
        return sum(near) / len(near) if near else float(index)

    keys = {one: (mean(index, one), index) for index, one in enumerate(column)}
    return sorted(column, key=lambda one: keys[one])


def _crossings(columns: Iterable[list[str]], pairs: list[tuple[str, str]]) -> int:
    places = {one: (depth, index) for depth, column in enumerate(columns) for index, one in enumerate(column)}
    lines = [(*places[before], places[after][1]) for before, after in pairs if before in places and after in places]
    return sum(
        one[0] == other[0] and (one[1] - other[1]) * (one[2] - other[2]) < 0
        for index, one in enumerate(lines)
        for other in lines[index + 1 :]
    )

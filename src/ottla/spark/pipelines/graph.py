"""The graph of a pipeline: which view reads what, from its file and its transformations alone. It needs neither Spark
nor secrets: a `${...}` without a value stays as it is written. The inputs of a SELECT are found by its words: a name of
a source or view behind FROM, JOIN or TABLE, or behind a comma of FROM. The inputs of a Python view are the names in
`spark.table("NAME")` and in the SQL of its texts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ottla.converters.registry import RegistrySettings
from ottla.spark.pipelines.definition import VIEW_MARK, Pipeline
from ottla.spark.pipelines.pipeline_file import load_pipeline
from ottla.spark.pipelines.variables import Unresolved

SOURCE, VIEW, FLOW, LETTERS = "source", "view", "flow", "letters"
_TOKEN = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|[A-Za-z_][A-Za-z0-9_]*|[^\sA-Za-z_]",
    re.DOTALL,
)
_AFTER_TABLES = frozenset(
    ("where", "group", "order", "having", "limit", "union", "select", "window", "lateral", "intersect", "except")
)


@dataclass(frozen=True, slots=True)
class Node:
    """A source, a view, a flow with its target, or the dead letters."""

    name: str
    kind: str
    detail: str = ""

    @property
    def id(self) -> str:
        """Unique: a flow may have the same name as its input."""
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True, slots=True)
class Graph:
    name: str
    nodes: tuple[Node, ...]
    edges: tuple[tuple[str, str], ...]
    """Ids of the input, and of its reader."""

    def targets_of(self, node_id: str) -> list[str]:
        return [after for before, after in self.edges if before == node_id]

    def sources_of(self, flow: str) -> set[str]:
        """The names of the sources that a flow may read, through any views."""
        found = [f"{FLOW}:{flow}"]
        for node_id in found:
            found += [before for before, after in self.edges if after == node_id and before not in found]
        return {self.node(node_id).name for node_id in found if self.node(node_id).kind == SOURCE}

    def node(self, node_id: str) -> Node:
        return next(node for node in self.nodes if node.id == node_id)


def load_graph(folder: Path, variables: Mapping[str, str], registry: RegistrySettings | None) -> Graph:
    return graph_of(load_pipeline(folder, Unresolved(variables), registry))


def graph_of(pipeline: Pipeline) -> Graph:
    views = {name: (path, reads) for path in pipeline.transformations for name, reads in _views_of(path).items()}
    known = {source.name.lower(): f"{SOURCE}:{source.name}" for source in pipeline.sources}
    known |= {name.lower(): f"{VIEW}:{name}" for name in views}
    nodes = [Node(one.name, SOURCE, f"{_shown_kind(one.kind)}{one.place}") for one in pipeline.sources]
    edges: list[tuple[str, str]] = []
    for name, (path, words) in views.items():
        node = Node(name, VIEW, path.name)
        nodes.append(node)
        edges += [(known[word], node.id) for word in words if word in known and known[word] != node.id]
    for flow in pipeline.flows:
        node = Node(flow.name, FLOW, flow.target)
        nodes.append(node)
        if flow.reads.lower() in known:
            edges.append((known[flow.reads.lower()], node.id))
    if pipeline.counted_sources:
        letters = Node(pipeline.dead_letters, LETTERS, "dead letters")
        nodes.append(letters)
        edges += [(f"{SOURCE}:{source.name}", letters.id) for source in pipeline.counted_sources]
    return Graph(pipeline.name, tuple(nodes), tuple(dict.fromkeys(edges)))


def flows_of_topics(pipeline: Pipeline) -> Iterator[str]:
    """The flows that read or write topics."""
    graph, topics = graph_of(pipeline), {source.name for source in pipeline.sources if source.kind == "topic"}
    for flow in pipeline.flows:
        if flow.kind == "topic" or graph.sources_of(flow.name) & topics:
            yield flow.name


def _shown_kind(kind: str) -> str:
    return f"{kind} " if kind in ("topic", "files", "delta", "iceberg") else ""


def _views_of(path: Path) -> dict[str, list[str]]:
    """The views of a file, each with the names that it may read, in lower case."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".sql":
        return {path.stem: tables_of(text)}
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError):
        return {}
    marked = VIEW_MARK.strip("_").rpartition("_")[2]
    return {
        one.name: list(dict.fromkeys(_python_tables(one)))
        for one in module.body
        if isinstance(one, ast.FunctionDef) and any(ast.unparse(mark).endswith(marked) for mark in one.decorator_list)
    }


def _python_tables(function: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from [node.value.lower(), *tables_of(node.value)]


def tables_of(sql: str) -> list[str]:
    """The names that a SELECT reads, in lower case and in order; those of its WITH are among them."""
    words = [word for word in _TOKEN.findall(sql) if not word.startswith(("--", "/*", "'", '"'))]
    found: list[str] = []
    depth, lists = 0, {0: False}
    expects = False
    for index, word in enumerate(words):
        lower = word.strip("`").lower()
        if word == "(":
            depth += 1
            lists[depth], expects = expects, expects
        elif word == ")":
            lists.pop(depth, None)
            depth, expects = max(depth - 1, 0), False
        elif lower in ("from", "join", "table"):
            expects, lists[depth] = True, lists.get(depth, False) or lower == "from"
        elif word == ",":
            expects = lists.get(depth, False)
        elif lower in _AFTER_TABLES:
            expects = lists[depth] = False
        elif expects and (word[0].isalpha() or word[0] in "_`"):
            is_call = index + 1 < len(words) and words[index + 1] == "("
            if not is_call:
                found.append(lower)
            expects = is_call and lower == "stream"
    return list(dict.fromkeys(found))

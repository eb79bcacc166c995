"""The graph of a pipeline: what SQL and Python read, where boxes stand, and how it is drawn."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ottla.__main__ import main
from ottla.spark.pipelines.graph import Graph, Node, load_graph, tables_of
from ottla.spark.pipelines.graph_drawing import FORMS, as_dot, as_mermaid, as_svg, as_text, drawn
from ottla.spark.pipelines.graph_layout import layout_of

PIPELINE = """\
name: shop
sources:
  orders: {topic: "${TOPIC}", format: string}
  people: {jdbc: "${DATABASE:-}", files: people.csv, schema: "id int", static: true}
flows:
  joined: {jdbc: "jdbc:postgresql://db/shop", table: t, options: {password: "${command:no-such-program}"}}
  copy: {from: ORDERS, topic: copy}
"""


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("select * from a", ["a"]),
        ("select x, y from a, b where c in (select d from e)", ["a", "b", "e"]),
        ("SELECT from_json(x) FROM `A` JOIN B USING (x), c", ["a", "b", "c"]),
        ("select 'from x' -- from y\n/* from z */ from a join (select 1 from b) t on a.x = t.x", ["a", "b"]),
        ("with w as (select * from a) select * from w left join lateral explode(x) as y", ["a", "w"]),
        ("select extract(day from at), trim(both from s) from a", ["at", "s", "a"]),
        ("select * from (a, b), range(10)", ["a", "b"]),
        ("select * from a group by x, b", ["a"]),
        ("select * from stream(a)", ["a"]),
    ],
)
def test_the_names_that_sql_reads(sql: str, tables: list[str]) -> None:
    assert tables_of(sql) == tables


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "transformations").mkdir()
    (tmp_path / "pipeline.yml").write_text(PIPELINE)
    (tmp_path / "transformations" / "joined.sql").write_text("select * from big join people using (id)")
    (tmp_path / "transformations" / "more.py").write_text(
        "from ottla.spark.pipelines import view\n\n@view\ndef big(spark):\n"
        "    return spark.table('orders').where('x > 1')\n"
        "\ndef other(spark):\n    return spark.table('people')\n"
    )
    return tmp_path


def test_a_graph_needs_no_secrets_and_no_variables(folder: Path) -> None:
    graph = load_graph(folder, {}, None)
    assert [(node.id, node.detail) for node in graph.nodes] == [
        ("source:orders", "topic ${TOPIC}"),
        ("source:people", "files people.csv"),
        ("view:joined", "joined.sql"),
        ("view:big", "more.py"),
        ("flow:joined", "jdbc t"),
        ("flow:copy", "topic copy"),
    ]
    assert set(graph.edges) == {
        ("view:big", "view:joined"),
        ("source:people", "view:joined"),
        ("source:orders", "view:big"),
        ("view:joined", "flow:joined"),
        ("source:orders", "flow:copy"),
    }


def graph_of(*edges: str) -> Graph:
    pairs = [tuple(edge.split()) for edge in edges]
    kinds = {"s": "source", "v": "view", "f": "flow"}
    names = dict.fromkeys(name for pair in pairs for name in pair)
    nodes = {name: Node(name, kinds[name[0]]) for name in names}
    return Graph("g", tuple(nodes.values()), tuple((nodes[a].id, nodes[b].id) for a, b in pairs))


def test_nodes_stand_behind_what_they_read_and_flows_are_last() -> None:
    layout = layout_of(graph_of("s1 v1", "v1 v2", "v2 f1", "s2 f2"))
    assert [[one for one in column if not layout.is_bend(one)] for column in layout.columns] == [
        ["source:s1", "source:s2"], ["view:v1"], ["view:v2"], ["flow:f1", "flow:f2"],
    ]  # fmt: skip
    assert len(layout.routes["source:s2", "flow:f2"]) == 4  # it bends around both views


def test_edges_cross_as_little_as_they_can() -> None:
    layout = layout_of(graph_of("s1 f3", "s2 f2", "s3 f1"))
    assert layout.columns[1] in (("flow:f3", "flow:f2", "flow:f1"), ("flow:f1", "flow:f2", "flow:f3"))
    order = [one.replace("source:s", "").replace("flow:f", "") for one in layout.columns[0]]
    assert [4 - int(one.replace("flow:f", "")) for one in layout.columns[1]] == [int(one) for one in order]


def test_a_circle_is_drawn_too() -> None:
    assert as_svg(graph_of("v1 v2", "v2 v1", "v1 f1"))


@pytest.mark.parametrize("form", FORMS)
def test_a_graph_without_edges_is_drawn(form: str) -> None:
    assert "only" in drawn(Graph("g", (Node("only", "source", "x"),), ()), form)


def test_names_are_escaped_in_every_form() -> None:
    evil = '<script>"\\&\x1b[2J#'
    graph = Graph(evil, (Node("a", "source", evil), Node("f", "flow", "x" * 90)), (("source:a", "flow:f"),))
    root = ElementTree.fromstring(as_svg(graph))
    texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert '<script>"\\& [2J#' in texts and "x" * 29 + "…" in texts
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))
    assert '<script>\\"\\\\& [2J#' in as_dot(graph)
    assert "#lt;script#gt;#quot;\\#amp; [2J#35;" in as_mermaid(graph)
    assert "\x1b" not in as_text(graph) + as_dot(graph) + as_mermaid(graph)


def test_the_command_draws_without_a_broker(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "graph", str(folder)]) == 0
    tree = "├─ big  more.py\n│  └─ joined  joined.sql\n│     └─ joined -> jdbc t\n└─ copy -> topic copy"
    assert tree in capsys.readouterr().out
    assert main(["pipeline", "graph", str(folder), "-o", "json"]) == 0
    assert {"from": "view:joined", "to": "flow:joined"} in json.loads(capsys.readouterr().out)["edges"]

"""`ottla pipeline graph NAME`: which flow reads which view and source, as text, SVG, Graphviz DOT, Mermaid or JSON. It
needs neither a broker nor Spark nor secrets."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from ottla.cli.output import JSON
from ottla.cli.session import choose_cluster

GRAPH_OUTPUTS = ("text", "svg", "dot", "mermaid", JSON)
GRAPH_EXAMPLES = """\
  ottla pipeline graph orders                         a tree for each source
  ottla pipeline graph orders -o svg > orders.svg     a picture
  ottla pipeline graph orders -o mermaid              for Markdown of GitHub and GitLab
"""


def show_graph(options: argparse.Namespace, folder: Path) -> int:
    from ottla.converters.registry import RegistrySettings
    from ottla.spark.pipelines.graph import load_graph
    from ottla.spark.pipelines.graph_drawing import FORMS, drawn

    registry = RegistrySettings.parse(choose_cluster(options).settings)
    graph = load_graph(folder, {**os.environ, **dict(options.variables)}, registry)
    if options.output == JSON:
        edges = [{"from": before, "to": after} for before, after in graph.edges]
        nodes = [{"id": node.id, **asdict(node)} for node in graph.nodes]
        sys.stdout.write(json.dumps({"pipeline": graph.name, "nodes": nodes, "edges": edges}, indent=2) + "\n")
    else:
        sys.stdout.write(drawn(graph, options.output if options.output in FORMS else "text"))
    return 0

"""What Spark's plan of a flow says: which sources it reads in which order, and what it keeps between batches.

A checkpoint knows the sources of a query by their numbers, and the state of its operators by the types and the number
of their keys. So both are what a changed query has to have in common with the one that made the checkpoint.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

STATELESS = frozenset(
    (
        *("Project", "Filter", "TypedFilter", "SubqueryAlias", "View", "Generate", "Union", "CollectMetrics"),
        *("EventTimeWatermark", "UpdateEventTimeWatermarkColumn", "StreamingRelation", "StreamingRelationV2"),
        *("MapInPandas", "MapInArrow", "PythonMapInArrow", "ArrowEvalPython", "BatchEvalPython", "MapElements"),
        *("SerializeFromObject", "DeserializeToObject", "MapPartitions", "Expand", "Repartition"),
        *(
            "RepartitionByExpression",
            "RebalancePartitions",
            "UnresolvedHint",
            "ResolvedHint",
            "WithCTE",
            "CTERelationDef",
        ),
    )
)
"""Operators that keep nothing between batches. A join of a stream with a table is one, too."""
AT_ONCE = frozenset(("aggregate", "deduplicate"))
"""Operators whose result for one batch, in a mode that writes every change, is that of a batch query."""
WATERMARK = "EventTimeWatermark"
MAX_NODES = 5000


@dataclass(frozen=True, slots=True)
class StatefulOperator:
    """An operator that keeps something between batches: by which keys, and what of them."""

    kind: str
    keys: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The parts of a flow's plan."""

    sources: tuple[str, ...] = ()
    """The sources of the pipeline that it reads as streams, in the order of the plan."""
    views: tuple[str, ...] = ()
    """Everything that it names: sources and views."""
    stateful: tuple[StatefulOperator, ...] = ()
    watermarks: tuple[str, ...] = ()

    @property
    def is_stateless(self) -> bool:
        """Whether each row depends on rows of one batch only, so any division into batches gives the same rows."""
        return not self.stateful

    def may_run_at_once(self, mode: str) -> bool:
        """Whether one batch of a stream gives the same rows as a batch query."""
        return mode != "append" and all(one.kind in AT_ONCE for one in self.stateful)


def plan_of(rows: DataFrame, sources: frozenset[str] = frozenset()) -> Plan:
    """The plan of a flow's rows. `sources` are the names of the pipeline's sources."""
    return _Reader(sources).read(rows._jdf.queryExecution().analyzed())


@dataclass(frozen=True, slots=True)
class UsedParts:
    """The columns of its topics that a query needs, after Spark's optimizer."""

    has_functions: bool
    """Python functions that decode values."""
    has_values: bool
    """Values as text."""


def used_parts(rows: DataFrame) -> UsedParts:
    """The columns that the optimized plan of rows still has. A field that is called `value`, too, counts as the
    text."""
    nodes = [rows._jdf.queryExecution().optimizedPlan()]
    has_functions = has_values = False
    while nodes:
        node = nodes.pop()
        has_functions = has_functions or str(node.nodeName()).endswith("EvalPython")
        for expression in _elements(node.expressions()):
            has_values = has_values or _casts_value(expression)
        nodes.extend(_elements(node.children()))
    return UsedParts(has_functions, has_values)


def _casts_value(expression: Any) -> bool:
    children = list(_elements(expression.children()))
    if str(expression.nodeName()).lower() == "cast" and str(children[0].nodeName()) == "AttributeReference":
        return str(children[0].name()) == "value"
    return any(map(_casts_value, children))


class _Reader:
    """Walks a plan in the JVM."""

    def __init__(self, sources: frozenset[str]) -> None:
        self._source_names = sources
        self._sources: list[str] = []
        self._views: dict[str, None] = {}
        self._stateful: list[StatefulOperator] = []
        self._watermarks: list[str] = []
        self._meanings: dict[int, Any] = {}
        """The expressions behind the names of columns, by their ids."""
        self._count = 0

    def read(self, plan: Any) -> Plan:
        self._walk(plan, None)
        return Plan(tuple(self._sources), tuple(self._views), tuple(self._stateful), tuple(self._watermarks))

    def _walk(self, node: Any, source: str | None) -> None:
        self._count += 1
        if self._count > MAX_NODES:
            raise ValueError(f"the plan of a flow has more than {MAX_NODES} operators")
        kind = str(node.nodeName())
        children = list(_elements(node.children()))
        if kind == "SubqueryAlias":
            alias = str(node.alias())
            self._views[alias] = None
            source = alias if alias in self._source_names else source
        for child in children:
            self._walk(child, source)
        if kind == "Project" and source is None:
            self._note_meanings(node.projectList())
        if not node.isStreaming():
            return
        if not children:
            self._sources.append(source or _unnamed(str(node.simpleString(200))))
        if kind == WATERMARK:
            self._watermarks.append(f"{node.eventTime().sql()} {node.delay().toString()}")
        elif kind == "Join":
            if all(child.isStreaming() for child in children):
                self._stateful.append(self._join(node))
        elif kind not in STATELESS:
            self._stateful.append(self._operator(kind, node))

    def _note_meanings(self, expressions: Any) -> None:
        for one in _elements(expressions):
            if str(one.nodeName()) == "Alias":
                self._meanings[int(one.exprId().id())] = one.child()

    def _operator(self, kind: str, node: Any) -> StatefulOperator:
        if kind == "Aggregate":
            keys = tuple(self._key(one) for one in _elements(node.groupingExpressions()))
            functions = dict.fromkeys(
                self._text(found) for one in _elements(node.aggregateExpressions()) for found in _functions(one)
            )
            self._note_meanings(node.aggregateExpressions())
            return StatefulOperator("aggregate", keys, tuple(functions))
        if kind == "Distinct":
            return StatefulOperator("deduplicate", tuple(self._key(one) for one in _elements(node.output())))
        if kind.startswith("Deduplicate"):
            name = "deduplicate" if kind == "Deduplicate" else "deduplicate within watermark"
            return StatefulOperator(name, tuple(self._key(one) for one in _elements(node.keys())))
        return StatefulOperator(kind, tuple(f"{one.name()} {one.dataType().sql()}" for one in _elements(node.output())))

    def _join(self, node: Any) -> StatefulOperator:
        condition = node.condition()
        parts = [self._text(condition.get())] if condition.isDefined() else []
        sides = tuple(
            ", ".join(f"{one.name()} {one.dataType().sql()}" for one in _elements(side.output()))
            for side in (node.left(), node.right())
        )
        return StatefulOperator(f"{str(node.joinType().sql()).lower()} join", tuple(parts), sides)

    def _key(self, expression: Any) -> str:
        return f"{self._text(expression)} {expression.dataType().sql()}"

    def _text(self, expression: Any, depth: int = 0) -> str:
        """An expression in SQL, with the meaning of a column that a projection below has made."""
        text = str(expression.sql())
        if depth < 4:
            for name, identifier in _attributes(expression):
                meaning = self._meanings.get(identifier)
                made = name if meaning is None else _window(self._text(meaning, depth + 1))
                if made != name:
                    text = made if text == name else f"{text} with {name} = {made}"
        return text


def _unnamed(text: str) -> str:
    """The description of a stream that is no source of the pipeline, without object numbers: those differ each time."""
    return re.sub(r"@[0-9a-f]+", "", text.split("[")[0]).strip()


def _window(text: str) -> str:
    """Spark's expression for `window(column, ...)`, in the form that one would write."""
    column, slide = re.search(r"precisetimestampconversion\(([\w.`]+)\)", text), re.search(r"% (\d+)L", text)
    length = re.findall(r"\+ (\d+)L", text)
    if column is None or slide is None or not length:
        return text
    every = "" if slide.group(1) == length[-1] else f", every {int(slide.group(1)) / 1e6:g} s"
    return f"window({column.group(1)}, {int(length[-1]) / 1e6:g} s{every})"


def _elements(sequence: Any) -> Iterator[Any]:
    for index in range(int(sequence.length())):
        yield sequence.apply(index)


def _functions(expression: Any) -> Iterator[Any]:
    """The aggregate functions in an expression: what an aggregation keeps of each group."""
    if str(expression.nodeName()) == "AggregateExpression":
        yield expression
        return
    for child in _elements(expression.children()):
        yield from _functions(child)


def _attributes(expression: Any) -> Iterator[tuple[str, int]]:
    if str(expression.nodeName()) == "AttributeReference":
        yield str(expression.name()), int(expression.exprId().id())
    for child in _elements(expression.children()):
        yield from _attributes(child)

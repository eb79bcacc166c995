"""The columns by which a view groups."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

_WINDOW_FIELDS = ("start", "end")


def grouping_columns(rows: DataFrame) -> tuple[str, ...]:
    """The columns of an aggregation that identify its rows; empty if there is no aggregation, or if the view leaves out
    one of its grouping columns. A window is kept if its start or its end is a column."""
    query: Any = rows._jdf
    plan = query.queryExecution().analyzed()
    names = {int(one.exprId().id()): str(one.name()) for one in _items(plan.output())}
    renamed: dict[int, int] = {}
    while plan.nodeName() != "Aggregate":
        if plan.nodeName() == "Project":
            renamed.update(_renamed(plan.projectList()))
        if plan.children().size() != 1:
            return ()
        plan = plan.children().apply(0)
    found = []
    for expression in _items(plan.groupingExpressions()):
        made = next((name for name in _columns_of(plan, expression, names, renamed)), None)
        if made is None:
            return ()
        found.append(made)
    return tuple(dict.fromkeys(found))


def _columns_of(plan: Any, expression: Any, names: dict[int, str], renamed: dict[int, int]) -> list[str]:
    """The columns of the view that have the value of a grouping expression."""
    found = []
    for made in _items(plan.aggregateExpressions()):
        value = made.child() if made.nodeName() == "Alias" else made
        is_part = value.nodeName() == "GetStructField" and value.sql().rpartition(".")[2].strip("`") in _WINDOW_FIELDS
        if value.semanticEquals(expression) or (is_part and value.child().semanticEquals(expression)):
            number = int(made.exprId().id())
            while number in renamed and number not in names:
                number = renamed[number]
            if number in names:
                found.append(names[number])
    return found


def _renamed(expressions: Any) -> dict[int, int]:
    """The numbers of columns that a projection gives another name."""
    return {
        int(one.child().exprId().id()): int(one.exprId().id())
        for one in _items(expressions)
        if one.nodeName() == "Alias" and one.child().nodeName() == "AttributeReference"
    }


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]

"""A YAML file as a document: pipeline.yml and files of cases.

A name that stands twice in the same place is an error: YAML's readers take the last one, and what the first one says
would be lost in silence. In cases, so is a plain `no`, which YAML reads as false: a row's text would be lost.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ottla.spark.pipelines.errors import PipelineError

_MERGE = "<<"
_BOOL = "tag:yaml.org,2002:bool"


def load_document(path: Path, *, has_rows: bool = False) -> object:
    """The content of a file. Errors do not quote it: a line may be a secret. The caller handles a FileNotFoundError.
    With `has_rows` plain words that YAML reads as true or false are refused."""
    import yaml

    try:
        loader = yaml.SafeLoader(path.read_text(encoding="utf-8"))
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _refuse_doubles(node, set())
            if has_rows:
                _refuse_words(node, set())
            document: object = loader.construct_document(node)
            return document
        finally:
            loader.dispose()
    except FileNotFoundError:
        raise
    except yaml.MarkedYAMLError as error:  # its text quotes the line
        mark = error.problem_mark
        where = f"{_place(mark)}: " if mark is not None else ""
        raise PipelineError(f"it is not valid YAML: {where}{error.problem or error.context}") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise PipelineError(f"it cannot be read: {error}") from None


def _refuse_doubles(node: Any, seen: set[int]) -> None:
    import yaml

    if id(node) in seen:  # an alias
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for one in node.value:
            _refuse_doubles(one, seen)
    elif isinstance(node, yaml.MappingNode):
        first: dict[str, Any] = {}
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != _MERGE:
                if key.value in first:
                    raise PipelineError(
                        f"{_place(key.start_mark)}: '{key.value}' is there a second time, after line "
                        f"{first[key.value].line + 1}: only one of the two would count"
                    )
                first[key.value] = key.start_mark
            _refuse_doubles(value, seen)


def _refuse_words(node: Any, seen: set[int]) -> None:
    import yaml

    if id(node) in seen:  # an alias
        return
    seen.add(id(node))
    if isinstance(node, yaml.ScalarNode):
        if node.tag == _BOOL and node.value.lower() not in ("true", "false"):
            raise PipelineError(
                f"{_place(node.start_mark)}: YAML reads {node.value} as true or false: write '{node.value}' in quotes "
                "if it is a text, else true or false"
            )
        return
    for one in node.value:
        for part in one if isinstance(one, tuple) else (one,):
            _refuse_words(part, seen)


def _place(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}"

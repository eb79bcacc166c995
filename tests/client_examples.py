"""The examples in the docstrings of the clients."""

from __future__ import annotations

import inspect
import textwrap


def methods_of(cls: type) -> list[str]:
    """Public methods and properties, those that are inherited, too."""
    return [
        name
        for name in dir(cls)
        if not name.startswith("_")
        and (callable(inspect.getattr_static(cls, name)) or isinstance(inspect.getattr_static(cls, name), property))
    ]


def example_of(cls: type, name: str) -> str:
    """The code behind `Example:` in a method's docstring; AssertionError if there is none."""
    doc = inspect.getdoc(getattr(cls, name))
    assert doc, f"{cls.__name__}.{name} has no docstring"
    text, _, example = doc.partition("\nExample:\n")
    assert text.strip() and example.strip(), f"{cls.__name__}.{name} has no example"
    return textwrap.dedent(example.strip("\n")) + "\n"

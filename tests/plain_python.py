"""A pytest plugin (`-p tests.plain_python`): what is compiled is taken from its source, as where no compiler is.

The whole package then runs as it does on a machine without a C compiler.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

SOURCES = Path(__file__).resolve().parents[1] / "src"
COMPILED = sorted(".".join(types.relative_to(SOURCES).with_suffix("").parts) for types in SOURCES.rglob("*.pxd"))


class PlainFinder:
    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in COMPILED:
            return None
        return importlib.util.spec_from_file_location(name, SOURCES / (name.replace(".", "/") + ".py"))


assert not set(COMPILED) & set(sys.modules), "too late: something has imported the compiled modules"
sys.meta_path.insert(0, PlainFinder)

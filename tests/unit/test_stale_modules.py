"""A compiled module that is older than its source would be tested in its place."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

from tests.conftest import stale_modules


def module(folder: Path, name: str, *, source_at: int, types_at: int, compiled_at: int | None) -> None:
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    for path, at in ((f"{name}.py", source_at), (f"{name}.pxd", types_at), (f"{name}{suffix}", compiled_at)):
        if at is not None:
            (folder / path).touch()
            os.utime(folder / path, (at, at))


def test_modules_that_changed_after_they_were_compiled_are_named(tmp_path: Path) -> None:
    package = tmp_path / "ottla"
    package.mkdir()
    module(package, "current", source_at=1, types_at=1, compiled_at=2)
    module(package, "edited", source_at=3, types_at=1, compiled_at=2)
    module(package, "retyped", source_at=1, types_at=3, compiled_at=2)
    module(package, "plain", source_at=1, types_at=1, compiled_at=None)
    assert stale_modules(tmp_path) == ["ottla.edited", "ottla.retyped"]

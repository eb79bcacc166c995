"""A killed process leaves coroutines behind that it had not begun: no defect of the program, so no warning here."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"))

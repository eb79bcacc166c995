"""Assistants' requests that end before the cluster is asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.console import mcp
from ottla.console.console import Console, ConsoleConfig
from ottla.console.routes import ROUTES


@pytest.mark.parametrize(
    ("name", "expected"),
    [("create_topic", "assistants only read: see --mcp-write"), ("no_such_tool", "there is no tool 'no_such_tool'")],
)
def test_a_tool_that_cannot_be_called_says_why(name: str, expected: str) -> None:
    async def scenario() -> Any:
        params = {"name": name, "arguments": {}}
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        console = Console(ConsoleConfig(), ROUTES)
        try:
            return await mcp.answer(console, asked, None, {}, "", may_write=False)
        finally:
            await console.close()

    assert expected in asyncio.run(scenario())["error"]["message"]

"""`ottla console` as a process, and a browser without a page: cookies, the CSRF token, JSON and the WebSocket."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import aiohttp


@contextmanager
def console(bootstrap: str, *arguments: str) -> Iterator[str]:
    """The URL of a console that runs meanwhile."""
    command = [sys.executable, "-m", "ottla", "console", "-b", bootstrap, "--port", "0", *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    try:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if (found := re.search(r"console: (http\S+)", line)) is not None:
                break
        else:
            raise AssertionError(f"the console did not start\n{''.join(lines)}")
        yield found.group(1)
    finally:
        process.terminate()
        process.communicate(timeout=30)


class Browser:
    def __init__(self, url: str, cluster: str = "local") -> None:
        self.url = url
        self.host = url.partition("://")[2]
        self.cookies: dict[str, str] = {}
        self.cluster = cluster
        self.session: dict[str, Any] = {}
        status, self.session = self.ask("GET", "/api/session")
        assert status == 200

    def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self.host, timeout=60)
        try:
            sent = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
            if method == "POST":
                sent["X-Ottla-Csrf"] = self.session.get("csrf", "")
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {**sent, **(headers or {})})
            response = connection.getresponse()
            for name, value in response.getheaders():
                if name.lower() == "set-cookie":
                    cookie = value.partition(";")[0].partition("=")
                    self.cookies[cookie[0]] = cookie[2]
            return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
        finally:
            connection.close()

    def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        status, _, data = self.request(method, path, body, headers)
        return status, json.loads(data) if data else None

    def get(self, path: str) -> Any:
        status, found = self.ask("GET", f"/api/clusters/{self.cluster}/{path}")
        assert status == 200, found
        return found

    def post(self, path: str, body: Any) -> Any:
        status, found = self.ask("POST", f"/api/clusters/{self.cluster}/{path}", body)
        assert status == 200, found
        return found

    def refused(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        status, found = self.ask(method, f"/api/clusters/{self.cluster}/{path}", body)
        assert status >= 400, found
        assert set(found["error"]) == {"code", "message", "hint"}
        return status, found["error"]["code"]

    def records(self, **search: Any) -> list[dict[str, Any]]:
        """All records of a search, page by page."""
        found: list[dict[str, Any]] = []
        while True:
            page = self.post("search", search)
            found += page["records"]
            if page["cursor"] is None:
                return found
            search["cursor"] = page["cursor"]

    @asynccontextmanager
    async def live(self, *, origin: str | None = None) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        async with (
            aiohttp.ClientSession(cookies=self.cookies, cookie_jar=aiohttp.CookieJar(unsafe=True)) as http_session,
            http_session.ws_connect(
                f"{self.url}/api/clusters/{self.cluster}/live", headers={"Origin": origin or self.url}
            ) as socket,
        ):
            yield socket

"""A Jupyter server with our extension, in a thread: real sockets, real authentication, and a test can reach inside."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from jupyter_server.serverapp import ServerApp
from traitlets.config import Config

from nbcheckpoint.server.app import NbcheckpointApp
from nbcheckpoint.server.stores import Stores

TOKEN = "a-token-for-tests"


@dataclass
class Server:
    """A Jupyter server in a thread of its own, and how to ask it."""

    app: ServerApp
    root: Path

    @property
    def port(self) -> int:
        """The one the system chose."""
        return next(iter(self.app.http_server._sockets.values())).getsockname()[1]

    @property
    def stores(self) -> Stores:
        return self.app.web_app.settings["nbcheckpoint_stores"]

    @stores.setter
    def stores(self, stores: Stores) -> None:
        self.app.web_app.settings["nbcheckpoint_stores"] = stores

    def ask(
        self,
        path: str,
        /,
        *,
        method: str = "GET",
        token: str | None = TOKEN,
        headers: dict[str, str] | None = None,
        body: Any = None,
        **query: str,
    ) -> tuple[int, dict[str, str], Any]:
        """Status, headers, and the body: JSON as what it says, None when there is none.

        A `body` to send is JSON, or bytes as they are.
        """
        sent = dict(headers or {})
        if token:
            sent["Authorization"] = f"token {token}"
        data = body if body is None or isinstance(body, bytes) else json.dumps(body)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            target = f"/nbcheckpoint/api/{path}" + (f"?{urlencode(query)}" if query else "")
            connection.request(method, target, body=data, headers=sent)
            response = connection.getresponse()
            got = response.read()
        finally:
            connection.close()
        is_json = response.getheader("Content-Type", "").startswith("application/json")
        return response.status, dict(response.getheaders()), json.loads(got) if is_json and got else got or None

    def log_in(self) -> dict[str, str]:
        """The headers of a browser that has logged in: its cookies, without the one against cross-site requests."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", f"/api/status?token={TOKEN}")
            response = connection.getresponse()
            response.read()
        finally:
            connection.close()
        cookies = [value.partition(";")[0] for name, value in response.getheaders() if name == "Set-Cookie"]
        return {"Cookie": "; ".join(cookie for cookie in cookies if not cookie.startswith("_xsrf="))}


@contextmanager
def serving(root: Path, *, home: Path) -> Iterator[Server]:
    """A server of `root`, for a user whose home is `home`; this process is that user meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "HOME"):
            patch.setenv(name, str(home))
        patch.delenv("NBCHECKPOINT_STORE", raising=False)
        yield from _serve(root)


def _serve(root: Path) -> Iterator[Server]:
    config = Config()
    config.IdentityProvider.token = TOKEN
    config.ServerApp.update(
        ip="127.0.0.1", port=0, root_dir=str(root), open_browser=False, allow_root=True, log_level="ERROR"
    )
    ServerApp.clear_instance()
    app = ServerApp(config=config)
    app.init_signal = lambda: None  # type: ignore[method-assign]  # signals belong to the main thread
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    failure: list[BaseException] = []

    async def start() -> None:
        app.initialize(argv=[], find_extensions=False)
        extension = NbcheckpointApp()
        extension._link_jupyter_server_extension(app)
        extension.initialize()
        app.start_app()

    def serve() -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(start())
        except BaseException as error:
            failure.append(error)
            ready.set()
            return
        loop.call_soon(ready.set)
        loop.run_forever()
        loop.run_until_complete(app._cleanup())
        loop.close()

    thread = threading.Thread(target=serve, name="jupyter-server")
    thread.start()
    assert ready.wait(60)
    if failure:
        raise failure[0]
    yield Server(app, root)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(30)
    assert not thread.is_alive()


@contextmanager
def at(running: Server, root: Path) -> Iterator[Server]:
    """The same server as if `root` were its root folder; afterwards it is as it was before."""
    settings = running.app.web_app.settings
    before = dict(settings)
    settings["nbcheckpoint_stores"] = Stores(root=root)
    yield Server(running.app, root)
    settings.update(before)

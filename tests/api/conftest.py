"""An API on a database of its own, and somebody at each of its doors."""

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from starlette.testclient import TestClient

from api.app import create_app
from api.main import Server, listen
from api.services import Services
from api.settings import Settings
from muster.client import Client
from muster.clock import ManualClock
from muster.protocol import Lease


@pytest.fixture
def settings(sqlite_url: str, tmp_path: Path) -> Settings:
    return Settings(
        database_url=sqlite_url,
        log_store=tmp_path / "logs",
        admin_token_file=tmp_path / "token",
        agent_token_file=tmp_path / "agent-token",
        secret_file=tmp_path / "secret",
        lease=Lease(renew=0.5, unknown=2.0, fence=5.0, margin=1.0),
    )


@pytest.fixture
def app(settings: Settings, clock: ManualClock, new_id: Callable[[], str]) -> FastAPI:
    return create_app(settings, clock=clock, new_id=new_id)


@pytest.fixture
def here(app: FastAPI) -> Services:
    """What the routes use: tests play the controller's part with its store."""
    services: Services = app.state.services
    return services


@pytest.fixture
def anybody(app: FastAPI) -> Iterator[TestClient]:
    """Somebody without a token, once the API is up."""
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def admin(anybody: TestClient, settings: Settings) -> TestClient:
    """An administrator."""
    anybody.headers["Authorization"] = f"Bearer {settings.admin_token_file.read_text().strip()}"
    return anybody


@pytest.fixture
def agent_headers(anybody: TestClient, settings: Settings) -> dict[str, str]:
    return {"Authorization": f"Bearer {settings.agent_token_file.read_text().strip()}"}


class _Threaded(Server):
    """A server in a thread: signals are the process's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """The URL of a real server of this app, for what streams."""
    listener = listen("127.0.0.1", 0)
    config = uvicorn.Config(app, log_config=None, lifespan="on", ws="websockets-sansio", timeout_graceful_shutdown=1)
    server = _Threaded(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        eventually(lambda: server.started)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)


@pytest.fixture
def url(app: FastAPI) -> Iterator[str]:
    with served(app) as address:
        yield address


@pytest.fixture
def client(url: str, settings: Settings) -> Iterator[Client]:
    with Client(url, settings.admin_token_file.read_text().strip()) as made:
        yield made


def eventually(condition: Callable[[], Any], seconds: float = 30.0) -> Any:
    """What `condition` gives as soon as it is true."""
    deadline = time.monotonic() + seconds
    for pause in itertools.chain((0.001, 0.005, 0.01), itertools.repeat(0.02)):
        if value := condition():
            return value
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(pause)
    return None


def manifest(name: str = "train", *, metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "muster.dev/v1",
        "kind": "Job",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"command": ["true"], **spec},
    }


JOBS = "/api/v1/namespaces/default/jobs"

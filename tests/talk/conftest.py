"""Two API processes on one database, one real agent whose stream ends in the second, one running worker."""

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from api.app import create_app
from api.services import Services
from api.settings import Settings
from muster.client import Client
from muster.launch import LaunchTemplate
from muster.protocol import Lease
from muster.states import AttemptPhase, JobPhase, WorkerPhase
from tests.agents.cluster import AgentProcess, alive, until
from tests.api.conftest import served
from tests.makers import make_attempt, make_job, make_worker

ROOT = Path(__file__).parents[2]


class House:
    """`urls[0]` is asked, `urls[1]` has the agent's stream."""

    def __init__(self, stack: ExitStack, folder: Path, database: str) -> None:
        self.folder, self.urls = folder, []
        settings = Settings(
            database_url=database,
            log_store=folder / "logs",
            admin_token_file=folder / "token",
            agent_token_file=folder / "agent-token",
            secret_file=folder / "secret",
            lease=Lease(renew=0.5, unknown=20.0, fence=600.0, margin=1.0),
        )
        ids = itertools.count(1)
        self.here: list[Services] = []
        for name in ("a", "b"):
            app = create_app(settings, new_id=lambda name=name: f"{name}{next(ids):06}")
            services: Services = app.state.services
            url = stack.enter_context(served(app))
            object.__setattr__(services, "settings", replace(settings, url=url))
            self.urls.append(url)
            self.here.append(services)
        self.settings = settings
        self.client = Client(self.urls[0], settings.admin_token_file.read_text().strip())

    def start_agent(self, **environ: str) -> AgentProcess:
        agent = AgentProcess.__new__(AgentProcess)
        agent.directory, agent._environ = self.folder / "n0", environ
        agent.log = self.folder / "agent.log"
        agent._base = {
            "PATH": os.environ["PATH"],
            "HOME": "/",
            "PYTHONPATH": str(ROOT),
            "MUSTER_SERVER": self.urls[1],
            "MUSTER_TOKEN_FILE": str(self.settings.agent_token_file),
            "MUSTER_NODE": "n0",
            "MUSTER_AGENT_DIR": str(agent.directory),
        }
        agent.process = None
        agent.start()
        return agent

    def run(self, *commands: str, uid: str = "train", env: dict[str, str] | None = None) -> str:
        """A job of one worker on n0 that runs these, one a rank; when it runs. Its uid."""
        job = make_job(uid, phase=JobPhase.STARTING)
        attempt = make_attempt(job, phase=AttemptPhase.LAUNCHING)
        template = LaunchTemplate(
            framework="command",
            processes=tuple(("/bin/sh", "-c", command) for command in commands),
            ranks=len(commands),
            env=env or {},
        )
        worker = make_worker(attempt, node="n0", template=template, desired="prepare", phase=WorkerPhase.ASSIGNED)

        def act(w: Any) -> None:
            w.insert_job(replace(job, attempt_uid=attempt.uid))
            w.insert_attempt(attempt)
            w.insert_worker(worker)

        self.here[0].write(act)

        def reached(phase: WorkerPhase) -> bool:
            with self.here[0].store.read() as r:
                found = r.worker(worker.uid)
            return found is not None and found.phase is phase

        until(lambda: reached(WorkerPhase.READY), "the worker is ready")
        self.here[0].write(lambda w: w.patch_worker(worker.uid, desired="run"))
        until(lambda: reached(WorkerPhase.RUNNING), "the worker runs")
        return worker.uid

    def muster(self, *words: str, **options: Any) -> subprocess.Popen[bytes]:
        """The command line, at the API process that does not have the agent."""
        env = {
            "PATH": os.environ["PATH"],
            "HOME": "/",
            "TERM": "xterm",
            "PYTHONPATH": str(ROOT),
            "MUSTER_SERVER": self.urls[0],
            "MUSTER_TOKEN_FILE": str(self.settings.admin_token_file),
        }
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen([sys.executable, "-m", "cli.main", *words], env=env, cwd=ROOT, **pipes)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("house")
    with ExitStack() as stack:
        made = House(stack, folder, f"sqlite:///{folder}/muster.db")
        agent = made.start_agent()
        stack.callback(agent.end)
        made.agent = agent  # type: ignore[attr-defined]
        yield made


__all__ = ["House", "alive", "house", "until"]
Run = Callable[..., str]

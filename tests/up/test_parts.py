"""The processes of an embedded cluster as data."""

import http.server
import json
import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from cli.up.layout import Layout
from cli.up.parts import Plan, parts
from cli.up.readiness import readiness

PLAN = Plan(
    layout=Layout(Path("/data")),
    host="127.0.0.1",
    port=7878,
    agents=4,
    devices="h100:8",
    nodes_per_leaf=2,
    redis_binary=Path("/wheel/valkey-server"),
    redis_port=6000,
    redis_password="hush",
)


def named(plan=PLAN):
    return {part.name: part for part in parts(plan)}


def test_four_nodes_stand_in_two_leaves_of_one_block():
    labels = {name: part.env["MUSTER_NODE_LABELS"] for name, part in named().items() if part.node}
    assert labels == {
        "agent-node-0": "muster.dev/block=b0,muster.dev/leaf=b0-l0",
        "agent-node-1": "muster.dev/block=b0,muster.dev/leaf=b0-l0",
        "agent-node-2": "muster.dev/block=b0,muster.dev/leaf=b0-l1",
        "agent-node-3": "muster.dev/block=b0,muster.dev/leaf=b0-l1",
    }


def test_no_password_is_on_a_command_line():
    assert "requirepass hush\n" in named()["redis"].stdin
    assert "hush" not in " ".join(word for part in parts(PLAN) for word in part.argv)


def test_redis_keeps_nothing_and_listens_to_this_machine_only():
    lines = named()["redis"].stdin.splitlines()
    assert {"bind 127.0.0.1", 'save ""', "appendonly no"} <= set(lines)


def test_without_a_redis_server_everything_polls_and_no_worker_is_started():
    found = named(replace(PLAN, redis_binary=None))
    assert not {"redis", "worker"} & found.keys()
    assert found["api"].env["MUSTER_REDIS_URL"] == ""


def test_the_short_lease_of_an_embedded_cluster():
    assert json.loads(named()["api"].env["MUSTER_LEASE"]) == {"renew": 0.5, "unknown": 2, "fence": 5, "margin": 1}


def test_agents_come_back_long_before_their_fence():
    assert all(part.restart_after <= 1 for part in parts(PLAN) if part.node)


def test_every_agent_has_a_folder_a_token_and_a_boot_id_of_its_own():
    agents = [part for part in parts(PLAN) if part.node]
    for name in ("MUSTER_AGENT_DIR", "MUSTER_VIRTUAL_BOOT", "MUSTER_NODE"):
        assert len({part.env[name] for part in agents}) == 4, name
    assert {part.env["MUSTER_TOKEN_FILE"] for part in agents} == {"/data/agent-token"}


@pytest.mark.parametrize(
    ("host", "url"), [("127.0.0.1", "http://127.0.0.1:7878"), ("0.0.0.0", "http://127.0.0.1:7878")]
)
def test_agents_go_to_an_address_that_can_be_reached(host, url):
    plan = replace(PLAN, host=host)
    assert plan.url == url
    assert named(plan)["agent-node-0"].env["MUSTER_SERVER"] == url
    assert named(plan)["api"].env["MUSTER_API_HOST"] == host


@pytest.fixture
def api():
    """Answers with `nodes` when the token is right."""

    class Handler(http.server.BaseHTTPRequestHandler):
        nodes: dict[str, str] = {}  # noqa: RUF012 - set by the test

        def do_GET(self):
            good = self.headers["Authorization"] == "Bearer right"
            items = [{"metadata": {"name": n}, "status": {"phase": p}} for n, p in self.nodes.items()]
            body = json.dumps({"items": items} if good else {"title": "no"}).encode()
            self.send_response(200 if good else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server.server_address[1], Handler
    server.shutdown()
    server.server_close()


def test_each_part_is_ready_when_it_can_be_seen_to_be(tmp_path, api):
    port, handler = api
    plan = replace(PLAN, layout=Layout(tmp_path), port=port, redis_binary=None)
    log = plan.layout.log("controller")
    log.parent.mkdir()
    log.write_text("an earlier life: leading epoch=1\n")
    look = readiness(plan)
    assert look() == frozenset(), "there is no token"
    plan.layout.token.write_text("wrong\n")
    assert look() == frozenset(), "a token that the API does not know"
    plan.layout.token.write_text("right\n")
    assert look() == {"api"}
    handler.nodes = {"node-0": "Ready", "node-1": "Unknown"}
    assert look() == {"api", "agent-node-0"}
    with log.open("a") as more:
        more.write("[info] leading epoch=2\n")
    assert look() == {"api", "controller", "agent-node-0"}


def test_the_redis_server_is_ready_when_it_listens(tmp_path):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        plan = replace(PLAN, layout=Layout(tmp_path), port=1, redis_port=server.getsockname()[1])
        assert readiness(plan)() == frozenset()
        server.listen()
        assert readiness(plan)() == {"redis", "worker"}

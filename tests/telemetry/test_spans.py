"""The way of an attempt as spans: the same for whoever makes them, and in the words of OpenTelemetry."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from msgspec.structs import replace

from controller.telemetry import spans, tracing
from controller.telemetry.spans import started, submitted
from tests.makers import make_attempt, make_job, make_worker

JOB = make_job(queued_at=100.0)
ATTEMPT = make_attempt(JOB, placed_at=101.0, launching_at=103.0, running_at=104.0, epoch=1)


def test_waiting_preparing_spawning_and_each_worker_are_spans_of_one_trace():
    workers = [replace(make_worker(ATTEMPT), index=index, running_at=103.5 + index) for index in range(2)]
    root, *parts = started(JOB, ATTEMPT, workers)
    assert (root.name, root.start, root.end, root.parent) == ("attempt", 100.0, 104.0, 0)
    assert [(part.name, part.start, part.end) for part in parts] == [
        ("wait", 100.0, 101.0),
        ("prepare", 101.0, 103.0),
        ("spawn", 103.0, 104.0),
        ("worker worker-0", 101.0, 103.5),
        ("worker worker-1", 101.0, 104.5),
    ]
    assert {part.parent for part in parts} == {root.id}
    assert len({part.id for part in (root, *parts)}) == 6


def test_the_api_speaks_of_the_same_trace_without_being_told():
    root = started(JOB, ATTEMPT, [])[0]
    asked = submitted(JOB.uid, JOB.namespace, JOB.name, 99.9, 100.0, "r-1")
    assert (asked.trace, asked.parent) == (root.trace, root.id)


def test_a_later_attempt_is_another_trace_and_begins_with_the_recovery():
    job = replace(JOB, recovering_since=200.0)
    again = replace(ATTEMPT, number=2, epoch=2, placed_at=201.0, launching_at=None, running_at=203.0)
    root, *parts = started(job, again, [])
    assert root.start == 200.0
    assert root.trace != started(JOB, ATTEMPT, [])[0].trace
    assert [part.name for part in parts] == ["wait"]


def test_nobody_asked_nothing_is_sent_and_a_missing_extra_is_said(monkeypatch, capsys):
    assert tracing.exporter("x", {}) is None
    monkeypatch.setitem(__import__("sys").modules, "controller.telemetry.otlp", None)
    assert tracing.exporter("x", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}) is None


@pytest.fixture
def collector():
    """Bodies that were sent to an OTLP receiver, and its address."""
    bodies, arrived = [], threading.Event()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self):
            bodies.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()
            arrived.set()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield bodies, arrived, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_a_collector_gets_them_by_the_standard_protocol(collector, monkeypatch):
    trace_service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    bodies, arrived, url = collector
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    export = tracing.exporter("muster-controller")
    assert export is not None
    sent = started(JOB, ATTEMPT, [])
    export(sent)
    assert arrived.wait(60)
    path, body = bodies[0]
    assert path == "/v1/traces"
    (resource,) = trace_service.ExportTraceServiceRequest.FromString(body).resource_spans
    assert {one.key: one.value.string_value for one in resource.resource.attributes}["service.name"] == (
        "muster-controller"
    )
    got = {span.name: span for scope in resource.scope_spans for span in scope.spans}
    assert set(got) <= {"attempt", "wait", "prepare", "spawn"}
    root = got["attempt"]
    assert int.from_bytes(root.trace_id, "big") == sent[0].trace
    assert (root.start_time_unix_nano, root.end_time_unix_nano) == (100 * 10**9, 104 * 10**9)


def test_ids_are_never_the_one_that_means_none(monkeypatch):
    monkeypatch.setattr(spans.hashlib, "sha256", lambda _: type("Zero", (), {"digest": lambda self: bytes(32)})())
    assert spans.trace_of("x", 1) == 1

"""A server of canned answers, which remembers what it was asked."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit


class Stub:
    """`answers` maps (method, path below /api/v1) to (status, body) or a function of the request."""

    def __init__(self):
        self.answers, self.asked = {}, []
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def respond(self):
                parts = urlsplit(self.path)
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                path = parts.path.removeprefix("/api/v1")
                request = {
                    "method": self.command,
                    "path": path,
                    "query": dict(parse_qsl(parts.query)),
                    "body": body,
                    "token": self.headers.get("Authorization"),
                }
                stub.asked.append(request)
                found = stub.answers.get((self.command, path), problem(404, f"there is no {path}"))
                status, answer, *headers = found(request) if callable(found) else found
                data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                for name, value in (headers[0] if headers else {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_PUT = do_POST = do_DELETE = respond  # noqa: N815 - names of http.server

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def get(self, path, answer, status=200):
        self.answers["GET", path] = (status, answer)

    def listed(self, path, items):
        self.get(path, {"apiVersion": "muster.dev/v1", "metadata": {"resourceVersion": "41"}, "items": items})

    def on(self, method, path, *answer):
        self.answers[method, path] = answer

    def last(self, method):
        return [one for one in self.asked if one["method"] == method][-1]

    def close(self):
        self._server.shutdown()
        self._server.server_close()


def problem(status, detail, errors=(), title="Not so"):
    return status, {"title": title, "status": status, "code": "X", "detail": detail, "errors": list(errors)}

"""Where web hooks go: slow, now and then broken, and it remembers what it took."""

import random
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver:
    """`taken`: how often each key was answered with success."""

    def __init__(self, seed: int, *, slowness: float = 0.3, broken: float = 0.1) -> None:
        self.taken: Counter[str] = Counter()
        chance, lock, taken = random.Random(seed), threading.Lock(), self.taken
        pause = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                pause.wait(slowness)
                with lock:
                    ill = chance.random() < broken
                    if not ill:
                        taken[self.headers["Idempotency-Key"]] += 1
                self.send_response(500 if ill else 204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

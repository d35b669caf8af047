"""A container engine that plays Docker: a daemon in the test, and a command line that talks to it.

What it runs are ordinary processes that are the test's own children, as Docker's are its daemon's: whoever kills the
client has killed nothing. Every call is recorded.
"""

import array
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

CLIENT = """#!{python}
import array, json, os, signal, socket, sys
s = socket.socket(socket.AF_UNIX); s.connect({path!r})
request = json.dumps({{"argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}}).encode()
s.sendmsg([len(request).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
s.sendall(request)
signal.signal(signal.SIGTERM, lambda *_: s.sendall(b"T"))  # the client's own sig-proxy
answer = b""
while not answer.endswith(b"\\n"):
    try:
        piece = s.recv(4096)
    except InterruptedError:
        continue
    if not piece:
        sys.exit(125)
    answer += piece
sys.exit(int(answer))
"""


class StandIn:
    """`images` are here; `failures` is how often a pull fails before it works, with `refusal` as its words."""

    def __init__(self, folder: Path) -> None:
        self.calls: list[dict[str, Any]] = []
        self.images: set[str] = set()
        self.failures, self.refusal = 0, "connection reset by peer"
        self.hold_pull, self.away = threading.Event(), False
        self.hold_pull.set()
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        folder.mkdir()
        self.program = folder / "docker"
        self.program.write_text(CLIENT.format(python=sys.executable, path=str(folder / "sock")))
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / "sock"))
        self._listener.listen(64)
        threading.Thread(target=self._serve, daemon=True).start()

    def of(self, *words: str) -> list[dict[str, Any]]:
        return [call for call in list(self.calls) if call["argv"][: len(words)] == list(words)]

    def close(self) -> None:
        self._listener.close()
        for process in self.running.values():
            process.kill()
            process.wait()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        size, passed, _, _ = connection.recvmsg(4, socket.CMSG_SPACE(12))
        fds = array.array("i")
        for _, _, data in passed:
            fds.frombytes(data)
        body = b""
        while len(body) < int.from_bytes(size, "big"):
            body += connection.recv(65536)
        request = json.loads(body)
        self.calls.append(request)
        code = 1 if self.away else self._act(request["argv"], request, list(fds), connection)
        for fd in fds:
            os.close(fd)
        try:
            connection.sendall(b"%d\n" % code)
        except OSError:
            pass
        connection.close()

    def _act(self, argv: list[str], request: dict[str, Any], fds: list[int], connection: socket.socket) -> int:
        match argv:
            case ["image", "inspect", image]:
                return 0 if image in self.images else 1
            case ["pull", image]:
                os.write(fds[1], b"aaaaaaaaaaaa: Pulling fs layer\nbbbbbbbbbbbb: Pulling fs layer\n")
                os.write(fds[1], b"aaaaaaaaaaaa: Pull complete\n")
                self.hold_pull.wait(60)
                if self.failures:
                    self.failures -= 1
                    os.write(fds[2], f"Error: {self.refusal}\n".encode())
                    return 1
                self.images.add(image)
                return 0
            case ["ps", "-a", "-q", "-f", name]:
                if name.removeprefix("name=^").removesuffix("$") in self.running:
                    os.write(fds[1], b"0123456789ab\n")
                return 0
            case ["rm", "-f", name]:
                if (process := self.running.get(name)) is not None:
                    process.kill()
                return 0
            case ["run", *words]:
                return self._run(words, request, fds, connection)
            case ["exec", *words]:
                return self._exec(words, request, fds)
        return 125

    def _run(self, words: list[str], request: dict[str, Any], fds: list[int], connection: socket.socket) -> int:
        flags = {"--rm", "--init"}
        options: dict[str, list[str]] = {}
        while words and words[0].startswith("--"):
            option, words = words[0], words[1:]
            if option not in flags:
                options.setdefault(option, []).append(words[0])
                words = words[1:]
        name, entry = options["--name"][0], options["--entrypoint"][0]
        if words[0] not in self.images:
            os.write(fds[2], b"no such image\n")
            return 125
        env = {"PATH": os.environ["PATH"], "IMAGE": words[0]}
        env |= {key: request["env"][key] for key in options.get("--env", ()) if key in request["env"]}
        process = subprocess.Popen(
            [entry, *words[1:]], env=env, cwd=options["--workdir"][0], stdin=fds[0], stdout=fds[1], stderr=fds[2], start_new_session=True
        )  # fmt: skip
        self.running[name] = process
        threading.Thread(target=self._proxy, args=(connection, process), daemon=True).start()
        code = process.wait()
        del self.running[name]
        return code if code >= 0 else 128 - code

    def _proxy(self, connection: socket.socket, process: subprocess.Popen[bytes]) -> None:
        try:
            while connection.recv(1) == b"T":
                process.send_signal(signal.SIGTERM)
        except OSError:
            pass

    def _exec(self, words: list[str], request: dict[str, Any], fds: list[int]) -> int:
        words = [word for word in words if word not in ("--interactive", "--tty")]
        return subprocess.run(words[1:], stdin=fds[0], stdout=fds[1], stderr=fds[2], check=False).returncode

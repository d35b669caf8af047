"""`muster top`: the cluster on a full screen, live. Keys as in k9s."""

import curses
import os
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import click

from cli import options
from cli.api import Api, client_of, connect, jobs_path, path_to
from cli.columns import columns_of
from cli.errors import Exit, Failure
from cli.output import clean, now, table
from muster.client import MusterError

Object = dict[str, Any]
VIEWS: Final = {"1": "jobs", "2": "nodes", "3": "queues", "4": "events"}
HELP: Final = "1 jobs  2 nodes  3 queues  4 events   j/k move  enter more  l logs  / filter  a all  q back, quit"
REFRESH: Final = 1.0
"""Seconds between two looks at most; without a change there is none for `IDLE`."""
IDLE: Final = 15.0


@click.command()
@options.namespace
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Jobs and events of all projects.")
def top(namespace: str, everywhere: bool) -> None:
    """Watch jobs, nodes, queues and events on a full screen."""
    import sys

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Failure("top needs a terminal", code=Exit.USAGE, hint="`muster get jobs -w` goes into a file or a pipe")
    api = connect()
    api.get("/version")
    os.environ.setdefault("ESCDELAY", "25")
    curses.wrapper(lambda screen: Screen(screen, api, namespace, everywhere).run())


class Source:
    """What is shown, fetched beside the screen when something has changed."""

    def __init__(self, api: Api, namespace: str, everywhere: bool) -> None:
        self._api, self.namespace, self.everywhere = api, namespace, everywhere
        self.view = "jobs"
        self.rows: list[Object] = []
        self.head = self.trouble = ""
        self.dirty = threading.Event()
        self._version = 0

    def begin(self) -> None:
        for work in (self._fetch, self._watch):
            threading.Thread(target=work, daemon=True).start()

    def show(self, view: str) -> None:
        self.view, self.rows = view, []
        self.dirty.set()

    def _watch(self) -> None:
        while True:
            try:
                for _ in client_of().watch(bookmarks=False):
                    self.dirty.set()
            except (MusterError, Failure):
                time.sleep(REFRESH)

    def _fetch(self) -> None:
        while True:
            self.dirty.clear()
            view = self.view
            try:
                rows, head = self._look(view)
                if view == self.view:
                    self.rows, self.head, self.trouble = rows, head, ""
            except Failure as failure:
                self.trouble = failure.message
            time.sleep(REFRESH)
            self.dirty.wait(IDLE)

    def _look(self, view: str) -> tuple[list[Object], str]:
        api = self._api
        nodes = api.items("/nodes")
        devices = sum(len(one["status"].get("devices", ())) for one in nodes)
        used = sum(len(one["status"].get("allocated", ())) for one in nodes)
        ready = sum(one["status"]["phase"] == "Ready" for one in nodes)
        head = f"nodes {ready}/{len(nodes)} ready   devices {used}/{devices} in use"
        match view:
            case "nodes":
                return nodes, head
            case "queues":
                return api.items("/queues"), head
            case "events":
                where = "/events" if self.everywhere else path_to("namespaces", self.namespace, "events")
                return api.get(where, limit=200)["items"][::-1], head
        path = "/jobs" if self.everywhere else jobs_path(self.namespace)
        jobs = api.items(path)
        order = {"Running": 0, "Recovering": 1, "Starting": 1, "Stopping": 1, "Queued": 2, "Suspended": 3}
        jobs.sort(key=lambda one: str(one["metadata"].get("createdAt")), reverse=True)
        jobs.sort(key=lambda one: order.get(one["status"]["phase"], 9))
        counts = {phase: sum(one["status"]["phase"] == phase for one in jobs) for phase in order}
        return jobs, head + f"   running {counts['Running']}   waiting {counts['Queued']}"


class Screen:
    def __init__(self, screen: Any, api: Api, namespace: str, everywhere: bool) -> None:
        self._screen, self._api = screen, api
        self._source = Source(api, namespace, everywhere)
        self._at = self._first = 0
        self._filter, self._typing = "", False
        self._text: list[str] | None = None
        """A page in the place of the table: a description, or logs."""

    def run(self) -> None:
        curses.curs_set(0)
        if curses.has_colors():
            curses.use_default_colors()
            for number, colour in enumerate(
                (curses.COLOR_GREEN, curses.COLOR_RED, curses.COLOR_YELLOW, curses.COLOR_CYAN), 1
            ):
                curses.init_pair(number, colour, -1)
        self._screen.timeout(250)
        self._source.begin()
        while True:
            self._draw()
            key = self._screen.getch()
            if key != -1 and not self._key(key):
                return

    def _key(self, key: int) -> bool:
        """False: the end."""
        if self._typing:
            return self._type(key)
        letter = chr(key) if 0 <= key < 256 else ""
        page = max(1, self._height() - 1)
        moves = {
            "j": 1,
            "k": -1,
            curses.KEY_DOWN: 1,
            curses.KEY_UP: -1,
            curses.KEY_NPAGE: page,
            curses.KEY_PPAGE: -page,
            "g": -(10**9),
            "G": 10**9,
        }
        if (step := moves.get(letter, moves.get(key))) is not None:
            self._at += step
        elif letter == "q" or key == 27:
            if self._text is None:
                return letter != "q"
            self._text, self._at = None, 0
        elif letter in VIEWS:
            self._text, self._at, self._filter = None, 0, ""
            self._source.show(VIEWS[letter])
        elif letter == "/":
            self._typing = True
        elif letter == "a":
            self._source.everywhere = not self._source.everywhere
            self._source.dirty.set()
        elif letter == "l" and self._source.view == "jobs" and self._text is None:
            self._open(self._logs)
        elif letter in ("\n", "\r", "d") and self._text is None:
            self._open(self._described)
        return True

    def _type(self, key: int) -> bool:
        if key in (10, 13):
            self._typing = False
        elif key == 27:
            self._typing, self._filter = False, ""
        elif key in (curses.KEY_BACKSPACE, 127, 8):
            self._filter = self._filter[:-1]
        elif 32 <= key < 127:
            self._filter += chr(key)
        self._at = 0
        return True

    def _open(self, page: Callable[[Object], list[str]]) -> None:
        rows = self._rows()
        if rows:
            try:
                self._text = page(rows[min(self._at, len(rows) - 1)])
            except Failure as failure:
                self._text = failure.lines()
            self._at = 0

    def _described(self, one: Object) -> list[str]:
        from cli.verbs.describe import text_of

        if self._source.view == "events":
            return [f"{key}: {value}" for key, value in one.items()]
        kind = self._source.view.removesuffix("s")
        namespace = one["metadata"].get("namespace") or self._source.namespace
        return text_of(self._api, kind, one["metadata"]["name"], namespace).split("\n")

    def _logs(self, one: Object) -> list[str]:
        pieces = self._api.logs(one["metadata"]["name"], one["metadata"]["namespace"], tail=500)
        lines = b"".join(pieces).decode(errors="replace").splitlines()
        self._at = 10**9
        return lines or ["nothing was written yet"]

    def _rows(self) -> list[Object]:
        word = self._filter.lower()
        return [one for one in self._source.rows if not word or word in _words(one)]

    def _height(self) -> int:
        rows: int = self._screen.getmaxyx()[0]
        return max(1, rows - 3)

    def _draw(self) -> None:
        height, width = self._screen.getmaxyx()
        source = self._source
        where = "all namespaces" if source.everywhere else source.namespace
        lines = self._text if self._text is not None else self._table(width)
        heads = 0 if self._text is not None else 1
        body = lines[heads:]
        self._at = max(0, min(self._at, len(body) - (1 if heads else self._height())))
        room = self._height() - heads
        self._first = max(0, min(self._first, self._at))
        if self._at >= self._first + room:
            self._first = self._at - room + 1
        if not heads:
            self._first = self._at
        self._screen.erase()
        self._put(0, f" muster {source.view} in {where}   {source.head}", curses.A_BOLD)
        for row, line in enumerate(lines[:heads]):
            self._put(1 + row, line, curses.color_pair(4))
        for row, line in enumerate(body[self._first : self._first + room]):
            marked = bool(heads) and self._first + row == self._at
            self._put(1 + heads + row, line, curses.A_REVERSE if marked else _colour(line))
        foot = f"/{self._filter}" if self._typing or self._filter else source.trouble or HELP
        self._put(height - 1, " " + foot, curses.color_pair(2) if source.trouble else curses.A_DIM)
        self._screen.refresh()

    def _table(self, width: int) -> list[str]:
        kind = {"jobs": "Job", "nodes": "Node", "queues": "Queue", "events": "Event"}[self._source.view]
        columns = [one for one in columns_of(kind, now()) if width > 140 or not one.wide]
        shown = table(columns, self._rows(), width=width - 1)
        return shown.split("\n")

    def _put(self, row: int, text: str, attribute: int = 0) -> None:
        height, width = self._screen.getmaxyx()
        if 0 <= row < height:
            try:
                self._screen.addnstr(row, 0, clean(text).ljust(width - 1), width - 1, attribute)
            except curses.error:
                pass  # the window became smaller meanwhile


def _words(one: Object) -> str:
    import json

    return json.dumps(
        [one.get("metadata"), one.get("status"), one.get("reason"), one.get("message")], default=str
    ).lower()


def _colour(line: str) -> int:
    for word, pair in (
        ("Running", 1),
        ("Ready", 1),
        ("Failed", 2),
        ("Lost", 2),
        ("warning", 2),
        ("Queued", 3),
        ("Recovering", 3),
        ("Unknown", 3),
    ):
        if word in line:
            return int(curses.color_pair(pair))
    return 0

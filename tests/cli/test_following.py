"""`muster logs -f` over restarts of the job and of the API."""

import pytest

from cli.api import NotThere, Unreachable
from cli.following import PATIENCE, Following


class Cluster:
    """`streams`: for each request for logs its pieces, the last of which may be an error; `moments`: (phase of the
    job, phases of its attempts) after each of them."""

    def __init__(self, streams, moments):
        self.streams, self.moments, self.asked, self.now = list(streams), list(moments), [], 0.0
        self.away = 0

    def get(self, path):
        self._refuse()
        return {"metadata": {"uid": "u1"}, "status": {"phase": self.moments[0][0]}}

    def items(self, path):
        self._refuse()
        return [{"number": n, "phase": phase} for n, phase in enumerate(self.moments[0][1], 1)]

    def logs(self, name, namespace, **query):
        self.asked.append({key: value for key, value in query.items() if value is not None})
        pieces = self.streams.pop(0)
        self.moments = self.moments[1:] or self.moments
        for piece in pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    def _refuse(self):
        if self.away:
            self.away -= 1
            raise Unreachable("away")

    def sleep(self, seconds):
        self.now += seconds


def follow(cluster, **query):
    said = []
    following = Following(
        cluster, "j", "default", query, say=said.append, sleep=cluster.sleep, monotonic=lambda: cluster.now
    )
    return b"".join(following.job()), said


GONE = Unreachable("broke off")


def test_a_stream_that_breaks_off_goes_on_without_a_line_lost_or_twice():
    cluster = Cluster(
        [[b"one\ntwo\nsame\nsa", GONE], [b"one\ntwo\nsame\nsame\nlast\n"]],
        [("Running", ["Running"]), ("Running", ["Running"]), ("Succeeded", ["Ended"])],
    )
    assert follow(cluster) == (b"one\ntwo\nsame\nsame\nlast\n", [])


def test_a_stream_that_its_api_ended_is_taken_up_again():
    cluster = Cluster(
        [[b"one\n"], [b"one\ntwo\n"]],
        [("Running", ["Running"]), ("Running", ["Running"]), ("Succeeded", ["Ended"])],
    )
    assert follow(cluster) == (b"one\ntwo\n", [])


def test_the_next_attempt_is_followed_too_and_announced():
    cluster = Cluster(
        [[b"first\n"], [b"first\n"]],
        [("Running", ["Running"]), ("Running", ["Ended", "Running"]), ("Succeeded", ["Ended", "Ended"])],
    )
    assert follow(cluster, tail=5) == (b"first\nfirst\n", ["attempt 2"])
    assert cluster.asked == [{"attempt": 1, "tail": 5, "follow": 1}, {"attempt": 2, "follow": 1}]


def test_an_api_that_stays_away_ends_it_with_its_error():
    cluster = Cluster([[b"one\n", GONE]], [("Running", ["Running"])])
    lines = Following(cluster, "j", "default", {}, say=print, sleep=cluster.sleep, monotonic=lambda: cluster.now).job()
    assert next(lines) == b"one\n"
    cluster.away = 10**6
    with pytest.raises(Unreachable):
        next(lines)
    assert PATIENCE <= cluster.now <= PATIENCE + 5


def test_a_job_that_ended_without_an_attempt_gets_the_apis_answer():
    cluster = Cluster([[NotThere("no attempt")]], [("Cancelled", [])])
    with pytest.raises(NotThere):
        follow(cluster)


def test_after_a_break_with_tail_only_new_lines_come_and_it_is_said():
    cluster = Cluster(
        [[b"nine\n", GONE], [b"ten\n"]],
        [("Running", ["Running"]), ("Running", ["Running"]), ("Succeeded", ["Ended"])],
    )
    out, said = follow(cluster, tail=1)
    assert (out, cluster.asked[1]["tail"], len(said)) == (b"nine\nten\n", 0, 1)

"""A maker of failed attempts, so that a scenario says only what matters to it."""

import msgspec

from controller.recovery.decide import decide
from controller.recovery.types import FailureCase
from muster.evidence import Evidence, Source
from muster.launch import LaunchTemplate, LogPattern
from muster.protocol import RankExit
from muster.reasons import End
from muster.states import AttemptPhase, WorkerPhase
from tests.makers import NOW, make_attempt, make_job, make_node, make_worker

STOPPED = NOW + 10


class Case:
    """Two workers on n0 and n1, each with one rank unless a launcher's log says otherwise."""

    def __init__(self, *, best_step=None, last_step=None, restarts=0, **recovery):
        self.job = make_job(spec={"workers": 2, "recovery": recovery}, best_step=best_step, restarts=restarts)
        self.attempt = make_attempt(self.job, 3, phase=AttemptPhase.STOPPING, stopping_at=STOPPED, last_step=last_step)
        self.workers = [
            make_worker(self.attempt, i, phase=WorkerPhase.EXITED, exits=(RankExit(process=0, rank=i, code=0, at=NOW),))
            for i in (0, 1)
        ]
        self.evidence = []
        self.history = []

    def worker(self, index, **changes):
        self.workers[index] = msgspec.structs.replace(self.workers[index], **changes)
        return self

    def ends(self, index, code=None, signal=None, at=NOW, oom=False, rank="own"):
        rank = index if rank == "own" else rank
        return self.worker(index, exits=(RankExit(process=0, rank=rank, code=code, signal=signal, at=at, oom=oom),))

    def log(self, index, text, rank="own", stream="output", at=NOW):
        rank = index if rank == "own" else rank
        seen = Evidence(
            source=Source.LOG, at=at, role="worker", worker=index, rank=rank, text=text, data={"stream": stream}
        )
        self.evidence.append(seen)
        return self

    def launcher(self, index, log, code=1, at=NOW + 1, ranks=2):
        """A worker that is one launcher with `ranks` ranks below it."""
        template = LaunchTemplate(
            framework="torchrun", processes=(("launcher",),), first_rank=index * ranks, ranks=ranks,
            log_pattern=LogPattern("x"),
        )  # fmt: skip
        return self.worker(index, template=template).ends(index, code=code, at=at, rank=None).log(index, log, rank=None)

    def node_says(self, index, text):
        self.evidence.append(Evidence(source=Source.NODE, at=NOW, node=self.workers[index].node, text=text))
        return self

    def before(self, verdict, **changes):
        """One attempt further back in the history."""
        fields = {"phase": AttemptPhase.ENDED, "verdict": verdict, "reason": End.RANK_FAILED, **changes}
        self.history.append(make_attempt(self.job, self.attempt.number - 1 - len(self.history), **fields))
        return self

    def build(self):
        return FailureCase(
            job=self.job,
            attempt=self.attempt,
            workers=tuple(self.workers),
            nodes={name: make_node(name) for name in ("n0", "n1")},
            evidence=tuple(self.evidence),
            history=tuple(self.history),
        )

    def decide(self):
        return decide(self.build(), NOW + 20)

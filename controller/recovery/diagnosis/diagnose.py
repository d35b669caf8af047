"""The diagnosis: an ordered list of rules over suspects and what else the logs show."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

from msgspec import Struct

from controller.recovery.diagnosis.context import diverged, finished_at, laggard, preparing, stepped
from controller.recovery.diagnosis.flight import Flight, odd_one
from controller.recovery.diagnosis.stacks import main_stack, odd_rank
from controller.recovery.diagnosis.suspects import HARDWARE, Suspect, culprit, suspects
from controller.recovery.diagnosis.types import Action, Diagnosis, Exit, Stream
from controller.recovery.policy import POLICIES, innocent
from controller.recovery.reading import KILL, VICTIMS
from controller.recovery.signatures import Kind
from controller.recovery.xids import DRAIN, XID_CODE, response

LATE: Final = (*VICTIMS, Kind.DEVICE_CODE, Kind.CRASH, None)
"""Kinds that mean nothing any more once the work was done. A full disk or a broken file then spoils the result."""
_MISSING: Final = re.compile(
    r"ImportError|ModuleNotFoundError|No module named|cannot open shared object|not found|FileNotFoundError|undefined symbol",
    re.IGNORECASE,
)


class Scene(Struct, frozen=True):
    streams: Sequence[Stream]
    suspects: Sequence[Suspect]
    culprit: Suspect | None
    flights: Mapping[int, Flight] = {}

    @property
    def text(self) -> str:
        return "\n".join(stream.text for stream in self.streams)


def diagnose(
    streams: Sequence[Stream], exits: Sequence[Exit] = (), flights: Mapping[int, Flight] | None = None
) -> Diagnosis:
    """Who failed, why, and the cheapest action that works. Pure; the order of `streams` does not matter. `flights` are
    the ranks' flight recorders."""
    streams = sorted(streams, key=lambda one: (one.file, -1 if one.rank is None else one.rank, one.node))
    found = suspects(streams, exits)
    scene = Scene(streams, found, culprit(found), flights or {})
    return next(verdict for rule in RULES if (verdict := rule(scene)))


def done_before(scene: Scene) -> Diagnosis | None:
    """Success is terminal: what went wrong while the job was closing down is recorded and no more."""
    ends = {stream.file: number for stream in scene.streams if (number := finished_at(stream))}
    worst = scene.culprit
    if worst is not None and worst.kind is Kind.TEARDOWN and all(one.victim for one in scene.suspects):
        return _made(worst, "teardown_error_after_success", "record", "it went wrong while it was closing down",
                     node=False, certainty="confirmed" if ends else "likely")  # fmt: skip
    if not ends:
        return None
    if worst is None:
        return Diagnosis(category="success", node_at_fault=False, culprit_rank=None, action="record", certainty="likely",
                         why="the log says that the work was done, and shows no error")  # fmt: skip
    late = all(one.kind in LATE and one.number > ends.get(one.file, min(ends.values())) for one in scene.suspects)
    if not late or (worst.exit is not None and worst.exit.oom):
        return None
    return _made(worst, "teardown_error_after_success", "record", "the work was done before this error", node=False)


def hardware(scene: Scene) -> Diagnosis | None:
    """What a driver or a kernel says of its machine outranks what programs say."""
    one = scene.culprit
    if one is None or one.kind not in HARDWARE:
        return None
    codes = {int(code) for code in XID_CODE.findall(scene.text)}
    only_later = codes and codes & DRAIN and not any(response(code) == "replace" for code in codes)
    if only_later and XID_CODE.search(one.reading.line):
        return _made(one, _category(one), "drain", "the device works on but has to be reset before new work", node=True)
    return _by_policy(one, certainty="confirmed")


def stands_elsewhere(scene: Scene) -> Diagnosis | None:
    """Flight recorders and stacks of all ranks, compared. A rank that failed on its own outranks them."""
    if scene.culprit is not None and not scene.culprit.victim:
        return None
    odd = odd_one(scene.flights)
    one = scene.culprit or Suspect()
    if odd and odd.desync:
        return _made(one, "user_code_desync", "fail", f"its ranks do not call the same collectives: {odd.why}",
                     node=False, rank=odd.rank)  # fmt: skip
    if odd:
        return _made(one, "rank_behind", "restart", odd.why, node=None, rank=odd.rank)
    alone = odd_rank({s.rank: main_stack(s.text) for s in scene.streams if s.rank is not None})
    if alone is None:
        return None
    return _made(one, "rank_hung", "restart", f"it stands in {alone[1]}, all others elsewhere", node=None, rank=alone[0],
                 quote=alone[1])  # fmt: skip


def told_apart(scene: Scene) -> Diagnosis | None:
    """Watchdogs of several ranks that name different collectives, or one rank that is behind."""
    one = scene.culprit
    if one is None or not one.victim:
        return None
    if words := diverged(scene.text):
        return _made(
            one, "user_code_desync", "fail", f"its ranks do not call the same collectives: {words}", node=False
        )
    behind = laggard(scene.text)
    if behind is None:
        return None
    return _made(one, "rank_behind", "restart", f"all others wait for rank {behind}, which is behind them", node=None,
                 rank=behind)  # fmt: skip


def still_preparing(scene: Scene) -> Diagnosis | None:
    """The others gave up waiting for a rank that was still at its work before the first step."""
    one = scene.culprit
    if one is None or not (one.victim or one.kind is Kind.START_TIMEOUT):
        return None
    busy = preparing(scene.streams)
    if busy is None or (one.signal == KILL):
        return None
    rank = busy.rank if busy.rank is not None else _rank(one)
    rank = 0 if rank is None and "main_process_first" in scene.text else rank
    return _made(one, "startup_timeout_legit", "restart", "the others waited for a rank that was still preparing",
                 node=False, rank=rank,
                 advice="prepare the data once beforehand, or raise the time-out of the process group")  # fmt: skip


def only_on_one_node(scene: Scene) -> Diagnosis | None:
    """What is missing on one machine while the others had it is the machine's."""
    one = scene.culprit
    if one is None or one.kind is not Kind.USER_ERROR or not one.node or not _MISSING.search(one.reading.line):
        return None
    with_it = {other.node for other in scene.suspects if other.kind is Kind.USER_ERROR}
    others = {stream.node for stream in scene.streams if stream.node} - with_it
    if with_it != {one.node} or not others:
        return None
    return _made(one, "node_image_drift", "replace", "only this node lacks a part of the program", node=True)


def network(scene: Scene) -> Diagnosis | None:
    """Before the first step it is the set-up; after it, something went away."""
    one = scene.culprit
    if one is None or one.kind is not Kind.NETWORK_SETUP:
        return None
    if stepped(scene.streams):
        return _made(one, "network_lost", "restart", "the network failed after the job had made steps", node=None,
                     certainty="possible")  # fmt: skip
    node = None if _category(one) == "net_unreachable_at_start" else False
    return _made(one, _category(one), "fail", _says(one), node=node,
                 advice="name the interface (NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME) and check that all nodes reach each other")  # fmt: skip


def known_kind(scene: Scene) -> Diagnosis | None:
    one = scene.culprit
    if one is None or one.kind not in POLICIES or one.victim:
        return None
    if one.signal and POLICIES[one.kind].action == "fail" and one.kind is Kind.USER_ERROR:
        return None
    return _by_policy(one, shared=_shared(scene, one))


def ended_by_signal(scene: Scene) -> Diagnosis | None:
    one = scene.culprit
    if one is None or one.victim or not (one.signal or (one.exit and one.exit.oom)):
        return None
    if one.exit and (one.exit.oom or one.signal == KILL):
        what = "the kernel killed it for want of memory" if one.exit.oom else (
            "it was killed from outside, most often for want of memory, which nothing here proves")  # fmt: skip
        return _made(one, "host_oom", "restart", what, node=False,
                     certainty="confirmed" if one.exit.oom else "possible", quote=one.exit.said or one.how)  # fmt: skip
    return _made(one, "crash", "restart", f"it {one.how}", node=None, quote=one.exit.said if one.exit else "")


def victims_only(scene: Scene) -> Diagnosis | None:
    one = scene.culprit
    if one is None or not one.victim or one.reading.hit is None:
        return None
    blamed = next((other for other in scene.suspects if _rank(other) is not None and other.reading.hit), one)
    named = blamed.reading.hit.rank if blamed.reading.hit else None
    what = f"{_says(blamed)}, and nothing shows who failed first"
    if named is not None:
        what = f"{_says(blamed)}; the one that is waited for is rank {named}"
    certain = "likely" if named is not None else "possible"
    quiet = named if named is not None else _silent(scene)
    if named is None and quiet is not None:
        what = f"{_says(blamed)}; rank {quiet} is the only one that says nothing of it"
    node = False if _category(blamed) == "rendezvous_closed" else None
    return _made(blamed, _category(blamed), "restart", what, node=node, certainty=certain, rank=quiet, own=False)


def something(scene: Scene) -> Diagnosis:
    one = scene.culprit
    if one is None:
        return Diagnosis(category="unknown", node_at_fault=None, culprit_rank=None, action="restart", certainty="possible",
                         why="nothing in these logs says why the job ended")  # fmt: skip
    return _made(one, "unknown", "restart", "an error of no known kind", node=None, certainty="possible")


Rule = Callable[[Scene], Diagnosis | None]
RULES: Final[Sequence[Rule]] = (
    done_before, hardware, stands_elsewhere, told_apart, still_preparing, only_on_one_node, network, known_kind, ended_by_signal,
    victims_only, something,
)  # fmt: skip


# -- making diagnoses --------------------------------------------------------------------------------


def _by_policy(one: Suspect, *, certainty: str = "likely", shared: bool = False) -> Diagnosis:
    policy = POLICIES[cast(Kind, one.kind)]
    action = "original_world_size" if one.kind is Kind.WORLD_SIZE else policy.action
    node = True if policy.action == "replace" else False if innocent(str(one.kind)) else None
    what = f"{_says(one)}, on every rank alike" if shared else _says(one)
    return _made(one, _category(one), cast(Action, action), what, node=node, certainty=policy.certainty or certainty,
                 advice=policy.advice)  # fmt: skip


def _made(
    one: Suspect, category: str, action: Action, what: str, *, node: bool | None, certainty: str = "likely",
    rank: int | None = None, advice: str = "", quote: str = "", own: bool = True,
) -> Diagnosis:  # fmt: skip
    line = quote or one.reading.line or (one.exit.said if one.exit else "")
    blamed = rank if rank is not None else (_rank(one) if own else None)
    who = f"rank {blamed}" + (f" on {one.node}" if one.node and blamed == one.rank else "") if blamed is not None else (
        f"a process on {one.node}" if one.node else "")  # fmt: skip
    return Diagnosis(
        category=category, node_at_fault=node, culprit_rank=blamed, action=action, certainty=certainty, advice=advice,
        why=f"{who}: {what}" if who else what, culprit_nodes=(one.node,) if node and one.node else (),
        decided_by=(line,) if line else (), where=(f"{one.file}:{one.number}",) if one.number else (),
    )  # fmt: skip


def _category(one: Suspect) -> str:
    return one.reading.hit.category if one.reading.hit else str(one.kind or "unknown")


def _says(one: Suspect) -> str:
    return one.reading.hit.signature.says if one.reading.hit else "an error of no known kind"


def _rank(one: Suspect) -> int | None:
    named = one.reading.hit.rank if one.reading.hit else None
    return named if named is not None else one.rank


def _shared(scene: Scene, one: Suspect) -> bool:
    ranks = {stream.rank for stream in scene.streams if stream.rank is not None}
    same = {other.rank for other in scene.suspects if other.kind is one.kind and other.rank is not None}
    return len(ranks) > 1 and same == ranks


def _silent(scene: Scene) -> int | None:
    """The one rank whose log shows no loss of peers while all others' do: it stood still, or was gone."""
    ranks = {stream.rank for stream in scene.streams if stream.rank is not None}
    quiet = ranks - {one.rank for one in scene.suspects}
    return min(quiet) if len(quiet) == 1 and len(ranks) > 2 else None

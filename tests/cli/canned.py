"""Objects as the API answers them: one job that lost a rank, then a node, and runs again; four nodes; a queue."""

NOW = 1_796_040_300.0  # 2026-11-30T12:05:00Z


def at(clock: str) -> str:
    return f"2026-11-30T{clock}Z"


def worker(index, node, devices=(0, 1), phase="Running", exits=(), problem=""):
    return {
        "uid": f"w-{index}",
        "role": "worker",
        "index": index,
        "node": node,
        "phase": phase,
        "devices": list(devices),
        "ports": [10000 + index],
        "exits": list(exits),
        "problem": problem,
        "message": "",
    }


def died(rank, clock, *, code=None, signal=None, oom=False):
    return {"process": rank, "rank": rank, "code": code, "signal": signal, "oom": oom, "at": at(clock)}


def verdict(**fields):
    base = {
        "category": "process_killed",
        "action": "restart",
        "why": "rank 3 on node-1 was killed from outside by SIGKILL; nothing speaks against the node",
        "culpritNodes": ["node-1"],
        "culpritRank": 3,
        "nodeAtFault": False,
        "certainty": "likely",
        "decidedBy": ["rank 3: signal 9", "no kernel line on node-1 within 60 s"],
        "fingerprint": "f1",
    }
    return base | fields


NO_TIMES = dict.fromkeys(
    ("placedAt", "launchingAt", "runningAt", "failedAt", "detectedAt", "stoppingAt", "endedAt", "decidedAt")
)


def attempt(number, **fields):
    base = {
        "uid": f"attempt-{number}",
        "number": number,
        "epoch": number,
        "scope": "gang",
        "phase": "Running",
        "reason": None,
        "message": "",
        "rendezvous": f"r-{number}",
        "resume": None,
        "verdict": None,
        "firstStep": None,
        "lastStep": None,
        "loss": None,
        "redoneSteps": 0,
        "timeline": dict(NO_TIMES),
        "workers": [],
    }
    times = NO_TIMES | {name: at(clock) for name, clock in fields.pop("times", {}).items()}
    return base | {"timeline": times} | fields


FIRST = attempt(
    1,
    phase="Ended",
    reason="RankFailed",
    verdict=verdict(),
    firstStep=1,
    lastStep=62,
    loss=0.913,
    workers=[
        worker(0, "node-0", phase="Exited", exits=[died(0, "12:00:42.000", signal=15)]),
        worker(1, "node-1", phase="Exited", exits=[died(3, "12:00:41.000", signal=9)]),
    ],
    times={
        "placedAt": "12:00:00.900",
        "launchingAt": "12:00:00.950",
        "runningAt": "12:00:02.100",
        "failedAt": "12:00:41.000",
        "detectedAt": "12:00:41.120",
        "stoppingAt": "12:00:41.130",
        "endedAt": "12:00:42.220",
        "decidedAt": "12:00:42.224",
    },
)
SECOND = attempt(
    2,
    phase="Ended",
    reason="NodeLost",
    resume={"path": "/data/runs/checkpoints/step-000050", "step": 50},
    verdict=verdict(
        category="node_lost",
        action="replace",
        why="node-1 has not renewed its lease for 6.0 s",
        culpritRank=None,
        nodeAtFault=True,
        certainty="confirmed",
        decidedBy=[],
    ),
    firstStep=51,
    lastStep=120,
    loss=0.4071,
    redoneSteps=12,
    workers=[worker(0, "node-0", phase="Exited"), worker(1, "node-1", phase="Lost")],
    times={
        "placedAt": "12:00:42.224",
        "launchingAt": "12:00:42.230",
        "runningAt": "12:00:44.100",
        "failedAt": "12:01:20.000",
        "detectedAt": "12:01:26.000",
        "stoppingAt": "12:01:26.010",
        "endedAt": "12:01:27.000",
        "decidedAt": "12:01:27.001",
    },
)
THIRD = attempt(
    3,
    resume={"path": "/data/runs/checkpoints/step-000100", "step": 100},
    firstStep=101,
    lastStep=240,
    loss=0.0312,
    redoneSteps=20,
    workers=[worker(0, "node-2"), worker(1, "node-3")],
    times={"placedAt": "12:01:27.001", "launchingAt": "12:01:27.010", "runningAt": "12:01:29.250"},
)

JOB = {
    "apiVersion": "muster.dev/v1",
    "kind": "Job",
    "metadata": {
        "name": "ddp-digits",
        "namespace": "default",
        "labels": {"team": "nlp"},
        "annotations": {},
        "uid": "0198c0de-0000-7000-8000-000000000001",
        "resourceVersion": "41",
        "generation": 1,
        "createdAt": at("12:00:00.000"),
    },
    "spec": {
        "queue": "default",
        "priorityClass": "normal",
        "framework": "torchrun",
        "workers": 2,
        "ranksPerWorker": 2,
        "accelerators": [{"type": "h100", "count": 2}],
        "cpu": "1",
        "memory": "1Gi",
        "workdir": "/home/ada/examples",
        "command": ["python", "ddp_digits.py", "--output", "runs/ddp-digits"],
        "env": {"STEPS": "300", "STEP_SECONDS": "0.2"},
        "topology": {"required": "leaf"},
        "checkpoint": {"directory": "/data/runs/checkpoints", "format": "dcp", "every": "auto", "grace": "5s"},
        "recovery": {"maxRestarts": 20},
        "suspend": False,
    },
    "status": {
        "phase": "Running",
        "reason": "",
        "message": "",
        "restarts": 2,
        "epoch": 3,
        "attempt": {"uid": "attempt-3", "number": 3, "phase": "Running"},
        "progress": {"step": 240, "loss": 0.0312, "at": at("12:04:58.000")},
        "workers": [worker(0, "node-2"), worker(1, "node-3")],
        "queuedAt": at("12:00:00.000"),
        "startedAt": at("12:00:02.100"),
        "finishedAt": None,
        "warnings": [],
    },
}


def job(name="ddp-digits", phase="Running", **status):
    made = {**JOB, "metadata": {**JOB["metadata"], "name": name}}
    return made | {"status": {**JOB["status"], "phase": phase, **status}}


WAITING = job(
    "llama-sft",
    "Queued",
    reason="CAPACITY",
    message="needs 16 workers with 8 x h100 in one leaf; the largest leaf has 2 nodes with 8 free devices",
    restarts=0,
    progress=None,
    workers=[],
    attempt=None,
    startedAt=None,
    eta={
        "at": at("12:25:00.000"),
        "bound": False,
        "basis": "limits",
        "note": "",
        "position": 1,
        "waiting": 3,
        "revision": "41",
        "madeAt": at("12:04:57.000"),
        "ageSeconds": 1.5,
    },
)
WHY = {
    "apiVersion": "muster.dev/v1",
    "kind": "Why",
    "metadata": WAITING["metadata"],
    "status": {
        "phase": "Queued",
        "code": "CAPACITY",
        "means": "of some resource there is not enough free on all nodes together",
        "message": WAITING["status"]["message"],
        "others": [{"code": "STRUCTURAL", "means": "it would not fit even if nothing ran"}],
        "helps": ["node-0 is cordoned", "wait for jobs to end, or add nodes"],
        "numbers": {"workers.wanted": 16, "workers.room": 2, "h100.free": 16},
        "since": at("12:01:00.000"),
        "queuedAt": at("12:00:00.000"),
        "eta": WAITING["status"]["eta"],
    },
}


def event(number, clock, reason, message, level="normal", name="ddp-digits", uid=JOB["metadata"]["uid"]):
    return {
        "uid": f"e-{number}",
        "namespace": "default",
        "revision": number,
        "object": {"kind": "Job", "uid": uid, "name": name},
        "level": level,
        "reason": reason,
        "message": message,
        "at": at(clock),
    }


EVENTS = [
    event(1, "12:00:00.000", "Submitted", "submitted by admin"),
    event(2, "12:00:00.900", "Placed", "attempt 1 on node-0, node-1"),
    event(
        3,
        "12:00:42.224",
        "AttemptEnded",
        "attempt 1 ended as RankFailed: rank 3 on node-1 was killed from outside by SIGKILL; nothing speaks against the node",
        "warning",
    ),
]


def node(index, phase="Ready", cordoned=False, allocated=()):
    return {
        "apiVersion": "muster.dev/v1",
        "kind": "Node",
        "metadata": {
            "name": f"node-{index}",
            "labels": {"muster.dev/block": "b0", "muster.dev/leaf": f"b0-l{index // 2}"},
            "uid": f"n-{index}",
            "resourceVersion": "7",
            "createdAt": at("11:59:00.000"),
        },
        "spec": {"cordoned": cordoned},
        "status": {
            "phase": phase,
            "phaseSince": at("12:01:26.000" if phase == "Lost" else "11:59:00.000"),
            "message": "",
            "address": "127.0.0.1",
            "host": "laptop",
            "bootId": f"boot-{index}",
            "agentVersion": "0.1.0",
            "cpu": "2",
            "memory": "32Gi",
            "devices": [
                {"index": number, "type": "h100", "numa": 0, "healthy": True, "problems": []} for number in range(2)
            ],
            "allocated": list(allocated),
            "lastRenewal": at("12:04:59.500"),
        },
    }


def held(device):
    return {"device": device, "namespace": "default", "job": "ddp-digits", "worker": "w-0"}


NODES = [node(0, cordoned=True), node(1, "Lost"), node(2, allocated=[held(0), held(1)])]
QUEUE = {
    "apiVersion": "muster.dev/v1",
    "kind": "Queue",
    "metadata": {
        "name": "default",
        "labels": {},
        "uid": "q-1",
        "resourceVersion": "1",
        "createdAt": at("11:00:00.000"),
    },
    "spec": {"weight": 1, "stopped": False},
    "status": {"jobs": {"Queued": 1, "Running": 1}},
}
CHECKPOINTS = [
    {
        "uid": f"c-{step}",
        "path": f"/data/runs/checkpoints/step-{step:06}",
        "step": step,
        "format": "dcp",
        "complete": why == "",
        "why": why,
        "size": 1_572_864,
        "files": 5,
        "epoch": 3,
        "attempt": "attempt-3",
        "createdAt": at("12:04:00.000"),
    }
    for step, why in ((200, ""), (225, "the file .metadata is missing"))
]

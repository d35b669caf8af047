"""What is said by those who wait for others: collectives, rendezvous, stores, runtimes of many processes.

Sources: PyTorch's ProcessGroupNCCL, Gloo, c10d stores and torchrun; NCCL, RCCL, HCCL; UCX, MPI; JAX's coordination service;
Ray. Nearly all of these are printed by victims; those that name the one they wait for carry a `rank`.
"""

from typing import Final

from controller.recovery.kinds import Kind, Signature, signature

SETUP: Final[tuple[Signature, ...]] = (
    signature(
        Kind.START_TIMEOUT,
        r"ncclUniqueId from \[(?P<rank>\d+)\][^\n]*(time ?out|Timeout)|setting up \w+ communicator[^\n]*(time ?out|Timeout)|"
        r"wait(ing|ed)?[^\n]*main[_ ]process[_ ]first[^\n]*(time ?out|Timeout)",
        "the others waited for a rank that was still preparing", "startup_timeout_legit",
    ),
    signature(
        Kind.NETWORK_SETUP,
        r"no socket interface|No usable (network )?interface|Bootstrap : no |failed to find (a )?(network )?interface|"
        r"Unable to find (address|interface) for|NCCL_SOCKET_IFNAME|GLOO_SOCKET_IFNAME|Unable to resolve hostname|"
        r"ibv_modify_qp[^\n]*(No such device|Invalid argument|Network is unreachable)|gid_?index[^\n]*(invalid|fail)",
        "the network or the devices are not set up for this job", "net_interface_misconfig",
    ),
    signature(
        Kind.USER_ERROR, r"\bEI0009\b|[NR]CCL[^\n]*invalid usage|ncclInvalidUsage|Duplicate GPU detected",
        "ranks share a device or an address", "env_misconfig",
    ),
    signature(
        Kind.NETWORK_SETUP,
        r"No route to host|Network is unreachable|\bEHOSTUNREACH\b|\bENETUNREACH\b", "the nodes do not reach each other",
        "net_unreachable_at_start",
    ),
    signature(
        Kind.NETWORK_SETUP, r"[NR]CCL[^\n]*unhandled system error|nccl(Unhandled)?SystemError", "a system call of the collective library failed",
        "net_interface_misconfig",
    ),
)  # fmt: skip

TEARDOWN: Final[tuple[Signature, ...]] = (
    signature(
        Kind.TEARDOWN,
        r"CudaEventDestroy|(destroy_process_group|ncclCommDestroy|ncclCommAbort|~ProcessGroup\w*|shutdown|finaliz\w+|atexit)"
        r"[^\n]*(time ?d? ?out|stuck|fail|error|abort)|driver shutting down|Exception ignored in[^\n]*(atexit|shutdown|finalize|__del__)",
        "it went wrong while it was closing down", "teardown_error_after_success",
    ),
)  # fmt: skip

PEERS: Final[tuple[Signature, ...]] = (
    signature(
        Kind.PEERS,
        r"\bEI000[26]\b[^\n]*remote rank:? ?\[(?P<rank>\d+)\]|hccl[^\n]*time ?out|\bEI000[26]\b|\bEI9999\b|fftsplus|"
        r"HCCL function error|HCCL_E_(TIMEOUT|REMOTE)",
        "a collective waited in vain", "hccl_timeout",
    ),
    signature(Kind.PEERS, r"stream sync(hronize)? timeout|\bEE1002\b|error code is (507046|507048|107020)",
              "the device did not finish", "npu_stream_timeout"),
    signature(
        Kind.PEERS,
        r"vendor err 129|(error|status)[ =]12\b[^\n]*vendor|Got completion[^\n]*(error|status)|transport retry counter exceeded|"
        r"IBV_WC_RETRY_EXC_ERR|Got async event|ibv_poll_cq[^\n]*(error|fail)|UCX[^\n]*(ERROR|timed? ?out|unreachable)",
        "a transfer over the fabric was not answered", "ib_transport_retry_exceeded",
    ),
    signature(
        Kind.PEERS,
        r"Ranks? (?P<rank>\d+)(?:, \d+)* failed to (pass|reach|call)|"
        r"(?<!\[)\brank (?P<rank2>\d+) (has |is |was )?(not reached|not joined|gone|left|died|dead|lost|unhealthy|missing)|"
        r"task:?\s*/?\w*/?(replica:\d+/)?task:?(?P<rank3>\d+)[^\n]*(unhealthy|heartbeat|did not|died)|"
        r"tasks? timed out[^\n]*?task:(?P<rank4>\d+)",
        "a rank did not reach a barrier", "missing_rank",
    ),
    signature(
        Kind.PEERS, r"RendezvousClosedError|RendezvousTimeoutError|RendezvousConnectionError|rendezvous[^\n]*(closed|timed? ?out|fail)|RendezvousGracefulExit",
        "the meeting point of the ranks was closed", "rendezvous_closed",
    ),
    signature(
        Kind.PEERS,
        r"Worker (unexpectedly|exit type|crashed)|ActorDiedError|ActorUnavailableError|RayActorError|WorkerCrashedError|"
        r"The actor (is dead|died)|Worker exit|worker died|BrokenProcessPool|process terminated abruptly|"
        r"DataLoader worker \(pid\(?s?\)? [\d, ]+\) (exited|is killed)|ProcessExitedException|process \d+ terminated with",
        "a process that it needs died", "peer_process_died",
    ),
    signature(
        Kind.PEERS,
        r"Watchdog caught collective|Watchdog.*time ?out|watchdog got stuck|Heartbeat monitor timed out|collective[^\n]*time ?d? ?out|"
        r"[NR]CCL[^\n]*(time ?d? ?out|remote|abort|internal|asynchronous|unhandled cuda error)|ncclRemoteError|ncclInternalError|"
        r"Some NCCL operations have failed|Timeout at NCCL work|last enqueued (NCCL )?work",
        "a collective waited in vain", "nccl_timeout_unknown",
    ),
    signature(
        Kind.PEERS,
        r"DEADLINE_EXCEEDED|coordination service|UNAVAILABLE: |Barrier timed out|preemption_sync|heartbeat timeout",
        "its coordinator or a peer did not answer", "coordination_lost",
    ),
    signature(
        Kind.PEERS,
        r"Connection (timed out|reset|closed|refused|aborted)|ConnectionResetError|ConnectionRefusedError|"
        r"ConnectionAbortedError|ConnectionError|connection .*\blost\b|BrokenPipeError|EOFError|Broken pipe|"
        r"Socket Timeout|Connect timeout|"
        r"gloo.*(closed|timed? ?out|reset)|Timed out (waiting|after)|TCPStore|DistStoreError|"
        r"DistNetworkError|DistBackendError|remote process exited|peer (has |is )?(gone|left|died|dead)|"
        r"SignalException.*got signal: |KeyboardInterrupt|lost (connection|contact)|MPI_ABORT|MPI_ERR_\w+",
        "it lost its peers", "peer_lost",
    ),
)  # fmt: skip

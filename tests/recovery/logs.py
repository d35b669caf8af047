"""What real programs printed when they failed (PyTorch 2.13.0 under torchrun on two nodes over gloo), shortened."""


def torchrun_summary(*failures: tuple[int, int, int], order: str = "time") -> str:
    """torchrun's closing words: (rank, local rank, exit code) of each failure, the root cause first."""

    def block(number: int, rank: int, local: int, code: int) -> str:
        signal = {-9: "  (SIGKILL)", -15: "  (SIGTERM)", -11: "  (SIGSEGV)"}.get(code, " ")
        trace = f"Signal {-code} received by PID 4711" if code < 0 else "To enable traceback see: https://pytorch.org"
        return (
            f"[{number}]:\n  time      : 2026-12-01_01:51:05\n  host      : localhost\n  rank      : {rank} (local_rank: {local})\n"
            f"  exitcode  : {code} (pid: 4711){signal}\n  error_file: <N/A>\n  traceback : {trace}\n"
        )

    root, *others = failures
    rest = "".join(block(number + 1, *failure) for number, failure in enumerate(others)) or "  <NO_OTHER_FAILURES>\n"
    line = "-" * 55
    return (
        "E1201 01:51:05.319000 22173 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: "
        f"{root[2]}) local_rank: {root[1]} (pid: 22230) of binary: python\n"
        f"torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n{line}\ntrain.py FAILED\n{line}\n"
        f"Failures:\n{rest}{line}\nRoot Cause (first observed failure):\n{block(0, *root)}{line}\n"
    )


def lost_peer(rank: int) -> str:
    return (
        f'[rank{rank}]: Traceback (most recent call last):\n[rank{rank}]:   File "train.py", line 10, in <module>\n'
        f"[rank{rank}]:     d.all_reduce(t)\n"
        f"[rank{rank}]: RuntimeError: [gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:21709: Connection reset by peer. "
        "This is typically caused by a remote worker hanging or bugs in the application.\n"
    )


def raised(rank: int, exception: str = "KeyError: 'lr'") -> str:
    return (
        f'[rank{rank}]: Traceback (most recent call last):\n[rank{rank}]:   File "train.py", line 8, in <module>\n'
        f"[rank{rank}]: {exception}\n"
    )

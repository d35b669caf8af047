"""One log's last words."""

import pytest

from controller.recovery.logs import read
from controller.recovery.signatures import Kind
from tests.recovery.logs import lost_peer, raised

HEADER = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    go()\n'
CAUSED = "\nThe above exception was the direct cause of the following exception:\n\n"
HANDLING = "\nDuring handling of the above exception, another exception occurred:\n\n"

LOGS = [
    ("nothing at all", "", None),
    ("plain progress", "step 1 loss 0.3\nstep 2 loss 0.2\n", None),
    ("an error of its own", HEADER + "KeyError: 'lr'\n", Kind.USER_ERROR),
    ("a prefix of the launcher's", raised(3, "NameError: name 'x' is not defined"), Kind.USER_ERROR),
    ("a syntax error, which has no traceback", '  File "t.py", line 1\n    x = (\n        ^\nSyntaxError: bad\n', Kind.USER_ERROR),
    ("a class of a library", HEADER + "yaml.scanner.ValueError: mapping\n", Kind.USER_ERROR),
    ("a runtime error with a shape", HEADER + "RuntimeError: mat1 and mat2 shapes cannot be multiplied\n", Kind.USER_ERROR),
    ("a runtime error of nobody's", HEADER + "RuntimeError: out of luck\n", None),
    ("lost peers", lost_peer(0), Kind.PEERS),
    ("the cause comes first in a chain", HEADER + "ConnectionResetError: peer\n" + HANDLING + HEADER + "NameError: x\n", Kind.PEERS),
    ("a chain whose first part says nothing", HEADER + "RuntimeError: eh\n" + CAUSED + HEADER + "KeyError: 'a'\n", Kind.USER_ERROR),
    ("a handled error before the real one", HEADER + "ValueError: skipped\nsample skipped\n" + HEADER + "OSError: [Errno 28] No space left on device\n", Kind.DISK_FULL),
    ("a handled lost peer before an error of its own", lost_peer(0) + "reconnected\n" + raised(0), Kind.USER_ERROR),
    ("a handled error, progress, then a printed loss of peers", HEADER + "ValueError: x\n" + "step\n" * 9 + "connection to the other ranks lost\n", Kind.PEERS),
    ("a warning at exit after an error of its own", HEADER + "KeyError: 'a'\n[W] Connection closed by peer\n", Kind.USER_ERROR),
    ("a library that named the cause before a bare error", "NCCL WARN Cuda failure 'CUDA driver version is insufficient'\n" + HEADER + "RuntimeError: NCCL error\n", Kind.NODE_SETUP),
    ("a port that was taken, and retried, long before", "Address already in use, trying the next\n" + HEADER + "TypeError: f()\n", Kind.USER_ERROR),
    ("a message over several lines", HEADER + "RuntimeError: Error(s) in loading state_dict for Net:\n\tsize mismatch for a\n", Kind.CHECKPOINT_MISMATCH),
    ("a traceback whose start was cut off", "    go()\nZeroDivisionError: division by zero\n", Kind.USER_ERROR),
    ("a library that took a broken file apart", 'Traceback (most recent call last):\n  File "/e/torch/serialization.py", line 1, in load\n    raise EOFError\nEOFError\n', Kind.CHECKPOINT_CORRUPT),
    ("a library that did not find its file", 'Traceback (most recent call last):\n  File "/e/torch/serialization.py", line 1, in load\n    open(f)\nFileNotFoundError: [Errno 2] No such file or directory: \'c.pt\'\n', Kind.USER_ERROR),
    ("a sentence about an error", "we never raise ValueError: honest\n", None),
    ("a shell", "sh: 1: trainn: not found\n", Kind.USER_ERROR),
    ("an Xid of a lost device", "NVRM: Xid (PCI:0000:4e:00): 79, pid=1, GPU has fallen off the bus.\n", Kind.DEVICE),
    ("an Xid that applications cause", "NVRM: Xid (PCI:0000:4e:00): 31, pid=1, MMU Fault\n", Kind.DEVICE_CODE),
    ("an Xid that only follows another", "NVRM: Xid (PCI:0000:4e:00): 45, pid=1, Ch 0008\n", None),
    ("a warning of PyTorch", "[W1201 01:51:05.319 ProcessGroupNCCL.cpp:1] Warning: destroy_process_group() was not called, connection closed\n", None),
]  # fmt: skip


@pytest.mark.parametrize(("log", "kind"), [row[1:] for row in LOGS], ids=[row[0] for row in LOGS])
def test_the_kind_that_a_log_shows(log, kind):
    assert read(log).kind is kind


def test_the_line_is_the_one_that_names_the_cause():
    assert read("step 1\n" + HEADER + "KeyError: 'lr'\nbye\n").line == "KeyError: 'lr'"


def test_an_unknown_exception_is_still_named():
    assert read(HEADER + "RuntimeError: out of luck\n").line == "RuntimeError: out of luck"


def test_a_line_without_end_is_shortened():
    assert len(read(HEADER + "KeyError: " + "x" * 10_000).line) == 300

"""Secrets: the files that hold them, the hashes that are stored of them, and the tokens that attempts get."""

import base64
import hashlib
import hmac
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path


class BadSecret(Exception):
    """A file with a secret cannot be used. The message is a sentence for people."""


def read_or_make(path: Path, fresh: Callable[[], str]) -> str:
    """The secret in `path`; made from `fresh` with mode 0600 when there is no such file. Of several processes that do
    so at once all get the same one. Only its owner may read it, or, where root gave it to us (a mounted secret), our
    group. Raises BadSecret."""
    try:
        if not path.exists():
            _make(path, fresh())
        found, text = path.stat(), path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadSecret(f"{path} cannot be read or made: {error}") from error
    if not text:
        raise BadSecret(f"{path} is empty; remove it to have a new one made")
    mode = stat.S_IMODE(found.st_mode)
    if mode & (0o037 if found.st_uid == 0 != os.geteuid() else 0o077):
        raise BadSecret(f"{path} may be read by others (mode {mode:o}); chmod 600 it")
    return text


def _make(path: Path, text: str) -> None:
    """Complete or not at all: written beside it, then linked to its name, which fails when another was faster."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(descriptor, "w") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(draft)


def new_token() -> str:
    """256 random bits, after a mark by which scanners for secrets know it."""
    return f"muster_{base64.urlsafe_b64encode(os.urandom(32)).decode().rstrip('=')}"


def token_hash(token: str) -> str:
    """What is stored of a bearer token. It has 256 random bits, so one round is enough."""
    return hashlib.sha256(token.encode()).hexdigest()


def attempt_token(secret: str, attempt_uid: str, epoch: int) -> str:
    """The token of one attempt: who it is for, and a proof that only holders of the cluster's secret can make."""
    return f"{attempt_uid}.{_proof(secret, attempt_uid, epoch)}"


def attempt_in(token: str) -> str | None:
    """The uid of the attempt that a token claims to be of; None when it is no attempt's token."""
    uid, dot, proof = token.partition(".")
    return uid if dot and uid and proof else None


def proves(token: str, secret: str, attempt_uid: str, epoch: int) -> bool:
    return hmac.compare_digest(token.encode(), attempt_token(secret, attempt_uid, epoch).encode())


def _proof(secret: str, attempt_uid: str, epoch: int) -> str:
    mac = hmac.new(secret.encode(), f"{attempt_uid}:{epoch}".encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(mac).decode().rstrip("=")

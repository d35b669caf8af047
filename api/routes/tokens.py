"""Tokens of people and programs, and what the one that asks may do."""

from typing import Annotated, Literal, NotRequired

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from api import rights
from api.credentials import new_token, token_hash
from api.problems import not_found
from api.replies import reply
from api.services import Asking, Here
from controller.state import Actor, TokenRecord, Writer
from muster.clock import iso
from muster.problems import FieldError, Problem
from muster.quantity import parse_duration

router = APIRouter(tags=["tokens"])


class TokenAsked(BaseModel):
    """`expires`: a duration such as 30d; without it the token is good until it is revoked."""

    model_config = ConfigDict(extra="forbid")

    role: Literal["viewer", "submitter", "operator", "admin", "agent"]
    name: str = Field(default="", max_length=100)
    namespace: str = Field(default="", max_length=63, pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$")
    expires: str | None = None


class TokenView(TypedDict):
    """`token` is told once, when it is made."""

    uid: str
    name: str
    role: str
    namespace: str
    createdBy: str
    createdAt: str | None
    expiresAt: str | None
    lastUsedAt: str | None
    token: NotRequired[str]


class TokenListView(TypedDict):
    items: list[TokenView]


class WhoView(TypedDict):
    name: str
    role: str
    namespace: str


class AccessView(TypedDict):
    allowed: bool
    why: str


def _view(record: TokenRecord) -> TokenView:
    return {
        "uid": record.uid or record.hash[:12],
        "name": record.name,
        "role": record.role,
        "namespace": record.namespace,
        "createdBy": record.created_by,
        "createdAt": iso(record.created_at),
        "expiresAt": iso(record.expires_at),
        "lastUsedAt": iso(record.last_used_at),
    }


@router.post("/tokens", status_code=201, response_model=TokenView)
def create(here: Here, asking: Asking, asked: TokenAsked) -> Response:
    """Make a token. It is in this answer and nowhere else: only its hash is kept."""
    now, expires = here.clock.now(), None
    if asked.expires is not None:
        try:
            expires = now + parse_duration(asked.expires)
        except ValueError as error:
            raise _invalid("expires", str(error), asked.expires) from None
    if asked.namespace and asked.role in ("admin", "operator", "agent"):
        raise _invalid("namespace", f"the role {asked.role} is of the whole cluster", asked.namespace)
    token = new_token()
    uid = here.new_id()
    record = TokenRecord(
        hash=token_hash(token),
        uid=uid,
        role=asked.role,
        name=asked.name or f"{asked.role}-{uid[:6]}",
        namespace=asked.namespace,
        created_at=now,
        created_by=asking.name,
        expires_at=expires,
    )
    here.write(lambda w: w.put_token(record))
    _noted(here, asking.name, asking.role, "create", record)
    return reply(_view(record) | {"token": token}, 201)


@router.get("/tokens", response_model=TokenListView)
def tokens(here: Here) -> Response:
    """All tokens, the oldest first; never the secret part."""
    with here.store.read() as r:
        return reply({"items": [_view(one) for one in r.tokens()]})


@router.delete("/tokens/{uid}", response_model=TokenView)
def revoke(here: Here, asking: Asking, uid: str) -> Response:
    """Make a token useless: at once here, within half a minute at other API processes. By its uid or its name."""

    def act(w: Writer) -> TokenRecord:
        found = [one for one in w.tokens() if uid in (one.uid, one.name, one.hash[:12])]
        if not found:
            raise not_found("Token", uid)
        if len(found) > 1:
            raise Problem(409, "AMBIGUOUS", "Several tokens have this name", "say which by its uid")
        if found[0].role == "admin" and sum(one.role == "admin" for one in w.tokens()) == 1:
            raise Problem(409, "LAST_ADMIN", "The last administrator's token stays", "make another one before")
        w.delete_token(found[0].hash)
        return found[0]

    record = here.write(act)
    here.authenticator.forget(record.hash)
    _noted(here, asking.name, asking.role, "delete", record)
    return reply(_view(record))


@router.get("/whoami", response_model=WhoView)
def whoami(asking: Asking) -> Response:
    """Whose token this is."""
    return reply({"name": asking.name, "role": asking.role, "namespace": asking.namespace})


@router.get("/access", response_model=AccessView)
def access(
    asking: Asking,
    method: Annotated[Literal["GET", "POST", "PUT", "PATCH", "DELETE"], Query()],
    address: Annotated[str, Query(max_length=500, description="such as /api/v1/namespaces/vision/jobs")],
) -> Response:
    """Whether the one that asks may do that, and why not."""
    why = rights.refusal(asking.role, asking.namespace, method, address)
    return reply({"allowed": why is None, "why": why or ""})


def _noted(here: Here, name: str, role: str, verb: str, record: TokenRecord) -> None:
    actor = Actor(name=name, role=role, request_id="")
    here.store.noted(actor, verb, f"{record.role} {record.name}", "done", kind="Token", namespace=record.namespace)


def _invalid(field: str, message: str, found: str) -> Problem:
    return Problem(422, "INVALID", "The request is not valid", errors=(FieldError(field, message, found=found),))

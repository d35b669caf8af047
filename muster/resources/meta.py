"""What all resources share: camelCase on the wire, unknown fields refused, `metadata`."""

import re
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

API_VERSION: Final = "muster.dev/v1"

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")


class Model(BaseModel):
    """Strict at the edge: camelCase names, nothing unknown, nothing coerced silently."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, use_attribute_docstrings=True
    )

    def wire(self) -> dict[str, Any]:
        """The camelCase JSON form, without what was never set."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def _dns_name(value: str) -> str:
    if len(value) > 63 or not _NAME.fullmatch(value):
        raise ValueError(
            "expected at most 63 lower-case letters, digits and '-', beginning and ending with one of the first two"
        )
    return value


def _labels(value: dict[str, str]) -> dict[str, str]:
    for key, text in value.items():
        if len(key) > 253 or not _LABEL_KEY.fullmatch(key):
            raise ValueError(f"label key {key!r}: expected [prefix/]name as in Kubernetes labels")
        if len(text) > 63 or not _LABEL_VALUE.fullmatch(text):
            raise ValueError(f"label {key!r}: expected at most 63 letters, digits, '-', '_', '.', found {text!r}")
    return value


def _label_key(value: str) -> str:
    if len(value) > 253 or not _LABEL_KEY.fullmatch(value):
        raise ValueError("expected [prefix/]name as in Kubernetes labels")
    return value


LabelKey = Annotated[str, AfterValidator(_label_key)]
Name = Annotated[str, AfterValidator(_dns_name)]
Labels = Annotated[dict[str, str], AfterValidator(_labels)]


class Metadata(Model):
    """Identity. `uid`, `resourceVersion`, `generation`, `number` and `createdAt` are the server's."""

    name: Name
    """Unique among what is live; at most 63 lower-case letters, digits and '-'."""
    namespace: Name = "default"
    """The project that a job belongs to."""
    labels: Labels = Field(default_factory=dict)
    """To select by."""
    annotations: dict[str, str] = Field(default_factory=dict)
    """Anything else that is worth keeping."""
    uid: str | None = None
    """The server's: never used again. In a manifest: only this very one is meant."""
    resource_version: str | None = None
    """The server's: changes with it. In a manifest: refused when it has changed meanwhile."""
    generation: int | None = None
    """The server's: changes of the spec."""
    number: int | None = None
    """The server's: of a job, that no other has."""
    created_at: str | None = None
    """The server's."""

"""What comes after what: dependencies between jobs, and arrays of many alike."""

import re
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from muster.arrays import MAX_ELEMENTS, indices_of, size_of
from muster.resources.meta import Model, Name

_WITH_LIMIT = re.compile(r"(.*)%([0-9]{1,9})")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class After(Model):
    """One job of the same namespace that comes first. Once its condition has come true it stays true."""

    job: Name
    """The newest job of this name, live or finished; it may be submitted later."""
    condition: Literal["succeeded", "failed", "finished", "started"] = "succeeded"
    """What must have happened to it: it succeeded; failed; ended in any way; runs or has run."""


class Array(Model):
    """One job for each index or each combination of values, as jobs NAME-INDEX with attempts and restarts of their own."""

    indices: str | None = None
    """Such as "0-99", "1,3,5-9", "0-20:5", "0-99%10" (at most 10 at once); exactly one of indices and matrix."""
    matrix: dict[str, list[str]] | None = None
    """Environment variables and the values that they take; every combination is an element, the last name varying
    fastest; exactly one of indices and matrix."""
    parallelism: int | None = Field(default=None, ge=1, le=MAX_ELEMENTS)
    """At most so many of them are submitted and not finished at a time; all unless said."""

    @model_validator(mode="before")
    @classmethod
    def _limit_apart(cls, data: Any) -> Any:
        """`0-99%10` says the parallelism, too."""
        if not isinstance(data, dict) or not isinstance(data.get("indices"), str):
            return data
        match = _WITH_LIMIT.fullmatch(data["indices"])
        if match is None:
            return data
        if data.get("parallelism") not in (None, int(match[2])):
            raise ValueError(f"parallelism: {data['parallelism']} contradicts indices {data['indices']}")
        return {**data, "indices": match[1], "parallelism": int(match[2])}

    @field_validator("matrix", mode="before")
    @classmethod
    def _texts(cls, value: Any) -> Any:
        """Values are texts of the environment; a number is written as it stands."""
        if not isinstance(value, dict):
            return value
        for name, values in value.items():
            if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
                raise ValueError(f"{name!r} is not a name of an environment variable")
            if not isinstance(values, list) or not values:
                raise ValueError(f"{name}: expected a list of at least one value")
            for one in values:
                if isinstance(one, bool) or not isinstance(one, str | int | float) or "\0" in str(one):
                    raise ValueError(f"{name}: expected texts or numbers, found {one!r}")
        return {name: [str(one) for one in values] for name, values in value.items()}

    @model_validator(mode="after")
    def _few_enough(self) -> Self:
        if (self.indices is None) == (self.matrix is None):
            raise ValueError("expected exactly one of indices and matrix")
        if self.indices is not None:
            indices_of(self.indices)
        elif not self.matrix:
            raise ValueError("matrix: expected at least one variable")
        if (size := size_of(self.wire())) > MAX_ELEMENTS:
            raise ValueError(f"{size} elements are more than {MAX_ELEMENTS}")
        return self

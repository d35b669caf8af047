"""Refusals as the API server words them."""

from typing import Any

REASONS = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed", 409: "Conflict",
    410: "Expired", 415: "UnsupportedMediaType", 422: "Invalid", 429: "TooManyRequests", 500: "InternalError",
    503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip


class Refusal(Exception):
    def __init__(self, code: int, message: str, reason: str = "", retry_after: int | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.retry_after = code, message, retry_after
        self.reason = reason or REASONS.get(code, "Unknown")

    def status(self) -> dict[str, Any]:
        details = {} if self.retry_after is None else {"details": {"retryAfterSeconds": self.retry_after}}
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        } | details


def not_found(plural: str, name: str) -> Refusal:
    return Refusal(404, f'{plural} "{name}" not found')


def exists(plural: str, name: str) -> Refusal:
    return Refusal(409, f'{plural} "{name}" already exists', "AlreadyExists")


def conflict(plural: str, name: str, why: str = "") -> Refusal:
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    return Refusal(409, f'Operation cannot be fulfilled on {plural} "{name}": {why}')


def invalid(kind: str, name: str, why: str) -> Refusal:
    return Refusal(422, f'{kind} "{name}" is invalid: {why}')


def forbidden(plural: str, name: str, why: str) -> Refusal:
    return Refusal(403, f'{plural} "{name}" is forbidden: {why}')

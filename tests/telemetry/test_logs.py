"""Lines for people or for machines, ours and libraries' alike, with what they are about."""

import json
import subprocess
import sys

import pytest

from controller.logs import form

PROGRAM = """
import logging, structlog
from controller import logs
logs.configure("info", {form!r})
with structlog.contextvars.bound_contextvars(job="research/llama", attempt="a-1"):
    structlog.get_logger("muster.loop").info("placed", nodes=4)
    structlog.get_logger("muster.loop").debug("too much")
    logging.getLogger("library").warning("a %s of a library", "word")
    try:
        1 / 0
    except ZeroDivisionError as error:
        structlog.get_logger("muster.api").error("failed", exc_info=error)
"""


def said(form):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(form=form)], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stderr


def test_machines_get_one_object_a_line_with_job_and_attempt():
    placed, library, failed = map(json.loads, said("json").splitlines())
    for line in (placed, library, failed):
        assert (line["job"], line["attempt"]) == ("research/llama", "a-1")
    assert (placed["event"], placed["nodes"], placed["level"]) == ("placed", 4, "info")
    assert (library["event"], library["logger"]) == ("a word of a library", "library")
    assert "ZeroDivisionError" in failed["exception"]


def test_people_get_lines():
    text = said("text")
    assert "placed" in text
    assert "job=research/llama" in text
    assert "a word of a library" in text
    assert "too much" not in text


def test_a_form_that_there_is_not_is_refused():
    assert form({}) == "text"
    with pytest.raises(ValueError, match="MUSTER_LOG_FORMAT: expected text or json, found 'xml'"):
        form({"MUSTER_LOG_FORMAT": "xml"})

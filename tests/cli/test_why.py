"""What `muster why` says."""

import json

import pytest

WHY = """\
Job:          default/llama-sft
Phase:        Queued, queued 5m ago
Reason:       CAPACITY: of some resource there is not enough free on all nodes
              together
              for 4m
Because:      needs 16 workers with 8 x h100 in one leaf; the largest leaf has 2
              nodes with 8 free devices
Also:         - STRUCTURAL: it would not fit even if nothing ran
Numbers:      workers.wanted 16, workers.room 2, h100.free 16
Would help:   - node-0 is cordoned
              - wait for jobs to end, or add nodes
Starts:       in 20m, 12:25:00.000 UTC, by limits; 1 of 3 in order (revision 41,
              1.5s old)
"""


@pytest.mark.parametrize("words", ["why job llama-sft", "why job/llama-sft", "why llama-sft"])
def test_the_binding_reason_comes_first_and_all_fits_80_columns(stub, muster, words):
    done = muster(*words.split())
    assert (done.code, done.out, done.err) == (0, WHY, "")
    assert max(map(len, done.out.splitlines())) <= 80


def test_json_is_what_the_api_said(stub, muster):
    assert json.loads(muster("why", "job", "llama-sft", "-o", "json").out)["status"]["code"] == "CAPACITY"


def test_a_job_that_is_not_there(stub, muster):
    assert muster("why", "job", "other").code == 3

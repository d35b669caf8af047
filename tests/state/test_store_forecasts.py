"""Forecasts and the predictions that they are scored by."""

from controller.state import Prediction, Store, StoredForecast
from controller.state.forecasts import SCORED
from muster.states import JobPhase
from tests.makers import NOW, make_attempt, make_job


def said(uid: str, at: float = NOW, **fields: object) -> Prediction:
    fields = {"queue": "default", "predicted": at + 10, "basis": "limits", **fields}
    return Prediction(job_uid=uid, made_at=at, **fields)  # type: ignore[arg-type]


def test_the_newest_forecast_replaces_the_one_before(store: Store) -> None:
    assert store.forecasts.newest() is None
    first = StoredForecast(maker="a", revision=1, made_at=1.0, checked_at=1.0, seconds=0.1, body="{}")
    store.forecasts.put(first)
    store.forecasts.holds("b", 9, 9.0)
    assert store.forecasts.newest() == first
    store.forecasts.holds("a", 3, 4.0)
    found = store.forecasts.newest(body=False)
    assert found is not None
    assert (found.revision, found.made_at, found.checked_at, found.body) == (3, 1.0, 4.0, "")


def test_a_prediction_is_settled_by_the_first_start_after_it_and_void_when_there_is_none(store: Store) -> None:
    with store.write() as w:
        for name in ("starts", "waits", "cancelled"):
            w.insert_job(make_job(name))
    store.forecasts.predict([said("job-starts"), said("job-waits"), said("job-cancelled"), said("job-gone")])
    with store.write() as w:
        job = w.move_job("job-starts", JobPhase.STARTING)
        w.insert_attempt(make_attempt(job, placed_at=NOW + 12))
        w.move_job("job-cancelled", JobPhase.CANCELLED)
    store.forecasts.settle()
    assert [one.job_uid for one in store.forecasts.open_predictions()] == ["job-waits"]
    assert store.forecasts.scored() == [said("job-starts", started_at=NOW + 12)]


def test_only_the_last_thousand_starts_are_kept(store: Store) -> None:
    store.forecasts.predict([said(f"j{n}", started_at=NOW + n) for n in range(SCORED + 5)])
    store.forecasts.settle()
    kept = store.forecasts.scored()
    assert (len(kept), kept[0].job_uid, kept[-1].job_uid) == (SCORED, f"j{SCORED + 4}", "j5")

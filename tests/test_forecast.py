"""The forecast on small jobs made by hand, and its promises on any job at all."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watch_inference.forecasting.forecast import forecast
from watch_inference.model import Forecast, LogLine, Observed, ObservedDataset, Point


def line(done: int, total: int, rate: float, at: float | None = None, **more: float) -> LogLine:
    tokens, eta = more.get("tokens"), more.get("eta_s")
    return LogLine(done, total, 0, rate, tokens, eta, at)


def steady(
    name: str, total: int, done: int, each: float, start: float = 0.0, **more: float
) -> ObservedDataset:
    """A dataset whose requests came every `each` seconds, watched from its start."""
    end, tokens = start + done * each, more.get("tokens")
    every = max(1, total // 40)
    lines = tuple(
        LogLine(n, total, 0, 1 / each, tokens, None, start + n * each)
        for n in range(every, done + 1, every)
    )
    return ObservedDataset(
        name=name,
        status="done" if done >= total else "running",
        prompts=total,
        prompts_bytes=int(more.get("prompt_bytes", 2000) * total),
        finished=done,
        output_at=end,
        completion_tokens=tokens,
        concurrency=int(more.get("concurrency", 8)),
        started=start,
        ended=end if done >= total else None,
        lines=lines,
    )


def queued(name: str, total: int, prompt_bytes: int = 2000, **more: float) -> ObservedDataset:
    return ObservedDataset(
        name=name,
        status="queued",
        prompts=total,
        prompts_bytes=prompt_bytes * total,
        remembered_tokens=more.get("remembered"),
        remembered_rate=more.get("rate"),
        concurrency=int(more.get("concurrency", 8)),
    )


def held(result: Forecast) -> tuple[float, float, float]:
    """The three figures of a forecast that has them."""
    low, remaining, high = result.low_s, result.remaining_s, result.high_s
    assert low is not None and remaining is not None and high is not None
    assert 0 <= low <= remaining <= high < math.inf
    return low, remaining, high


# ------------------------------------------------------------------------ what is not known


def test_before_the_first_request_nothing_is_forecast() -> None:
    waiting = ObservedDataset("B1", "running", prompts=1000, started=0.0)
    assert forecast(Observed(30.0, (waiting, queued("B2", 500)))) == Forecast()


def test_no_datasets_make_no_forecast() -> None:
    assert forecast(Observed(30.0, ())) == Forecast()


def test_a_dataset_whose_prompts_are_not_counted_makes_the_whole_unknown() -> None:
    uncounted = ObservedDataset("B2", "queued")
    result = forecast(Observed(500.0, (steady("B1", 1000, 500, 1.0), uncounted)))
    assert (result.remaining_s, result.low_s, result.high_s) == (None, None, None)
    one = dict(result.datasets)
    assert one["B2"] is None
    assert one["B1"] == pytest.approx(500, rel=0.1)


def test_a_job_with_nothing_left_takes_no_more_time() -> None:
    result = forecast(Observed(1010.0, (steady("B1", 1000, 1000, 1.0),)))
    assert result == Forecast(0.0, 0.0, 0.0)


# ------------------------------------------------------------------------------ plain jobs


def test_a_steady_dataset_takes_as_long_as_its_rate_says() -> None:
    low, remaining, high = held(forecast(Observed(4000.0, (steady("B1", 10_000, 4000, 1.0),))))
    assert remaining == pytest.approx(6000, rel=0.03)
    assert 4500 < low < 5900 < 6100 < high < 8000


def test_the_job_is_the_sum_of_its_datasets() -> None:
    datasets = (
        steady("B1", 2000, 2000, 1.0, tokens=500),
        steady("B2", 2000, 500, 1.0, 2000.0, tokens=500),
        queued("B3", 2000),
    )
    result = forecast(Observed(2500.0, datasets))
    assert [name for name, _ in result.datasets] == ["B2", "B3"]
    assert sum(rest or 0 for _, rest in result.datasets) == pytest.approx(held(result)[1])
    assert dict(result.datasets)["B2"] == pytest.approx(1500, rel=0.1)


def test_the_interval_narrows_as_the_job_goes_on() -> None:
    widths = []
    for done in (200, 1000, 5000, 9000):
        low, remaining, high = held(
            forecast(Observed(float(done), (steady("B1", 10_000, done, 1.0),)))
        )
        widths.append((high - low) / remaining)
    assert widths == sorted(widths, reverse=True)


def test_fifty_requests_a_second_are_forecast() -> None:
    dataset = steady("fast", 60_000, 15_000, 0.02, concurrency=16)
    assert held(forecast(Observed(300.0, (dataset,))))[1] == pytest.approx(900, rel=0.05)


def test_two_hundred_requests_of_ten_minutes_are_forecast() -> None:
    # Eight at a time, ten minutes each: one every 75 s.
    dataset = steady("agents", 200, 80, 75.0, concurrency=8, tokens=12_000)
    assert held(forecast(Observed(6000.0, (dataset,))))[1] == pytest.approx(9000, rel=0.12)


def test_thirty_small_datasets_are_forecast() -> None:
    done = [steady(f"D{i}", 100, 100, 2.0, 200.0 * i, tokens=400) for i in range(10)]
    datasets = (*done, *(queued(f"D{i}", 100) for i in range(10, 30)))
    low, remaining, high = held(forecast(Observed(2000.0, datasets)))
    assert remaining == pytest.approx(4000, rel=0.12)
    assert low < 4000 < high


def test_a_longer_prompt_costs_more_where_the_job_has_shown_it() -> None:
    short = steady("short", 1000, 1000, 1.0, tokens=500, prompt_bytes=2000)
    long = steady("long", 1000, 1000, 4.0, 1000.0, tokens=500, prompt_bytes=40_000)
    job = (short, long, queued("next short", 1000, 2000), queued("next long", 1000, 40_000))
    rests = dict(forecast(Observed(5000.0, job)).datasets)
    assert (rests["next long"] or 0) > 2.5 * (rests["next short"] or 1)


def test_the_tokens_of_an_earlier_run_are_believed() -> None:
    first = steady("B1", 1000, 1000, 1.0, tokens=500)
    plain = forecast(Observed(1000.0, (first, queued("B2", 1000))))
    told = forecast(Observed(1000.0, (first, queued("B2", 1000, remembered=1500))))
    assert held(told)[1] > 1.8 * held(plain)[1]
    assert held(told)[2] / held(told)[0] < held(plain)[2] / held(plain)[0]


def test_the_throughput_of_an_earlier_run_is_believed() -> None:
    first = steady("B1", 1000, 1000, 1.0)._replace(remembered_rate=1.0)
    plain = forecast(Observed(1000.0, (first, queued("B2", 1000))))
    told = forecast(Observed(1000.0, (first, queued("B2", 1000, rate=0.25))))
    assert held(told)[1] == pytest.approx(4000, rel=0.15)
    assert held(told)[2] / held(told)[0] < held(plain)[2] / held(plain)[0]


def test_where_all_goes_slower_than_in_the_earlier_run_the_rest_will_too() -> None:
    # Everything takes twice as long today: what took 4 s a request then takes 8 s now.
    done = [
        steady(f"B{i}", 1000, 1000, 2.0, 2000.0 * i)._replace(remembered_rate=1.0) for i in range(4)
    ]
    told = forecast(Observed(8000.0, (*done, queued("B5", 1000, rate=0.25))))
    assert held(told)[1] == pytest.approx(8000, rel=0.15)


def test_a_throughput_that_was_rounded_to_nothing_says_nothing() -> None:
    first = steady("B1", 1000, 1000, 1.0, tokens=500)
    plain = forecast(Observed(1000.0, (first, queued("B2", 1000))))
    assert forecast(Observed(1000.0, (first, queued("B2", 1000, rate=0.0)))) == plain


def test_datasets_that_run_at_once_are_not_added_up() -> None:
    ranks = tuple(steady(f"rank{i}", 1000, 500, 2.0) for i in range(4))
    result = forecast(Observed(1000.0, ranks))
    assert held(result)[1] == pytest.approx(1000, rel=0.1)
    assert dict(result.datasets)["rank2"] == pytest.approx(1000, rel=0.1)


# ---------------------------------------------------------------------- the public's reports


def test_r01_five_slow_steps_do_not_own_the_forecast() -> None:
    times = [4.0 * n for n in range(1, 701)] + [2800 + 60.0 * n for n in range(1, 6)]
    lines = tuple(line(n, 1000, 0.25, at) for n, at in enumerate(times, 1))
    dataset = ObservedDataset(
        "B1", "running", prompts=1000, finished=705, output_at=3100.0, started=0.0, lines=lines
    )
    remaining = held(forecast(Observed(3100.0, (dataset,))))[1]
    assert 1180 < remaining < 3600  # at the long-run rate 20 min, at the last one 5 h


@pytest.mark.parametrize("done", [950, 1000, 1001])
@pytest.mark.parametrize("paused", [0.0, 85.0])
def test_r03_periodic_pauses_are_averaged_in(done: int, paused: float) -> None:
    times = [n + 90.0 * ((n - 1) // 100) for n in range(1, done + 1)]
    lines = tuple(line(n, 6000, 0.5, times[n - 1]) for n in range(50, done + 1, 50))
    dataset = ObservedDataset(
        "B1",
        "running",
        prompts=6000,
        finished=done,
        output_at=times[-1],
        concurrency=1,
        started=0.0,
        lines=lines,
    )
    wait = paused if done == 1000 else 0.0
    remaining = held(forecast(Observed(times[-1] + wait, (dataset,))))[1]
    truth = 6000 + 90 * 59 - times[-1] - wait
    assert remaining == pytest.approx(truth, rel=0.1)


def test_r05_what_was_done_before_is_no_part_of_the_rate() -> None:
    # The first line that we saw said 4200; a minute later 4242: 0.7 a second, for 5758.
    dataset = ObservedDataset(
        "B1",
        "running",
        prompts=10_000,
        finished=4242,
        output_at=60.0,
        lines=(line(4200, 10_000, 0.7),),
    )
    points = (Point(0.0, 4200), Point(30.0, 4221), Point(60.0, 4242))
    remaining = held(forecast(Observed(60.0, (dataset,), -120.0, points)))[1]
    assert remaining == pytest.approx(8226, rel=0.1)


def test_r05_without_a_log_only_what_was_seen_counts() -> None:
    dataset = ObservedDataset("B1", "running", prompts=10_000, finished=4242, output_at=600.0)
    points = tuple(Point(60.0 * i, 4200 + 42 * i) for i in range(11))
    dataset = dataset._replace(finished=4620)
    remaining = held(forecast(Observed(600.0, (dataset,), None, points)))[1]
    assert remaining == pytest.approx(5380 / 0.7, rel=0.1)


def test_r09_a_log_whose_clock_is_wrong_is_not_believed() -> None:
    # It says 0.7 req/s and 4.0 h; the counter moves 0.2 a second: 13.1 h for what is left.
    seen = tuple(
        line(150 + 50 * i, 10_000, 0.7, 250.0 * i if i else None, eta_s=14_400.0) for i in range(9)
    )
    dataset = ObservedDataset(
        "B1", "running", prompts=10_000, finished=550, output_at=2000.0, lines=seen
    )
    remaining = held(forecast(Observed(2000.0, (dataset,), -300.0)))[1]
    assert remaining == pytest.approx(9450 / 0.2, rel=0.1)


def test_r15_a_dataset_of_long_prompts_widens_the_range() -> None:
    done = [steady(f"B{i}", 1000, 1000, 0.5, 500.0 * i, tokens=200) for i in range(3)]
    alike = forecast(Observed(1500.0, (*done, queued("B4", 1000), queued("B5", 1000))))
    unlike = forecast(Observed(1500.0, (*done, queued("B4", 1000, 16_000), queued("B5", 1000))))
    rests = dict(unlike.datasets)
    assert (rests["B4"] or 0) > 1.5 * (rests["B5"] or 1)
    assert held(unlike)[2] / held(unlike)[0] > 1.1 * held(alike)[2] / held(alike)[0]


# -------------------------------------------------------------------------------- the clock


def test_a_cold_start_forecasts_as_watching_does() -> None:
    watched = steady("B1", 10_000, 3000, 10 / 7, tokens=700)
    cold = watched._replace(
        started=None,
        lines=tuple(
            line(n, 10_000, 0.7, tokens=700, eta_s=360.0 * round((10_000 - n) / 252))
            for n in range(250, 3001, 250)
        ),
    )
    told = held(forecast(Observed(4300.0, (cold,), -20.0)))[1]
    seen = held(forecast(Observed(4300.0, (watched,), -20.0)))[1]
    assert told == pytest.approx(seen, rel=0.03)


def test_lines_that_came_between_two_looks_are_timed_by_the_last_of_them() -> None:
    exact = steady("B1", 1000, 600, 1.0)
    rare = exact._replace(  # a look every 200 s: eight lines at once
        started=None,
        lines=tuple(one._replace(at=200.0 * -(-one.done // 200)) for one in exact.lines),
    )
    expected = held(forecast(Observed(600.0, (exact,), 0.0)))[1]
    assert held(forecast(Observed(600.0, (rare,), 0.0)))[1] == pytest.approx(expected, rel=0.05)


def test_those_that_wait_are_thought_to_be_asked_as_the_others_were() -> None:
    first = steady("B1", 1000, 1000, 1.0, tokens=500, concurrency=4)
    asked = forecast(Observed(1000.0, (first, queued("B2", 1000, concurrency=4))))
    waiting = queued("B2", 1000)._replace(concurrency=None)
    assert forecast(Observed(1000.0, (first, waiting))) == asked


def test_a_resumed_part_is_kept_out() -> None:
    fresh = steady("B1", 6000, 2000, 1.0)
    resumed = fresh._replace(
        prompts=10_000,
        prompts_bytes=20_000_000,
        resumed=4000,
        lines=tuple(one._replace(done=one.done + 4000, total=10_000) for one in fresh.lines),
    )
    expected = held(forecast(Observed(2000.0, (fresh,))))[1]
    assert held(forecast(Observed(2000.0, (resumed,))))[1] == pytest.approx(expected, rel=0.02)


def test_a_file_that_begins_with_short_prompts_gets_slower() -> None:
    # The seconds of a request grow as its prompt does: 0.4 s in the first tenth, 4 s in the last.
    sizes = tuple(1000.0 * tenth for tenth in range(1, 11))
    times, clock = [], 0.0
    for n in range(1500):
        clock += 0.4 * (1 + n // 300)
        times.append(clock)
    lines = tuple(line(n, 3000, 1.0, times[n - 1]) for n in range(50, 1501, 50))
    dataset = ObservedDataset(
        "sorted",
        "running",
        prompts=3000,
        prompts_bytes=16_500_000,
        prompt_bytes_deciles=sizes,
        finished=1500,
        output_at=clock,
        concurrency=4,
        started=0.0,
        lines=lines,
    )
    truth = 0.4 * 300 * (6 + 7 + 8 + 9 + 10)
    assert held(forecast(Observed(clock, (dataset,))))[1] == pytest.approx(truth, rel=0.2)
    unsorted = dataset._replace(prompt_bytes_deciles=())
    assert held(forecast(Observed(clock, (unsorted,))))[1] < 0.7 * truth


def test_a_lasting_change_of_speed_is_followed() -> None:
    times = [float(n) for n in range(1, 2001)] + [2000 + 2.0 * n for n in range(1, 2001)]
    lines = tuple(line(n, 10_000, 1.0, times[n - 1]) for n in range(50, 4001, 50))
    dataset = ObservedDataset(
        "B1",
        "running",
        prompts=10_000,
        finished=4000,
        output_at=6000.0,
        concurrency=8,
        started=0.0,
        lines=lines,
    )
    low, remaining, high = held(forecast(Observed(6000.0, (dataset,))))
    assert 10_500 < remaining < 12_500  # 9000 at the mean speed, 12000 at the new one
    assert low < 12_000 < high


# ---------------------------------------------------------------------------------- silence


def test_during_silence_the_finish_moves_and_the_interval_widens() -> None:
    dataset = steady("B1", 10_000, 4000, 1.0)
    looks = [held(forecast(Observed(4000.0 + gap, (dataset,)))) for gap in range(60, 3600, 60)]
    for earlier, later in pairwise(looks):
        assert 1.0 <= (later[1] - earlier[1] + 60) / 60 <= 1.6
        assert later[2] - later[0] > earlier[2] - earlier[0]


def test_waiting_for_the_usual_time_moves_nothing() -> None:
    dataset = steady("B1", 200, 80, 75.0, concurrency=8)
    finishes = [
        6000.0 + gap + held(forecast(Observed(6000.0 + gap, (dataset,))))[1] for gap in (0, 30, 60)
    ]
    assert max(finishes) - min(finishes) < 1.0


def test_a_dataset_that_has_begun_keeps_its_rate_whatever_it_is_called() -> None:
    dataset = steady("B1", 10_000, 4000, 1.0)
    called = dataset._replace(status="queued")
    assert forecast(Observed(4100.0, (called,))) == forecast(Observed(4100.0, (dataset,)))


def test_a_dataset_that_stalls_before_its_first_request_moves_no_faster() -> None:
    waiting = ObservedDataset("B2", "running", prompts=1000, started=1000.0, concurrency=8)
    job = (steady("B1", 1000, 1000, 1.0, tokens=500), waiting)
    looks = [held(forecast(Observed(1000.0 + gap, job)))[1] for gap in (600, 1200, 1800)]
    for earlier, later in pairwise(looks):
        assert 1.0 <= (later - earlier + 600) / 600 <= 1.6


# ------------------------------------------------------------------------------------ promises


def test_ten_datasets_are_forecast_in_milliseconds() -> None:
    done = [steady(f"B{i}", 4000, 4000, 1.0, 4000.0 * i, tokens=500) for i in range(9)]
    job = Observed(38_000.0, (*done, steady("B9", 4000, 2000, 1.0, 36_000.0, tokens=500)))
    costs, loops = [], []
    for _ in range(30):
        costs.append(spent(lambda: forecast(job)))
        loops.append(spent(lambda: sum(n * n % 7 for n in range(10_000))))
    # Against a loop that takes 0.5 to 0.6 ms on an idle machine: 2 ms, and some for a busy one.
    assert min(costs) < 5 * min(loops)


def spent(work: Callable[[], object]) -> float:
    """CPU seconds."""
    before = time.process_time()
    work()
    return time.process_time() - before


anything = st.one_of(st.none(), st.floats(), st.floats(-1e4, 1e4), st.integers(-(10**400), 10**400))
counts = st.one_of(st.integers(-5, 300), st.integers(0, 10**18), st.just(10**400))
maybe_counts = st.one_of(st.none(), counts)
log_lines = st.builds(
    LogLine, counts, maybe_counts, st.integers(0, 9), anything, anything, anything, anything
)
datasets = st.builds(
    ObservedDataset,
    name=st.sampled_from(["B1", "B2", "B3", ""]),
    status=st.sampled_from(["queued", "running", "done"]),
    prompts=maybe_counts,
    prompts_bytes=maybe_counts,
    prompt_bytes_deciles=st.one_of(
        st.just(()), st.lists(st.floats(), max_size=12).map(tuple), st.just((1.0, 2.0, 3.0) * 3)
    ),
    resumed=counts,
    finished=counts,
    output_at=anything,
    completion_tokens=anything,
    spread=anything,
    remembered_tokens=anything,
    remembered_rate=anything,
    concurrency=maybe_counts,
    max_tokens=maybe_counts,
    started=anything,
    ended=anything,
    lines=st.lists(log_lines, max_size=8).map(tuple),
)
jobs = st.builds(
    Observed,
    now=st.one_of(st.floats(), st.floats(-1e4, 1e4)),
    datasets=st.lists(datasets, max_size=5).map(tuple),
    process_started=anything,
    points=st.lists(st.builds(Point, st.floats(), counts), max_size=6).map(tuple),
    moved_at=anything,
)


@settings(max_examples=300, deadline=None)
@given(jobs, st.booleans())
def test_no_job_makes_the_forecast_fail(job: Observed, guess: bool) -> None:
    result = forecast(job, guess=guess)
    if result.remaining_s is not None:
        held(result)
    for _, rest in result.datasets:
        assert rest is None or 0 <= rest < math.inf


@settings(max_examples=100, deadline=None)
@given(
    total=st.integers(200, 5000),
    share=st.floats(0.2, 0.9),
    each=st.floats(0.01, 600),
    concurrency=st.integers(1, 16),
)
def test_any_steady_dataset_is_forecast_within_its_interval(
    total: int, share: float, each: float, concurrency: int
) -> None:
    done = int(total * share)
    dataset = steady("B1", total, done, each, concurrency=concurrency)
    low, remaining, high = held(forecast(Observed(done * each, (dataset,))))
    left = (total - done) * each
    flight = concurrency * each  # a server that keeps as many in flight drains about as long
    assert low < left + flight and high > left
    assert 0.85 * left - flight < remaining < 1.15 * left + 2 * flight

"""What happens to jobs: stories of things that go wrong, and of things that only look like it.

Each is told on a clock that is handed in, to a job that finishes a request a second and logs each
fiftieth, unless it says otherwise. The two tables at the end are the suite; `test_incidents.py`
holds the monitor against them, and `test_incidents_live.py` does so with real processes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from tests.stories import Story, progress
from watch_inference.judging.case import Limits
from watch_inference.model import OutputReading, State


class Incident(NamedTuple):
    """A story that goes wrong: the state and the word for it, found within so many seconds."""

    tell: Callable[[], Story]
    state: State
    says: str
    within: float = 60.0


class Innocent(NamedTuple):
    """A story in which nothing is wrong, whatever it looks like; `says`: the last word for it."""

    tell: Callable[[], Story]
    says: str = ""


def at_work(requests: int = 120, limits: Limits | None = None, **totals: int) -> Story:
    """Begin a story: a job that has done so much of its first dataset."""
    story = Story(limits=limits, **(totals or {"B1": 10000, "B2": 10000}))
    story.tick_s, story.quick = 5.0, True
    story.process(holds=("/synth/run.log", "/synth/B1/tokenized_data.jsonl"))
    story.logs(next(iter(story.outputs)))
    story.look()
    story.works(next(iter(story.outputs)), requests)
    return story


def log_alone(lines: int = 6, every: float = 50.0) -> Story:
    """Begin a story of which nothing but the log is seen: a line so often."""
    story = at_work(0, B1=10000, B2=10000)
    story.tick_s = max(5.0, every / 10)
    story.outputs = {name: OutputReading(name, 10000, has_prompts=True) for name in ("B1", "B2")}
    speaks(story, "B1", lines, every)
    return story


def speaks(story: Story, name: str, lines: int, every: float, tokens: int = 788) -> None:
    """Let a log alone go on: a line each so many seconds."""
    assert story.progress is not None
    logged = {one.name: one.logged or 0 for one in story.progress.datasets}
    for number in range(1, lines + 1):
        story.passes(every)
        line = progress((logged.get(name) or 0) + 50 * number, 10000, rate=50 / every)
        left = f"{(10000 - 50 * number) * every / 50 / 3600:.1f}h"
        story.logs(line.replace("788", str(tokens)).replace("1.0h", left))
        story.look()


def fails(story: Story, requests: int, errors: int, before: int = 0) -> None:
    """Let requests finish of which so many fail, a log line each fiftieth."""
    done = story.outputs["B1"].written or 0
    for number in range(50, requests + 1, 50):
        story.passes(50)
        story.writes("B1", done + number)
        failed = before + errors * number // requests
        story.logs(progress(done + number, 10000, failed))
        story.look()


# --------------------------------------------------------------------------- what goes wrong


def the_server_hangs() -> Story:
    story = at_work()
    story.breaks()
    story.passes(90)
    return story


def a_job_known_by_its_log_alone_hangs() -> Story:
    story = log_alone(every=50)
    story.breaks()
    story.passes(130)
    return story


def a_slow_steady_job_hangs() -> Story:
    story = at_work(0)
    story.works("B1", 15, rate=1 / 40, every=5)
    story.breaks()
    story.passes(110)
    return story


def a_job_was_hung_for_long_before_anybody_looked() -> Story:
    story = Story(B1=10000)
    story.process()
    story.logs("B1", progress(150, 10000, rate=0.7), progress(300, 10000, rate=0.7), arriving=False)
    story.writes("B1", 320, arriving=False)
    story.at += 900
    story.breaks()
    story.look()
    return story


def it_hangs_again_after_it_came_back() -> Story:
    story = at_work()
    story.passes(200)
    story.works("B1", 30)
    story.history.clear()
    story.breaks()
    story.passes(90)
    return story


def it_hangs_where_pauses_of_ninety_seconds_are_usual() -> Story:
    story = at_work()
    for _ in range(4):
        story.passes(90)
        story.works("B1", 60)
    story.history.clear()
    story.breaks()
    story.passes(190)
    return story


def it_hangs_between_two_datasets() -> Story:
    story = at_work(0, B1=200, B2=10000)
    story.works("B1", 200)
    story.breaks()
    story.passes(640)
    return story


def it_hangs_at_the_last_answers() -> Story:
    story = at_work(0, B1=1000, B2=1000)
    story.works("B1", 980)
    story.breaks()
    story.passes(400)
    return story


def it_is_silent_for_longer_than_was_allowed() -> Story:
    story = at_work(limits=Limits(stall_after=20.0))
    story.breaks()
    story.passes(40)
    return story


def it_waits_for_ever_at_its_start() -> Story:
    story = Story(B1=1000)
    story.tick_s = 10.0
    story.process(cpu_s=3.0)
    story.look()
    story.breaks()
    story.passes(1900)
    return story


def it_is_stopped() -> Story:
    story = at_work()
    story.breaks()
    story.process("stopped")
    story.passes(10)
    return story


def it_is_killed() -> Story:
    story = at_work()
    story.breaks()
    story.process("gone")
    story.passes(10)
    return story


def it_dies_of_an_exception() -> Story:
    story = at_work()
    story.breaks()
    story.logs("Traceback (most recent call last):", '  File "run.py"', "RuntimeError: CUDA error")
    story.logs(*["INFO Connection reset by peer"] * 30)
    story.process("gone")
    story.passes(10)
    return story


def nobody_waits_for_its_exit() -> Story:
    story = at_work()
    story.breaks()
    story.process("zombie")
    story.passes(10)
    return story


def it_dies_before_any_progress() -> Story:
    story = Story(B1=None)
    story.process()
    story.look()
    story.breaks()
    story.logs("Traceback (most recent call last):", "  x", "OSError: no such model")
    story.process("gone")
    story.passes(4)
    return story


def it_died_before_anybody_looked() -> Story:
    story = Story(B1=1000)
    story.writes("B1", 500, arriving=False)
    story.logs("B1", progress(450, 1000), progress(500, 1000), arriving=False)
    story.at += 7200
    story.breaks()
    story.look()
    return story


def its_disk_is_dead() -> Story:
    story = at_work()
    story.breaks()
    story.process("disk-sleep")
    story.passes(90)
    return story


def two_shards(requests: int = 120) -> Story:
    """Begin a story of two processes, a dataset and a log each."""
    story = at_work(requests, B1=10000, B2=10000)
    story.process(pid=42, holds=("/synth/B2/tokenized_data.jsonl",))
    story.works("B2", 20)
    return story


def one_shard_dies_and_the_other_lives() -> Story:
    story = two_shards()
    story.breaks()
    story.process("gone", pid=42)
    story.works("B1", 60)
    return story


def one_shard_is_stopped_and_the_other_goes_on() -> Story:
    story = two_shards()
    story.breaks()
    story.process("stopped", pid=42)
    story.works("B1", 20)
    return story


def its_log_is_buffered() -> Story:
    story = at_work()
    story.breaks()
    for number in range(124, 400, 4):
        story.passes(4)
        story.writes("B1", number)
    story.look()
    return story


def its_log_comes_in_bursts() -> Story:
    story = at_work(0)
    story.breaks()
    for burst in range(1, 4):
        for number in range(1, 31):
            story.passes(10)
            story.writes("B1", 300 * (burst - 1) + 10 * number)
        story.logs(*(progress(300 * (burst - 1) + n, 10000) for n in range(50, 301, 50)))
        story.look()
    return story


def its_log_counts_on_and_nothing_is_written() -> Story:
    story = at_work(400)
    story.breaks()
    for number in range(450, 901, 50):
        story.passes(50)
        story.logs(progress(number, 10000))
    story.look()
    return story


def lines_are_lost_at_a_datasets_end() -> Story:
    story = at_work(0, B1=1000, B2=1000)
    story.works("B1", 900)
    story.breaks()
    story.logs(progress(950, 1000), progress(1000, 1000), "B2")
    story.works("B2", 120)
    return story


def results_stay_in_memory() -> Story:
    story = at_work(0)
    story.breaks()
    story.writes("B1", 0)
    for number in range(50, 201, 50):
        story.passes(50)
        story.logs(progress(number, 10000))
    story.look()
    return story


def its_log_shows_heartbeats_only() -> Story:
    story = at_work()
    story.breaks()
    for number in range(30):
        story.passes(5)
        story.logs(f"INFO heartbeat {number}: alive", "Decoding... |")
    story.look()
    return story


def its_log_shows_retries_only() -> Story:
    story = at_work()
    story.breaks()
    for number in range(30):
        story.passes(5)
        story.logs(f"WARNING Retrying request in {number} s: Connection refused")
    story.look()
    return story


def it_was_started_again() -> Story:
    story = at_work()
    story.breaks()
    story.process("gone")
    story.look()
    del story.processes[41]
    story.at += 20
    story.process(pid=57, started=story.wall)
    story.passes(10)
    return story


def it_became_three_times_slower() -> Story:
    story = at_work(600)
    story.breaks()
    story.works("B1", 120, rate=0.3)
    return story


def five_answers_took_a_minute_each() -> Story:
    story = at_work(0, B1=1000)
    story.tick_s = 15.0
    story.works("B1", 700, rate=0.25, every=1)
    story.breaks()
    story.works("B1", 5, rate=1 / 60, every=1)
    return story


def more_and_more_requests_fail() -> Story:
    story = at_work(0)
    fails(story, 1000, 10)
    story.breaks()
    fails(story, 500, 200, before=10)
    return story


def every_request_fails() -> Story:
    story = at_work(200)
    story.breaks()
    for number in range(1, 7):
        story.passes(50)
        story.logs(progress(200 + 50 * number, 10000, errors=50 * number))
        story.look()
    return story


def answers_become_empty() -> Story:
    story = log_alone(4)
    story.breaks()
    done, tokens = 200, 200 * 788
    for _ in range(4):
        story.passes(50)
        done, tokens = done + 50, tokens + 50
        story.logs(progress(done, 10000).replace("788", f"{tokens / done:.0f}"))
    story.look()
    return story


def answers_are_as_long_as_allowed() -> Story:
    story = log_alone(2)
    story.process(command="python run.py --max-tokens 2048")
    story.breaks()
    speaks(story, "B2", 4, 50, tokens=2040)
    return story


def it_has_written_all_and_does_not_end() -> Story:
    story = at_work(0, B1=200)
    story.works("B1", 200)
    story.breaks()
    story.passes(100)
    return story


def its_file_holds_two_runs() -> Story:
    story = at_work(0, B1=200)
    story.works("B1", 150)
    story.breaks()
    story.writes("B1", 220)
    story.passes(10)
    return story


def its_own_end_time_is_far_off() -> Story:
    story = at_work(0, B1=4000)
    story.quick = False
    story.breaks()
    story.works("B1", 150, rate=0.2, eta="1.0h")
    return story


# ------------------------------------------------------------- what only looks as if it did


def it_works() -> Story:
    return at_work(400)


def it_finishes() -> Story:
    story = at_work(0, B1=150)
    story.works("B1", 150)
    story.passes(10)
    story.process("gone")
    story.passes(10)
    return story


def a_line_comes_every_four_minutes() -> Story:
    return log_alone(6, every=240)


def a_first_look_falls_between_two_rare_lines() -> Story:
    story = Story(B1=10000)
    story.process()
    story.logs("B1", progress(150, 10000, rate=0.7), progress(300, 10000, rate=0.7), arriving=False)
    story.at += 200
    story.look()
    story.passes(100)
    return story


def a_first_look_falls_between_two_writes_of_a_batch() -> Story:
    story = Story(B1=10000)
    story.process()
    story.writes("B1", 300, arriving=False)
    story.at += 100
    story.logs(
        "B1", progress(250, 10000), progress(300, 10000), progress(350, 10000), arriving=False
    )
    story.at += 70
    story.look()
    return story


def the_lines_of_a_long_dataset_are_slow() -> Story:
    story = log_alone(6, every=100)
    story.logs(progress(10000, 10000), "B2")
    story.look()
    speaks(story, "B2", 4, 350)
    return story


def an_answer_takes_five_minutes() -> Story:
    story = at_work(0)
    story.tick_s = 15.0
    story.works("B1", 12, rate=1 / 300, every=1)
    return story


def its_answers_come_when_they_like() -> Story:
    """Gaps of a slow job are as long as they happen to be: exponential, and now and then worse."""
    story, rng = at_work(0), random.Random(6)
    for number in range(1, 60):
        story.passes(min(400.0, 30 * rng.expovariate(1.0)))
        story.writes("B1", number)
        if number % 5 == 0:
            story.logs(progress(number, 10000, rate=0.03))
    return story


def the_last_three_answers_are_long() -> Story:
    story = at_work(0, B1=1000, B2=1000)
    story.works("B1", 997)
    story.passes(600)
    story.works("B1", 1)
    story.passes(300)
    story.works("B1", 2)
    return story


def the_last_answers_of_a_dataset_are_waited_for() -> Story:
    story = at_work(0, B1=1000, B2=1000)
    story.works("B1", 997)
    story.passes(240)
    return story


def the_log_alone_is_silent_in_the_drain() -> Story:
    story = log_alone(4)
    story.logs(progress(9800, 10000, rate=1.0, eta="0.1h"))
    story.look()
    speaks(story, "B1", 3, 50)
    story.passes(240)
    return story


def outputs_come_in_batches() -> Story:
    story = at_work(0)
    for number in range(1, 9):
        for _ in range(2):
            story.passes(50)
            story.logs(progress(100 * number - 50, 10000))
        story.writes("B1", 100 * number)
        story.look()
    return story


def outputs_alone_come_in_batches() -> Story:
    story = at_work(0)
    story.log = None
    for number in range(1, 9):
        story.passes(150)
        story.writes("B1", 100 * number)
        story.look()
    return story


def outputs_appear_at_the_end_only() -> Story:
    story = at_work(0)
    for number in range(50, 401, 50):
        story.passes(50)
        story.logs(progress(number, 10000))
    story.writes("B1", 400)
    story.look()
    return story


def there_is_no_log_at_all() -> Story:
    story = at_work(0)
    story.log = None
    for number in range(1, 50):
        story.passes(4)
        story.writes("B1", 12 * number)
    story.look()
    return story


def the_next_dataset_takes_four_minutes_to_begin() -> Story:
    story = at_work(0, B1=200, B2=10000)
    story.works("B1", 200)
    story.logs("B2: loading prompts")
    story.passes(240)
    story.works("B2", 60)
    return story


def it_prepares_a_dataset_for_twenty_minutes() -> Story:
    story = at_work(0, B1=200, B2=10000)
    story.works("B1", 200)
    story.tick_s = 10.0
    story.process("running", cpu_percent=98.0)
    story.logs("Preparing request files")
    story.passes(1200)
    return story


def a_model_is_loaded_for_an_hour() -> Story:
    story = Story(B1=1000)
    story.tick_s = 30.0
    story.look()
    for step in range(120):
        story.process(cpu_s=20.0 * step, cpu_percent=66.0)
        story.passes(30)
    return story


def it_is_started_again_and_loads() -> Story:
    story = at_work()
    del story.processes[41]
    story.process(pid=57, started=story.wall, cpu_s=1.0)
    for step in range(40):
        story.process(pid=57, cpu_s=2.0 + step, cpu_percent=15.0)
        story.passes(10)
    story.logs("B1: 10000 prompts, 120 already done")
    story.works("B1", 60)
    return story


def it_pauses_for_ninety_seconds_as_it_did_before() -> Story:
    story = at_work()
    for _ in range(2):
        story.passes(90)
        story.works("B1", 60)
    story.history.clear()
    for _ in range(3):
        story.passes(95)
        story.works("B1", 60)
    return story


def it_becomes_ten_times_slower() -> Story:
    story = at_work(300)
    story.works("B1", 40, rate=0.1)
    return story


def the_monitor_itself_slept() -> Story:
    story = at_work()
    story.at += 600
    story.look()
    story.works("B1", 30)
    return story


def the_clock_is_set_back_and_ahead() -> Story:
    story = at_work()
    for step in (-3600.0, 7200.0):
        for number in range(8):
            story.at += 5
            story.writes("B1", (story.outputs["B1"].written or 0) + number)
            sample = story.sample()
            story.look_at(sample._replace(wall=sample.wall + step))
    return story


def its_files_are_of_next_year() -> Story:
    story = Story(B1=10000)
    story.process()
    story.writes("B1", 300, arriving=False)
    story.outputs["B1"] = story.outputs["B1"]._replace(modified=story.wall + 3e7)
    story.look()
    story.passes(50)
    return story


def some_requests_are_tried_again() -> Story:
    story = at_work()
    for _ in range(6):
        story.logs("WARNING Retrying request: timed out", "WARNING Retrying request: timed out")
        story.works("B1", 20)
    return story


def a_few_requests_fail_all_the_time() -> Story:
    story = at_work(0)
    fails(story, 1500, 45)
    return story


def a_shard_comes_to_its_end() -> Story:
    story = at_work(60, B1=10000, B2=40)
    story.process(pid=42, holds=("/synth/B2/tokenized_data.jsonl",))
    story.works("B2", 40)
    story.process("gone", pid=42)
    story.works("B1", 60)
    return story


def a_child_without_files_ends() -> Story:
    story = at_work()
    story.process(pid=43)
    story.look()
    story.process("gone", pid=43)
    story.works("B1", 30)
    return story


def it_waits_for_its_disk_now_and_then() -> Story:
    story = at_work()
    for number in range(8):
        story.process("disk-sleep" if number % 2 else "sleeping")
        story.works("B1", 6)
    return story


def two_datasets_at_once_one_of_them_at_its_end() -> Story:
    story = at_work(0, B1=100, B2=10000)
    story.works("B1", 98)
    story.works("B2", 300)
    return story


def many_errors_count_as_done() -> Story:
    story = at_work(0, B1=200)
    fails(story, 150, 6)
    story.writes("B1", 194)
    story.passes(50)
    story.logs(progress(200, 200, 6))
    story.look()
    story.process("gone")
    story.passes(10)
    return story


def nobody_may_see_its_process() -> Story:
    from tests.test_diagnosis import HIDDEN

    story = Story(B1=10000)
    story.tick_s = 5.0
    story.view = HIDDEN
    story.logs("B1")
    story.look()
    story.works("B1", 120)
    story.passes(300)
    return story


RUNNING, STALLED, FAILED, STARTING = State.RUNNING, State.STALLED, State.FAILED, State.STARTING

INCIDENTS = (
    Incident(the_server_hangs, STALLED, "no work has moved for 1 min"),
    Incident(a_job_known_by_its_log_alone_hangs, STALLED, "no work has moved", 2 * 52),
    Incident(a_slow_steady_job_hangs, STALLED, "no work has moved", 2 * 42),
    Incident(a_job_was_hung_for_long_before_anybody_looked, STALLED, "for 15 min", 0),
    Incident(it_hangs_again_after_it_came_back, STALLED, "no work has moved"),
    Incident(it_hangs_where_pauses_of_ninety_seconds_are_usual, STALLED, "no work", 2 * 90),
    Incident(it_hangs_between_two_datasets, STALLED, "no work has moved for 10 min", 2 * 300),
    Incident(it_hangs_at_the_last_answers, STALLED, "no work has moved", 2 * 180),
    Incident(it_is_silent_for_longer_than_was_allowed, STALLED, "limit 20 s", 20),
    Incident(it_waits_for_ever_at_its_start, STALLED, "no CPU time used", 1800),
    Incident(it_is_stopped, STALLED, "process 41 is stopped (state T)", 5),
    Incident(it_is_killed, FAILED, "process gone at 0.6 %; the log names no error", 5),
    Incident(it_dies_of_an_exception, FAILED, "the log's last error: RuntimeError: CUDA error", 5),
    Incident(nobody_waits_for_its_exit, FAILED, "process 41 exited and is not reaped", 5),
    Incident(it_dies_before_any_progress, FAILED, "before any progress; the log's last error", 5),
    Incident(
        it_died_before_anybody_looked, FAILED, "no process holds the files, silent for 2 h", 0
    ),
    Incident(its_disk_is_dead, STALLED, "process 41 has waited for its disk for"),
    Incident(one_shard_dies_and_the_other_lives, RUNNING, "process 42 is gone", 10),
    Incident(one_shard_is_stopped_and_the_other_goes_on, RUNNING, "process 42 is stopped", 10),
    Incident(its_log_is_buffered, RUNNING, "the log is silent for 4 min while outputs grow", 280),
    Incident(its_log_comes_in_bursts, RUNNING, "comes in bursts, 5 min apart", 600),
    Incident(its_log_counts_on_and_nothing_is_written, RUNNING, "its file has not grown for", 250),
    Incident(lines_are_lost_at_a_datasets_end, RUNNING, "B1: 100 lines are lost", 60),
    Incident(results_stay_in_memory, RUNNING, "results are not on disk yet", 120),
    Incident(its_log_shows_heartbeats_only, STALLED, "no line of it is progress", 70),
    Incident(its_log_shows_retries_only, STALLED, "nothing but retries for 1 min", 70),
    Incident(it_was_started_again, STARTING, "restarted 0 s ago: process 57", 30),
    Incident(it_became_three_times_slower, RUNNING, "throughput fell from 1.00 to 0.30", 240),
    Incident(five_answers_took_a_minute_each, RUNNING, "throughput fell from 0.25 to", 240),
    Incident(more_and_more_requests_fail, RUNNING, "of the last", 250),
    Incident(every_request_fails, RUNNING, "nothing but errors: the last", 250),
    Incident(answers_become_empty, RUNNING, "next to nothing", 250),
    Incident(answers_are_as_long_as_allowed, RUNNING, "as many as allowed (2,048)", 200),
    Incident(it_has_written_all_and_does_not_end, RUNNING, "all lines are written for 1 min", 60),
    Incident(its_file_holds_two_runs, RUNNING, "220 lines for 200 prompts", 10),
    Incident(its_own_end_time_is_far_off, RUNNING, "the job's own ETA was 1h00m", 600),
)

INNOCENTS = (
    Innocent(it_works),
    Innocent(it_finishes),
    Innocent(a_line_comes_every_four_minutes),
    Innocent(a_first_look_falls_between_two_rare_lines),
    Innocent(a_first_look_falls_between_two_writes_of_a_batch),
    Innocent(the_lines_of_a_long_dataset_are_slow),
    Innocent(an_answer_takes_five_minutes),
    Innocent(its_answers_come_when_they_like),
    Innocent(the_last_three_answers_are_long),
    Innocent(the_last_answers_of_a_dataset_are_waited_for, "the last 3 answers to come"),
    Innocent(the_log_alone_is_silent_in_the_drain),
    Innocent(outputs_come_in_batches),
    Innocent(outputs_alone_come_in_batches),
    Innocent(outputs_appear_at_the_end_only),
    Innocent(there_is_no_log_at_all),
    Innocent(the_next_dataset_takes_four_minutes_to_begin),
    Innocent(it_prepares_a_dataset_for_twenty_minutes),
    Innocent(a_model_is_loaded_for_an_hour, "its process computes"),
    Innocent(it_is_started_again_and_loads),
    Innocent(it_pauses_for_ninety_seconds_as_it_did_before),
    Innocent(it_becomes_ten_times_slower),
    Innocent(the_monitor_itself_slept),
    Innocent(the_clock_is_set_back_and_ahead),
    Innocent(its_files_are_of_next_year),
    Innocent(some_requests_are_tried_again),
    Innocent(a_few_requests_fail_all_the_time),
    Innocent(a_shard_comes_to_its_end),
    Innocent(a_child_without_files_ends),
    Innocent(it_waits_for_its_disk_now_and_then),
    Innocent(two_datasets_at_once_one_of_them_at_its_end),
    Innocent(many_errors_count_as_done),
    Innocent(nobody_may_see_its_process),
)

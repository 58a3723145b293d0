"""State, reason and exit of a job's life, told on a clock that is handed in."""

from __future__ import annotations

import pytest

from tests.stories import Story, progress
from watch_inference.judging.case import Case, Limits
from watch_inference.judging.diagnosis import RULES, judge
from watch_inference.judging.verdict import Standing, Verdict
from watch_inference.model import Forecast, ProcessView, State

HIDDEN = ProcessView(False, "files on nfs: the job may run on another node")


def half_done(**more: object) -> Story:
    story = Story(B1=1000, B2=1000, **more)  # type: ignore[arg-type]
    story.tick_s, story.quick = 5.0, True
    story.process()
    story.look()
    story.works("B1", 500)
    return story


def test_a_job_without_progress_is_starting() -> None:
    story = Story(B1=1000)
    story.process()
    report = story.look()
    assert (report.state, report.reason) == (State.STARTING, "no progress yet")
    assert report.figures.remaining_s is None


def test_a_start_that_uses_no_cpu_for_half_an_hour_is_stalled() -> None:
    story = Story(B1=1000)
    story.process(cpu_s=12.0)
    story.look()
    assert story.passes(1700).state is State.STARTING
    assert story.passes(200).state is State.STALLED


def test_a_start_that_computes_is_never_stalled() -> None:
    story = Story(B1=1000)
    for step in range(100):
        story.process(cpu_s=float(step))
        report = story.passes(40)
    assert report.state is State.STARTING


def test_a_job_whose_lines_come_is_running_without_a_word() -> None:
    report = half_done().look()
    assert (report.state, report.reason) == (State.RUNNING, "")
    assert report.figures.fraction == 0.25


def test_silence_beyond_the_rhythm_is_a_stall_and_its_end_is_noticed() -> None:
    story = half_done()
    assert story.passes(50).state is State.RUNNING
    report = story.passes(70)
    assert report.state is State.STALLED
    assert report.reason.startswith("no work has moved for 2 min")
    story.writes("B1", 501)
    assert story.look().state is State.RUNNING


def test_the_stall_limit_may_be_given() -> None:
    story = half_done(limits=Limits(stall_after=1000.0))
    assert story.passes(990).state is State.RUNNING
    assert story.passes(20).state is State.STALLED


def test_noise_in_the_log_is_no_work() -> None:
    story = half_done()
    for _ in range(100):
        story.logs("heartbeat: alive")
        report = story.passes(2)
    assert report.state is State.STALLED


def test_the_last_long_answers_of_a_dataset_are_no_stall() -> None:
    story = half_done()
    story.works("B1", 495)
    assert story.passes(600).state is State.RUNNING


def test_a_pause_that_was_seen_before_is_no_stall() -> None:
    story = half_done()
    for _ in range(3):
        story.passes(58)
        story.works("B1", 50)
    assert story.passes(90).state is State.RUNNING


def test_a_stopped_process_is_named_with_what_to_do() -> None:
    story = half_done()
    story.process("stopped")
    report = story.look()
    assert report.state is State.STALLED
    assert report.reason == "process 41 is stopped (state T)"
    assert "kill -CONT 41" in report.advice
    story.process("sleeping")
    story.writes("B1", 501)
    assert story.look().state is State.RUNNING


@pytest.mark.parametrize("end", ["gone", "zombie"])
def test_a_process_that_ends_with_lines_missing_has_failed(end: str) -> None:
    story = half_done()
    story.process(end)
    report = story.look()
    assert report.state is State.FAILED
    assert "at 25.0 %; the log names no error" in report.reason
    assert report.over


def test_the_last_exception_of_the_log_is_named_when_the_process_is_gone() -> None:
    story = half_done()
    story.logs("Traceback (most recent call last):", "  x", "RuntimeError: CUDA error")
    story.process("gone")
    assert story.look().reason.endswith("the log's last error: RuntimeError: CUDA error")


def test_all_lines_and_a_living_process_is_running_and_says_so() -> None:
    story = Story(B1=100)
    story.process()
    story.look()
    report = story.works("B1", 100)
    assert report.state is State.RUNNING
    assert report.reason == "all lines are written, process 41 is still alive"
    assert report.figures.fraction == 1.0
    story.process("gone")
    report = story.look()
    assert (report.state, report.over) == (State.FINISHED, True)


def test_missing_lines_are_forgiven_where_that_was_asked_for() -> None:
    story = Story(B1=100, limits=Limits(allow_missing=3))
    story.process()
    story.look()
    story.works("B1", 97)
    story.process("gone")
    report = story.look()
    assert report.state is State.FINISHED
    assert report.reason == "3 lines are missing, and allowed"


def test_a_process_never_seen_on_a_complete_view_has_failed_after_long_silence_only() -> None:
    story = Story(B1=1000)
    story.writes("B1", 500)
    story.logs("B1", progress(500, 1000))
    story.at += 30
    report = story.look()
    assert report.state is State.UNKNOWN
    assert report.reason == "no process holds the files; they last moved 30 s ago"
    story.at += 7200
    again = Story(B1=1000)
    again.writes("B1", 500)
    again.logs("B1", progress(500, 1000))
    again.at += 7200
    assert again.look().state is State.FAILED


def test_where_processes_cannot_be_seen_a_silent_job_is_unknown_never_failed() -> None:
    story = Story(B1=1000)
    story.view = HIDDEN
    story.writes("B1", 500)
    story.at += 7200
    report = story.look()
    assert report.state is State.UNKNOWN
    assert report.reason == (
        "process not visible here: files on nfs: the job may run on another node"
    )
    story.writes("B1", 501)
    assert story.look().state is State.RUNNING


def test_an_unknown_total_is_never_called_failed() -> None:
    story = Story(B1=None)
    story.process()
    story.look()
    story.works("B1", 10, total=0)
    story.process("gone")
    report = story.look()
    assert (report.state, report.figures.fraction) == (State.UNKNOWN, None)


def test_a_log_silent_while_outputs_grow_is_buffered_and_the_remedy_is_named() -> None:
    story = half_done()
    for number in range(501, 900):
        story.at += 2
        story.writes("B1", number)
        report = story.look()
    assert report.state is State.RUNNING
    assert report.reason.startswith("the log is silent for 10 min while outputs grow")
    assert "python -u" in report.advice


def test_a_file_behind_its_log_is_the_reason() -> None:
    story = Story(B1=10000)
    story.process()
    story.logs("B1", progress(4950, 10000), progress(5000, 10000))
    story.writes("B1", 3000)
    assert story.look().reason == "B1: the log counts 5,000, its file has 3,000 lines"


def test_a_wall_clock_that_steps_back_changes_no_age_and_no_state() -> None:
    story = half_done()
    before = story.passes(4)
    story.job = story.job
    sample = story.sample()._replace(wall=story.wall - 3600)
    from watch_inference.watch import look

    _, report = look(story.progress, sample._replace(at=sample.at + 2), story.setting)
    assert report.state is before.state
    assert report.log.age_s is not None
    assert report.log.age_s >= 0
    assert report.output_age_s is not None
    assert report.output_age_s < 10


def test_a_file_time_in_the_future_gives_no_age_and_stalls_are_still_noticed() -> None:
    story = Story(B1=1000)
    story.process()
    story.writes("B1", 100)
    story.logs("B1", progress(50, 1000), progress(100, 1000))
    future = story.wall + 31536000
    story.outputs["B1"] = story.outputs["B1"]._replace(modified=future)
    assert story.log is not None
    story.log = story.log._replace(modified=future)
    report = story.look()
    assert (report.log.age_s, report.datasets[0].age_s) == (None, None)
    assert story.passes(400).state is State.STALLED


def test_the_end_sentence_knows_the_stalls_and_the_report_their_times() -> None:
    story = half_done()
    story.passes(300)
    story.works("B1", 500)
    story.works("B2", 1000)
    story.process("gone")
    report = story.look()
    assert report.state is State.FINISHED
    assert report.reason.startswith("stalled once: ")
    assert [(one.kind, one.dataset, (one.ended or 0) - one.began) for one in report.happened] == [
        ("stall", "B1", 305.0)
    ]


def test_a_stall_that_lasts_has_no_end_yet() -> None:
    report = half_done().passes(300)
    assert [(one.kind, one.ended) for one in report.happened] == [("stall", None)]
    assert report.quiet_s == 300


def test_two_restarts_are_two_and_a_worker_that_relieves_its_launcher_is_none() -> None:
    story = Story(B1=1000)
    story.process(pid=40)
    story.look()
    del story.processes[40]
    story.process(pid=41)
    story.look()
    for pid in (42, 43):
        story.works("B1", 1000 // 100)
        story.processes.clear()
        story.process(pid=pid)
        story.passes(4)
    report = story.look()
    assert [one.text for one in report.happened] == [
        "process 42 in the place of 41",
        "process 43 in the place of 42",
    ]


def test_a_cause_goes_before_the_states_own_words() -> None:
    story = half_done()
    story.process("disk-sleep")
    report = story.passes(120)
    assert report.state is State.STALLED
    assert report.reason.startswith("process 41 has waited for its disk for ")
    assert report.evidence[0].startswith("no work has moved for ")


def test_a_fall_of_the_throughput_has_its_time_and_is_no_stall() -> None:
    story = Story(B1=10000)
    story.quick = True
    story.process()
    story.look()
    story.works("B1", 400)
    report = story.works("B1", 60, rate=0.25)
    assert report.state is State.RUNNING
    assert report.reason.startswith("throughput fell from 1.00 to 0.25 req/s 4 min ago (")


def test_lines_that_the_log_counts_as_failed_are_not_lost() -> None:
    story = Story(B1=100)
    story.process()
    story.look()
    story.writes("B1", 90)
    story.logs(progress(100, 100, 10))
    story.process("gone")
    report = story.look()
    assert report.state is State.FINISHED
    assert not any("lost" in said for said in (report.reason, *report.evidence))


def test_a_rule_may_have_evidence_for_another_state() -> None:
    def refused(case: Case, standing: Standing) -> Verdict | None:
        return Verdict("server refuses for 2 min", "start it", cause=True, state=State.STALLED)

    story = Story(B1=1000)
    story.process()
    story.look()
    assert story.progress is not None
    case = Case(story.sample(), story.progress, Forecast())
    assert judge(case).state is State.STARTING
    report = judge(case, (refused, *RULES))
    assert (report.state, report.reason, report.advice) == (
        State.STALLED,
        "server refuses for 2 min",
        "start it",
    )


def test_a_job_that_logged_all_and_wrote_nothing_has_failed() -> None:
    story = Story(B1=100)
    story.process()
    story.look()
    story.at += 50
    story.logs("B1", progress(50, 100))
    assert story.look().warnings == ("B1: results are not on disk yet, the log counts 50",)
    story.at += 50
    story.logs(progress(100, 100))
    assert story.look().state is State.RUNNING
    story.process("gone")
    report = story.look()
    assert report.state is State.FAILED
    assert "100 lines are missing" in report.facts


def test_a_last_line_without_its_newline_counts_when_nobody_is_left_to_end_it() -> None:
    story = Story(B1=2)
    story.process()
    story.look()
    story.at += 5
    story.writes("B1", 1)
    story.outputs["B1"] = story.outputs["B1"]._replace(unterminated=True)
    report = story.look()
    assert (report.state, report.figures.done, report.figures.fraction) == (State.RUNNING, 1, 0.5)
    story.process("gone")
    report = story.look()
    assert (report.state, report.figures.done, report.figures.fraction) == (State.FINISHED, 1, 1.0)

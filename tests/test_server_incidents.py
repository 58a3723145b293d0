"""What happens to jobs because of their server, disk, memory or time; and what only looks like it.

The server is a real one on loopback that tells a story over time; time itself is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from tests.fake_server import FakeServer, refused_port, settled, sglang, vllm
from tests.stories import Story, progress
from watch_inference.judging.case import Case
from watch_inference.judging.diagnosis import judge
from watch_inference.judging.rows import figures
from watch_inference.model import (
    Device,
    Forecast,
    GpuReading,
    LogReading,
    Options,
    ProcessReading,
    Resources,
    Sample,
    ServerReading,
    State,
)
from watch_inference.probes.background import Timing
from watch_inference.probes.server import Servers

GIB = 1 << 30
PID = (1 << 22) + 1  # no process has it
LINE = (
    "INFO 02-24 10:{:02d}:{:02d} [loggers.py:259] Engine 000: Avg prompt throughput: {} tokens/s, "
    "Avg generation throughput: {} tokens/s, Running: {} reqs, Waiting: 0 reqs, "
    "GPU KV cache usage: 3.9%"
)
DECODE = (
    "[2026-02-24 10:{:02d}:{:02d} TP0] Decode batch, #running-req: 8, #token: 9, "
    "token usage: 0.41, gen throughput (token/s): 310.77, #queue-req: 0, "
)


class Said(NamedTuple):
    """What was said at one look."""

    at: float
    state: State
    reason: str
    evidence: tuple[str, ...]


class World(Story):
    """A job of one or two datasets and the servers that it uses."""

    def __init__(self, *servers: FakeServer | str, deadline_s: float = 5.0) -> None:
        super().__init__(B1=10000, B2=10000)
        self.tick_s, self.quick = 5.0, True
        self.fakes = [one for one in servers if isinstance(one, FakeServer)]
        urls = [one if isinstance(one, str) else one.url for one in servers]
        options = Options(servers=tuple(urls), ask_server=bool(urls))
        self.probe = Servers(options, lambda: self.at, Timing(deadline_s, 10.0))
        self.resources, self.gpu = Resources(), GpuReading()
        self.said: list[Said] = []
        self.remaining_s: float | None = None
        self.server_lines: tuple[str, ...] = ()
        self.stopped_at: float | None = None  # the server's story stands still from then on
        self.process(pid=PID, cpu_percent=0.0)

    def sample(self) -> Sample:
        for fake in self.fakes:
            fake.at = self.at if self.stopped_at is None else self.stopped_at
        return (
            super()
            .sample()
            ._replace(servers=self._servers(), gpu=self.gpu, resources=self.resources)
        )

    def look(self):  # type: ignore[no-untyped-def]
        sample = self.sample()
        report = self.look_at(sample)
        self._judge(sample)
        return report

    def _servers(self) -> tuple[ServerReading, ...]:
        processes: tuple[ProcessReading, ...] = tuple(self.processes.values())
        logs = (LogReading("server.log", tail=self.server_lines),)
        return settled(
            self.probe, lambda: self.probe.read(self.at, self.wall, self.job, processes, logs)
        )

    def _judge(self, sample: Sample) -> None:
        """Judge with a remaining time that the story gives."""
        assert self.progress is not None
        told = Forecast(remaining_s=self.remaining_s)
        case = Case(sample, self.progress, told, self.setting.limits)
        report = judge(case._replace(figures=figures(case)))
        self.said.append(Said(self.at, report.state, report.reason, report.evidence))

    def at_work(self, requests: int = 100) -> World:
        """Let the job do some of its first dataset."""
        self.logs("B1")
        self.look()
        self.works("B1", requests)
        return self

    def breaks(self, server_stands: bool = False) -> None:
        super().breaks()
        self.stopped_at = self.at if server_stands else None
        self.before = len(self.said)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as server:
        yield server


def steady(at: float) -> str:
    return vllm(running=48, tokens=800 * at)


# ---------------------------------------------------------------------------- what goes wrong


def the_server_is_killed(server: FakeServer) -> World:
    world = World(server).at_work()
    world.breaks()
    server.stop()
    world.passes(90)
    return world


def the_server_was_never_started(server: FakeServer) -> World:
    world = World(f"http://127.0.0.1:{refused_port()}")
    world.breaks()
    world.passes(30)
    return world


def the_server_has_no_such_name(server: FakeServer) -> World:
    world = World("http://no-such-host.invalid:8000")
    world.breaks()
    world.passes(40)
    return world


def the_server_accepts_and_says_nothing(server: FakeServer) -> World:
    world = World(server, deadline_s=0.3).at_work()
    world.breaks()
    server.mode = "hang"
    world.passes(90)
    return world


def a_gateway_stays_without_its_server(server: FakeServer) -> World:
    world = World(server).at_work()
    world.breaks()
    server.mode = "error"
    world.passes(90)
    return world


def the_server_talks_garbage(server: FakeServer) -> World:
    world = World(server).at_work()
    world.breaks()
    server.mode = "garbage"
    world.passes(90)
    return world


def the_engine_freezes_behind_its_metrics(server: FakeServer) -> World:
    server.story = steady
    world = World(server).at_work()
    world.breaks(server_stands=True)
    world.passes(120)
    return world


def the_engine_freezes_and_its_gauges_stick(server: FakeServer) -> World:
    server.story = lambda at: sglang(running=12, realtime=300 * at)
    world = World(server).at_work()
    world.breaks(server_stands=True)
    world.passes(120)
    return world


def the_engine_freezes_with_all_requests_waiting(server: FakeServer) -> World:
    server.story = lambda at: vllm(running=0, queued=5, tokens=800 * at)
    world = World(server).at_work()
    world.breaks(server_stands=True)
    world.passes(120)
    return world


def the_engine_freezes_with_a_full_cache(server: FakeServer) -> World:
    server.story = lambda at: vllm(running=60, queued=9, tokens=800 * at, kv=0.987)
    world = World(server).at_work()
    world.breaks(server_stands=True)
    world.passes(300)
    return world


def the_engine_freezes_and_only_its_log_tells(server: FakeServer) -> World:
    server.mode = "notfound"
    world = World(server)
    world.logs("B1")
    _log_lines(world, 6, 8.0, 411.3, works=True)
    world.breaks()
    _log_lines(world, 10, 0.0, 0.0)
    return world


def _log_lines(world: World, number: int, prompt: float, speed: float, works: bool = False) -> None:
    for _ in range(number):
        clock = divmod(int(world.at), 60)
        line = LINE.format(clock[0] % 60, clock[1], prompt, speed, 12)
        world.server_lines = (*world.server_lines, line)
        if works:
            world.works("B1", 20)
        else:
            world.passes(20)


def the_first_request_never_gets_a_token(server: FakeServer) -> World:
    server.story = lambda at: vllm(running=4, tokens=9)
    world = World(server)
    world.breaks()
    world.passes(100)
    return world


def the_client_hangs_while_the_server_waits(server: FakeServer) -> World:
    server.story = lambda at: vllm(running=0, tokens=800 * min(at, 1100))
    world = World(server).at_work()
    world.breaks()
    world.passes(100)
    return world


def one_of_two_servers_is_gone(server: FakeServer) -> World:
    world = World(server, f"http://127.0.0.1:{refused_port()}")
    world.breaks()
    world.at_work()
    return world


def both_servers_are_gone(server: FakeServer) -> World:
    with FakeServer() as other:
        world = World(server, other).at_work()
        world.breaks()
        server.stop()
    world.passes(90)
    return world


def the_server_was_started_anew_and_the_job_never_noticed(server: FakeServer) -> World:
    server.story = lambda at: (
        vllm(running=48, tokens=800 * at) if at < 1110 else vllm(running=0, tokens=0)
    )
    world = World(server).at_work()
    world.breaks()
    world.passes(120)
    return world


def others_keep_a_shared_server_busy_while_the_job_hangs(server: FakeServer) -> World:
    server.story = steady
    world = World(server)
    world.probe = _Shared(world.probe)  # type: ignore[assignment]
    world.at_work()
    world.breaks()
    world.passes(90)
    return world


class _Shared:
    """The same probe, with others connected to the server."""

    def __init__(self, probe: Servers) -> None:
        self.probe = probe

    @property
    def waiting(self) -> bool:
        return self.probe.waiting

    def read(self, *words: object) -> tuple[ServerReading, ...]:
        readings = self.probe.read(*words)  # type: ignore[arg-type]
        return tuple(one._replace(shared=True, moved_at=None) for one in readings)


def the_server_becomes_very_slow(server: FakeServer) -> World:
    server.story = lambda at: vllm(running=9, tokens=900 * min(at, 1110) + 3 * max(0, at - 1110))
    world = World(server).at_work()
    world.breaks()
    world.works("B1", 30, rate=0.1, every=5)
    return world


def the_cache_is_full_and_many_wait(server: FakeServer) -> World:
    server.story = lambda at: vllm(running=40, queued=200, tokens=800 * at, kv=0.99)
    world = World(server)
    world.breaks()
    world.at_work()
    return world


def one_request_at_a_time(server: FakeServer) -> World:
    server.story = lambda at: vllm(running=1, tokens=60 * at, kv=0.01)
    world = World(server)
    world.breaks()
    world.at_work()
    return world


def the_kernel_kills_the_job_for_memory(server: FakeServer) -> World:
    world = World().at_work()
    world.breaks()
    world.resources = Resources(memory_limit=2 * GIB, oom_kills=1)
    world.process("gone", pid=PID)
    world.look()
    return world


def the_disk_is_full(server: FakeServer) -> World:
    world = World().at_work()
    world.breaks()
    world.resources = Resources(disk_free=4096, disk="/data")
    for number in range(3):
        world.passes(50)
        world.logs(progress(150 + 50 * number, 10000))
        world.look()
    return world


def no_inode_is_free(server: FakeServer) -> World:
    world = World().at_work()
    world.breaks()
    world.resources = Resources(disk_free=GIB, inodes_free=0, disk="/data")
    world.works("B1", 10)
    return world


def the_disk_will_be_full_before_the_end(server: FakeServer) -> World:
    world = World().at_work()
    world.breaks()
    world.remaining_s = 9000.0
    world.resources = Resources(disk_free=GIB, disk_full_s=3000.0)
    world.works("B1", 10)
    return world


def the_job_leaks_memory(server: FakeServer) -> World:
    world = World().at_work()
    world.breaks()
    world.remaining_s = 9000.0
    world.resources = Resources(
        memory_used=6 * GIB, memory_limit=8 * GIB, oom_kills=0, memory_full_s=1800.0
    )
    world.works("B1", 10)
    return world


def its_time_is_up_before_it_is_done(server: FakeServer) -> World:
    world = World().at_work()
    world.breaks()
    world.remaining_s = 9000.0
    world.resources = Resources(time_left_s=3600.0, time_limit="Slurm's time limit")
    world.works("B1", 10)
    return world


def the_disk_does_not_answer(server: FakeServer) -> World:
    world = World().at_work()
    world.breaks()
    world.resources = Resources(disk="/data", disk_age_s=40.0, disk_error="no answer")
    world.passes(90)
    return world


class Incident(NamedTuple):
    """A story that goes wrong: the state and the word for it, found within so many seconds."""

    tell: Callable[[FakeServer], World]
    state: State
    says: str
    within: float = 75.0


S, R = State.STALLED, State.RUNNING
NOTHING = "server answers but generates nothing for"
INCIDENTS = (
    Incident(the_server_is_killed, S, "server does not answer (connection refused) for"),
    Incident(the_server_was_never_started, S, "server does not answer (connection refused)", 20),
    Incident(the_server_has_no_such_name, S, "cannot resolve no-such-host.invalid", 20),
    Incident(the_server_accepts_and_says_nothing, S, "server does not answer (no answer in"),
    Incident(a_gateway_stays_without_its_server, S, "(answers 502) for"),
    Incident(the_server_talks_garbage, S, "(broken answer"),
    Incident(the_engine_freezes_behind_its_metrics, S, f"{NOTHING} 1 min: 48 running", 90),
    Incident(the_engine_freezes_and_its_gauges_stick, S, f"{NOTHING} 1 min: 12 running", 90),
    Incident(the_engine_freezes_with_all_requests_waiting, S, "0 running, 5 queued", 90),
    Incident(the_engine_freezes_with_a_full_cache, S, "KV 98.7 %, tokens still", 90),
    Incident(the_engine_freezes_and_only_its_log_tells, S, NOTHING, 130),
    Incident(the_first_request_never_gets_a_token, S, NOTHING, 90),
    Incident(the_client_hangs_while_the_server_waits, S, "the job itself hangs"),
    Incident(one_of_two_servers_is_gone, R, "1 of 2 servers: ", 30),
    Incident(both_servers_are_gone, S, "server does not answer"),
    Incident(the_server_was_started_anew_and_the_job_never_noticed, S, "was started anew"),
    Incident(others_keep_a_shared_server_busy_while_the_job_hangs, S, "no work has moved"),
    Incident(the_server_becomes_very_slow, R, "server is slow: 3.00 tok/s, usual ", 120),
    Incident(the_cache_is_full_and_many_wait, R, "KV cache is 99.0 % full and 200 requests wait"),
    Incident(one_request_at_a_time, R, "server runs only 1 at once, and none wait"),
    Incident(the_kernel_kills_the_job_for_memory, State.FAILED, "killed a process of the job"),
    Incident(the_disk_is_full, R, "disk is full: 4.0 KiB free at /data"),
    Incident(no_inode_is_free, R, "disk is full: no inode is free"),
    Incident(the_disk_will_be_full_before_the_end, R, "disk will be full in ~50 min"),
    Incident(the_job_leaks_memory, R, "memory will reach its limit in ~30 min"),
    Incident(its_time_is_up_before_it_is_done, R, "Slurm's time limit ends it in ~1h00m"),
    Incident(the_disk_does_not_answer, S, "disk: no answer for 30 s at /data"),
)

ALARMS = (State.STALLED, State.FAILED)


@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda one: one.tell.__name__)
def test_what_goes_wrong_is_named_in_time(incident: Incident, server: FakeServer) -> None:
    world = incident.tell(server)
    assert world.broke_at is not None
    before, after = world.said[: world.before], world.said[world.before :]
    assert [one.reason for one in before if one.state in ALARMS] == []
    found = [
        one
        for one in after
        if one.state is incident.state
        and any(incident.says in said for said in (one.reason, *one.evidence))
    ]
    assert found, after[-1:]
    assert found[0].at - world.broke_at <= incident.within + 2 * world.tick_s
    assert world.said[-1].state is incident.state


# ---------------------------------------------------------------------- what only looks wrong


def a_long_prefill_with_a_false_503(server: FakeServer) -> World:
    server.story = lambda at: vllm(running=1, tokens=1000, kv=min(1.0, at / 4000))
    world = World(server).at_work()
    world.passes(400)
    return world


def answers_of_25_minutes_with_realtime_counters(server: FakeServer) -> World:
    server.story = lambda at: sglang(running=8, realtime=300 * at)
    world = World(server).at_work(20)
    world.tick_s = 20.0
    world.passes(1440)
    return world


def answers_of_25_minutes_that_only_decode_lines_tell_of(server: FakeServer) -> World:
    server.story = lambda at: sglang(running=8)
    world = World(server).at_work(20)
    world.tick_s = 20.0
    for _ in range(72):
        clock = divmod(int(world.at), 60)
        world.server_lines = (*world.server_lines[-20:], DECODE.format(clock[0] % 60, clock[1]))
        world.passes(20)
    return world


def metrics_are_not_there(server: FakeServer) -> World:
    server.mode = "notfound"
    return World(server).at_work(150)


def metrics_are_locked(server: FakeServer) -> World:
    server.mode = "unauthorized"
    return World(server).at_work(150)


def metrics_are_no_numbers(server: FakeServer) -> World:
    server.mode = "nan_metrics"
    return World(server).at_work(150)


def metrics_lead_elsewhere(server: FakeServer) -> World:
    server.mode = "redirect_loop"
    return World(server).at_work(150)


def a_gauge_sticks_after_the_work(server: FakeServer) -> World:
    server.story = lambda at: sglang(running=0, finished=5000)
    return World(server).at_work(150)


def gauges_stick_while_the_job_prepares_its_next_dataset(server: FakeServer) -> World:
    server.story = lambda at: sglang(running=12, realtime=300 * (min(at, 1100) + max(0, at - 1150)))
    world = World(server).at_work()
    world.passes(50)
    world.works("B1", 100)
    return world


def a_counter_stands_while_lines_are_written(server: FakeServer) -> World:
    server.story = lambda at: vllm(running=12, tokens=5)
    return World(server).at_work(200)


def a_probe_fails_twice(server: FakeServer) -> World:
    world = World(server).at_work()
    server.mode = "error"
    world.works("B1", 11)
    server.mode = "ok"
    world.works("B1", 50)
    return world


def answers_are_slow(server: FakeServer) -> World:
    server.mode = "slow"
    return World(server).at_work(150)


def the_server_is_started_anew_and_the_job_goes_on(server: FakeServer) -> World:
    server.story = lambda at: vllm(tokens=800 * (at if at < 1110 else at - 1105))
    world = World(server).at_work()
    world.works("B1", 100)
    return world


def the_server_loads_its_model(server: FakeServer) -> World:
    server.mode = "starting"
    world = World(server)
    world.passes(600)
    return world


def the_first_answer_takes_ten_minutes(server: FakeServer) -> World:
    server.story = lambda at: vllm(running=8, tokens=80 * at)
    world = World(server)
    world.passes(600)
    return world


def the_server_is_idle_between_two_datasets(server: FakeServer) -> World:
    server.story = lambda at: vllm(running=0, tokens=800 * min(at, 1100))
    world = World(server).at_work()
    world.passes(40)
    world.works("B1", 50)
    return world


def a_very_slow_server_gives_three_tokens_in_ten_seconds(server: FakeServer) -> World:
    server.story = lambda at: vllm(running=1, queued=14, tokens=3 * (at // 10), kv=0.5)
    world = World(server).at_work(20)
    world.tick_s = 10.0
    world.passes(1200)
    return world


def only_prompt_tokens_move(server: FakeServer) -> World:
    server.story = lambda at: vllm(running=4, tokens=5).replace("1000.0", f"{900 * at}")
    world = World(server).at_work(20)
    world.passes(300)
    return world


def the_last_requests_of_a_dataset_run_alone(server: FakeServer) -> World:
    server.story = lambda at: (
        vllm(running=48, tokens=900 * at)
        if at < 1100
        else vllm(running=2, tokens=900 * 1100 + 38 * (at - 1100))
    )
    return World(server).at_work(250)


def one_engine_of_two_is_idle(server: FakeServer) -> World:
    server.story = lambda at: (
        vllm(running=4, tokens=80 * at)
        + vllm(running=0, tokens=7).replace('engine="0"', 'engine="1"')
    )
    world = World(server).at_work(20)
    world.passes(300)
    return world


def a_server_of_another_make_is_named_and_dead(server: FakeServer) -> World:
    server.mode = "nothing"
    return World(server).at_work(150)


def others_use_the_server_too(server: FakeServer) -> World:
    server.story = steady
    world = World(server)
    world.probe = _Shared(world.probe)  # type: ignore[assignment]
    return world.at_work(150)


def there_is_no_gpu(server: FakeServer) -> World:
    world = World()
    world.gpu = GpuReading(error="no nvidia-smi")
    return world.at_work(150)


def nvidia_smi_does_not_answer(server: FakeServer) -> World:
    world = World()
    world.gpu = GpuReading(118.0, "no answer for 2 min", (Device(0, utilization=0.97),))
    return world.at_work(150)


def a_gpu_rests_while_lines_are_written(server: FakeServer) -> World:
    world = World()
    world.gpu = GpuReading(1.0, None, (Device(0, utilization=0.0),))
    return world.at_work(150)


def the_disk_has_room_until_after_the_end(server: FakeServer) -> World:
    world = World()
    world.remaining_s = 9000.0
    world.resources = Resources(disk_free=GIB, disk_full_s=20000.0)
    return world.at_work(150)


def memory_is_well_used_and_steady(server: FakeServer) -> World:
    world = World()
    world.remaining_s = 9000.0
    world.resources = Resources(memory_used=7 * GIB, memory_limit=8 * GIB, oom_kills=0)
    return world.at_work(150)


def its_time_is_up_after_it_is_done(server: FakeServer) -> World:
    world = World()
    world.remaining_s = 9000.0
    world.resources = Resources(time_left_s=20000.0, time_limit="timeout 12h")
    return world.at_work(150)


class Innocent(NamedTuple):
    """A story in which nothing is wrong, whatever it looks like: its last state, and no alarm."""

    tell: Callable[[FakeServer], World]
    state: State = State.RUNNING
    says: str = ""


INNOCENTS = (
    Innocent(a_long_prefill_with_a_false_503, says="the server generates for it"),
    Innocent(answers_of_25_minutes_with_realtime_counters, says="the server generates for it"),
    Innocent(answers_of_25_minutes_that_only_decode_lines_tell_of, says="generates for it"),
    Innocent(metrics_are_not_there),
    Innocent(metrics_are_locked),
    Innocent(metrics_are_no_numbers),
    Innocent(metrics_lead_elsewhere),
    Innocent(a_gauge_sticks_after_the_work),
    Innocent(gauges_stick_while_the_job_prepares_its_next_dataset),
    Innocent(a_counter_stands_while_lines_are_written),
    Innocent(a_probe_fails_twice),
    Innocent(answers_are_slow),
    Innocent(the_server_is_started_anew_and_the_job_goes_on),
    Innocent(the_server_loads_its_model, State.STARTING, "no progress yet"),
    Innocent(the_first_answer_takes_ten_minutes, says="the server generates for it: 80.0 tok/s"),
    Innocent(the_server_is_idle_between_two_datasets),
    Innocent(a_very_slow_server_gives_three_tokens_in_ten_seconds, says="generates for it"),
    Innocent(only_prompt_tokens_move, says="the server generates for it"),
    Innocent(the_last_requests_of_a_dataset_run_alone),
    Innocent(one_engine_of_two_is_idle, says="the server generates for it: 80.0 tok/s"),
    Innocent(a_server_of_another_make_is_named_and_dead),
    Innocent(others_use_the_server_too),
    Innocent(there_is_no_gpu),
    Innocent(nvidia_smi_does_not_answer),
    Innocent(a_gpu_rests_while_lines_are_written),
    Innocent(the_disk_has_room_until_after_the_end),
    Innocent(memory_is_well_used_and_steady),
    Innocent(its_time_is_up_after_it_is_done),
)


@pytest.mark.parametrize("innocent", INNOCENTS, ids=lambda one: one.tell.__name__)
def test_what_only_looks_wrong_is_no_alarm(innocent: Innocent, server: FakeServer) -> None:
    world = innocent.tell(server)
    assert [one for one in world.said if one.state in ALARMS][:1] == []
    last = world.said[-1]
    assert last.state is innocent.state
    assert innocent.says in last.reason
    assert innocent.says or not last.reason
    assert server.methods <= {"GET"}
    assert server.peak <= 1
    assert set(server.requests) <= {"/metrics", "/v1/models"}


def test_the_suite_is_large_enough() -> None:
    assert (len(INCIDENTS) >= 20, len(INNOCENTS) >= 20) == (True, True)

"""Every value that flows from the probes to the views: frozen, printable, comparable.

This module imports nothing of ours. Time is seconds: `at` and `*_at` on the monotonic clock that
was handed in, `wall` and other clock times as Unix time. A number that is not known is `None`.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class State(str, Enum):
    """What a job or a dataset is doing; only datasets are ever `queued`."""

    STARTING = "starting"
    RUNNING = "running"
    STALLED = "stalled"
    FINISHED = "finished"
    FAILED = "failed"
    UNKNOWN = "unknown"
    QUEUED = "queued"


class Check(str, Enum):
    """The log held against the output files."""

    OK = "ok"
    BEHIND = "behind"
    AHEAD = "ahead"
    RESUMED = "resumed"
    UNKNOWN = "unknown"


class Options(NamedTuple):
    """What a person asked for, validated; `form` is the view and how often it speaks."""

    targets: tuple[str, ...] = ()
    form: str = "auto"  # auto, plain, json, wait, explain, demo
    once: bool = False
    interval: float | None = None
    logs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ("tokenized_data.jsonl",)
    prompts: tuple[str, ...] = ("prompts.jsonl",)
    counting: str = "lines"  # lines, files
    totals: tuple[tuple[str | None, int], ...] = ()
    pids: tuple[int, ...] = ()
    match: str | None = None
    stall_after: float | None = None
    allow_missing: int = 0
    color: str = "auto"
    ascii: bool = False
    cache: bool = True
    servers: tuple[str, ...] = ()  # checked by probes.addresses.server_url
    ask_server: bool = True
    ask_gpu: bool = True


# ------------------------------------------------------------------------------ what is watched


class Dataset(NamedTuple):
    """One dataset's files; `total` only where the user said it (--total)."""

    name: str
    folder: str
    prompts: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    total: int | None = None


class Job(NamedTuple):
    """What one watch is about, as `discover` found it; `why` has a line for each choice."""

    name: str
    root: str
    found: str  # target, cwd, running, last
    datasets: tuple[Dataset, ...] = ()
    logs: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()
    why: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    waiting_for: str | None = None  # a named path that is not there yet
    learned: tuple[str, ...] = ()  # names of outputs that its processes taught us


# ------------------------------------------------------------------------------- log events


class LogEvent(NamedTuple):
    """What one log line says. `done` is None for a heading or an error line."""

    kind: str  # progress, heading, error
    dataset: str | None = None
    done: int | None = None
    total: int | None = None
    errors: int | None = None
    rate: float | None = None
    completion_tokens: float | None = None
    eta_s: float | None = None
    elapsed_s: float | None = None
    resumed: int | None = None
    text: str = ""


class LogLine(NamedTuple):
    """One progress line kept for the forecast; `at` is None where it was not seen arriving."""

    done: int
    total: int | None
    errors: int
    rate: float | None
    completion_tokens: float | None
    eta_s: float | None
    at: float | None


class LoggedDataset(NamedTuple):
    """What a log says of one dataset in its newest run; name "" where no line ever named it."""

    name: str
    done: int
    total: int | None
    first: int  # the run's first logged count
    errors: int | None = None  # None where no line says
    rate: float | None = None
    completion_tokens: float | None = None
    eta_s: float | None = None
    elapsed_s: float | None = None
    resumed: int | None = None  # as a heading said it
    concurrency: int | None = None  # the same: requests asked at once
    max_tokens: int | None = None  # the same: the most completion tokens of a request
    step: int = 0  # largest distance between two successive lines
    runs: int = 1
    earlier: int = 0  # the count that the run before ended with
    of_earlier_run: bool = False  # the job was started again since its last line
    updated_at: float | None = None
    lines: tuple[LogLine, ...] = ()


# --------------------------------------------------------------------------------- readings


class Unavailable(NamedTuple):
    """A probe that could not read, and why: a value, not an exception."""

    reason: str


class LogReading(NamedTuple):
    """One log as it stands now. `modified` is Unix time; ages come from `changed_at` if seen."""

    path: str
    format: str | None = None
    size: int | None = None
    modified: float | None = None
    changed_at: float | None = None  # new bytes arrived while we watched
    behind: int = 0  # bytes not read yet
    unparsed: int | None = 0
    restarts: int = 0  # appended runs, truncations, replacements
    datasets: tuple[LoggedDataset, ...] = ()
    current: str | None = None
    last_error: str | None = None
    last_error_at: float | None = None
    tail: tuple[str, ...] = ()  # the newest lines, cleaned, oldest first
    error_tail: tuple[str, ...] = ()  # the lines around the last error, cleaned
    error: str | None = None  # missing, permission denied, ...
    notes: tuple[str, ...] = ()  # rotated, truncated, replaced


class OutputReading(NamedTuple):
    """One dataset's files as they stand now. Sizes in bytes; `modified` is Unix time."""

    name: str
    total: int | None = None  # prompts, when they are counted
    prompts_bytes: int | None = None
    prompt_bytes_deciles: tuple[float, ...] = ()  # mean prompt line size per tenth, file order
    prompts_fingerprint: str | None = None  # the same for the same prompts, in any visit
    written: int | None = None  # complete lines; None: not countable or not counted yet
    unterminated: bool = False  # bytes after the last newline
    bytes: int = 0
    counted: int = 0  # bytes counted so far, of `bytes`
    modified: float | None = None
    changed_at: float | None = None
    files: int = 0
    countable: bool = True
    replaced: int = 0  # times a file shrank or was replaced
    held: bool = False  # a process of the job has an output open for writing
    remembered_tokens: float | None = None  # mean completion tokens of an earlier run
    remembered_rate: float | None = None  # requests a second, over the whole of it
    has_prompts: bool = False
    user_total: bool = False
    error: str | None = None


class ProcessReading(NamedTuple):
    """One process of the job. `since_at`: when it was first seen in a final state."""

    pid: int
    state: str  # running, sleeping, disk-sleep, stopped, zombie, gone, unknown
    started: float | None = None
    cpu_percent: float | None = None
    cpu_s: float | None = None  # user + system time so far
    rss: int | None = None
    threads: int | None = None
    command: str | None = None
    owner: str | None = None
    since_at: float | None = None
    holds: tuple[str, ...] = ()
    tty: bool = False  # stdout is a terminal or a pipe to elsewhere


class ProcessView(NamedTuple):
    """How much of the process table may be believed, and why not all of it."""

    complete: bool
    reason: str = ""


class ServerReading(NamedTuple):
    """One inference server: what it says of itself, and for how long it has said nothing else.

    `evidence`: it serves this job, so that its state tells of the job's.
    """

    url: str
    kind: str | None = None
    healthy: bool | None = None
    shared: bool | None = None
    age_s: float | None = None
    latency_s: float | None = None
    running: int | None = None
    queued: int | None = None
    kv_usage: float | None = None
    tokens_per_s: float | None = None
    error: str | None = None
    evidence: bool = False
    found: str = ""  # the rule that chose it
    moved_at: float | None = None  # when its tokens last moved; None where they may be others'
    silent_s: float | None = None  # for how long every probe has failed, three at least
    still_s: float | None = None  # for how long requests have run without a token
    idle_s: float | None = None  # for how long nothing has run or waited
    usual_tokens_per_s: float | None = None  # with requests running, in the hours before
    usual_per_request: float | None = None  # the same, of one request
    restarts: int = 0  # seen while we watched
    restarted_at: float | None = None
    preemptions: int | None = None  # seen while we watched


class Device(NamedTuple):
    """One GPU. Shares 0 to 1, memory in bytes."""

    number: int
    name: str | None = None
    utilization: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    power_w: float | None = None
    temperature_c: float | None = None


class GpuReading(NamedTuple):
    """All GPUs, one look."""

    age_s: float | None = None
    error: str | None = None
    devices: tuple[Device, ...] = ()


class Resources(NamedTuple):
    """The job's own disk and memory, bytes; `disk_full_s` seconds until full at this growth.

    `disk` is the folder that is fullest; `memory_full_s` and `time_left_s` are seconds as well.
    """

    disk_free: int | None = None
    disk_full_s: float | None = None
    memory_used: int | None = None
    memory_limit: int | None = None
    oom_kills: int | None = None
    disk: str | None = None
    disk_age_s: float | None = None
    disk_error: str | None = None
    inodes_free: int | None = None
    memory_full_s: float | None = None
    time_left_s: float | None = None  # until the job's own time limit ends it
    time_limit: str | None = None  # what sets that limit


class Said(NamedTuple):
    """One forecast that was made: when, and the end it promised with its interval; Unix times."""

    wall: float
    finish: float
    low: float
    high: float


class Scores(NamedTuple):
    """The forecasts that were made of a run, oldest first and ever farther apart."""

    begun: float  # the run's begin, Unix time
    fraction: float | None = None  # share of the job that was done at the last look
    said: tuple[Said, ...] = ()


class Sample(NamedTuple):
    """One look at the world; complete in itself, so that a lost one loses nothing."""

    at: float
    wall: float
    job: Job
    datasets: tuple[OutputReading, ...] = ()
    logs: tuple[LogReading, ...] = ()
    processes: tuple[ProcessReading, ...] = ()
    view: ProcessView = ProcessView(False, "not looked at")
    servers: tuple[ServerReading, ...] = ()
    gpu: GpuReading = GpuReading()
    resources: Resources = Resources()
    warnings: tuple[str, ...] = ()
    scores: Scores | None = None  # what earlier visits forecast


# --------------------------------------------------------------------------------- progress


class Point(NamedTuple):
    """Work seen at a time: requests finished in this run, errors included."""

    at: float
    done: int


class DatasetProgress(NamedTuple):
    """One dataset, log and files together; the memory that `advance` folds into."""

    name: str
    state: State = State.QUEUED
    done: int | None = None
    done_from: str = "written"  # written, files, logged
    total: int | None = None
    written: int | None = None
    logged: int | None = None
    accounted: int | None = None  # what the log accounts for, an earlier run's part included
    resumed: int = 0
    errors: int | None = None
    missing_errors: int = 0  # errors that have no line
    unfinished: int | None = None  # lines missing now, errors accounted for
    in_job: bool = True  # False: already tokenised, outside the job's sums
    check: Check | None = None
    requests_per_s: float | None = None
    completion_tokens: float | None = None
    concurrency: int | None = None
    changed_at: float | None = None
    modified: float | None = None
    started: float | None = None
    ended: float | None = None
    points: tuple[Point, ...] = ()  # of this run
    surplus: int | None = None  # lines beyond the log's count, at the first look
    lag_at: float | None = None  # since when the file has been behind the log
    largest_write: int = 0
    prompts_bytes: int | None = None
    prompt_bytes_deciles: tuple[float, ...] = ()
    remembered_tokens: float | None = None
    remembered_rate: float | None = None
    log: LoggedDataset | None = None
    notes: tuple[str, ...] = ()


class Pause(NamedTuple):
    """A gap longer than the rhythm of its time allowed, that ended `at`."""

    at: float
    seconds: float


class Rhythm(NamedTuple):
    """How often work moves: `longest` gap seen between two moves, `expected` one, in seconds."""

    expected: float | None = None
    longest: float | None = None
    moved_at: float | None = None  # when work last moved; None: not while we watched
    moved: float | None = None  # the same as Unix time, from the files on a first look
    moves: int = 0
    spread: float = 0.0  # standard deviation of the gaps
    opening: float = 0.0  # longest gap seen before a dataset's first request
    pauses: tuple[Pause, ...] = ()
    file_age_s: float | None = None  # age of the files at the first look; None: not known


class Happening(NamedTuple):
    """Something that happened to the job while it was watched; Unix times."""

    kind: str  # stall, restart
    began: float
    ended: float | None = None  # None: not over
    dataset: str | None = None
    text: str = ""


class Progress(NamedTuple):
    """The whole job; the only memory between two rounds."""

    first_at: float
    at: float
    wall: float
    datasets: tuple[DatasetProgress, ...] = ()
    current: str | None = None
    rhythm: Rhythm = Rhythm()
    points: tuple[Point, ...] = ()  # of the job, this run
    started: float | None = None
    seen_alive: bool = False
    restarts: int = 0
    asleep_s: float = 0.0  # since work last moved: time in which the monitor itself did not run
    tick_s: float | None = None  # usual distance of two looks
    ambiguous: bool = False  # some log lines fitted more than one dataset
    spoken: Spoken | None = None  # the newest forecast
    idle_s: float | None = None  # for how long the processes have used no CPU time
    cpu_s: float | None = None  # CPU time of all processes, at the last look
    blocked_at: float | None = None  # since when all processes have waited for a disk
    holders: tuple[tuple[int, tuple[str, ...]], ...] = ()  # what each process held when alive
    pids: tuple[int, ...] = ()  # of the living, when there last were some
    run_at: float | None = None  # since when other processes have gone on with the job
    happened: tuple[Happening, ...] = ()
    scores: Scores | None = None  # what was forecast so far


class Spoken(NamedTuple):
    """A forecast, when it was made, and for what: it stands until there is reason for another."""

    at: float
    subject: tuple[tuple[str, State], ...]
    forecast: Forecast


class ObservedDataset(NamedTuple):
    """What the forecast may know of one dataset; all but `name` and `status` optional.

    Times (`started`, `ended`, `output_at`, the lines' `at`) are on the monotonic clock, and may
    lie before the monitor began. `finished` counts this run's requests, errors included.
    """

    name: str
    status: str  # queued, running, done
    prompts: int | None = None
    prompts_bytes: int | None = None
    prompt_bytes_deciles: tuple[float, ...] = ()
    resumed: int = 0
    finished: int = 0
    output_at: float | None = None  # last change of an output
    completion_tokens: float | None = None  # mean of a finished request
    spread: float | None = None  # (sd / mean)^2 of completion tokens
    remembered_tokens: float | None = None  # mean of an earlier run
    remembered_rate: float | None = None  # requests a second, over the whole of it
    concurrency: int | None = None
    max_tokens: int | None = None
    started: float | None = None
    ended: float | None = None
    lines: tuple[LogLine, ...] = ()


class Observed(NamedTuple):
    """What was observed of a job at `now`: all that the forecast may look at."""

    now: float
    datasets: tuple[ObservedDataset, ...]
    process_started: float | None = None
    points: tuple[Point, ...] = ()  # the monitor's own looks; empty on a first look
    moved_at: float | None = None  # when work last moved


class Forecast(NamedTuple):
    """Remaining seconds with an 80 % interval; None before there is evidence."""

    remaining_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    datasets: tuple[tuple[str, float | None], ...] = ()  # remaining seconds of each


# ----------------------------------------------------------------------------------- report


class Figures(NamedTuple):
    """The job's progress in numbers, as section `progress` of the JSON has them."""

    dataset: str | None = None
    done: int | None = None
    total: int | None = None
    resumed: int | None = None
    errors: int | None = None
    fraction: float | None = None
    check: Check = Check.UNKNOWN
    requests_per_s: float | None = None
    tokens_per_s: float | None = None
    remaining_s: float | None = None
    remaining_low_s: float | None = None
    remaining_high_s: float | None = None
    finish: float | None = None
    finish_low: float | None = None
    finish_high: float | None = None


class DatasetRow(NamedTuple):
    """One dataset as the views show it."""

    name: str
    state: State
    done: int | None = None
    done_from: str | None = None
    total: int | None = None
    written: int | None = None
    logged: int | None = None
    resumed: int | None = None
    errors: int | None = None
    check: Check | None = None
    requests_per_s: float | None = None
    completion_tokens: float | None = None
    concurrency: int | None = None
    remaining_s: float | None = None
    age_s: float | None = None
    started: float | None = None
    ended: float | None = None
    accounted: int | None = None  # what the log accounts for, earlier runs included; no JSON key
    files: tuple[str, ...] = ()  # prompts, then outputs; not in the JSON
    history: tuple[float | None, ...] = ()  # its own requests/s, oldest first; not in the JSON


class LogRow(NamedTuple):
    """One log as the views show it; `eta_s` is the job's own figure as it printed it."""

    path: str | None = None
    format: str | None = None
    size: int | None = None
    age_s: float | None = None
    behind: int | None = None
    unparsed: int | None = None
    restarts: int | None = None
    last_error: str | None = None
    eta_s: float | None = None


class ProcessRow(NamedTuple):
    """One process as the views show it."""

    pid: int | None = None
    state: str | None = None
    started: float | None = None
    cpu_percent: float | None = None
    rss: int | None = None
    threads: int | None = None
    command: str | None = None


class Report(NamedTuple):
    """One judged observation: everything a view may show, and nothing that it must work out."""

    at: float
    wall: float
    host: str
    name: str
    root: str | None
    found: str
    state: State
    reason: str = ""
    evidence: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()  # more evidence, which views show in lines of their own
    advice: str = ""  # one line: what to do next
    started: float | None = None
    ended: float | None = None
    elapsed_s: float | None = None
    figures: Figures = Figures()
    datasets: tuple[DatasetRow, ...] = ()
    log: LogRow = LogRow()
    logs: tuple[LogRow, ...] = ()
    process: ProcessRow = ProcessRow()
    processes: tuple[ProcessRow, ...] = ()
    server: ServerReading | None = None
    servers: tuple[ServerReading, ...] = ()
    gpu: GpuReading = GpuReading()
    resources: Resources = Resources()
    warnings: tuple[str, ...] = ()
    output_age_s: float | None = None  # since any output grew
    log_every_s: float | None = None  # usual distance of two progress lines
    history: tuple[float | None, ...] = ()  # throughput, requests/s, oldest first, 12 at most
    over: bool = False  # ended, and no process left: a stream may end
    quiet_s: float | None = None  # since work last moved
    happened: tuple[Happening, ...] = ()  # stalls and restarts seen, oldest first; not in the JSON
    log_tail: tuple[str, ...] = ()  # newest lines of the log, cleaned, oldest first, 200 at most
    error_tail: tuple[str, ...] = ()  # the newest error and the lines around it, cleaned
    track: tuple[str, ...] = ()  # how good the forecasts made so far have been; not in the JSON
    scores: Scores | None = None  # what the track is told from; not in the JSON

"""A job in, one Sample of the world at each look out: the near bank.

To watch one more thing, write one file with a `read`, give its reading a field in model.Sample,
and add one line to `take`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from watch_inference.files.checkpoint import Memory
from watch_inference.files.scorekeeping import recall_scores
from watch_inference.finding import discover
from watch_inference.model import Job, LogReading, Options, Sample
from watch_inference.probes.gpu import Gpus
from watch_inference.probes.log import Log
from watch_inference.probes.outcomes import Outcomes
from watch_inference.probes.output import Outputs
from watch_inference.probes.process import Processes
from watch_inference.probes.resources import Machine
from watch_inference.probes.server import Servers
from watch_inference.probes.stream import Stream

_REFRESH_S = 5.0  # between two looks for new datasets and logs
_PATIENCE_S = 0.6  # for the first answer of a server, of the GPUs' tool and of a disk
_WHOLE_LOG = 64 << 20  # bytes that are read in well under a second

Find = Callable[[], Job]


class Probes:
    """All that is asked about one job, kept open from look to look."""

    def __init__(
        self,
        job: Job,
        options: Options,
        gpus: Gpus,
        memory: Memory | None = None,
        find: Find | None = None,
    ) -> None:
        self.job = job
        self._options = options
        self._memory = memory
        self._find = find  # looks again for a named path that was not there
        self._processes = Processes(options)
        self._outputs = Outputs(options, memory)
        self._servers = Servers(options, time.monotonic)
        self._machine = Machine(time.monotonic)
        self._gpus = gpus  # the machine's, whatever the number of jobs
        self._refreshed_at = float("-inf")
        self._opened: frozenset[str] | None = None
        self._outcomes = Outcomes(memory) if memory is not None else None
        self._scores = None if memory is None else recall_scores(memory, job.root, job.name)
        self._logs: dict[str, Log | Stream] = {}

    def take(self, at: float, wall: float, whole: bool = False) -> Sample:
        """Look once at everything; `whole`: to the end, however long outputs take to count.

        Of a very large log the newest state has to do even then.
        """
        if self.job.waiting_for is not None and self._find is not None:
            self.job = self._find()
        if self.job.waiting_for is not None:
            return Sample(at, wall, self.job)
        if at - self._refreshed_at >= _REFRESH_S or not self._processes.seen:
            self._refresh(at)
        processes, view = self._processes.read(at, wall, self.job)
        if self._opened not in (None, self._processes.opened):
            self._refresh(at)  # the next dataset has begun
        self._opened = self._processes.opened
        outputs = self._outputs.read(at, wall, self.job.datasets, self._processes.held, whole)
        logs = self._read_logs(at, wall, whole)
        if self._outcomes is not None:
            outputs = self._outcomes.recalled(outputs)
            self._outcomes.keep(outputs, logs, wall)
        gpu = self._gpus.read(at, wall)  # asked before the servers, so that both answer meanwhile
        patience = _PATIENCE_S if whole else 0.0
        servers = self._servers.read(at, wall, self.job, processes, logs, patience)
        return Sample(
            at=at,
            wall=wall,
            job=self.job,
            datasets=outputs,
            logs=logs,
            processes=processes,
            view=view,
            servers=servers,
            gpu=self._gpus.read(at, wall, patience) if whole else gpu,
            resources=self._machine.read(at, wall, self.job, processes, outputs, patience),
            warnings=self._memory.warnings if self._memory is not None else (),
            scores=self._scores,
        )

    def _refresh(self, at: float) -> None:
        self._refreshed_at = at
        self.job = discover.refresh(self.job, self._options, self._processes.seen)

    def close(self) -> None:
        """Let the files go, and keep what was counted for the next visit."""
        self._outputs.close()
        self._servers.close()
        self._machine.close()
        for log in self._logs.values():
            log.close()

    def _read_logs(self, at: float, wall: float, whole: bool) -> tuple[LogReading, ...]:
        names = tuple(one.name for one in self.job.datasets)
        for path in self.job.logs:
            if path not in self._logs:
                whole = whole and _size(path) <= _WHOLE_LOG
                self._logs[path] = Stream() if path == "-" else Log(path, names, whole=whole)
        for path in [one for one in self._logs if one not in self.job.logs]:
            self._logs.pop(path).close()
        return tuple(self._logs[path].read(at, wall, names) for path in self.job.logs)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0  # the log's own probe says what is wrong

"""Many runs side by side: processes of one thread each here, or tasks on a Ray cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from litebert.common.errors import LitebertError
from litebert.common.files import write_json
from litebert.common.progress import format_duration, say
from litebert.common.signals import interrupts_held, stop_request
from litebert.data.corpus.config import EngineName
from litebert.data.corpus.engines import joined_ray
from litebert.experiments.plan import JOB_FILE, PlannedRun


@dataclass(frozen=True)
class Job:
    """A command of litebert to run, which goes on where it was if it is run again."""

    name: str
    command: tuple[str, ...]  # arguments of Python
    log: Path  # what it says; its folder exists
    after: str | None = None  # the job that must have ended well before
    cost: float = 1.0  # beside that of the others, for the time that is left
    where: Path = field(default_factory=Path.cwd)  # where relative paths start, on this machine and on any other


def execute(runs: Sequence[PlannedRun], workers: int, engine: EngineName, vocab_size: int) -> int:
    """Make all runs that have not come to their end; the signal that stopped it, or 0."""
    jobs, to_do = [], unfinished(runs)
    done = {run.key for run in runs} - to_do
    for run in (run for run in runs if run.key in to_do):
        run.folder.mkdir(parents=True, exist_ok=True)
        write_json(run.folder / JOB_FILE, run.job())
        command = ("-m", "litebert.experiments.work", str(run.folder))
        start = None if run.start is None else run.start.key
        jobs.append(Job(run.key, command, run.folder / "log.txt", start, 1.0 + run.flops(vocab_size)))
    return run_jobs(jobs, workers, engine, done)


def unfinished(runs: Sequence[PlannedRun]) -> set[str]:
    """Runs without a record, and those of known ones whose model such a run starts from."""
    found = {run.key for run in runs if run.record() is None}
    for run in reversed(runs):  # a start comes before what needs it
        if run.key in found and run.start is not None and not run.start.model.is_dir():
            found.add(run.start.key)
    return found


def run_jobs(
    jobs: Sequence[Job],
    workers: int,
    engine: EngineName = "local",
    done: Set[str] = frozenset(),
    *,
    stops_at_failure: bool = True,
) -> int:
    """Run all jobs, each when the one it comes after has ended; the signal that stopped it, or 0.

    Progress goes to standard error. A job that failed is said; what comes after it is left out.
    """
    ended, waiting = set(done), list(jobs)
    total, pending = len(ended) + len(jobs), dict[Future[int], Job]()
    began, finished_cost = time.monotonic(), 0.0
    with stop_request() as stop, _engine(engine, workers) as submit:
        while True:
            ready = [job for job in waiting if job.after is None or job.after in ended]
            if not ready and not pending:
                return 0
            for job in ready[: workers - len(pending)]:
                waiting.remove(job)
                pending[submit(job)] = job
            for future in wait(pending, timeout=0.5, return_when=FIRST_COMPLETED).done:
                job = pending.pop(future)
                finished_cost += job.cost
                if code := future.result():
                    if stop.signum:
                        return stop.signum
                    if stops_at_failure:
                        raise LitebertError(_failure(job, code))
                    say(_failure(job, code))
                    continue
                ended.add(job.name)
                left = sum(other.cost for other in [*waiting, *pending.values()])
                eta_s = (time.monotonic() - began) * left / finished_cost
                say(f"run {len(ended):,} of {total:,} ({job.name}), {format_duration(eta_s)} left")
            if stop.signum:
                return stop.signum


def _failure(job: Job, code: int) -> str:
    lines = job.log.read_text(errors="replace").splitlines() if job.log.is_file() else []
    said = next((line for line in reversed(lines) if line.strip()), f"exit status {code}")
    return f"run {job.name} failed: {said}; all of it is in {job.log}"


def run_job(job: Job, started: list[subprocess.Popen[bytes]] | None = None) -> int:
    """Run a job in a process of one thread; its exit status."""
    command, environment = [sys.executable, *job.command], {**os.environ, "OMP_NUM_THREADS": "1"}
    with (job.where / job.log).open("ab") as log:
        with interrupts_held():
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=job.where)
        if started is not None:
            started.append(process)
        return process.wait()


@contextmanager
def _engine(name: EngineName, workers: int) -> Iterator[Callable[[Job], Future[int]]]:
    """How to begin a run; those that are going at the end save and leave."""
    if name == "ray":  # all nodes need the same files under the same paths
        with joined_ray() as ray:
            remote = ray.remote(num_cpus=1, max_retries=3)(run_job)
            yield lambda job: remote.remote(job).future()
        return
    started: list[subprocess.Popen[bytes]] = []
    pool = ThreadPoolExecutor(workers)
    try:
        yield lambda job: pool.submit(run_job, job, started)
    finally:
        for process in started:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        pool.shutdown()

"""Many runs side by side: processes of one thread each here, or tasks on a Ray cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path

from litebert.common.errors import LitebertError
from litebert.common.files import write_json
from litebert.common.progress import format_duration, say
from litebert.common.signals import interrupts_held, stop_request
from litebert.data.corpus.config import EngineName
from litebert.data.corpus.engines import joined_ray
from litebert.experiments.plan import JOB_FILE, PlannedRun

Submit = Callable[[Path], "Future[int]"]
_LOG_FILE = "log.txt"
_SECONDS_TO_LOOK = 0.5


def execute(
    runs: Sequence[PlannedRun], workers: int, engine: EngineName = "local", vocab_size: int = 8192
) -> int:
    """Make all runs that have not come to their end; the signal that stopped it, or 0.

    A run begins when its start has ended. Progress goes to standard error.
    """
    done = {run.key for run in runs if run.measures() is not None}
    total, cost = len(runs), {run.key: 1.0 + run.flops(vocab_size) for run in runs}
    waiting = [run for run in runs if run.key not in done]
    pending: dict[Future[int], PlannedRun] = {}
    began, finished_cost = time.monotonic(), 0.0
    with stop_request() as stop, _engine(engine, workers) as (submit, leave):
        while waiting or pending:
            for run in [r for r in waiting if r.start is None or r.start.key in done]:
                if len(pending) < workers:
                    waiting.remove(run)
                    run.folder.mkdir(parents=True, exist_ok=True)
                    write_json(run.folder / JOB_FILE, run.job())
                    pending[submit(run.folder)] = run
            for future in wait(pending, _SECONDS_TO_LOOK, FIRST_COMPLETED).done:
                run = pending.pop(future)
                if code := future.result():
                    leave()
                    if stop.signum:
                        return stop.signum
                    raise LitebertError(_failure(run.folder, code))
                done.add(run.key)
                finished_cost += cost[run.key]
                left = sum(cost[r.key] for r in [*waiting, *pending.values()])
                eta_s = (time.monotonic() - began) * left / finished_cost
                say(f"run {len(done):,} of {total:,} ({run.key}), {format_duration(eta_s)} left")
            if stop.signum:
                leave()
                return stop.signum
    return 0


def _failure(folder: Path, code: int) -> str:
    log = folder / _LOG_FILE
    lines = log.read_text(errors="replace").strip().splitlines() if log.is_file() else []
    said = lines[-1] if lines else f"exit status {code}"
    return f"run {folder} failed: {said}; all of it is in {log}"


def run_worker(folder: Path, started: list[subprocess.Popen[bytes]] | None = None) -> int:
    """Run the worker of a folder in a process of one thread; its exit status."""
    command = [sys.executable, "-m", "litebert.experiments.work", str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (folder / _LOG_FILE).open("ab") as log:
        with interrupts_held():
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        if started is not None:
            started.append(process)
        return process.wait()


@contextmanager
def _engine(name: EngineName, workers: int) -> Iterator[tuple[Submit, Callable[[], None]]]:
    """How to begin a run, and how to let all that are going save and leave."""
    if name == "ray":  # all nodes need the same files under the same paths
        with joined_ray() as ray:
            remote = ray.remote(num_cpus=1, max_retries=3)(run_worker)
            yield (lambda folder: remote.remote(folder).future()), lambda: None
        return
    started: list[subprocess.Popen[bytes]] = []
    pool = ThreadPoolExecutor(workers)

    def leave() -> None:
        for process in started:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)

    try:
        yield lambda folder: pool.submit(run_worker, folder, started), leave
    finally:
        leave()
        pool.shutdown()

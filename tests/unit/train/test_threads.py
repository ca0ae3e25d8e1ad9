"""Threads that wait for each other are given up, and come back when they help again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import pytest
import torch

from litebert.common.errors import ConfigError
from litebert.train import estimate
from litebert.train.threads import SHARE_OF_TRIALS, SLICE_S, SLICES, ThreadWatch, thread_limit

Rate = Callable[[int], float]


class Machine:
    """Steps of one unit of work at a rate that depends on the number of threads."""

    def __init__(self, limit: int) -> None:
        self.threads, self.told = limit, []  # type: ignore[var-annotated]
        self.seconds_of: dict[int, float] = {}
        self.watch = ThreadWatch(limit, self.use, self.told.append)

    def use(self, threads: int) -> None:
        self.threads = threads

    def train(self, seconds: float, rate: Rate) -> None:
        while seconds > 0:
            threads, took = self.threads, 1.0 / rate(self.threads)
            self.watch.note(1.0, took)
            self.seconds_of[threads] = self.seconds_of.get(threads, 0.0) + took
            seconds -= took


def free(threads: int) -> float:
    return 20.0 * math.pow(threads, 0.8)


def busy(threads: int) -> float:
    return {1: 15.0, 2: 6.0}.get(threads, 1.0)


def test_threads_that_wait_are_given_up_and_come_back() -> None:
    machine = Machine(2)
    machine.train(30.0, free)
    assert machine.threads == 2
    assert machine.told == []
    machine.train(10.0, busy)
    assert machine.threads == machine.watch.usual == 1
    machine.train(300.0, free)
    assert machine.threads == 2
    assert machine.told == [1, 2]


def test_of_many_threads_the_best_number_is_found() -> None:
    machine = Machine(16)
    machine.train(120.0, lambda threads: {4: 40.0, 2: 30.0, 8: 35.0}.get(threads, 10.0))
    assert machine.watch.usual == 4


def test_threads_that_bring_nothing_are_left_to_others() -> None:
    machine = Machine(2)
    machine.train(20.0, lambda threads: 30.0)
    assert machine.watch.usual == 1


def test_trials_take_little_of_a_long_run_with_slow_steps() -> None:
    machine = Machine(2)
    machine.train(3000.0, lambda threads: 0.5 * threads**0.8)
    assert machine.watch.usual == 2
    assert machine.seconds_of[1] / 3000.0 < SHARE_OF_TRIALS
    quick = Machine(2)
    quick.train(600.0, free)
    assert quick.seconds_of[1] <= 12 * SLICES * (SLICE_S + 0.1)


def test_a_rival_without_hope_costs_one_slow_step() -> None:
    machine = Machine(2)
    machine.train(60.0, lambda threads: 0.15 * threads)
    assert machine.seconds_of[1] == pytest.approx(1 / 0.15)


def test_one_thread_is_never_changed() -> None:
    def refuse(threads: int) -> None:
        raise AssertionError(threads)

    watch = ThreadWatch(1, refuse)
    for _ in range(1000):
        watch.note(1.0, 1.0)


def test_a_number_holds_for_the_run_alone() -> None:
    before = torch.get_num_threads()
    with thread_limit(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
    with thread_limit("auto"):
        assert torch.get_num_threads() == before
    with pytest.raises(ConfigError, match="threads is 0: use 1 or more"):
        thread_limit(0).__enter__()


def test_the_gemm_rate_is_that_of_a_free_machine_or_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "process_time", lambda: 0.0)
    assert estimate.measured_gemm_rate(seconds=0.01) is None
    ticks = iter(range(10_000))
    monkeypatch.setattr(time, "process_time", lambda: 60.0 * next(ticks))
    rate = estimate.measured_gemm_rate(seconds=0.01)
    assert rate is not None
    assert rate > 0

"""What people see: averages, the plateau's announcement and advice, sparse lines."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from litebert.common.signals import StopRequest
from litebert.data.batches.example import ExampleConfig
from litebert.model.config import ModelConfig
from litebert.train.display import StatusLine, display
from litebert.train.loop import Outcome
from litebert.train.pretraining.config import Curriculum, Objective, PretrainConfig
from litebert.train.pretraining.curriculum import stage_at
from litebert.train.pretraining.evaluate import RunState, Scores
from litebert.train.pretraining.figures import StepWork, advice, averages_of, watch_plateau
from litebert.train.pretraining.objective import Bag

CONFIG = PretrainConfig(data=Path(), out=Path(), steps=100)


def scores(masked_loss: float) -> Scores:
    return Scores(
        mlm_loss=6.2, mlm_accuracy=0.1, masked_loss=masked_loss, masked_accuracy=0.05,
        unigram_loss=6.9,
    )  # fmt: skip


def test_leaving_the_plateau_is_announced_once() -> None:
    state = RunState(step=40)
    assert watch_plateau(CONFIG, 2, state, scores(6.85), share=0.1) is None
    news = watch_plateau(CONFIG, 2, state, scores(6.7), share=0.2)
    assert news is not None
    assert news[0] == "left_plateau"
    assert "step 40" in news[1]
    assert "6.90" in news[1]
    assert state.left_plateau_step == 40
    assert watch_plateau(CONFIG, 2, state, scores(6.5), share=0.9) is None


def test_copying_what_is_visible_is_not_leaving() -> None:
    """The loss over all predictions is far below the line, that at the masks is not."""
    assert watch_plateau(CONFIG, 2, RunState(), scores(6.88), share=0.1) is None


def test_staying_is_reported_once_with_advice() -> None:
    state = RunState(step=50)
    news = watch_plateau(CONFIG, 12, state, scores(6.95), share=0.5)
    assert news is not None
    assert news[0] == "on_plateau"
    assert "start with 2 layers" in news[1]
    assert watch_plateau(CONFIG, 12, state, scores(6.95), share=0.6) is None


def test_advice_names_only_what_is_not_done() -> None:
    everything = advice(CONFIG, layers=12)
    assert "neighbours" in everything
    assert "smaller batches" in everything
    done = replace(
        CONFIG,
        batch_size=16,
        examples=ExampleConfig(length=64),
        curriculum=Curriculum(layers=((0.0, 2),)),
        initial=replace(CONFIG.initial, attention="neighbours"),
        optimizer=replace(CONFIG.optimizer, name="adamw"),
    )
    little = advice(done, layers=2)
    assert "learning rate" in little
    for word in ("layers and deepen", "neighbours", "smaller batches", "shorter", "longer"):
        assert word not in little


def test_a_run_that_is_over_may_have_been_too_short() -> None:
    news = watch_plateau(CONFIG, 12, RunState(step=30), scores(6.95), share=1.0)
    assert news is not None
    assert "Advice: train longer" in news[1]


def test_averages_weigh_tokens_and_pairs() -> None:
    stage = stage_at(CONFIG, ModelConfig(), 0.0)
    work = StepWork(stage, 1.0, predictions=10, pairs=4, tokens=100, wait_s=0.1, flops=1e9)
    outcome = Outcome(sums=(80.0, 1.0, 2.0, 1.0, 0.0, 0.0), grad_norm=1.0, seconds=0.5)
    further = (replace(work, tokens=300, wait_s=0.0), replace(outcome, sums=(20.0, 1.0, 2.0, 1.0, 0.0, 0.0)))
    found = averages_of([(work, outcome), further], Objective(), gemm_rate=4e9)
    assert found["mlm_loss"] == 5.0
    assert found["sentence_accuracy"] == 0.25
    assert found["loss"] == 5.5
    assert found["tokens_per_s"] == 400.0
    assert found["wait_share"] == pytest.approx(0.1)
    assert found["gemm_share"] == pytest.approx(0.5)
    without_pairs = averages_of([(replace(work, pairs=0), outcome)], Objective(), gemm_rate=1.0)
    assert "sentence_loss" not in without_pairs
    assert "bag_loss" not in found
    with_bag = replace(work, bag=Bag(2.0, 4, torch.zeros(1)))
    bag_outcome = replace(outcome, sums=(*outcome.sums[:4], 6.0, 0.0))
    found = averages_of([(work, outcome), (with_bag, bag_outcome)], Objective(), gemm_rate=1.0)
    assert found["bag_loss"] == 1.5
    alone = averages_of([(work, outcome)], Objective(), gemm_rate=1.0)
    assert found["loss"] == alone["loss"] + 2.0 * 1.5
    taught = replace(outcome, sums=(*outcome.sums[:5], 3.0))
    found = averages_of([(replace(work, taught=4), taught)], Objective(), gemm_rate=1.0)
    assert found["teacher_cosine"] == 0.25
    assert found["loss"] == alone["loss"] + 0.75


def test_a_log_gets_few_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    monkeypatch.setattr("litebert.train.display.time.monotonic", lambda: clock)
    screen = display(is_main=True)
    for step in range(300):
        clock += 0.1
        screen.show(StatusLine(step / 300, step, 30.0, ("loss 6.52",), "2 layers", "dev loss 6.6"))
    screen.note("left the plateau")
    screen.close()
    lines = capsys.readouterr().err.splitlines()
    assert 2 <= len(lines) <= 4
    assert "loss 6.52 | 2 layers | dev loss 6.6" in lines[0]
    assert lines[-1] == "left the plateau"


def test_other_processes_are_silent(capsys: pytest.CaptureFixture[str]) -> None:
    screen = display(is_main=False)
    screen.note("hello")
    screen.show(StatusLine(0.5, 1, 1.0))
    assert capsys.readouterr().err == ""


def test_two_signals_at_once_count_as_one_and_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("litebert.common.signals.time.monotonic", lambda: now)
    stop = StopRequest()
    stop.handle(signal.SIGINT, None)
    stop.handle(signal.SIGTERM, None)
    stop.handle(signal.SIGINT, None)
    assert stop.signum == signal.SIGINT
    now += 10.0
    with pytest.raises(KeyboardInterrupt):
        stop.handle(signal.SIGINT, None)

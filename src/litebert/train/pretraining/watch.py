"""Watching a run: evaluations while it trains and at its end, the best so far, the plateau."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict

from litebert.common.signals import StopRequest
from litebert.dist.replica import Replica
from litebert.train.pretraining.config import PretrainConfig
from litebert.train.pretraining.evaluate import (
    DevSet,
    FinalEvaluation,
    RunState,
    Scores,
    evaluate,
)
from litebert.train.probe import LiveProbe
from litebert.train.run import Run

MARGIN_NATS = 0.1
"""How far below the unigram loss a model must be to have left the plateau."""


class Evaluator:
    """Evaluates a run while it trains and at its end, and watches for the plateau.

    ``finished`` puts the weights that are evaluated in their place while it is entered.
    """

    def __init__(
        self,
        config: PretrainConfig,
        replica: Replica,
        dev: DevSet,
        run: Run[RunState],
        finished: Callable[[], AbstractContextManager[None]] = nullcontext,
        probe: LiveProbe | None = None,
    ) -> None:
        self.config, self.settings = config, config.evaluation
        self.replica, self.dev, self.run, self.state = replica, dev, run, run.state
        self._finished, self._probe = finished, probe
        self.latest: Scores | None = None
        self.probed: dict[str, float] = {}
        # Older checkpoints do not say which metric their best value is of.
        if self.state.best_metric not in (None, self.settings.metric):
            self.state.best_value = self.state.best_step = self.state.best_metric = None

    def during(self, layers: int, share: float) -> bool:
        """Evaluate and record it; whether these are the best scores so far."""
        return self._is_best(self._evaluate(self.settings.examples, layers, share))

    def at_the_end(self, layers: int, share: float, stop: StopRequest) -> None:
        """Evaluate on more examples and note it in the checkpoint of this step.

        A run that is resumed at its end has done so already. A signal raises
        :class:`EvaluationStopped`.
        """
        settings, state = self.settings, self.state
        done = state.final
        if done is not None and (done.step, done.examples) == (state.step, settings.final_examples):
            self.latest = done.scores
            return
        self.run.screen.note(
            f"last evaluation, on up to {settings.final_examples:,} dev examples of a kind"
        )
        comparable = scores = self._evaluate(settings.final_examples, layers, share, stop)
        if settings.final_examples != settings.examples:
            with self._finished():
                comparable = evaluate(self.replica, self.dev, settings.examples, layers, stop)
        self._is_best(comparable)
        state.final = FinalEvaluation(state.step, settings.final_examples, scores)
        self.run.amend()

    def _evaluate(
        self, num_examples: int, layers: int, share: float, stop: StopRequest | None = None
    ) -> Scores:
        """Evaluate, and record what was found."""
        state, started = self.state, time.perf_counter()
        with self._finished():
            scores = evaluate(self.replica, self.dev, num_examples, layers, stop)
            if self._probe is not None:
                with self.replica.evaluation() as model:
                    self.probed = self._probe.scores(model, layers)
        self.latest = scores
        values: dict[str, object] = {f"dev_{key}": found for key, found in asdict(scores).items()}
        values |= {f"dev_probe_{key}": score for key, score in self.probed.items()}
        values["elapsed_s"] = round(state.elapsed_s, 3)
        values["evaluation_s"] = round(time.perf_counter() - started, 3)
        values["tokens"] = state.tokens
        self.run.log(state.step, values)
        news = watch_plateau(self.config, layers, state, scores, share)
        if news is not None:
            self.run.event(*news)
        return scores

    def _is_best(self, scores: Scores) -> bool:
        """Whether these are the best scores so far; give only scores on the same examples."""
        metric, state = self.settings.metric, self.state
        value = getattr(scores, metric)
        if value is None or not math.isfinite(value):
            return False
        best, lower_is_better = state.best_value, metric == "mlm_loss"
        if best is not None and (value >= best if lower_is_better else value <= best):
            return False
        state.best_value, state.best_step, state.best_metric = value, state.step, metric
        return True


def watch_plateau(
    config: PretrainConfig, layers: int, state: RunState, scores: Scores, share: float
) -> tuple[str, str] | None:
    """Update the state with an evaluation; an event's name and a line for people, if any.

    A model at the plateau predicts by word frequency alone. Only places where the input is [MASK]
    count: at the others a model may copy what it sees, which is not understanding either.
    """
    gap = scores.unigram_loss - scores.masked_loss
    if state.left_plateau_step is None and gap > MARGIN_NATS:
        state.left_plateau_step = state.step
        return "left_plateau", (
            f"step {state.step:,}: the model has left the unigram plateau (dev loss at masks "
            f"{scores.masked_loss:.2f}, word frequencies alone {scores.unigram_loss:.2f})"
        )
    overdue = share >= config.plateau_share and not state.plateau_reported
    if state.left_plateau_step is None and overdue:
        state.plateau_reported = True
        return "on_plateau", (
            f"step {state.step:,}: still on the unigram plateau after {share:.0%} of the run (dev "
            f"loss at masks {scores.masked_loss:.2f}, word frequencies alone "
            f"{scores.unigram_loss:.2f}). {advice(config, layers)}"
        )
    return None


def advice(config: PretrainConfig, layers: int) -> str:
    """What usually frees a model, most promising first, as far as this run does not do it."""
    hints = []
    if config.initial.attention != "neighbours":
        hints.append('let heads begin at their neighbours (initial.attention = "neighbours")')
    if layers > 2:
        hints.append("start with 2 layers and deepen later (curriculum.layers)")
    if config.batch_size * config.examples.length > 4096:
        hints.append("use smaller batches at first (8 x 128 tokens) and so more steps")
    if config.curriculum.length == () and config.examples.length > 128:
        hints.append("use shorter examples at first (curriculum.length)")
    if config.optimizer.name == "lamb" and config.batch_size < 512:
        hints.append("use adamw for small batches")
    hints.append("halve or double the learning rate (AdamW: 1e-3 for 2 layers, less when deeper)")
    return "Advice: " + "; ".join(hints) + "."

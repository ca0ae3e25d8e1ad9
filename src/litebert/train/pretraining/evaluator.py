"""The evaluations of a run: recorded, compared with the best so far, watched for the plateau."""

from __future__ import annotations

import math
import time
from dataclasses import asdict

from litebert.common.signals import StopRequest
from litebert.dist.replica import Single
from litebert.train.pretraining.config import PretrainConfig
from litebert.train.pretraining.evaluate import DevSet, Scores, evaluate
from litebert.train.pretraining.plateau import watch_plateau
from litebert.train.pretraining.records import Records
from litebert.train.pretraining.state import FinalEvaluation, RunState


class Evaluator:
    """Evaluates a run while it trains and at its end.

    Example:
        >>> evaluator = Evaluator(config, replica, dev, records, state)
        >>> is_best = evaluator.during(layers=12, share=0.5)
        >>> evaluator.latest.mlm_loss
        2.31
    """

    def __init__(
        self,
        config: PretrainConfig,
        replica: Single,
        dev: DevSet,
        records: Records,
        state: RunState,
    ) -> None:
        self.settings = config.evaluation
        self.config, self.replica, self.dev = config, replica, dev
        self.records, self.state = records, state
        self.latest: Scores | None = None
        # Older checkpoints do not say which metric their best value is of.
        if state.best_metric not in (None, self.settings.metric):
            state.best_value = state.best_step = state.best_metric = None

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
        self.records.screen.note(
            f"last evaluation, on up to {settings.final_examples:,} dev examples of a kind"
        )
        comparable = scores = self._evaluate(settings.final_examples, layers, share, stop)
        if settings.final_examples != settings.examples:
            comparable = evaluate(self.replica, self.dev, settings.examples, layers, stop)
        self._is_best(comparable)
        state.final = FinalEvaluation(state.step, settings.final_examples, scores)
        self.records.amend(state)

    def _evaluate(
        self, num_examples: int, layers: int, share: float, stop: StopRequest | None = None
    ) -> Scores:
        """Evaluate, and record what was found."""
        state, started = self.state, time.perf_counter()
        scores = evaluate(self.replica, self.dev, num_examples, layers, stop)
        self.latest = scores
        values: dict[str, object] = {f"dev_{key}": found for key, found in asdict(scores).items()}
        values["elapsed_s"] = round(state.elapsed_s, 3)
        values["evaluation_s"] = round(time.perf_counter() - started, 3)
        values["tokens"] = state.tokens
        self.records.log(state.step, values)
        news = watch_plateau(self.config, layers, state, scores, share)
        if news is not None:
            self.records.event(*news, state.step)
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

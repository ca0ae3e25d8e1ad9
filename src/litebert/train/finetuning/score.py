"""Scores while a model is fine-tuned: every process predicts a share, process 0 scores."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

from torch import nn

from litebert.common.progress import progress
from litebert.dist.runtime import Process
from litebert.predict.evaluate import outputs_of
from litebert.predict.torch_backend import TorchBackend
from litebert.tasks.scoring import TaskSplit, score_split
from litebert.train.finetuning.config import FinetuneConfig
from litebert.train.finetuning.data import TaskData
from litebert.train.finetuning.results import write_predictions

_TOKENS_FACTOR = 2  # without gradients more fits


class Scorer:
    """Scores splits of a run's data with the weights that its model has at the moment."""

    def __init__(
        self, config: FinetuneConfig, data: TaskData, model: nn.Module, process: Process
    ) -> None:
        self.config, self.data, self.model, self.process = config, data, model, process

    def scores(
        self,
        split: TaskSplit,
        depth: int | None = None,
        *,
        is_shown: bool = False,
        is_written: bool = False,
    ) -> dict[str, float]:
        """Official scores, the same on every process.

        Args:
            split: examples with labels.
            depth: layers to run; None runs all.
            is_shown: show progress.
            is_written: write predictions and mistakes.
        """
        config, data, process = self.config, self.data, self.process
        world_size = process.world_size
        own = split.features[process.rank :: world_size]
        bar_of = partial(progress, f"scoring {split.name}", len(own), "input")
        with bar_of() if is_shown and process.is_main else nullcontext() as bar:
            outputs = outputs_of(
                TorchBackend(self.model, precision=config.precision),
                data.task.form,
                own,
                data.tokenizer.pad_id,
                max_tokens=_TOKENS_FACTOR * config.max_tokens,
                depth=depth,
                bar=bar,
            )
        parts = process.gather(outputs)

        def score() -> dict[str, float]:
            every = range(len(split.features))
            in_order = [parts[index % world_size][index // world_size] for index in every]
            scores, predictions = score_split(data.task, split, in_order)
            if is_written:
                write_predictions(config.out, data, split, predictions)
            return scores

        return process.on_main(score)

    def by_depth(self, split: TaskSplit, depths: tuple[int, ...]) -> dict[str, float]:
        """The main score at each depth."""
        metric = self.data.task.main_metric
        return {str(depth): self.scores(split, depth)[metric] for depth in depths}

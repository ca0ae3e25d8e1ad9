"""Averages of the steps since the last line of metrics: losses, accuracies, rates."""

from __future__ import annotations

from dataclasses import dataclass

from litebert.train.pretraining.config import Objective


@dataclass(frozen=True)
class StepFigures:
    """What one step measured, summed over all processes unless said otherwise."""

    mlm_loss_sum: float
    mlm_correct: float
    sentence_loss_sum: float
    sentence_correct: float
    predictions: int
    pairs: int
    tokens: int
    grad_norm: float
    seconds: float
    """duration of the step"""
    wait_s: float
    """part of it spent waiting for data, here"""
    flops: float
    """arithmetic of the step, here"""


class Meter:
    """Collects steps and gives their averages."""

    def __init__(self, objective: Objective, gemm_rate: float) -> None:
        self._objective = objective
        self.gemm_rate = gemm_rate
        self._steps: list[StepFigures] = []

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, figures: StepFigures) -> None:
        """Count a step."""
        self._steps.append(figures)

    def clear(self) -> None:
        """Begin a new line."""
        self._steps = []

    def averages(self) -> dict[str, float]:
        """Means over the steps, weighted by their tokens and pairs."""
        steps = self._steps
        predictions = sum(step.predictions for step in steps)
        pairs = sum(step.pairs for step in steps)
        seconds = max(1e-9, sum(step.seconds for step in steps))
        mlm_loss = sum(step.mlm_loss_sum for step in steps) / max(1, predictions)
        values = {
            "loss": self._objective.mlm_weight * mlm_loss,
            "mlm_loss": mlm_loss,
            "mlm_accuracy": sum(step.mlm_correct for step in steps) / max(1, predictions),
        }
        if pairs:
            sentence_loss = sum(step.sentence_loss_sum for step in steps) / pairs
            values["loss"] += self._objective.sentence_weight * sentence_loss
            values["sentence_loss"] = sentence_loss
            values["sentence_accuracy"] = sum(step.sentence_correct for step in steps) / pairs
        values["grad_norm"] = sum(step.grad_norm for step in steps) / max(1, len(steps))
        values["tokens_per_s"] = sum(step.tokens for step in steps) / seconds
        values["step_s"] = seconds / max(1, len(steps))
        values["wait_share"] = sum(step.wait_s for step in steps) / seconds
        values["gemm_share"] = sum(step.flops for step in steps) / seconds / self.gemm_rate
        return values

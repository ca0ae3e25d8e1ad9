"""The unigram plateau: say when a model leaves it, and give advice when it does not."""

from __future__ import annotations

from litebert.train.pretraining.config import PretrainConfig
from litebert.train.pretraining.evaluate import Scores
from litebert.train.pretraining.state import RunState

MARGIN_NATS = 0.1
"""How far below the unigram loss a model must be to have left the plateau."""


def watch_plateau(
    config: PretrainConfig, layers: int, state: RunState, scores: Scores, share: float
) -> tuple[str, str] | None:
    """Update the state with an evaluation; an event's name and a line for people, if any.

    A model at the plateau predicts by word frequency alone. Only places where the input is [MASK]
    count: at the others a model may copy what it sees, which is no understanding either.

    Args:
        config: the run.
        layers: layers that run at present.
        state: updated.
        scores: the evaluation.
        share: progress of the run.
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

"""What a run tells people: averages over steps, dev scores in words, the unigram plateau."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from litebert.train.loop import Outcome
from litebert.train.pretraining.config import Objective, PretrainConfig
from litebert.train.pretraining.curriculum import Stage
from litebert.train.pretraining.objective import STATISTICS, Bag

if TYPE_CHECKING:
    from litebert.train.pretraining.evaluate import RunState, Scores

MARGIN_NATS = 0.1
"""How far below the unigram loss a model must be to have left the plateau."""


@dataclass(frozen=True)
class StepWork:
    """The step that is computed; counts over all processes, time and arithmetic of this one."""

    stage: Stage
    lr_factor: float
    predictions: int
    pairs: int
    tokens: int
    wait_s: float
    flops: float
    bag: Bag | None = None
    short: Stage | None = None
    """of the batches of short pairs in it"""
    taught: int = 0
    """texts with a teacher's vectors in it"""


def averages_of(
    steps: Sequence[tuple[StepWork, Outcome]], objective: Objective, gemm_rate: float | None
) -> dict[str, float]:
    """Means over some steps, weighted by their tokens and pairs."""
    predictions = sum(work.predictions for work, _ in steps)
    pairs = sum(work.pairs for work, _ in steps)
    seconds = max(1e-9, sum(outcome.seconds for _, outcome in steps))
    sums = [dict(zip(STATISTICS, outcome.sums, strict=True)) for _, outcome in steps]
    totals = {name: sum(one[name] for one in sums) for name in STATISTICS}
    mlm_loss = totals["mlm_loss_sum"] / max(1, predictions)
    values = {
        "loss": objective.mlm_weight * mlm_loss,
        "mlm_loss": mlm_loss,
        "mlm_accuracy": totals["mlm_correct"] / max(1, predictions),
    }
    if pairs:
        factors = [work.stage.sentence_factor for work, _ in steps]
        weighted = sum(
            factor * one["sentence_loss_sum"] for factor, one in zip(factors, sums, strict=True)
        )
        values["loss"] += objective.sentence_weight * weighted / pairs
        values["sentence_loss"] = totals["sentence_loss_sum"] / pairs
        values["sentence_accuracy"] = totals["sentence_correct"] / pairs
    bags = [(work.bag, one) for (work, _), one in zip(steps, sums, strict=True)]
    with_bag = [(bag, one["bag_loss_sum"]) for bag, one in bags if bag is not None]
    if examples := sum(bag.num_examples for bag, _ in with_bag):
        values["loss"] += sum(bag.weight * loss_sum for bag, loss_sum in with_bag) / examples
        values["bag_loss"] = totals["bag_loss_sum"] / examples
    if taught := sum(work.taught for work, _ in steps):
        lacking = totals["vector_loss_sum"] / taught
        values["loss"] += objective.teacher_weight * lacking
        values["teacher_cosine"] = 1.0 - lacking
    if gemm_rate is not None:
        values["gemm_share"] = sum(work.flops for work, _ in steps) / seconds / gemm_rate
    return {
        **values,
        "grad_norm": sum(outcome.grad_norm for _, outcome in steps) / len(steps),
        "tokens_per_s": sum(work.tokens for work, _ in steps) / seconds,
        "step_s": seconds / len(steps),
        "wait_share": sum(work.wait_s for work, _ in steps) / seconds,
    }


def describe_dev(scores: Scores | None) -> str:
    """A dev evaluation in one line; nothing if there was none yet."""
    if scores is None:
        return ""
    text = (
        f"dev loss {scores.mlm_loss:.2f} (at masks {scores.masked_loss:.2f}, "
        f"unigram {scores.unigram_loss:.2f}), words {scores.mlm_accuracy:.1%}"
    )
    if scores.sop_accuracy is not None:
        text += f", sop {scores.sop_accuracy:.1%}"
    if scores.sop_length_rule is not None:
        text += f" (length rule {scores.sop_length_rule:.1%})"
    if scores.nsp_accuracy is not None:
        text += f", nsp {scores.nsp_accuracy:.1%}"
    if scores.nsp_overlap_rule is not None:
        text += f" (overlap rule {scores.nsp_overlap_rule:.1%})"
    return text


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
            f"{scores.unigram_loss:.2f}). {advice(config, layers, is_over=share >= 1)}"
        )
    return None


def advice(config: PretrainConfig, layers: int, *, is_over: bool = False) -> str:
    """What usually frees a model, most promising first, as far as this run does not do it."""
    hints = []
    if is_over:
        hints.append("train longer (--steps, --tokens or --budget)")
    if config.initial.attention != "neighbours":
        hints.append('let heads begin at their neighbours (initial.attention = "neighbours")')
    if config.initial.words != "contexts":
        hints.append('let words begin by what stands near them (initial.words = "contexts")')
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

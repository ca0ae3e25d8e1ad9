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

MARGIN_NATS = 0.1  # how far below the unigram loss a model must be to have left the plateau


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
    short: Stage | None = None  # of the batches of short pairs in it
    taught: int = 0


def averages_of(
    steps: Sequence[tuple[StepWork, Outcome]], objective: Objective, gemm_rate: float | None
) -> dict[str, float]:
    """Means over some steps, weighted by their tokens and pairs."""
    works = [work for work, _ in steps]
    sums = [dict(zip(STATISTICS, outcome.sums, strict=True)) for _, outcome in steps]
    totals = {name: sum(one[name] for one in sums) for name in STATISTICS}
    seconds = max(1e-9, sum(outcome.seconds for _, outcome in steps))
    predictions = max(1, sum(work.predictions for work in works))
    mlm_loss = totals["mlm_loss_sum"] / predictions
    values = {
        "loss": objective.mlm_weight * mlm_loss,
        "mlm_loss": mlm_loss,
        "mlm_accuracy": totals["mlm_correct"] / predictions,
    }
    if pairs := sum(work.pairs for work in works):
        rows = zip(works, sums, strict=True)
        weighted = sum(work.stage.sentence_factor * one["sentence_loss_sum"] for work, one in rows)
        values["loss"] += objective.sentence_weight * weighted / pairs
        values["sentence_loss"] = totals["sentence_loss_sum"] / pairs
        values["sentence_accuracy"] = totals["sentence_correct"] / pairs
    bags = [(work.bag, one["bag_loss_sum"]) for work, one in zip(works, sums, strict=True) if work.bag is not None]
    if examples := sum(bag.num_examples for bag, _ in bags):
        values["loss"] += sum(bag.weight * loss_sum for bag, loss_sum in bags) / examples
        values["bag_loss"] = totals["bag_loss_sum"] / examples
    if taught := sum(work.taught for work in works):
        lacking = totals["vector_loss_sum"] / taught
        values["loss"] += objective.teacher_weight * lacking
        values["teacher_cosine"] = 1.0 - lacking
    if gemm_rate is not None:
        values["gemm_share"] = sum(work.flops for work in works) / seconds / gemm_rate
    return {
        **values,
        "grad_norm": sum(outcome.grad_norm for _, outcome in steps) / len(steps),
        "tokens_per_s": sum(work.tokens for work in works) / seconds,
        "step_s": seconds / len(steps),
        "wait_share": sum(work.wait_s for work in works) / seconds,
    }


def describe_dev(scores: Scores | None) -> str:
    """A dev evaluation in one line; nothing if there was none yet."""
    if scores is None:
        return ""
    parts = (
        (", sop {:.1%}", scores.sop_accuracy),
        (" (length rule {:.1%})", scores.sop_length_rule),
        (", nsp {:.1%}", scores.nsp_accuracy),
        (" (overlap rule {:.1%})", scores.nsp_overlap_rule),
    )
    return (
        f"dev loss {scores.mlm_loss:.2f} (at masks {scores.masked_loss:.2f}, "
        f"unigram {scores.unigram_loss:.2f}), words {scores.mlm_accuracy:.1%}"
    ) + "".join(text.format(value) for text, value in parts if value is not None)


def watch_plateau(
    config: PretrainConfig, layers: int, state: RunState, scores: Scores, share: float
) -> tuple[str, str] | None:
    """Update the state with an evaluation; an event's name and a line for people, if any.

    A model at the plateau predicts by word frequency alone. Only places where the input is [MASK] count: at the others
    a model may copy what it sees, which is not understanding either.
    """
    if state.left_plateau_step is not None:
        return None
    losses = f"{scores.masked_loss:.2f}, word frequencies alone {scores.unigram_loss:.2f})"
    if scores.unigram_loss - scores.masked_loss > MARGIN_NATS:
        state.left_plateau_step = state.step
        return "left_plateau", (
            f"step {state.step:,}: the model has left the unigram plateau (dev loss at masks {losses}"
        )
    if share < config.plateau_share or state.plateau_reported:
        return None
    state.plateau_reported = True
    return "on_plateau", (
        f"step {state.step:,}: still on the unigram plateau after {share:.0%} of the run (dev "
        f"loss at masks {losses}. {advice(config, layers, is_over=share >= 1)}"
    )


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

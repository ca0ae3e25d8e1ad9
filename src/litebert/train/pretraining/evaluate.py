"""Evaluation on dev documents: masked words, sentence tasks, the best so far, the plateau."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from functools import cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from litebert.common.signals import StopRequest
from litebert.data.batches.example import Batch, ExampleConfig, MaskConfig, Rules, Task, Vocabulary
from litebert.data.batches.loader import Loader
from litebert.data.batches.pairs import length_rule, overlap_rule
from litebert.data.corpus.shards import ShardSet
from litebert.dist.replica import Replica
from litebert.model.config import IGNORED_LABEL
from litebert.train.pretraining.config import Metric, PretrainConfig
from litebert.train.pretraining.feed import FeedPosition
from litebert.train.pretraining.figures import watch_plateau
from litebert.train.pretraining.objective import inputs_of
from litebert.train.probe import LiveProbe
from litebert.train.run import Run, TrainState

EVALUATION_SEED = 20190926
"""Fixed, so that every run with the same shards and lengths is evaluated on the same examples."""


@dataclass(frozen=True)
class Scores:
    """What an evaluation found. Accuracies are shares; losses are nats per token."""

    mlm_loss: float  # over all predicted tokens
    mlm_accuracy: float
    masked_loss: float  # where the input is [MASK]: nothing to copy there
    masked_accuracy: float
    unigram_loss: float  # where the input is [MASK], of a model that knows nothing but word frequencies
    sop_accuracy: float | None = None
    nsp_accuracy: float | None = None
    predictions: int = 0
    sop_pairs: int = 0
    nsp_pairs: int = 0
    sop_length_rule: float | None = None
    """what "the first segment is longer, so they are swapped" reaches on the SOP pairs"""
    nsp_overlap_rule: float | None = None  # what "few words in common" reaches on the NSP pairs with the best threshold


@dataclass(frozen=True)
class FinalEvaluation:
    """The evaluation at the end of a run, which a resumed run need not repeat."""

    step: int
    examples: int  # of each kind that were asked for
    scores: Scores


@dataclass
class RunState(TrainState):
    """Everything about a pretraining run that is neither weights nor optimizer."""

    best_value: float | None = None
    best_step: int | None = None
    best_metric: Metric | None = None
    left_plateau_step: int | None = None  # when the model was first better than word frequencies
    plateau_reported: bool = False
    depth: int = 0  # layers that have run at once so far
    feed: FeedPosition = field(default_factory=FeedPosition)
    pairs: FeedPosition = field(default_factory=FeedPosition)  # where the batches of short pairs stand
    final: FinalEvaluation | None = None

    def kept_steps(self) -> list[int]:
        """The best step."""
        return [] if self.best_step is None else [self.best_step]


class DevSet:
    """The dev documents as fixed batches of every kind of example.

    Masks (whole words, n-grams up to 3, 15 %) and pairs follow the ``paper`` rules unless others are asked for,
    whatever training does, so that runs can be compared. Splits without documents are left out. ``train_counts``, int64
    [V], is how often each piece occurs in training: the unigram model. Length and task are those of ``config``.
    """

    def __init__(
        self,
        sources: Sequence[ShardSet],
        train_counts: np.ndarray,
        config: ExampleConfig,
        vocabulary: Vocabulary,
        batch_size: int,
        rules: Rules = "paper",
    ) -> None:
        self.sources = [(shards, float(shards.num_tokens)) for shards in sources if shards.shards]
        self.vocabulary = vocabulary
        self.word_task: Task = "none" if config.task == "none" else "sop"
        smoothed = train_counts.astype(np.float64) + 1.0
        self.unigram_log_probability = np.log(smoothed / smoothed.sum())
        mask = MaskConfig(rate=0.15, max_predictions=20 if rules == "official" else None)
        self._config = ExampleConfig(length=config.length, micro_batch_size=batch_size, rules=rules, mask=mask)
        self.batches, self.rule = cache(self._batches), cache(self._rule)
        self.has_documents = bool(self.sources)
        # NSP draws from another document, so it needs two.
        has_two = all(shards.num_documents > 1 for shards, _ in self.sources)
        self.tasks: list[Task] = ["none"] if self.word_task == "none" else []
        self.tasks += ["sop", "nsp"] if has_two else ["sop"]

    def _batches(self, task: Task, num_examples: int) -> list[Batch]:
        """The first ``num_examples`` of the dev epoch, of each corpus by its number of tokens."""
        loader = Loader(self.sources, replace(self._config, task=task), EVALUATION_SEED, self.vocabulary)
        num_tokens = sum(tokens for _, tokens in self.sources)
        batches: list[Batch] = []
        for source, (_, tokens) in enumerate(self.sources):
            wanted = math.ceil(num_examples * tokens / num_tokens)
            for batch in loader.epoch_batches(source=source):
                batches.append(batch)
                wanted -= len(batch.lengths)
                if wanted <= 0:
                    break
        return batches

    def _rule(self, task: Task, num_examples: int) -> float | None:
        """What lengths (SOP) or shared words (NSP) alone reach on these pairs."""
        rule = length_rule if task == "sop" else overlap_rule
        return rule(self.batches(task, num_examples))


_NUM_SUMS = 9
NEVER = StopRequest()  # for an evaluation that no signal ends


class EvaluationStopped(Exception):
    """A signal asked some process to stop before the evaluation was over."""


def evaluate(
    replica: Replica, dev: DevSet, num_examples: int, layers: int | None = None, stop: StopRequest = NEVER
) -> Scores:
    """Scores on ``num_examples`` of each kind; a signal raises EvaluationStopped everywhere."""
    process, sums = replica.process, {"nsp": [0.0] * _NUM_SUMS}
    with replica.evaluation() as model:
        for task in dev.tasks:
            own = torch.zeros(_NUM_SUMS, dtype=torch.float64)
            for batch in dev.batches(task, num_examples)[process.rank :: process.world_size]:
                if stop.signum:
                    break
                own += _sums_of(model, batch, process.device, layers, dev, words=task == dev.word_task)
            *sums[task], stops = process.sum([*own.tolist(), stop.signum > 0])
            if stops:
                raise EvaluationStopped
    (sop_right, sop_pairs), (nsp_right, nsp_pairs) = sums["sop"][:2], sums["nsp"][:2]
    loss, right, predictions, *at_masks, masks = sums[dev.word_task][2:]
    masked_loss, masked_accuracy, unigram_loss = (value / max(masks, 1.0) for value in at_masks)
    return Scores(
        mlm_loss=loss / max(predictions, 1.0),
        mlm_accuracy=right / max(predictions, 1.0),
        masked_loss=masked_loss,
        masked_accuracy=masked_accuracy,
        unigram_loss=unigram_loss,
        sop_accuracy=sop_right / sop_pairs if sop_pairs else None,
        nsp_accuracy=nsp_right / nsp_pairs if nsp_pairs else None,
        predictions=int(predictions),
        sop_pairs=int(sop_pairs),
        nsp_pairs=int(nsp_pairs),
        sop_length_rule=dev.rule("sop", num_examples),
        nsp_overlap_rule=dev.rule("nsp", num_examples) if "nsp" in dev.tasks else None,
    )


def _sums_of(
    model: nn.Module, batch: Batch, device: torch.device, layers: int | None, dev: DevSet, *, words: bool
) -> Tensor:
    """Run a batch, predicting words only where asked for; float64 sums, else 0 for the words.

    Right and all pairs; loss, right and all predictions; where the input is [MASK] loss, right, loss of the unigram
    model and all.
    """
    inputs = inputs_of(batch, device)
    positions = torch.from_numpy(batch.masked_positions).to(device) if words else None
    out = model(*inputs, masked_positions_M=positions, num_layers=layers)
    found = torch.zeros(_NUM_SUMS, dtype=torch.float64)
    pairs = torch.from_numpy(batch.sentence_labels).to(device)
    found[0] = (out.sentence_logits_B2.argmax(-1) == pairs).sum()
    found[1] = (pairs != IGNORED_LABEL).sum()
    if positions is not None:
        labels = torch.from_numpy(batch.masked_labels).to(device)
        unigram = torch.from_numpy(dev.unigram_log_probability[batch.masked_labels]).to(device)
        logits = out.mlm_logits_MV.float()
        losses = F.cross_entropy(logits, labels, reduction="none").double()
        right = (logits.argmax(-1) == labels).double()
        masked = (inputs[0].flatten()[positions] == dev.vocabulary.mask_id).double()
        everywhere = [losses.sum(), right.sum(), torch.ones_like(right).sum()]
        at_masks = [losses @ masked, right @ masked, -(unigram @ masked), masked.sum()]
        found[2:] = torch.stack(everywhere + at_masks)
    return found


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
        finished: Callable[[], AbstractContextManager[None]],
        probe: LiveProbe | None,
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

        A run that is resumed at its end has done so already. A signal raises :class:`EvaluationStopped`.
        """
        settings, state, done, wanted = self.settings, self.state, self.state.final, self.settings.final_examples
        if done is not None and (done.step, done.examples) == (state.step, wanted):
            self.latest = done.scores
            return
        self.run.screen.note(f"last evaluation, on up to {wanted:,} dev examples of a kind")
        comparable = scores = self._evaluate(wanted, layers, share, stop)
        if wanted != settings.examples:
            with self._finished():
                comparable = evaluate(self.replica, self.dev, settings.examples, layers, stop)
        self._is_best(comparable)
        state.final = FinalEvaluation(state.step, wanted, scores)
        self.run.amend()

    def _evaluate(self, num_examples: int, layers: int, share: float, stop: StopRequest = NEVER) -> Scores:
        """Evaluate, and record what was found."""
        state, started = self.state, time.perf_counter()
        with self._finished():
            scores = evaluate(self.replica, self.dev, num_examples, layers, stop)
            if self._probe is not None:
                with self.replica.evaluation() as model:
                    self.probed = self._probe.scores(model, layers)
        self.latest = scores
        values: dict[str, object] = {
            **{f"dev_{key}": found for key, found in asdict(scores).items()},
            **{f"dev_probe_{key}": score for key, score in self.probed.items()},
            "elapsed_s": round(state.elapsed_s, 3),
            "evaluation_s": round(time.perf_counter() - started, 3),
            "tokens": state.tokens,
        }
        self.run.log(state.step, values)
        if (news := watch_plateau(self.config, layers, state, scores, share)) is not None:
            self.run.event(*news)
        return scores

    def _is_best(self, scores: Scores) -> bool:
        """Whether these are the best scores so far; give only scores on the same examples."""
        metric, state = self.settings.metric, self.state
        value, best, sign = getattr(scores, metric), state.best_value, -1 if metric == "mlm_loss" else 1
        if value is None or not math.isfinite(value) or (best is not None and sign * value <= sign * best):
            return False
        state.best_value, state.best_step, state.best_metric = value, state.step, metric
        return True

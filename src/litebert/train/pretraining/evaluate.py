"""Evaluation on the dev documents: masked words, both sentence tasks, and the unigram line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from litebert.common.signals import StopRequest
from litebert.data.batches.example import (
    NO_LABEL,
    Batch,
    ExampleConfig,
    MaskConfig,
    Task,
    Vocabulary,
)
from litebert.data.batches.loader import Loader
from litebert.data.corpus.shards import ShardSet
from litebert.dist.replica import Single
from litebert.train.pretraining.objective import inputs_of

EVALUATION_SEED = 20190926
"""Fixed, so that every run with the same shards and lengths is evaluated on the same examples."""

_EVALUATION_MASK_RATE = 0.15


@dataclass(frozen=True)
class Scores:
    """What an evaluation found. Accuracies are shares; losses are nats per token.

    Example:
        >>> scores.mlm_loss < scores.unigram_loss  # has it learned more than word frequencies?
        True
    """

    mlm_loss: float
    """mean loss over all predicted tokens"""
    mlm_accuracy: float
    """share of predicted tokens that scored highest"""
    masked_loss: float
    """mean loss where the input is [MASK]: nothing to copy there"""
    masked_accuracy: float
    """share of right words where the input is [MASK]"""
    unigram_loss: float
    """loss, where the input is [MASK], of a model that knows nothing but word frequencies"""
    sop_accuracy: float | None = None
    """share of sentence orders recognised"""
    nsp_accuracy: float | None = None
    """share of random second segments recognised"""
    predictions: int = 0
    """predicted tokens"""
    sop_pairs: int = 0
    """pairs behind sop_accuracy"""
    nsp_pairs: int = 0
    """pairs behind nsp_accuracy"""


class DevSet:
    """The dev documents as fixed batches of every kind of example.

    Masks (whole words, n-grams up to 3, 15 %) and pairs follow the ``paper`` rules, whatever
    training does, so that runs can be compared.

    Args:
        sources: the dev splits; those without documents are left out.
        train_counts: int64 [V], how often each piece occurs in training: the unigram model.
        config: the training examples; length and task are taken from it.
        vocabulary: of the tokenizer.
        batch_size: examples at once.

    Example:
        >>> dev = DevSet([ShardSet.open("shards", "dev")], counts, config, vocabulary, 32)
        >>> scores = evaluate(replica, dev, num_examples=512)
    """

    def __init__(
        self,
        sources: Sequence[ShardSet],
        train_counts: np.ndarray,
        config: ExampleConfig,
        vocabulary: Vocabulary,
        batch_size: int,
    ) -> None:
        self.sources = [(shards, float(shards.num_tokens)) for shards in sources if shards.shards]
        self.vocabulary = vocabulary
        self.word_task: Task = "none" if config.task == "none" else "sop"
        smoothed = train_counts.astype(np.float64) + 1.0
        self.unigram_log_probability = np.log(smoothed / smoothed.sum())
        self._cache: dict[tuple[Task, int], list[Batch]] = {}
        self._config = ExampleConfig(
            length=config.length,
            micro_batch_size=batch_size,
            mask=MaskConfig(rate=_EVALUATION_MASK_RATE),
        )

    @property
    def has_documents(self) -> bool:
        """Whether there is anything to evaluate on."""
        return bool(self.sources)

    @property
    def has_next_sentences(self) -> bool:
        """NSP draws from another document, so it needs two."""
        return all(shards.num_documents > 1 for shards, _ in self.sources)

    def batches(self, task: Task, num_examples: int) -> list[Batch]:
        """The first batches of the dev epoch with ``num_examples`` in all, or the whole epoch.

        Several corpora contribute by their number of tokens.
        """
        key = (task, num_examples)
        if key not in self._cache:
            config = replace(self._config, task=task)
            loader = Loader(self.sources, config, EVALUATION_SEED, self.vocabulary)
            num_tokens = sum(tokens for _, tokens in self.sources)
            batches: list[Batch] = []
            for source, (_, tokens) in enumerate(self.sources):
                wanted = math.ceil(num_examples * tokens / num_tokens)
                for batch in loader.epoch_batches(source=source):
                    batches.append(batch)
                    wanted -= len(batch.lengths)
                    if wanted <= 0:
                        break
            self._cache[key] = batches
        return self._cache[key]


class EvaluationStopped(Exception):
    """A signal asked some process to stop before the evaluation was over."""


def evaluate(
    replica: Single,
    dev: DevSet,
    num_examples: int,
    layers: int | None = None,
    stop: StopRequest | None = None,
) -> Scores:
    """Evaluate on ``num_examples`` of each kind; every process does its share.

    Args:
        replica: the model.
        dev: the dev documents.
        num_examples: examples of each task.
        layers: layers to run; default: all.
        stop: a signal ends the evaluation with :class:`EvaluationStopped`, on every process.
    """
    tasks: list[Task] = [dev.word_task, "sop"] if dev.word_task == "none" else ["sop"]
    if dev.has_next_sentences:
        tasks.append("nsp")
    sums: dict[Task, list[float]] = {"nsp": [0.0] * len(_Sums.NAMES)}
    with replica.evaluation() as model:
        for task in tasks:
            batches = dev.batches(task, num_examples)
            own = _Sums(dev, replica.processes.device)
            for batch in batches[replica.processes.rank :: replica.processes.world_size]:
                if _is_stopped(stop):
                    break
                own.add(model, batch, layers, words=task == dev.word_task)
            *sums[task], stops = replica.processes.sum([*own.values, float(_is_stopped(stop))])
            if stops:
                raise EvaluationStopped
    words, sop, nsp = sums[dev.word_task], sums["sop"], sums["nsp"]
    return Scores(
        mlm_loss=words[0] / max(words[2], 1.0),
        mlm_accuracy=words[1] / max(words[2], 1.0),
        masked_loss=words[3] / max(words[5], 1.0),
        masked_accuracy=words[4] / max(words[5], 1.0),
        unigram_loss=words[6] / max(words[5], 1.0),
        sop_accuracy=sop[7] / sop[8] if sop[8] else None,
        nsp_accuracy=nsp[7] / nsp[8] if nsp[8] else None,
        predictions=int(words[2]),
        sop_pairs=int(sop[8]),
        nsp_pairs=int(nsp[8]),
    )


def _is_stopped(stop: StopRequest | None) -> bool:
    return stop is not None and stop.signum > 0


class _Sums:
    """Running sums over batches of one task."""

    NAMES = (
        *("loss", "correct", "count"),
        *("masked_loss", "masked_correct", "masked_count", "unigram_loss"),
        *("sentence_correct", "pairs"),
    )

    def __init__(self, dev: DevSet, device: torch.device) -> None:
        self.values = [0.0] * len(self.NAMES)
        self._device = device
        self._mask_id = dev.vocabulary.mask_id
        self._unigram = torch.from_numpy(dev.unigram_log_probability).to(device)

    def add(self, model: nn.Module, batch: Batch, layers: int | None, *, words: bool) -> None:
        """Run a batch; words are predicted only where asked for."""
        inputs = inputs_of(batch, self._device)
        positions = torch.from_numpy(batch.masked_positions).to(self._device) if words else None
        out = model(*inputs, masked_positions_M=positions, num_layers=layers)
        found = torch.zeros(len(self.NAMES), dtype=torch.float64)
        if positions is not None:
            labels = torch.from_numpy(batch.masked_labels).to(self._device)
            logits = out.mlm_logits_MV.float()
            losses = F.cross_entropy(logits, labels, reduction="none").double()
            right = (logits.argmax(-1) == labels).double()
            masked = (inputs[0].flatten()[positions] == self._mask_id).double()
            found[:2] = torch.stack([losses.sum(), right.sum()])
            found[2] = len(labels)
            found[3:5] = torch.stack([losses @ masked, right @ masked])
            found[5:7] = torch.stack([masked.sum(), -(self._unigram[labels] @ masked)])
        pairs = torch.from_numpy(batch.sentence_labels).to(self._device)
        found[7] = (out.sentence_logits_B2.argmax(-1) == pairs).sum()
        found[8] = (pairs != NO_LABEL).sum()
        self.values = [a + b for a, b in zip(self.values, found.tolist(), strict=True)]

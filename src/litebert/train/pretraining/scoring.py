"""What any model folder knows of pretraining's tasks, on any shards; and scores told to people."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from litebert.common.errors import ConfigError, DataError
from litebert.common.statistics import wilson_interval
from litebert.data.batches.example import ExampleConfig, Rules, Vocabulary
from litebert.data.corpus.shards import ShardSet, tokenizer_of
from litebert.dist.replica import parallelize
from litebert.dist.runtime import DeviceName, this_process
from litebert.interop.folder import load_config, resolve
from litebert.interop.hf import load_model
from litebert.train.pretraining.config import MOST_EXAMPLES
from litebert.train.pretraining.evaluate import DevSet, Scores, evaluate
from litebert.train.pretraining.setup import check_vocabulary, documents_to_evaluate, verify_corpora

TOGETHER = "together"  # what the scores over several corpora are called


@dataclass(frozen=True)
class CorpusScores:
    """What a model knows of one corpus, or of all together, by one reading of the rules."""

    corpus: str  # folder of the shards, or "together": documents of all by their number of tokens
    rules: Rules
    length: int  # longest example in tokens
    scores: Scores

    def record(self) -> dict[str, object]:
        """All figures as one object, with the 95 % intervals of the sentence tasks."""
        found = asdict(self)
        found |= found.pop("scores")
        for task in ("sop", "nsp"):
            if (share := found[f"{task}_accuracy"]) is not None:
                found[f"{task}_interval"] = wilson_interval(share, found[f"{task}_pairs"])
        return found


def evaluate_pretraining(
    model: Path | str,
    data: Sequence[Path],
    *,
    every_document: bool = False,
    rules: Sequence[Rules] = ("paper", "official"),
    examples: int = 4096,
    length: int | None = None,
    frequencies: Sequence[Path] = (),
    device: DeviceName = "auto",
    verify: bool = False,
) -> list[CorpusScores]:
    """Score a model folder with the pretraining heads on shards: each corpus, then all together.

    Args:
        model: model folder or hub name.
        data: folders of token shards that were made with the model's tokenizer.
        every_document: all documents and not the dev split alone: for text kept apart.
        rules: readings of the rules for pairs and masks.
        examples: examples of each sentence task and corpus.
        length: longest example in tokens; 128 if the model reads so much.
        frequencies: shards whose training documents give the unigram model; default: ``data``.
        device: where to run.
        verify: check every shard against its checksum; without it, of more than 4 GB a tenth.
    """
    if not 1 <= examples <= MOST_EXAMPLES:
        raise ConfigError(f"--examples {examples}: use 1 or more, at most {MOST_EXAMPLES:,}")
    folder = resolve(model)
    shape = load_config(folder)
    length = min(128, shape.max_positions) if length is None else length
    corpora = {str(one): documents_to_evaluate([one], every=every_document) for one in data}
    for name, sources in corpora.items():
        if not any(source.shards for source in sources):
            raise DataError(f"{name} has no dev documents: score all of its documents with --split all")
    together = tuple(source for sources in corpora.values() for source in sources)
    tokenizer = tokenizer_of(together)
    check_vocabulary(folder, shape, tokenizer)
    known = [ShardSet.open(corpus, "train").unigram_counts() for corpus in frequencies or data]
    counts, vocabulary = np.sum(known, axis=0), Vocabulary.of(tokenizer)
    if len(corpora) > 1:
        corpora[TOGETHER] = together
    settings = ExampleConfig(length=length)
    found = []
    with this_process(device, "ddp") as process:
        if note := verify_corpora(together, 0, verify, process):
            logging.getLogger(__name__).warning(note)
        loaded = load_model(folder, "pretraining").to(process.device)
        replica = parallelize(loaded, "ddp", process)
        for reading in rules:
            for name, sources in corpora.items():
                dev = DevSet(sources, counts, settings, vocabulary, 32, reading)
                scores = evaluate(replica, dev, examples)
                found.append(CorpusScores(name, reading, length, scores))
    return found


def describe_scores(scores: Scores, prefix: str = "") -> list[str]:
    """A line for words, order and next sentence each, with what to compare it with."""
    lines = [
        f"{prefix}words   loss {scores.mlm_loss:.3f}, accuracy {scores.mlm_accuracy:.1%}; at masks "
        f"{scores.masked_loss:.3f} (word frequencies alone {scores.unigram_loss:.3f}), {scores.masked_accuracy:.1%}"
    ]
    found = asdict(scores)
    for name, task, rule in (("order  ", "sop", "length"), ("next   ", "nsp", "overlap")):
        if (accuracy := found[f"{task}_accuracy"]) is not None:
            pairs, reached = found[f"{task}_pairs"], found[f"{task}_{rule}_rule"]
            low, high = wilson_interval(accuracy, pairs)
            beside = "" if reached is None else f"; {rule} rule {reached:.1%}"
            lines.append(
                f"{prefix}{name} accuracy {accuracy:.1%} (95 % interval {low:.1%} to {high:.1%}, "
                f"{pairs:,} pairs){beside}"
            )
    return lines

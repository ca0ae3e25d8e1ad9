"""What a pretraining run is made of: its corpora, its model, its identity."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from litebert.common.config import flat_settings, to_dict
from litebert.common.errors import CheckpointError, ConfigError
from litebert.common.rng import derived_seed
from litebert.common.statistics import small_dev_split
from litebert.data.batches.example import Vocabulary
from litebert.data.corpus.manifest import Split
from litebert.data.corpus.shards import ShardSet, tokenizer_of, verify_shards
from litebert.dist.runtime import Process
from litebert.interop.folder import load_config, resolve
from litebert.interop.hf import load_model
from litebert.model.config import ModelConfig
from litebert.model.counts import check_memory
from litebert.model.heads import PretrainingModel
from litebert.text.tokenizer import Tokenizer, has_tokenizer
from litebert.train.pretraining import curriculum, initial
from litebert.train.pretraining.config import PretrainConfig
from litebert.train.teacher_vectors import TaughtTexts

_FREE_SETTINGS = ("hidden_dropout", "attention_dropout")
"""What may differ from the model that continued pretraining starts from."""
_FREE_IF_SHARED = ("num_layers", "sharing", "num_groups")
"""What else may differ where one layer repeats: the paper starts deep models from shallow ones, and every layer of its
own may begin as that layer."""

_FIXED_SETTINGS = (
    *("seed", "weights", "optimizer.name", "optimizer.bias_correction"),
    *("examples.task", "examples.rules", "examples.stretch_tokens"),
    *("examples.buffer_stretches", "examples.short_probability"),
)


@dataclass(frozen=True)
class Corpora:
    """The opened shards of a run."""

    train: tuple[tuple[ShardSet, float], ...]  # with their weights
    dev: tuple[ShardSet, ...]
    tokenizer: Tokenizer
    tokenizer_folder: Path
    vocabulary: Vocabulary

    def unigram_counts(self) -> np.ndarray:
        """How often each piece occurs in the training documents, int64 [V]."""
        return np.asarray(sum(shards.unigram_counts() for shards, _ in self.train))

    @property
    def dev_note(self) -> str:
        """A note about the dev documents before a run, if there are none or few."""
        documents = sum(shards.num_documents for shards in self.dev)
        if not documents:
            return "no dev documents: the run goes without evaluation"
        return small_dev_split(documents, sum(shards.num_tokens for shards in self.dev))

    def fingerprints(self) -> dict[str, str]:
        """Hashes that say which data a run used."""
        return {
            "tokenizer": self.tokenizer.fingerprint,
            **{f"train.{n}": shards.fingerprint for n, (shards, _) in enumerate(self.train)},
            **{f"dev.{n}": shards.fingerprint for n, shards in enumerate(self.dev)},
        }


def open_corpora(config: PretrainConfig) -> Corpora:
    """Open all shards of a run; they must come from one tokenizer."""
    train = [ShardSet.open(folder, "train") for folder in config.corpora]
    dev = documents_to_evaluate(config.dev_data or config.corpora, every=bool(config.dev_data))
    tokenizer = tokenizer_of([*train, *dev] if config.dev_data else train)
    weights = config.weights or tuple(float(max(1, shards.num_tokens)) for shards in train)
    vocabulary = Vocabulary.of(tokenizer, config.examples.mask.words)
    return Corpora(tuple(zip(train, weights, strict=True)), dev, tokenizer, train[0].tokenizer_folder, vocabulary)


def documents_to_evaluate(folders: Sequence[Path], *, every: bool) -> tuple[ShardSet, ...]:
    """The dev documents of some shards, or every document of them."""
    splits: tuple[Split, ...] = ("train", "dev") if every else ("dev",)
    return tuple(ShardSet.open(folder, split) for folder in folders for split in splits)


def verify_corpora(sets: Sequence[ShardSet], seed: int, everything: bool, process: Process) -> str | None:
    """Check shards against their checksums, shared by a machine's processes; what was not."""
    part = int(os.environ.get("LOCAL_RANK", process.rank))
    parts = int(os.environ.get("LOCAL_WORLD_SIZE", process.world_size))
    return verify_shards(sets, seed, everything=everything, part=part, parts=parts)


def resolve_model(config: PretrainConfig, corpora: Corpora) -> ModelConfig:
    """The shape of the model, from the config or from the folder to start from."""
    if config.init_from is None:
        model = config.model.resolve(corpora.tokenizer.vocab_size)
    else:
        found = load_config(folder := resolve(config.init_from))
        check_vocabulary(folder, found, corpora.tokenizer)
        model = load_config(folder, _overrides(config, found))
    curriculum.check(config, model)
    return model


def build_pretraining_model(config: PretrainConfig, shape: ModelConfig, corpora: Corpora) -> PretrainingModel:
    """A fresh model, the same for equal seeds, or the one in ``init_from``."""
    generator = torch.Generator().manual_seed(derived_seed(config.seed, "initial weights"))
    # Gradient and two averages of the optimiser beside the weights, unless a GPU holds them.
    check_memory(shape, copies=1 if torch.cuda.is_available() else 4)
    if config.init_from is None:
        model = PretrainingModel(shape, generator=generator)
        if config.initial.attention == "neighbours":
            initial.look_at_neighbours(model.encoder, generator, config.initial.neighbour_heads)
        if config.initial.word_bias == "frequencies":
            initial.set_word_frequencies(model, corpora.unigram_counts())
        if config.initial.words == "contexts":
            train = [shards for shards, _ in corpora.train]
            initial.start_from_contexts(model.encoder.embeddings.word, train, shape.initializer_range, generator)
    else:
        found = load_config(resolve(config.init_from))
        overrides = _overrides(config, found)
        is_spread = shape.sharing != found.sharing  # which then shares all
        if is_spread:
            overrides = {k: v for k, v in overrides.items() if k not in ("sharing", "num_groups")}
        loaded = load_model(config.init_from, "pretraining", new_head=True, overrides=overrides, generator=generator)
        assert isinstance(loaded, PretrainingModel), "asked for by the head's name"
        model = loaded
        if is_spread:
            model = PretrainingModel(shape, generator=generator)
            initial.spread(loaded, model, shape.inner_group_num)
    model.encoder.checkpoint_activations = config.activation_checkpointing
    if config.sentence_task == "none":
        # Nothing trains these; without a gradient they must not decay either.
        for part in (model.encoder.pooler, model.sentence):
            part.requires_grad_(False)
    return model.train()


def taught_texts(
    config: PretrainConfig, shape: ModelConfig, tokenizer: Tokenizer, model: PretrainingModel
) -> TaughtTexts | None:
    """The texts of a teacher, turned towards the weights that the run begins with."""
    if config.teacher is None:
        return None
    texts = TaughtTexts(config.teacher, tokenizer, shape, config.objective.teacher_batch_size, config.seed)
    texts.align(model.encoder)
    return texts


def pretraining_identity(config: PretrainConfig, shape: ModelConfig) -> dict[str, object]:
    """What must not change between the parts of a run; schedules, budgets and cadences may."""
    settings = flat_settings(to_dict(config))
    model = {f"model.{key}": value for key, value in to_dict(shape).items()}
    return {**model, **{name: settings[name] for name in _FIXED_SETTINGS}}


def _overrides(config: PretrainConfig, model: ModelConfig) -> dict[str, object]:
    """The settings that replace those of the folder; weights that exist keep their shape."""
    free = _FREE_SETTINGS + (_FREE_IF_SHARED if model.sharing == "all" else ())
    changes = config.model.changes()
    for name, wanted in changes.items():
        found = getattr(model, name)
        if name not in free and wanted != found:
            raise ConfigError(
                f"model.{name} is {wanted} but {config.init_from} has {found}: with --init-from "
                "the shape is that of the folder; leave the setting out."
            )
    return {name: value for name, value in changes.items() if name in free}


def check_vocabulary(folder: Path, model: ModelConfig, tokenizer: Tokenizer) -> None:
    """Refuse a model folder of another vocabulary than that of the shards."""
    if model.vocab_size < tokenizer.vocab_size:
        raise ConfigError(
            f"{folder} has {model.vocab_size} pieces but the shards have {tokenizer.vocab_size}: "
            "prepare the text with the tokenizer of that folder"
        )
    if not has_tokenizer(folder):
        raise CheckpointError(
            f"{folder} has no tokenizer to compare its vocabulary with that of the shards: "
            "copy the model's tokenizer files into that folder"
        )
    if not Tokenizer.load(folder).agrees_with(tokenizer):
        raise CheckpointError(
            f"{folder} has another tokenizer than the shards: prepare the text with the one of that folder"
        )

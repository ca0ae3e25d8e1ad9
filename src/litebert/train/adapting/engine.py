"""Adapting, stage by stage: vocabulary, shards, start of the table, training, model and figures."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from litebert.common.config import to_dict
from litebert.common.errors import ConfigError, DataError
from litebert.common.files import atomic_folder, read_json, write_json, write_text
from litebert.common.ownership import keep_files, owned_folder
from litebert.common.progress import say
from litebert.common.rng import derived_seed
from litebert.common.runs import MODEL_FOLDER
from litebert.data.batches.example import ExampleConfig, Vocabulary
from litebert.data.corpus.config import PrepareConfig
from litebert.data.corpus.parts import held_out_texts
from litebert.data.corpus.prepare import prepare
from litebert.data.corpus.shards import ShardSet, tokenizer_of
from litebert.interop.card import CARD_FILE, pretraining_section
from litebert.interop.folder import load_config, resolve
from litebert.interop.hf import load_model, save_model
from litebert.model.counts import count_parameters
from litebert.model.heads import PretrainingModel
from litebert.predict.characters import CharacterLoss, character_loss
from litebert.predict.predictor import Predictor
from litebert.text.corpus import find_files, total_bytes
from litebert.text.extend import OldPieces, extend_tokenizer
from litebert.text.folder import copy_tokenizer
from litebert.text.foreign import JsonTokenizer
from litebert.text.tokenizer import Tokenizer
from litebert.text.train import TokenizerTrainConfig, train_tokenizer
from litebert.train.adapting.config import AdaptConfig
from litebert.train.pretraining.engine import PretrainResult, pretrain
from litebert.train.pretraining.evaluate import DevSet
from litebert.train.pretraining.objective import inputs_of
from litebert.train.run import refuse_changes
from litebert.train.threads import thread_limit

SETTINGS_FILE = "adapt.json"
FIGURES_FILE = "adapted.json"
SAMPLE_EXAMPLES = 256  # of the training text, to see how often each piece is predicted
LEAST_SHARE = 1e-7  # of all predictions: what is never predicted in the sample may be predicted elsewhere
_FREE = ("out", "steps", "tokens", "budget", "threads", "resume")
"""Settings that may change when a run is resumed."""


@dataclass(frozen=True)
class AdaptResult:
    """How an adaptation ended."""

    training: PretrainResult
    pieces: dict[str, int]  # how many were copied, averaged and unknown to the old vocabulary
    losses: dict[str, CharacterLoss]  # on held-out text, where measurable: of the old model, with the new table, after
    model: Path | None = None  # None if the training was interrupted


def adapt(config: AdaptConfig, *, quiet: bool = False) -> AdaptResult:
    """Adapt a model to text and write a folder with the new model in it."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError(
            "adapt is for one process: under torchrun use pretrain with --data OUT/shards and "
            "--init-from OUT/start of an adaptation"
        )
    source = resolve(config.model)
    old, shape = Tokenizer.load(source), load_config(source)
    tokenizer, shards = config.out / "tokenizer", config.out / "shards"
    with _owned(config, source), thread_limit(config.threads):
        if not tokenizer.is_dir():
            say(f"1 of 4: vocabulary; the model is {source}")
            _make_vocabulary(config, source, old, tokenizer)
        say("2 of 4: shards")
        language, column, dev = config.language, config.column, config.dev_input
        fraction = 0.02 if config.dev_fraction is None and not dev else config.dev_fraction
        prepare(PrepareConfig(config.input, tokenizer, shards, "auto", column, language, dev, fraction))
        known = [len(rows) for rows in old_rows(Tokenizer.load(tokenizer), old)]
        pieces = {"copied": known.count(1), "unknown": known.count(0)}
        pieces["averaged"] = len(known) - sum(pieces.values())
        start = source if config.keep_vocabulary else config.out / "start"
        if not start.is_dir():
            write_start(source, tokenizer, start, config.seed, shards)
        say(f"3 of 4: training; pieces {', '.join(f'{n:,} {k}' for k, n in pieces.items())}")
        trained = pretrain(config.training(str(start), shape.max_positions), quiet=quiet)
        if trained.model is None:
            return AdaptResult(trained, pieces, {})
        say("4 of 4: loss per character on the held-out text, before and after")
        models = {"before": source, "start": start, "after": trained.model}
        losses = {name: found for name, model in models.items() if (found := _measured(model, shards)) is not None}
        result = AdaptResult(trained, pieces, losses, config.out / MODEL_FOLDER)
        _write_model(config, trained.model, result)
    return result


def describe_plan(config: AdaptConfig) -> str:
    """What an adaptation would do, in lines; nothing is written."""
    source = resolve(config.model)
    old, shape, files = Tokenizer.load(source), load_config(source), find_files(config.input)
    run, size = config.training(str(source), shape.max_positions), total_bytes(files)
    pieces = f"{config.vocab_size or old.vocab_size:,} of the text's own"
    if config.keep_vocabulary or config.add_pieces:
        pieces = f"the same and {config.add_pieces or 0:,} more"
    lengths = {"steps": run.steps, "tokens": run.tokens, "budget": run.budget}
    length = ", ".join(f"{name} {value}" for name, value in lengths.items() if value is not None)
    alone = run.curriculum.trainable[-1][0] if run.curriculum.trainable else 0.0
    return (
        f"model       {source}: {count_parameters(shape).total:,} parameters, {old.description}\ntext        "
        f"{len(files):,} files, {'?' if size is None else f'{size / 1e6:,.1f}'} MB\nvocabulary  {old.vocab_size:,} "
        f"pieces -> {config.tokenizer or pieces}\ntraining    {length}; {run.batch_size} x {run.examples.length} "
        f"tokens a step, words alone for {alone:.0%}"
    )


@contextmanager
def _owned(config: AdaptConfig, source: Path) -> Iterator[None]:
    """Own the folder; what an earlier call with other settings made is refused."""
    out, file = config.out, config.out / SETTINGS_FILE
    named = [("--input", path) for path in (*config.input, *config.dev_input)]
    keep_files(out, named)
    settings = {k: v for k, v in to_dict(config).items() if k not in _FREE}
    with owned_folder(out, lambda _: file.is_file(), [*named, ("--model", source), ("--tokenizer", config.tokenizer)]):
        # Until there is a vocabulary nothing is lost: the call may be corrected.
        if file.is_file() and (out / "tokenizer").is_dir():
            if config.resume == "no":
                raise DataError(f"{out} already holds an adaptation; go on with --resume auto or choose another --out")
            refuse_changes(file, read_json(file), settings)
        write_json(file, settings)
        yield


def _make_vocabulary(config: AdaptConfig, source: Path, old: Tokenizer, out: Path) -> None:
    """Copy a vocabulary, learn one, or add to the old one what a new one has."""
    if config.keep_vocabulary or config.tokenizer is not None:
        Tokenizer.load(config.tokenizer or source)  # one that cannot be read is not taken
        with atomic_folder(out) as folder:
            copy_tokenizer(config.tokenizer or source, folder)
        return
    # How WordPiece normalises stands in its file; its letters mostly keep their accents.
    is_wordpiece = isinstance(old, JsonTokenizer) and old.is_wordpiece
    kept = "keep-accents" if is_wordpiece else old.settings.normalization
    by_language = bool(config.language) and config.add_pieces is None
    with tempfile.TemporaryDirectory() as temporary:
        settings = TokenizerTrainConfig(
            config.input,
            out if config.add_pieces is None else Path(temporary) / "learnt",
            vocab_size=config.vocab_size or old.vocab_size + 2 * (config.add_pieces or 0),
            shrink=config.vocab_size is None,
            cased=not old.settings.lower,
            normalization=None if by_language else kept,
            language=config.language,
            digit_comma=old.settings.digit_comma,
            column=config.column,
            max_length=old.settings.model_max_length,
        )
        learnt = train_tokenizer(settings)
    if config.add_pieces is not None:
        extended = extend_tokenizer(old, learnt, config.add_pieces)
        say(f"{extended.vocab_size - old.vocab_size:,} pieces added")
        with atomic_folder(out) as folder:
            extended.save(folder)


def old_rows(new: Tokenizer, old: Tokenizer) -> list[list[int]]:
    """The rows of the old table that each new piece starts from, none if unknown; special ones match by their roles."""
    pieces = OldPieces(old)
    rows = [[index for index in pieces.of(new, piece) if index != old.unk_id] for piece in range(new.vocab_size)]
    for piece, twin in zip(new.special_ids, old.special_ids, strict=True):
        rows[piece] = [twin]
    return rows


def mean_rows(table: Tensor, rows: Sequence[Sequence[int]]) -> Tensor:
    """A table of means of another's rows, in its type: of one row that row, to the bit; of none the mean of all."""
    whole = table.double().mean(0)
    means = [table[list(found)].double().mean(0) if found else whole for found in rows]
    return torch.stack(means).to(table.dtype)


@torch.no_grad()
def fit_frequencies(model: PretrainingModel, shards: Path) -> None:
    """Shift the output bias so that each piece is predicted as often as it occurs in shards.

    By the log of that ratio over a sample: training would take long, for a bias moves by the rate at most in a step.
    """
    text = ShardSet.open(shards, "train")
    vocabulary = Vocabulary.of(tokenizer_of([text]))
    settings = ExampleConfig(length=min(128, model.config.max_positions))
    sample = DevSet([text], text.unigram_counts(), settings, vocabulary, batch_size=32)
    predicted = torch.zeros(model.config.vocab_size, dtype=torch.float64)
    for batch in sample.batches("sop", SAMPLE_EXAMPLES):
        places, inputs = torch.from_numpy(batch.masked_positions), inputs_of(batch, torch.device("cpu"))
        places = places[inputs[0].flatten()[places] == vocabulary.mask_id]
        logits = model(*inputs, masked_positions_M=places).mlm_logits_MV
        predicted += logits.softmax(-1).double().sum(0)
    share = predicted / predicted.sum().clamp(min=1.0) + LEAST_SHARE
    wanted = torch.from_numpy(sample.unigram_log_probability)
    model.mlm.bias.add_((wanted - share.log()).float())


def write_start(source: Path, tokenizer: Path, out: Path, seed: int, shards: Path | None = None) -> None:
    """Write a model folder: the weights of another with a word table for another tokenizer.

    All else stays, or is new without a masked-word head; a word's bias starts like its row and is fitted to ``shards``.
    """
    generator = torch.Generator().manual_seed(derived_seed(seed, "initial weights"))
    old = load_model(source, "pretraining", new_head=True, generator=generator)
    assert isinstance(old, PretrainingModel), "asked for by the head's name"
    rows = old_rows(Tokenizer.load(tokenizer), Tokenizer.load(source))
    weights = old.state_dict()
    weights |= {name: mean_rows(weights[name], rows) for name in ("encoder.embeddings.word.weight", "mlm.bias")}
    model = PretrainingModel(replace(old.config, vocab_size=len(rows)))
    model.load_state_dict(weights)
    if shards is not None:
        fit_frequencies(model.eval(), shards)
    save_model(model, out, tokenizer)


def _measured(model: Path, shards: Path) -> CharacterLoss | None:
    predictor = Predictor.load(model)
    fills = "masked_logits" in predictor.backend.info.outputs
    return character_loss(predictor, held_out_texts(shards)) if fills else None


def _write_model(config: AdaptConfig, trained: Path, result: AdaptResult) -> None:
    """Write the figures, and the trained model with a card that says what was done."""
    run, losses = result.training, result.losses
    values: dict[str, object] = {"pieces": result.pieces, "steps": run.step, "tokens": run.tokens}
    write_json(config.out / FIGURES_FILE, values | {name: asdict(found) for name, found in losses.items()})
    pieces = ", ".join(f"{number:,} {kind}" for kind, number in result.pieces.items())
    rows: dict[str, object] = {"from": f"`{config.model}`", "pieces": pieces}
    rows |= {name: found.describe() for name, found in losses.items()}
    name, card = f"{config.out.resolve().name}/{MODEL_FOLDER}", (trained / CARD_FILE).read_text(encoding="utf-8")
    card = card.replace(f"{trained.parent.name}/{trained.name}", name)
    with atomic_folder(config.out / MODEL_FOLDER, replace=True) as folder:
        shutil.copytree(trained, folder, dirs_exist_ok=True)
        write_text(folder / CARD_FILE, card + pretraining_section(rows, "Adaptation"))

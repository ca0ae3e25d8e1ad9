"""The work of the demo's stages: each is a few lines around the function behind a command."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from litebert.common.config import from_dict, read_toml, recipe_path
from litebert.common.files import read_json, write_json
from litebert.common.rows import read_rows
from litebert.demo.folder import DemoConfig, DemoFolder

VOCAB_SIZE = 4_000
PRETRAIN_SHARE = 0.7
"""Of the budget; what neither training uses is for the other stages."""
FINETUNE_SHARE = 0.08
"""Of the budget, for each of the two fine-tunings."""
FINETUNE_BATCH = 32
FINETUNE_EPOCHS = 10
"""At most, however much time there is."""
FINETUNE_LR = 5e-4

_ASKED_WORDS = 15
"""The server is asked about the first dev sentence that is long enough to go by."""

PROMPTS = (
    "return a new [MASK] with the same elements.",
    "the [MASK] statement is used to import a module.",
    "raises an exception if the [MASK] is not found.",
    "wait until the [MASK] is finished and return its result.",
)


class StageInterrupted(Exception):
    """A signal asked to stop; the stage has saved its work.

    Example:
        >>> raise StageInterrupted(signal.SIGINT)
    """

    def __init__(self, signum: int) -> None:
        super().__init__(f"signal {signum}")
        self.signum = signum


def collect(folder: DemoFolder) -> None:
    """Write the text that every Python carries."""
    from litebert.demo.python_text import write_corpus

    write_corpus(folder.text.parent)


def train_vocabulary(corpus: Path, folder: DemoFolder) -> None:
    """Learn the pieces; a small text gets fewer."""
    from litebert.text.train import TokenizerTrainConfig, train_tokenizer

    train_tokenizer(
        TokenizerTrainConfig(
            input=(corpus,), out=folder.tokenizer, vocab_size=VOCAB_SIZE, shrink=True
        )
    )


def tokenise(corpus: Path, folder: DemoFolder) -> None:
    """Turn the text into shards."""
    from litebert.data.corpus.config import PrepareConfig
    from litebert.data.corpus.prepare import prepare

    prepare(
        PrepareConfig(
            input=(corpus,), tokenizer=folder.tokenizer, out=folder.shards, dev_fraction=0.05
        )
    )


def pretrain_tiny(config: DemoConfig, folder: DemoFolder) -> None:
    """Pretrain by the recipe ``tiny``, by the clock unless steps are given."""
    from litebert.train.pretraining.config import PretrainConfig
    from litebert.train.pretraining.engine import pretrain

    recipe = read_toml(recipe_path("pretrain", "tiny"))
    recipe.pop("steps", None)
    length: dict[str, object] = {"steps": config.steps}
    if config.steps is None:
        length = {"budget": f"{PRETRAIN_SHARE * budget_s(config):.0f}s"}
    paths = {"data": str(folder.shards), "out": str(folder.pretrain)}
    values = {**recipe, **paths, **length, "resume": "auto"}
    result = pretrain(from_dict(PretrainConfig, values, "demo"))
    if result.interrupted_by:
        raise StageInterrupted(result.interrupted_by)


def fill_masks(config: DemoConfig, folder: DemoFolder) -> None:
    """Ask the pretrained model for hidden words: fixed prompts, or stretches of the dev text."""
    from litebert.predict.predictor import Predictor

    if config.corpus is None:
        filled = Predictor.load(folder.model).fill_mask(PROMPTS)
        samples = [
            {"text": text, "candidates": [[c.token, round(c.score, 4)] for c in found.masks[0]]}
            for text, found in zip(PROMPTS, filled, strict=True)
        ]
        write_json(folder.filled, {"samples": samples})
        return
    path = folder.pretrain / "samples.json"  # absent where the text was too small for a dev split
    found = read_json(path)["fill_mask"] if path.is_file() else []
    assert isinstance(found, list), "pretraining wrote it"
    longest = sorted(found, key=lambda sample: -len(sample["text"]))[: len(PROMPTS)]
    write_json(folder.filled, {"samples": longest})


def cut_labels(config: DemoConfig, folder: DemoFolder) -> None:
    """Cut a labelled task from the same text, or write down why there is none."""
    from litebert.demo.labelled_task import cut_task
    from litebert.demo.text_parts import corpus_parts, python_parts

    if config.corpus is None:
        parts = python_parts(folder.text)
    else:
        parts = corpus_parts(config.corpus, folder.root)
    cut_task(parts, folder.task)


def finetune_task(
    config: DemoConfig, folder: DemoFolder, start: Literal["weights", "random"]
) -> None:
    """Fine-tune on the task file, from the pretrained weights or from random ones."""
    from litebert.train.finetuning.config import FinetuneConfig
    from litebert.train.finetuning.engine import finetune

    result = finetune(
        FinetuneConfig(
            str(folder.task_file),
            model=str(folder.model),
            out=folder.finetune if start == "weights" else folder.untrained,
            steps=finetune_steps(config, folder),
            batch_size=FINETUNE_BATCH,
            lr=FINETUNE_LR,
            start=start,
            resume="auto",
        )
    )
    if result.interrupted_by:
        raise StageInterrupted(result.interrupted_by)


def finetune_steps(config: DemoConfig, folder: DemoFolder) -> int:
    """Return as many steps as fit into fine-tuning's share, at the speed seen in pretraining."""
    texts = [str(row["text"]) for _, row in read_rows(folder.task / "train.jsonl")]
    most = FINETUNE_EPOCHS * math.ceil(len(texts) / FINETUNE_BATCH)
    if config.steps is not None:
        return min(most, config.steps)
    from litebert.text.tokenizer import Tokenizer

    pieces = Tokenizer.load(folder.tokenizer).encode_batch(texts)
    tokens_per_step = FINETUNE_BATCH * statistics.mean(len(ids) + 2 for ids in pieces)
    rates = [float(str(line["tokens_per_s"])) for line in metrics(folder.pretrain, "tokens_per_s")]
    rate = statistics.median(rates[len(rates) // 2 :])  # at full depth
    in_time = FINETUNE_SHARE * budget_s(config) * rate / tokens_per_step
    return max(1, min(most, int(in_time)))


def score(folder: DemoFolder) -> None:
    """Score the saved model on dev, beside what looks at no text and what was not pretrained."""
    from litebert.predict.evaluate import evaluate_models

    found = evaluate_models(str(folder.task_file), [str(folder.finetune / "model")], None)[0]
    result = read_json(folder.finetune / "result.json")
    untrained = read_json(folder.untrained / "result.json")
    write_json(
        folder.scores,
        {
            "examples": result["dev_examples"],
            "baseline": result["baseline"],
            "untrained": untrained["scores"],
            "pretrained": found.scores,
            "confusion": read_json(folder.finetune / "mistakes.json")["confusion"],
        },
    )


def export_int8(folder: DemoFolder) -> None:
    """Write the fine-tuned model (the pretrained one if there is no task) as int8 ONNX."""
    from litebert.interop.onnx.export import export_onnx
    from litebert.predict.evaluate import DevSet
    from litebert.predict.export import export_checked
    from litebert.tasks.registry import find_task

    drop: dict[str, object] | None = None
    if has_task(folder):
        dev = DevSet(find_task(str(folder.task_file)), folder.task)
        # A demo shows what int8 costs, whatever that is.
        report, lost = export_checked(folder.finetune / "model", folder.int8, dev, int8=True)
        drop = asdict(lost)
    else:
        report = export_onnx(folder.model, folder.int8, int8=True)
    values = {**asdict(report), "path": str(report.path), "dev": drop}
    write_json(folder.exported, values)


def ask(folder: DemoFolder) -> None:
    """Ask the real server one question: the part of a dev sentence, or a masked word."""
    from litebert.demo.one_request import ask_server

    if has_task(folder):
        rows = [row for _, row in read_rows(folder.task / "dev.jsonl")]
        row = next((row for row in rows if len(str(row["text"]).split()) >= _ASKED_WORDS), rows[0])
        answer = ask_server([folder.int8], "/classify", {"text": str(row["text"])})
        write_json(folder.answer, {**asdict(answer), "gold": row["part"], "from": row["document"]})
        return
    samples = read_json(folder.filled)["samples"]
    assert isinstance(samples, list), "an earlier stage wrote it"
    text = str(samples[0]["text"]) if samples else "this is a [MASK]."
    write_json(folder.answer, asdict(ask_server([folder.int8], "/fill-mask", {"text": text})))


def has_task(folder: DemoFolder) -> bool:
    """Whether a labelled task could be cut."""
    return folder.task_file.is_file()


def budget_s(config: DemoConfig) -> float:
    """The whole budget in seconds."""
    from litebert.train.pretraining.config import parse_duration

    return parse_duration(config.budget)


def metrics(run: Path, key: str) -> list[Mapping[str, object]]:
    """Return the lines of a run's log that have a key."""
    from litebert.common.runs import RunFolder

    return [line for line in RunFolder.open(run).metrics() if key in line]

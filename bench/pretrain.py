"""Pretraining speed: litebert's whole engine against transformers' Trainer, same batches.

Both train `AlbertForPreTraining`'s objective (masked words and sentence order) on the same shards
and the same batches, grouped by length so that neither pads; the peer gets them ready made in
memory, litebert draws its own while it trains. Runs alternate, ratios are of medians, and the
spread is that of all pairs of runs.

    python bench/pretrain.py                    # a few minutes a size
    python bench/pretrain.py --seconds 5 --repeats 1 --sizes small
    python bench/pretrain.py --precision bfloat16    # both, where the processor has it
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from machine import on_this_machine
from torch import Tensor

from litebert.common.runs import RunFolder
from litebert.data.batches.example import Batch, ExampleConfig, Vocabulary
from litebert.data.batches.loader import Loader
from litebert.data.corpus.config import PrepareConfig
from litebert.data.corpus.prepare import prepare
from litebert.data.corpus.shards import ShardSet
from litebert.dist.runtime import Precision
from litebert.interop.hf_config import foreign_config
from litebert.model.config import ModelConfig, ModelSection, preset
from litebert.optim.config import OptimizerConfig
from litebert.text.tokenizer import Tokenizer
from litebert.text.train import TokenizerTrainConfig, train_tokenizer
from litebert.train.pretraining.config import Checkpoints, Evaluation, PretrainConfig
from litebert.train.pretraining.engine import pretrain

if TYPE_CHECKING:
    from transformers import TrainingArguments

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("LITEBERT_SHARED", REPOSITORY.parent / "shared"))
WARMUP_STEPS = 3


@dataclass(frozen=True)
class Size:
    """A model and its batches."""

    preset: str
    length: int
    batch_size: int
    vocab_size: int
    required_ratio: float


SIZES = {
    "small": Size("albert-small", 128, 32, 30_000, 2.3),
    "small-8k": Size("albert-small", 128, 32, 8_192, 2.3),
    "base": Size("albert-base", 128, 16, 30_000, 1.25),
}


def corpus(folder: Path, vocab_size: int, megabytes: int) -> Path:
    """Shards of Wikipedia if the reference data is there, else of Python's documentation."""
    shards = folder / f"shards-{vocab_size}"
    if (shards / "manifest.json").is_file():
        return shards
    wiki = SHARED / "data" / "corpus" / "wiki.txt.xz"
    text = folder / "text.txt"
    if not text.is_file():
        text.write_bytes(b"\n".join(_documents(wiki, megabytes * 1_000_000)))
    tokenizer = folder / f"tokenizer-{vocab_size}"
    official = SHARED / "fixtures" / "official"
    if vocab_size == 30_000 and (official / "spiece.model").is_file():
        tokenizer = official
    elif not tokenizer.is_dir():
        train_tokenizer(TokenizerTrainConfig(input=(text,), out=tokenizer, vocab_size=vocab_size))
    prepare(PrepareConfig(input=(text,), tokenizer=tokenizer, out=shards, layout="paragraphs", dev_fraction=0.05))
    return shards


def _documents(wiki: Path, num_bytes: int) -> Iterator[bytes]:
    if wiki.is_file():
        import lzma

        with lzma.open(wiki, "rb") as stream:
            content = stream.read(num_bytes)
        yield content[: content.rfind(b"\n\n")]
        return
    from litebert.demo.python_text import topics

    yield "\n\n".join("\n".join(document) for _, document in topics()).encode()


def peer_inputs(batch: Batch) -> dict[str, torch.Tensor]:
    """A batch as transformers wants it: labels at every position, -100 where nothing is asked."""
    labels = torch.full((batch.input_ids.size,), -100)
    labels[torch.from_numpy(batch.masked_positions)] = torch.from_numpy(batch.masked_labels)
    length = batch.input_ids.shape[1]
    mask = torch.arange(length) < torch.from_numpy(batch.lengths)[:, None]
    return {
        "input_ids": torch.from_numpy(batch.input_ids),
        "token_type_ids": torch.from_numpy(batch.token_type_ids),
        "attention_mask": mask.long(),
        "labels": labels.view(batch.input_ids.shape),
        "sentence_order_label": torch.from_numpy(batch.sentence_labels),
    }


def peer_model(shape: ModelConfig, attention: str = "sdpa") -> torch.nn.Module:
    """transformers' model of the same shape."""
    from transformers import AlbertConfig, AlbertForPreTraining

    values: dict[str, Any] = foreign_config(shape, "pretraining", None)
    config = AlbertConfig(**{k: v for k, v in values.items() if k != "model_type"})
    config._attn_implementation = attention
    return AlbertForPreTraining(config)


def peer_arguments(folder: str, **changes: Any) -> TrainingArguments:
    """Settings of a Trainer that runs until it is stopped and says nothing."""
    from transformers import TrainingArguments

    return TrainingArguments(
        output_dir=folder,
        max_steps=10**6,
        max_grad_norm=1.0,
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        dataloader_pin_memory=False,
        **changes,
    )


def run_peer(
    shape: ModelConfig, batches: Sequence[Batch], seconds: float, attention: str, precision: Precision
) -> tuple[float, int]:
    """Tokens per second of Trainer over whole steps, warm-up left out."""
    from torch.utils.data import DataLoader, Dataset
    from transformers import Trainer, TrainerCallback

    class Watch(TrainerCallback):
        """Counts tokens and ends the run."""

        def __init__(self) -> None:
            self.started, self.tokens, self.steps, self.elapsed = 0.0, 0, 0, 0.0

        def on_step_end(self, args, state, control, **_):  # type: ignore[no-untyped-def]
            now = time.perf_counter()
            if state.global_step == WARMUP_STEPS:
                self.started = now
            elif state.global_step > WARMUP_STEPS:
                self.tokens += batches[(state.global_step - 1) % len(batches)].num_tokens
                self.steps += 1
                self.elapsed = now - self.started
                control.should_training_stop = self.elapsed >= seconds
            return control

    class FixedBatches(Trainer):
        """Trainer on batches that are ready."""

        def get_train_dataloader(self) -> DataLoader[dict[str, Tensor]]:
            # A list will do where nothing is shuffled or batched.
            return DataLoader(cast("Dataset[dict[str, Tensor]]", prepared), batch_size=None)

    prepared = [peer_inputs(batch) for batch in batches]
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        arguments = peer_arguments(folder, learning_rate=1e-4, bf16=precision == "bfloat16")
        trainer = FixedBatches(model=peer_model(shape, attention), args=arguments, callbacks=[watch])
        trainer.train()
    return watch.tokens / watch.elapsed, watch.steps


def run_litebert(size: Size, shards: Path, steps: int, precision: Precision) -> tuple[float, float]:
    """Tokens per second of the engine over whole steps, and its share of waiting for data."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        config = PretrainConfig(
            data=shards,
            out=out,
            steps=WARMUP_STEPS + steps,
            batch_size=size.batch_size,
            precision=precision,
            threads=torch.get_num_threads(),  # the peer's; no trial of fewer
            log_every_steps=1,
            model=ModelSection(preset=size.preset),
            examples=ExampleConfig(length=size.length, micro_batch_size=size.batch_size),
            optimizer=OptimizerConfig(name="adamw", lr=1e-4),
            evaluation=Evaluation(every_steps=0, examples=32, final_examples=32),
            checkpoint=Checkpoints(every_steps=0),
        )
        pretrain(config, quiet=True)
        lines = [line for line in RunFolder.open(out).metrics() if "mlm_loss" in line]
    first, last = lines[WARMUP_STEPS - 1], lines[-1]
    elapsed = float(last["elapsed_s"]) - float(first["elapsed_s"])  # type: ignore[arg-type]
    tokens = int(last["tokens"]) - int(first["tokens"])  # type: ignore[call-overload]
    waits = [float(line["wait_share"]) for line in lines[WARMUP_STEPS:]]  # type: ignore[arg-type]
    return tokens / elapsed, statistics.fmean(waits)


def compare(name: str, folder: Path, seconds: float, repeats: int, precision: Precision) -> dict[str, object]:
    """Alternate both and compare medians."""
    size = SIZES[name]
    shards = corpus(folder, size.vocab_size, megabytes=20)
    tokenizer = Tokenizer.load(ShardSet.open(shards, "train").tokenizer_folder)
    shape = preset(size.preset, vocab_size=tokenizer.vocab_size)
    example_config = ExampleConfig(length=size.length, micro_batch_size=size.batch_size)
    sources = [(ShardSet.open(shards, "train"), 1.0)]
    loader = Loader(sources, example_config, 0, Vocabulary.of(tokenizer))
    batches = [loader.batch(position) for position in range(200)]
    attentions = ("sdpa", "eager")
    peer: dict[str, list[float]] = {attention: [] for attention in attentions}
    ours: list[float] = []
    waits: list[float] = []
    for _ in range(repeats):
        for attention in attentions:
            rate, steps = run_peer(shape, batches, seconds, attention, precision)
            peer[attention].append(rate)
        steps = max(4, round(steps * size.required_ratio))
        rate, wait = run_litebert(size, shards, steps, precision)
        ours.append(rate)
        waits.append(wait)
    best = max(attentions, key=lambda attention: statistics.median(peer[attention]))
    ratio = statistics.median(ours) / statistics.median(peer[best])
    return {
        "size": name,
        "precision": precision,
        "batch": f"{size.batch_size} x {size.length}",
        "vocabulary": tokenizer.vocab_size,
        "litebert_tokens_per_s": [round(rate) for rate in ours],
        "trainer_tokens_per_s": {k: [round(r) for r in v] for k, v in peer.items()},
        "trainer_best_attention": best,
        "ratio": round(ratio, 2),
        "spread": [round(min(ours) / max(peer[best]), 2), round(max(ours) / min(peer[best]), 2)],
        "required": size.required_ratio,
        "wait_share": round(statistics.fmean(waits), 4),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--seconds", type=float, default=45.0, help="of measuring, each run")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--precision", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "build" / "bench")
    options = parser.parse_args(arguments)
    import transformers

    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    options.folder.mkdir(parents=True, exist_ok=True)
    print(
        f"torch {torch.__version__}, transformers {transformers.__version__}, "
        f"{torch.get_num_threads()} threads, load {os.getloadavg()[0]:.1f}",
        file=sys.stderr,
    )
    for name in options.sizes:
        found = compare(name, options.folder, options.seconds, options.repeats, options.precision)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    with on_this_machine():
        main()

"""Time to quality: dev loss over time, litebert's defaults against transformers' Trainer.

Small preset, same corpus, same dev documents. The peer trains `AlbertForPreTraining` at full depth
with AdamW and linear decay, at the best of three learning rates and two batch sizes (chosen by a
short grid), on ready, length-grouped batches, so that it is a fair peer. Clocks stand still while
either is evaluated.

    python bench/time_to_quality.py             # grid of 3 minutes, runs of 15
    python bench/time_to_quality.py --levers    # what each lever contributes, 5 minutes each
    python bench/time_to_quality.py --levers --only "full depth" Muon    # some of them
    python bench/time_to_quality.py --grid 3s --budget 10s --folder /tmp/x    # does it run?
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from machine import on_this_machine
from pretrain import REPOSITORY, corpus, peer_inputs, peer_model
from torch import Tensor

from litebert.common.config import from_dict, read_toml
from litebert.common.runs import RunFolder
from litebert.data.batches.example import Batch, ExampleConfig
from litebert.data.batches.loader import Loader
from litebert.model.config import ModelConfig, preset
from litebert.optim.config import OptimizerConfig
from litebert.train.pretraining.config import Curriculum, Evaluation, PretrainConfig, parse_duration
from litebert.train.pretraining.engine import pretrain
from litebert.train.pretraining.evaluate import DevSet
from litebert.train.pretraining.setup import Corpora, open_corpora

if TYPE_CHECKING:
    from transformers import AlbertForPreTraining

LENGTH = 128
PEER_RATES = (1e-4, 3e-4, 1e-3)
PEER_BATCHES = (8, 32)
DEV_EXAMPLES = 512
POINTS = 12
PEER_MASK_RATE = 0.15

Curve = list[dict[str, float]]


def recipe(shards: Path, out: Path, budget_s: float, every_steps: int) -> PretrainConfig:
    """The defaults of the small preset."""
    values = read_toml(REPOSITORY / "configs" / "pretrain" / "small.toml")
    values.update({"data": str(shards), "out": str(out), "budget": f"{budget_s}s"})
    config = from_dict(PretrainConfig, values, "small.toml")
    evaluation = replace(
        config.evaluation,
        every_steps=every_steps,
        examples=DEV_EXAMPLES,
        final_examples=DEV_EXAMPLES,
    )
    return replace(config, evaluation=evaluation)


def run_litebert(config: PretrainConfig) -> Curve:
    """Train and read the curve from the run folder."""
    pretrain(config, quiet=True)
    curve: Curve = []
    evaluating_s = 0.0
    for line in RunFolder.open(config.out).metrics():
        if "dev_mlm_loss" in line:
            numbers = {key: value for key, value in line.items() if isinstance(value, (int, float))}
            curve.append(
                {
                    "seconds": round(numbers["elapsed_s"] - evaluating_s, 1),
                    "tokens": numbers["tokens"],
                    "loss": numbers["dev_mlm_loss"],
                    "accuracy": numbers["dev_mlm_accuracy"],
                }
            )
            evaluating_s += numbers["evaluation_s"]
    return curve


def run_peer(
    shape: ModelConfig,
    corpora: Corpora,
    dev: DevSet,
    *,
    rate: float,
    batch_size: int,
    budget_s: float,
    num_points: int,
) -> Curve:
    """Train with Trainer for a time; its linear decay ends when the time does."""
    from torch.utils.data import DataLoader, IterableDataset
    from transformers import Trainer, TrainerCallback, TrainingArguments

    config = ExampleConfig(length=LENGTH, micro_batch_size=batch_size)
    loader = Loader(corpora.train, config, 0, corpora.vocabulary)

    class Batches(IterableDataset[dict[str, Tensor]]):
        """An endless row of batches, drawn in a worker of the data loader."""

        def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
            return (peer_inputs(batch) for batch in loader.iterate())

    class OwnBatches(Trainer):
        """Trainer on batches of tokens instead of examples."""

        def get_train_dataloader(self) -> DataLoader[dict[str, Tensor]]:
            return DataLoader(Batches(), batch_size=None, num_workers=1, prefetch_factor=4)

    class Watch(TrainerCallback):
        """The clock of training alone; evaluates now and then and ends the run."""

        def __init__(self, limit_s: float, num_points: int) -> None:
            self.limit_s, self.train_s, self.tokens = limit_s, 0.0, 0
            self.resumed = 0.0
            self.between_s = limit_s / num_points if num_points else float("inf")
            self.next_s = self.between_s
            self.curve: Curve = []

        def on_step_begin(self, args, state, control, **_):  # type: ignore[no-untyped-def]
            if state.global_step == 0:  # the workers' start does not count
                self.resumed = time.perf_counter()

        def on_step_end(self, args, state, control, **named):  # type: ignore[no-untyped-def]
            now = time.perf_counter()
            self.train_s += now - self.resumed
            self.tokens += loader.batch(state.global_step - 1).num_tokens
            is_over = self.train_s >= self.limit_s or state.global_step >= args.max_steps
            if self.train_s >= self.next_s or (is_over and self.between_s <= self.limit_s):
                self.next_s += self.between_s
                loss, accuracy = peer_scores(named["model"], dev)
                point = {"seconds": round(self.train_s, 1), "tokens": float(self.tokens)}
                self.curve.append({**point, "loss": loss, "accuracy": accuracy})
            control.should_training_stop = is_over
            self.resumed = time.perf_counter()
            return control

    def train(limit_s: float, max_steps: int, num_points: int) -> tuple[Watch, int]:
        watch = Watch(limit_s, num_points)
        with tempfile.TemporaryDirectory() as folder:
            arguments = TrainingArguments(
                output_dir=folder,
                max_steps=max_steps,
                learning_rate=rate,
                lr_scheduler_type="linear",
                warmup_steps=max(1, max_steps // 50),
                weight_decay=0.01,
                max_grad_norm=1.0,
                save_strategy="no",
                logging_strategy="no",
                report_to=[],
                disable_tqdm=True,
                use_cpu=True,
                dataloader_pin_memory=False,
                seed=0,
            )
            trainer = OwnBatches(model=peer_model(shape), args=arguments, callbacks=[watch])
            trainer.train()
            return watch, trainer.state.global_step

    # The decay is in steps, so a short run first finds how many fit into the time.
    trial_s = max(2.0, min(10.0, budget_s / 10))
    trial, steps = train(trial_s, 10**6, 0)
    watch, _ = train(budget_s, max(2, int(steps * budget_s / trial.train_s)), num_points)
    return watch.curve


def peer_scores(model: AlbertForPreTraining, dev: DevSet) -> tuple[float, float]:
    """Dev loss and accuracy at the predicted places, as litebert's evaluation has them."""
    loss = right = count = 0.0
    model.train(False)
    with torch.no_grad():
        for batch in dev.batches("sop", DEV_EXAMPLES):
            inputs = peer_inputs(batch)
            del inputs["labels"], inputs["sentence_order_label"]
            hidden = model.albert(**inputs).last_hidden_state.flatten(0, 1)
            logits = model.predictions(hidden[torch.from_numpy(batch.masked_positions)])
            labels = torch.from_numpy(batch.masked_labels)
            loss += float(F.cross_entropy(logits, labels, reduction="sum"))
            right += float((logits.argmax(-1) == labels).sum())
            count += len(labels)
    model.train()
    return loss / count, right / count


def first_at(curve: Curve, loss: float) -> dict[str, float] | None:
    """The first point that is at least as good."""
    return next((point for point in curve if point["loss"] <= loss), None)


def levers(config: PretrainConfig) -> dict[str, tuple[PretrainConfig, Callable[[], object]]]:
    """The defaults with one lever put back to what a plain trainer does, or set otherwise."""
    table = config.curriculum
    final = config.examples.length
    plain_masks = replace(config.examples, mask=replace(config.examples.mask, rate=PEER_MASK_RATE))
    nothing: Callable[[], object] = lambda: None  # noqa: E731
    no_batches = replace(config, batch_size=32, curriculum=replace(table, batch_size=()))
    return {
        "all levers": (config, nothing),
        "full depth": (replace(config, curriculum=replace(table, layers=())), nothing),
        "short first": (
            replace(config, curriculum=replace(table, length=((0.0, final // 2), (0.5, final)))),
            nothing,
        ),
        "masks 15 %": (
            replace(config, examples=plain_masks, curriculum=replace(table, mask_rate=())),
            nothing,
        ),
        "batch 32": (no_batches, nothing),
        "LAMB": (replace(config, optimizer=OptimizerConfig(name="lamb", lr=2e-3)), nothing),
        "Muon": (replace(config, optimizer=OptimizerConfig(name="muon")), nothing),
        "logits everywhere": (config, logits_everywhere),
        "padded": (config, padded),
        "plain": (replace(no_batches, examples=plain_masks, curriculum=Curriculum()), nothing),
    }


def logits_everywhere() -> object:
    """Predict words at every token and throw most away, as transformers does."""
    from litebert.model.heads import PretrainingModel

    original = PretrainingModel.forward

    def everywhere(self, ids, mask, segments, positions, labels, pairs=None, layers=None):  # type: ignore[no-untyped-def]
        full = torch.full((ids.numel(),), -100, dtype=torch.int64)
        full[positions] = labels
        every = torch.arange(ids.numel())
        return original(self, ids, mask, segments, every, full, pairs, layers)

    def switched(self, *args, **named):  # type: ignore[no-untyped-def]
        return (everywhere if self.training else original)(self, *args, **named)

    PretrainingModel.forward = switched  # type: ignore[method-assign]
    return lambda: setattr(PretrainingModel, "forward", original)


def padded() -> object:
    """Pad every example to the full length."""
    import numpy as np

    from litebert.train.pretraining.feed import Feed

    original = Feed.take

    def pad(batch: Batch, length: int) -> Batch:
        rows, short = batch.input_ids.shape
        wide = np.zeros((rows, length), np.int64)
        segments = wide.copy()
        wide[:, :short], segments[:, :short] = batch.input_ids, batch.token_type_ids
        row, column = np.divmod(batch.masked_positions, short)
        return replace(
            batch,
            input_ids=wide,
            token_type_ids=segments,
            masked_positions=row * length + column,
        )

    Feed.take = lambda self, stage: [pad(b, stage.length) for b in original(self, stage)]  # type: ignore[method-assign]
    return lambda: setattr(Feed, "take", original)


def plot(curves: dict[str, Curve], path: Path, title: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 4))
    for name, curve in curves.items():
        minutes = [point["seconds"] / 60 for point in curve]
        axes[0].plot(minutes, [point["loss"] for point in curve], label=name)
        axes[1].plot(minutes, [100 * point["accuracy"] for point in curve], label=name)
    axes[0].set(xlabel="minutes of training", ylabel="dev masked-word loss (nats)", title=title)
    axes[1].set(xlabel="minutes of training", ylabel="dev masked-word accuracy (%)")
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def compare(options: argparse.Namespace, shards: Path) -> None:
    """The grid of the peer, then one long run each."""
    folder = options.folder / time.strftime("time-to-quality-%Y%m%d-%H%M%S")
    grid_s, budget_s = parse_duration(options.grid), parse_duration(options.budget)
    config = recipe(shards, folder / "litebert", budget_s, options.evaluate_every)
    corpora = open_corpora(config)
    shape = preset("albert-small", vocab_size=corpora.tokenizer.vocab_size)
    dev = DevSet(corpora.dev, corpora.unigram_counts(), config.examples, corpora.vocabulary, 32)
    grid = {}
    for batch_size in PEER_BATCHES:
        for rate in PEER_RATES:
            curve = run_peer(shape, corpora, dev, rate=rate, batch_size=batch_size,
                             budget_s=grid_s, num_points=1)  # fmt: skip
            grid[(batch_size, rate)] = curve[-1]["loss"]
            print(
                f"grid: batch {batch_size}, rate {rate}: {curve[-1]}", file=sys.stderr, flush=True
            )
    batch_size, rate = min(grid, key=grid.__getitem__)
    peer = run_peer(shape, corpora, dev, rate=rate, batch_size=batch_size, budget_s=budget_s,
                    num_points=POINTS)  # fmt: skip
    ours = run_litebert(config)
    end = peer[-1]
    reached = first_at(ours, end["loss"])
    summary = {
        "peer": {"batch": batch_size, "rate": rate, "end": end},
        "litebert": {"end": ours[-1], "reached_peer_end": reached},
        "time_share": None if reached is None else round(reached["seconds"] / end["seconds"], 3),
        "token_share": None if reached is None else round(reached["tokens"] / end["tokens"], 3),
        "tokens_per_s": {
            "peer": round(end["tokens"] / end["seconds"]),
            "litebert": round(ours[-1]["tokens"] / ours[-1]["seconds"]),
        },
        "grid": {f"{b} x {r}": loss for (b, r), loss in grid.items()},
    }
    curves = {"litebert": ours, f"Trainer (batch {batch_size}, rate {rate:g})": peer}
    write(folder, "comparison", summary, curves, "Time to quality, albert-small, two cores")


def ablate(options: argparse.Namespace, shards: Path) -> None:
    """One run for each lever put back."""
    folder = options.folder / time.strftime("levers-%Y%m%d-%H%M%S")
    budget_s = parse_duration(options.lever_budget)
    config = recipe(shards, folder / "run", budget_s, options.evaluate_every)
    config = replace(config, evaluation=Evaluation(every_steps=0, final_examples=DEV_EXAMPLES))
    curves: dict[str, Curve] = {}
    found = levers(config)
    unknown = set(options.only) - set(found)
    if unknown:
        raise SystemExit(f"no lever is called {', '.join(sorted(unknown))}: {', '.join(found)}")
    for name in options.only or found:
        changed, switch = found[name]
        undo = switch()
        curves[name] = run_litebert(replace(changed, out=folder / name.replace(" ", "-")))
        if callable(undo):
            undo()
        print(f"{name}: {curves[name][-1]}", file=sys.stderr, flush=True)
    summary = {name: curve[-1] for name, curve in curves.items()}
    write(folder, "levers", summary, {}, "")


def write(folder: Path, name: str, summary: object, curves: dict[str, Curve], title: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    content = {"summary": summary, "curves": curves}
    (folder / f"{name}.json").write_text(json.dumps(content, indent=1), encoding="utf-8")
    if curves:
        plot(curves, folder / f"{name}.png", title)
    print(json.dumps(summary, indent=1))
    print(f"written to {folder}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--grid", default="3m", help="time of each run of the peer's grid")
    parser.add_argument("--budget", default="15m", help="time of the two long runs")
    parser.add_argument("--levers", action="store_true", help="measure each lever instead")
    parser.add_argument("--lever-budget", default="5m")
    parser.add_argument("--only", nargs="+", default=[], help="levers to measure; default: all")
    parser.add_argument("--evaluate-every", type=int, default=250, help="litebert's steps")
    parser.add_argument("--megabytes", type=int, default=155, help="of the corpus")
    parser.add_argument("--shards", type=Path, help="prepared shards instead of the corpus")
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "build" / "bench")
    options = parser.parse_args(arguments)
    import transformers

    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    options.folder.mkdir(parents=True, exist_ok=True)
    shards = options.shards or corpus(options.folder, 8192, options.megabytes)
    print(
        f"torch {torch.__version__}, transformers {transformers.__version__}, "
        f"{torch.get_num_threads()} threads",
        file=sys.stderr,
    )
    (ablate if options.levers else compare)(options, shards)


if __name__ == "__main__":
    with on_this_machine():
        main()

"""Time to quality: dev loss over time, litebert's defaults against transformers' Trainer.

Small preset, same corpus, same dev documents. The peer trains `AlbertForPreTraining` at full depth
with AdamW and linear decay, at the best of three learning rates and two batch sizes (chosen by a
short grid), on ready, length-grouped batches, so that it is a fair peer. A second peer is the same
Trainer with litebert's start of the weights (the recipe's `[initial]`), at the best of three rates:
what it gains is the start's. Each is repeated with several seeds, of data order and weights. Clocks
stand still while a model is evaluated, and count the seconds that litebert's start takes.

Systems are compared at equal time, and at the tokens that the plain Trainer saw: there speed does
not count. The Trainer has decayed its rate by then and a faster system has not, which counts
against the faster one. Speed is the engine's and the curriculum's, which begins with two layers;
`bench/pretrain.py` has the engine's alone. Finished runs are kept in the folder: the same command
goes on after an interruption.

    python bench/time_to_quality.py             # grids of 3 minutes, runs of 15, two seeds
    python bench/time_to_quality.py --threads 1 --seeds 0 1 2
    python bench/time_to_quality.py --threads 1 --seeds    # the grids alone; then a seed on each core, and the table
    for n in 0 1; do taskset -c $n python bench/time_to_quality.py --threads 1 --seeds $n & done; wait
    python bench/time_to_quality.py --threads 1
    python bench/time_to_quality.py --levers    # what each lever contributes, 5 minutes each
    python bench/time_to_quality.py --levers --only "full depth" Muon    # some of them
    python bench/time_to_quality.py --grid 3s --budget 10s --folder /tmp/x    # does it run?
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from machine import on_this_machine, processor
from pretrain import REPOSITORY, corpus, peer_arguments, peer_inputs, peer_model
from torch import Tensor

from litebert import __version__
from litebert.common.config import from_dict, read_toml, to_dict
from litebert.common.files import write_json
from litebert.common.runs import RunFolder
from litebert.data.batches.example import Batch, ExampleConfig
from litebert.data.batches.loader import Loader
from litebert.interop.names import TIED_COPIES, tensor_names
from litebert.model.config import ModelConfig
from litebert.optim.config import OptimizerConfig
from litebert.train.pretraining.config import Curriculum, Evaluation, PretrainConfig, parse_duration
from litebert.train.pretraining.engine import pretrain
from litebert.train.pretraining.evaluate import DevSet
from litebert.train.pretraining.setup import Corpora, build_pretraining_model, open_corpora, resolve_model

if TYPE_CHECKING:
    from transformers import AlbertForPreTraining

LENGTH = 128
PEER_RATES = (1e-4, 3e-4, 1e-3)
PEER_BATCHES = (8, 32)
DEV_EXAMPLES = 512
POINTS = 8
PEER_MASK_RATE = 0.15
PEER_WARMUP = 0.02
PEER_LEAST_RATE = 1e-3
"""share of the time until the peak rate; lowest share of the rate: the first step begins with it"""
PLAIN = "Trainer"
STARTED = "Trainer, litebert's start"
OURS = "litebert"

Curve = list[dict[str, float]]
Numbers = dict[str, float | None]
"""Of a run, or means of several; None: not reached, or not known."""


@dataclass(frozen=True)
class Peer:
    """How the Trainer is set."""

    rate: float
    """peak learning rate"""
    batch_size: int
    seed: int = 0
    """of data order and weights"""
    our_start: bool = False
    """begin with the weights that litebert's recipe begins with"""

    @property
    def name(self) -> str:
        """The system that it belongs to."""
        return STARTED if self.our_start else PLAIN


@dataclass(frozen=True)
class Setup:
    """What all runs of a comparison have in common."""

    recipe: PretrainConfig
    corpora: Corpora
    shape: ModelConfig
    dev: DevSet
    kept: Path
    """folder of finished runs"""

    def settings(self) -> dict[str, object]:
        """All that a curve depends on besides the settings of its own run."""
        import transformers

        return {
            "shape": to_dict(self.shape),
            "data": self.corpora.fingerprints(),
            "length": LENGTH,
            "dev_examples": DEV_EXAMPLES,
            "threads": [self.recipe.threads, torch.get_num_threads()],
            "versions": [__version__, torch.__version__, transformers.__version__],
            "processor": processor(),
        }


def recipe(options: argparse.Namespace, shards: Path, out: Path, budget: str) -> PretrainConfig:
    """The defaults of the small preset."""
    values = read_toml(REPOSITORY / "configs" / "pretrain" / "small.toml")
    values.update({"data": str(shards), "out": str(out), "budget": budget})
    if options.threads is not None:
        values["threads"] = options.threads
    config = from_dict(PretrainConfig, values, "small.toml")
    evaluation = replace(
        config.evaluation, every_steps=options.evaluate_every, examples=DEV_EXAMPLES, final_examples=DEV_EXAMPLES
    )
    return replace(config, evaluation=evaluation)


def run_litebert(config: PretrainConfig) -> Curve:
    """Train and read the curve from the run folder."""
    if pretrain(config, quiet=True).interrupted_by:
        raise KeyboardInterrupt
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


def run_ours(setup: Setup, seed: int) -> Curve:
    """Train litebert for a time, the start of the weights included."""
    config = replace(setup.recipe, seed=seed)
    _, start_s = our_start(setup, seed)
    assert config.budget_s is not None, "the recipe has a length in time"
    left_s = max(1.0, config.budget_s - start_s)
    with tempfile.TemporaryDirectory() as folder:
        curve = run_litebert(replace(config, out=Path(folder) / "run", budget=f"{left_s:.1f}s"))
    return [{**point, "seconds": round(point["seconds"] + start_s, 1)} for point in curve]


def our_start(setup: Setup, seed: int) -> tuple[dict[str, Tensor], float]:
    """The weights that the recipe begins with, by transformers' names, and the seconds it took."""
    began = time.perf_counter()
    config = replace(setup.recipe, seed=seed)
    weights = build_pretraining_model(config, setup.shape, setup.corpora).state_dict()
    seconds = time.perf_counter() - began
    names = tensor_names(setup.shape, "pretraining")
    start = {names[name]: weight for name, weight in weights.items()}
    return start | {copy: start[source] for copy, source in TIED_COPIES.items()}, seconds


def run_peer(setup: Setup, peer: Peer, budget_s: float, num_points: int) -> Curve:
    """Train with Trainer for a time; its linear decay ends when the time does."""
    from torch.utils.data import DataLoader, IterableDataset
    from transformers import PrinterCallback, Trainer, TrainerCallback

    config = ExampleConfig(length=LENGTH, micro_batch_size=peer.batch_size)
    loader = Loader(setup.corpora.train, config, peer.seed, setup.corpora.vocabulary)
    start, start_s = our_start(setup, peer.seed) if peer.our_start else (None, 0.0)

    class Batches(IterableDataset[dict[str, Tensor]]):
        """An endless row of batches, drawn in a worker of the data loader."""

        def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
            return (peer_inputs(batch) for batch in loader.iterate())

    class OwnTrainer(Trainer):
        """Trainer on batches of tokens instead of examples, whose linear decay ends when the time does."""

        def get_train_dataloader(self) -> DataLoader[dict[str, Tensor]]:
            return DataLoader(Batches(), batch_size=None, num_workers=1, prefetch_factor=4)

        def create_scheduler(self, num_training_steps, optimizer=None):  # type: ignore[no-untyped-def]
            self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda _: watch.lr_factor())  # type: ignore[arg-type]
            return self.lr_scheduler

    class Watch(TrainerCallback):
        """The clock of training alone; evaluates now and then, often at first; ends the run."""

        def __init__(self, spent_s: float) -> None:
            self.train_s, self.tokens, self.resumed = spent_s, 0, 0.0
            self.due_s = [budget_s * (n / num_points) ** 2 for n in range(1, num_points + 1)]
            self.curve: Curve = []

        def lr_factor(self) -> float:
            share = self.train_s / budget_s
            return max(PEER_LEAST_RATE, min(share / PEER_WARMUP, (1 - share) / (1 - PEER_WARMUP)))

        def on_step_begin(self, args, state, control, **_):  # type: ignore[no-untyped-def]
            if state.global_step == 0:  # the workers' start does not count
                self.resumed = time.perf_counter()

        def on_step_end(self, args, state, control, **named):  # type: ignore[no-untyped-def]
            now = time.perf_counter()
            self.train_s += now - self.resumed
            self.tokens += loader.batch(state.global_step - 1).num_tokens
            is_over = self.train_s >= budget_s
            if self.due_s and (is_over or self.train_s >= self.due_s[0]):
                self.due_s = [due_s for due_s in self.due_s if due_s > self.train_s]
                loss, accuracy = peer_scores(named["model"], setup.dev)
                point = {"seconds": round(self.train_s, 1), "tokens": float(self.tokens)}
                self.curve.append({**point, "loss": loss, "accuracy": accuracy})
            control.should_training_stop = is_over
            self.resumed = time.perf_counter()
            return control

    watch = Watch(start_s)
    torch.manual_seed(peer.seed)
    model = peer_model(setup.shape)
    if start is not None:
        model.load_state_dict(start)
    with tempfile.TemporaryDirectory() as folder:
        arguments = peer_arguments(folder, learning_rate=peer.rate, weight_decay=0.01, seed=peer.seed)
        trainer = OwnTrainer(model=model, args=arguments, callbacks=[watch])
        trainer.remove_callback(PrinterCallback)
        trainer.train()
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


def at_tokens(curve: Curve, tokens: float) -> dict[str, float] | None:
    """Loss and accuracy after so many tokens, linear in their logarithm between evaluations.

    After the last evaluation it is the last one; before the first nothing is known.
    """
    seen = [point["tokens"] for point in curve]
    if tokens < seen[0]:
        return None
    return {
        key: float(np.interp(np.log(tokens), np.log(seen), [point[key] for point in curve]))
        for key in ("loss", "accuracy")
    }


def numbers_of(curve: Curve, plain: Curve) -> Numbers:
    """A run beside the plain Trainer's of the same seed, as a row of the table."""
    end, goal = curve[-1], plain[-1]
    reached, theirs = first_at(curve, goal["loss"]), first_at(plain, goal["loss"])
    equal = at_tokens(curve, goal["tokens"])
    assert theirs is not None, "its last point is as good as itself"
    return {
        "loss": end["loss"],
        "accuracy": end["accuracy"],
        "tokens": end["tokens"],
        "tokens_per_s": end["tokens"] / end["seconds"],
        "reached_s": None if reached is None else reached["seconds"],
        "times_sooner": None if reached is None else theirs["seconds"] / reached["seconds"],
        "equal_tokens_loss": None if equal is None else equal["loss"],
        "equal_tokens_accuracy": None if equal is None else equal["accuracy"],
    }


def means(rows: Sequence[Numbers]) -> Numbers:
    """The mean of each number that all rows have."""
    found: Numbers = {}
    for key in rows[0]:
        known = [value for row in rows if (value := row[key]) is not None]
        found[key] = fmean(known) if len(known) == len(rows) else None
    return found


def markdown(rows: Mapping[str, Mapping[str, Numbers]]) -> str:
    """The table, from numbers by system and seed."""
    head = ["system", "seed", "dev loss", "accuracy", "tokens", "tokens/s"]
    head += [f"time to the {PLAIN}'s end loss", f"dev loss (accuracy) at the {PLAIN}'s tokens"]
    lines = [head, ["---"] * len(head)]
    for system, seeds in rows.items():
        for seed, row in seeds.items():
            cells = ["{loss:.3f}", "{accuracy:.1%}", "{tokens:,.0f}", "{tokens_per_s:,.0f}"]
            is_known = row["reached_s"] is not None
            cells.append("{reached_s:.0f} s ({times_sooner:.1f}x)" if is_known else "not reached")
            is_known = row["equal_tokens_loss"] is not None
            cells.append("{equal_tokens_loss:.3f} ({equal_tokens_accuracy:.1%})" if is_known else "unknown")
            lines.append([system, seed, *(cell.format(**row) for cell in cells)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


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
        "short first": (replace(config, curriculum=replace(table, length=((0.0, final // 2), (0.5, final)))), nothing),
        "masks 15 %": (replace(config, examples=plain_masks, curriculum=replace(table, mask_rate=())), nothing),
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
    from litebert.train.pretraining.feed import Feed

    original = Feed.take

    def pad(batch: Batch, length: int) -> Batch:
        rows, short = batch.input_ids.shape
        wide = np.zeros((rows, length), np.int64)
        segments = wide.copy()
        wide[:, :short], segments[:, :short] = batch.input_ids, batch.token_type_ids
        row, column = np.divmod(batch.masked_positions, short)
        return replace(batch, input_ids=wide, token_type_ids=segments, masked_positions=row * length + column)

    Feed.take = lambda self, stage: [pad(b, stage.length) for b in original(self, stage)]  # type: ignore[method-assign]
    return lambda: setattr(Feed, "take", original)


def plot(curves: Mapping[str, Sequence[Curve]], path: Path, title: str) -> None:
    """Draw the curves of each system, a line for each seed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 4))
    for number, (name, seeds) in enumerate(curves.items()):
        for seed, curve in enumerate(seeds):
            style = {"color": f"C{number}", "marker": ".", "label": None if seed else name}
            minutes = [point["seconds"] / 60 for point in curve]
            axes[0].plot(minutes, [point["loss"] for point in curve], **style)
            axes[1].plot(minutes, [100 * point["accuracy"] for point in curve], **style)
    axes[0].set(xlabel="minutes of training", ylabel="dev masked-word loss (nats)", title=title)
    axes[1].set(xlabel="minutes of training", ylabel="dev masked-word accuracy (%)")
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def kept(folder: Path, settings: Mapping[str, object], run: Callable[[], Curve]) -> Curve:
    """The curve of a run: from its file if one with the same settings has come to its end."""
    name = f"{settings['system']}, seed {settings['seed']}"
    key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]
    path = folder / f"{re.sub('[^a-z0-9]+', '-', name.lower())}-{key}.json"
    is_done = path.is_file()
    if not is_done:
        write_json(path, {"settings": settings, "curve": run()})
    curve: Curve = json.loads(path.read_text(encoding="utf-8"))["curve"]
    print(f"{name}{' (kept)' * is_done}: {curve[-1]}", file=sys.stderr, flush=True)
    return curve


def kept_ours(setup: Setup, seed: int) -> Curve:
    """litebert's curve."""
    config = {k: v for k, v in to_dict(setup.recipe).items() if k not in ("data", "out")}
    settings = {"system": OURS, "recipe": config, **setup.settings(), "seed": seed}
    return kept(setup.kept, settings, lambda: run_ours(setup, seed))


def kept_peer(setup: Setup, peer: Peer, budget_s: float, num_points: int) -> Curve:
    """A peer's curve."""
    settings = {
        "system": f"{peer.name} {peer.batch_size} x {peer.rate:g}",
        **asdict(peer),
        **setup.settings(),
        "budget_s": budget_s,
        "points": num_points,
        "decay by the clock": [PEER_WARMUP, PEER_LEAST_RATE],
        "initial": to_dict(setup.recipe.initial) if peer.our_start else None,
    }
    return kept(setup.kept, settings, lambda: run_peer(setup, peer, budget_s, num_points))


def best_of(setup: Setup, peers: Sequence[Peer], grid_s: float) -> tuple[Peer, dict[str, float]]:
    """The peer with the lowest loss after a short run, and the losses of all."""
    losses = {peer: kept_peer(setup, peer, grid_s, 1)[-1]["loss"] for peer in peers}
    best = min(losses, key=losses.__getitem__)
    return best, {f"{peer.batch_size} x {peer.rate:g}": loss for peer, loss in losses.items()}


def open_setup(options: argparse.Namespace, shards: Path) -> Setup:
    """The recipe with its data and its shape."""
    config = recipe(options, shards, options.folder / "run", options.budget)
    corpora = open_corpora(config)
    dev = DevSet(corpora.dev, corpora.unigram_counts(), config.examples, corpora.vocabulary, 32)
    shape = resolve_model(config, corpora)
    return Setup(config, corpora, shape, dev, options.folder / "time-to-quality-runs")


def rows_of(curves: Mapping[str, Sequence[Curve]], seeds: Sequence[int]) -> dict[str, dict[str, Numbers]]:
    """The numbers of each system by seed, and their means if there are several."""
    rows: dict[str, dict[str, Numbers]] = {}
    for system, found in curves.items():
        numbers = [numbers_of(*pair) for pair in zip(found, curves[PLAIN], strict=True)]
        rows[system] = {str(seed): row for seed, row in zip(seeds, numbers, strict=True)}
        if len(numbers) > 1:
            rows[system]["mean"] = means(numbers)
    return rows


def compare(options: argparse.Namespace, shards: Path) -> None:
    """The grids of the peers, then the long runs of every system and seed."""
    setup = open_setup(options, shards)
    grid_s, budget_s = parse_duration(options.grid), parse_duration(options.budget)
    grid = [Peer(rate, size) for size in PEER_BATCHES for rate in PEER_RATES]
    plain, losses = best_of(setup, grid, grid_s)
    rates = [replace(plain, rate=rate, our_start=True) for rate in PEER_RATES]
    started, started_losses = best_of(setup, rates, grid_s)
    seeds: Sequence[int] = options.seeds
    if not seeds:
        return
    # Peers first: litebert changes how the process frees memory.
    curves = {
        peer.name: [kept_peer(setup, replace(peer, seed=seed), budget_s, POINTS) for seed in seeds]
        for peer in (plain, started)
    }
    curves[OURS] = [kept_ours(setup, seed) for seed in seeds]
    rows = rows_of(curves, seeds)
    summary = {
        "peers": {peer.name: asdict(peer) for peer in (plain, started)},
        "grids": {PLAIN: losses, STARTED: started_losses},
        "rows": rows,
        "settings": setup.settings(),
    }
    folder = options.folder / time.strftime("time-to-quality-%Y%m%d-%H%M%S")
    title = f"Time to quality, albert-small, threads: {torch.get_num_threads()}"
    write(folder, "comparison", summary, curves, title)
    for peer in (plain, started):
        print(f"{peer.name}: batch {peer.batch_size}, rate {peer.rate:g}", file=sys.stderr)
    print(markdown(rows))


def ablate(options: argparse.Namespace, shards: Path) -> None:
    """One run for each lever put back."""
    folder = options.folder / time.strftime("levers-%Y%m%d-%H%M%S")
    config = recipe(options, shards, folder / "run", options.lever_budget)
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
    print(json.dumps(summary, indent=1))


def write(folder: Path, name: str, summary: object, curves: Mapping[str, Sequence[Curve]], title: str) -> None:
    """Write what was found, and the plot if there are curves."""
    write_json(folder / f"{name}.json", {"summary": summary, "curves": curves})
    if curves:
        plot(curves, folder / f"{name}.png", title)
    print(f"written to {folder}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--grid", default="3m", help="time of each run of the peers' grids")
    parser.add_argument("--budget", default="15m", help="time of each long run")
    parser.add_argument("--seeds", type=int, nargs="*", default=(0, 1), help="of the long runs; none: the grids alone")
    parser.add_argument("--threads", type=int, help="of torch; default: as torch and litebert do")
    parser.add_argument("--levers", action="store_true", help="measure each lever instead")
    parser.add_argument("--lever-budget", default="5m")
    parser.add_argument("--only", nargs="+", default=[], help="levers to measure; default: all")
    parser.add_argument("--evaluate-every", type=int, default=250, help="litebert's steps")
    parser.add_argument("--megabytes", type=int, default=155, help="of the corpus")
    parser.add_argument("--shards", type=Path, help="prepared shards instead of the corpus")
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "build" / "bench")
    options = parser.parse_args(arguments)
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    import transformers

    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    options.folder.mkdir(parents=True, exist_ok=True)
    shards = options.shards or corpus(options.folder, 8192, options.megabytes)
    print(
        f"torch {torch.__version__}, transformers {transformers.__version__}, {torch.get_num_threads()} threads",
        file=sys.stderr,
    )
    (ablate if options.levers else compare)(options, shards)


if __name__ == "__main__":
    with on_this_machine():
        main()

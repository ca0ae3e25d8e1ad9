"""Fine-tuning: one engine for every kind of task, early stopping, any number of processes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from statistics import fmean

import numpy as np
from torch import Tensor, nn

from litebert.common.errors import ConfigError
from litebert.common.rng import derived_seed
from litebert.common.runs import BASELINES
from litebert.common.signals import StopRequest
from litebert.dist.replica import parallelize
from litebert.dist.runtime import Process
from litebert.interop.folder import load_config
from litebert.model.heads import LinearHead
from litebert.model.sharing import plan_of
from litebert.model.similarity import SentenceEncoder
from litebert.optim.build import build_optimizers
from litebert.optim.config import OptimizerConfig
from litebert.optim.schedule import ScheduleConfig, factor
from litebert.predict.batches import BatchOrder
from litebert.tasks.base import Feature
from litebert.tasks.custom import CustomTask
from litebert.tasks.problems import BAD_ROWS_FILE
from litebert.train.display import Display, StatusLine, display
from litebert.train.finetuning import results, setup
from litebert.train.finetuning.config import FinetuneConfig
from litebert.train.finetuning.order import Batch, drawn_exit, exit_depths, share_of
from litebert.train.finetuning.results import FinetuneResult
from litebert.train.finetuning.setup import TaskData
from litebert.train.finetuning.teacher import with_teacher
from litebert.train.loop import Cadence, Loop, Outcome, Step, training_process
from litebert.train.run import Run, owned_run

_SECONDS_BETWEEN_SAVES = 60.0


def finetune(config: FinetuneConfig) -> FinetuneResult:
    """Fine-tune a model on a task and write a run folder with the best model in it."""
    with training_process("fine-tuning", config, "ddp") as (process, stop):
        finished = process.on_main(lambda: results.earlier_result(config))
        if finished is not None and finished.baselines.keys() >= set(config.baseline):
            return finished
        data = with_teacher(config, setup.prepare_data(config, quiet=not process.is_main))
        named = [name for name in ("words", "bm25") if name in config.baseline]
        others = process.on_main(lambda: results.word_baselines(data, named))
        if "untrained" in config.baseline and data.task.form.kind == "similarity":
            model, _ = setup.build_task_model(config, setup.resolve_settings(config, data), data)
            others["untrained"] = results.Scorer(config, data, model, process).scores(data.evals[0])
        if "random" in config.baseline:
            beside = replace(config, start="random", baseline=(), out=config.out / "random")
            with owned_run(process, "fine-tuning", beside.out):
                result = _run(beside, data, {}, process, stop)
            if result.interrupted_by:
                return replace(result, run=config.out)
            others["random"] = result.scores
        if finished is None:
            return _run(config, data, others, process, stop)
        finished = replace(finished, baselines=finished.baselines | others)
        process.on_main(lambda: results.write_result(finished))
        return finished


def _run(
    config: FinetuneConfig, data: TaskData, baselines: dict[str, dict[str, float]], process: Process, stop: StopRequest
) -> FinetuneResult:
    """Run one seed, or one after the other; those that have finished are not run again."""
    result = process.on_main(lambda: results.earlier_result(config))
    if result is not None:
        return result
    if config.seeds == 1:
        with closing(display(is_main=process.is_main)) as screen:
            return FineTuning(config, data, process, stop, screen).run(baselines)
    process.on_main(lambda: results.open_seeds_run(config))
    ended = []
    for seed in range(config.seed, config.seed + config.seeds):
        one = replace(config, seed=seed, seeds=1, out=config.out / f"seed-{seed}")
        with owned_run(process, "fine-tuning", one.out):
            result = _run(one, data, baselines, process, stop)
        if result.interrupted_by:
            return replace(result, run=config.out)
        ended.append(result)
    return process.on_main(lambda: results.summarize_seeds(config.out, ended))


class FineTuning:
    """One fine-tuning run with one seed; :func:`finetune` makes and runs it."""

    def __init__(
        self, config: FinetuneConfig, data: TaskData, process: Process, stop: StopRequest, screen: Display
    ) -> None:
        self.config, self.data, self.process, self.screen = config, data, process, screen
        features, max_tokens = data.train.features, config.max_tokens
        self.depths = exit_depths(load_config(config.model)) if config.train_exits else ()
        self.settings = settings = setup.resolve_settings(config, data)
        identity, prints = setup.finetuning_identity(config), data.fingerprints()
        self.record = Run(config, setup.FinetuneState, identity, prints, 1, process, screen)
        self.model, self.head = setup.build_task_model(config, settings, data)
        self.model.to(process.device)
        if settings.pooler == "whitened":
            if not (isinstance(self.model, LinearHead) and self.model.row.pooled):
                raise ConfigError("a whitened pooler is for classes, scores and choices of texts")
            setup.whiten_pooler(self.model, features, data.tokenizer.pad_id, max_tokens, config.seed)
        taught = (config.teacher_weight, config.teacher_temperature)
        hide = setup.WordDropout(settings.word_dropout, data.tokenizer) if settings.word_dropout else None
        self.loss = setup.TaskLoss(self.model, process.device, config.precision, max_tokens, *taught, hide)
        self.is_joint = isinstance(self.model, SentenceEncoder)
        self._check_views()
        (self.smallest,) = self._share(features[:1], 0, 1)
        if process.world_size > 1:
            self.loss.freeze_unused(self.smallest)
        self.replica = parallelize(self.loss, "ddp", process)
        adamw = OptimizerConfig("adamw", weight_decay=config.weight_decay, bias_correction=settings.bias_correction)
        named = list(self.model.named_parameters())
        num_sets = plan_of(self.model.config).num_sets.feed_forward  # type: ignore[arg-type]
        rates = partial(setup.rate_factor, num_sets=num_sets, decay=settings.lr_decay)
        optimizers = build_optimizers(named, adamw, settings.lr, rates)
        self.below_head = [p for n, p in named if setup.is_below_head(n) and p.requires_grad]
        if settings.head_share and process.world_size > 1:
            raise ConfigError("head_share is for one process: leave it out under torchrun")
        self.state = self.record.restore(self.model, optimizers)
        # A joint batch sorts by length itself, and its texts should differ in more than length.
        lengths = [0 if self.is_joint else len(feature) for feature in features]
        self.order = BatchOrder(lengths, settings.batch_size, config.seed)
        self.scorer = results.Scorer(config, data, self.model, process)
        self.dev = data.evals[0].sample(config.max_dev_examples)
        self.latest: dict[str, float] | None = None  # figures of the latest step; None if it was not finite
        cadence = Cadence(config.log_every_steps, settings.eval_every_steps, save_s=_SECONDS_BETWEEN_SAVES)
        self.loop = Loop(self, self.record, self.replica, optimizers, config.clip_norm, cadence, stop, config.threads)

    def run(self, baselines: dict[str, dict[str, float]]) -> FinetuneResult:
        """Train to the end, evaluate the best weights, and write the result."""
        if self.state.step == 0:
            data, train, form = self.data, self.data.train, self.data.task.form
            self.record.event("recipe", fields=asdict(self.settings))
            self.process.on_main(lambda: data.problems.write(self.config.out / BAD_ROWS_FILE))
            counts = {"train_examples": len(train.examples), "train_features": len(train.features)}
            found = {"labels": list(form.labels), "found": list(data.found)}
            self.record.event("data", fields={**counts, "bad_rows": data.problems.counts(), **found})
            if answers := form.window_counts(train.examples, train.features):
                self.record.event("answers", fields=answers)
        self.replica.rehearse(lambda: self.replica.module_for_training(self.smallest, 1, None))
        signum = self.loop.train()
        self.screen.close()
        if not signum:
            return self._finish(baselines)
        out, task, steps = self.config.out, self.data.task, self.state.step
        return FinetuneResult(out, task.name, task.main_metric, steps=steps, interrupted_by=signum)

    def share(self) -> float:
        """The share of the run that is done; all of it once patience is over."""
        is_over = self.config.patience is not None and self.state.evals_since_best >= self.config.patience
        return 1.0 if is_over else self.state.step / self.settings.steps

    def _check_views(self) -> None:
        """Refuse what would teach nothing, or not the same in several processes."""
        task, target = self.data.task, np.asarray(self.data.train.features[0].target)
        is_alone = target.dtype == np.float32 and self.config.loss == "cosine"
        if self.is_joint and self.process.world_size > 1 and not is_alone:
            raise ConfigError("texts are compared with all others of a step in one process: leave torchrun")
        is_view = isinstance(task, CustomTask) and task.has_bare_sentences
        if is_view and self.settings.dropout == self.settings.word_dropout == 0 and self.config.teacher is None:
            raise ConfigError("two views of a sentence differ by --dropout or --word-dropout: give more than 0")

    def _share(self, members: Sequence[Feature], rank: int, world_size: int) -> Sequence[Batch]:
        pad_id, max_tokens = self.data.tokenizer.pad_id, self.config.max_tokens
        return share_of(members, pad_id, max_tokens, rank, world_size, self.is_joint)

    def next_step(self) -> Step[Batch]:
        """This process's share of the features of the next step."""
        config, settings, step = self.config, self.settings, self.state.step
        rank, world_size = self.process.rank, self.process.world_size
        self.latest = None
        for parameter in self.below_head if settings.head_share else ():
            parameter.requires_grad_(step >= settings.head_share * settings.steps)
        schedule = ScheduleConfig("official", warmup_steps=settings.warmup_steps)
        self.lr_factor = factor(schedule, step / settings.steps, settings.steps)
        members = [self.data.train.features[int(index)] for index in self.order.batch(step)]
        own = self._share(members, rank, world_size)
        counts = [sum(batch.num_labels for batch in own), sum(batch.num_tokens for batch in own)]
        num_labels, num_tokens = self.process.sum(counts)
        # A process without a share computes one example for nothing: all take part in the sums.
        batches = own or self._share(members[:1], 0, 1)
        early = drawn_exit(self.depths, config.seed, step)

        def loss_of(module: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
            loss = module(batch, max(1, int(num_labels)), early)
            loss = loss if own else loss * 0.0
            return loss, loss.detach()[None]

        places = range(rank, len(batches) * world_size, world_size)
        seeds = [derived_seed(config.seed, "fine-tuning dropout", step, place) for place in places]
        return Step(batches, loss_of, seeds, self.lr_factor, int(num_tokens))

    def count(self, outcome: Outcome) -> None:
        """Note the figures of a step."""
        lr = self.lr_factor * self.settings.lr
        self.latest = {"loss": outcome.sums[0], "lr": lr, "grad_norm": outcome.grad_norm}

    def describe_skipped(self, outcome: Outcome) -> dict[str, object]:
        """The loss of a step and the ids of its examples."""
        train = self.data.train
        members = [train.features[int(i)].example for i in self.order.batch(self.state.step - 1)]
        ids = [train.examples[example].id for example in dict.fromkeys(members)]
        return {"loss": str(outcome.sums[0]), "examples": ids}

    def line(self) -> dict[str, object] | None:
        """The latest step, and where the run stands."""
        if self.latest is None:
            return None
        tokens, elapsed_s = self.state.tokens, self.state.elapsed_s
        figures = {**self.latest, "epoch": self.state.step / self.settings.steps_per_epoch, "tokens": tokens}
        return {**figures, "tokens_per_s": tokens / max(elapsed_s, 1e-9), "elapsed_s": elapsed_s}

    def status(self, share: float, eta_s: float) -> StatusLine | None:
        """The latest loss and the best score."""
        if self.latest is None:
            return None
        state, task, dev = self.state, self.data.task, ""
        if state.kept:
            score, step = state.kept[0]
            dev = f"best {task.main_metric} {score:.4g} at step {int(step):,}"
        rate = state.tokens / max(state.elapsed_s, 1e-9)
        figures = (f"loss {self.latest['loss']:.3f}", f"{rate:,.0f} tokens/s")
        start = ", random weights" if self.config.start == "random" else ""
        title = f"{task.name} (seed {self.config.seed}{start})"
        return StatusLine(share, state.step, eta_s, figures, dev=dev, title=title)

    def evaluate(self, *, is_last: bool) -> bool:
        """Score the dev split; return whether these weights are among the best so far."""
        started, metric = time.monotonic(), self.data.task.main_metric
        scores, exits = self.scorer.scores(self.dev), self.scorer.by_depth(self.dev, self.depths)
        dev = {f"dev_{name}": value for name, value in scores.items()}
        dev |= {f"dev_{metric}_at_depth_{depth}": value for depth, value in exits.items()}
        self.record.log(self.state.step, {**dev, "eval_s": time.monotonic() - started})
        # Weights for several depths must be good at all of them.
        score = fmean(exits.values()) if exits else scores[metric]
        return self.state.add(score, self.config.keep_checkpoints)

    def remedy(self) -> str:
        """The learning rate is part of what a resumed run must not change."""
        return f"lower --lr (now {self.settings.lr:g}) and start again with another --out"

    def _finish(self, baselines: dict[str, dict[str, float]]) -> FinetuneResult:
        """Evaluate the best weights on every split with labels and write the result."""
        config, data, state, dev = self.config, self.data, self.state, self.data.evals[0]
        baseline = data.task.score(dev.examples, data.task.form.baseline(data.train.examples, dev.examples))
        beside = {"baseline": baseline} | {BASELINES[name]: found for name, found in baselines.items()}
        by_split: dict[str, dict[str, float]] = {}
        for place, step in reversed(list(enumerate(state.kept_steps(), start=1))):
            self.model.load_state_dict(self.record.weights(step))
            if data.scale is not None:
                data.scale.fold(self.model)
                self.scorer.scale = None
            out = config.out if place == 1 else None
            by_split = {one.name: self.scorer.scores(one, out=out, shown=True) for one in data.evals}
            scores = by_split[dev.name]
            about = results.fine_tuning_section(config, self.settings, data, scores, beside, step)
            folder = config.out / ("model" if place == 1 else f"model-{place}")
            self.model.eval()
            self.process.on_main(partial(self.scorer.save_model, folder, self.head, scores, about, self.depths))
        result = FinetuneResult(
            config.out,
            data.task.name,
            data.task.main_metric,
            config.out / "model",
            scores=by_split.pop(dev.name),
            other_scores=by_split,
            exit_scores=self.scorer.by_depth(dev, self.depths),
            baseline=baseline,
            baselines=baselines,
            best_step=state.kept_steps()[0],
            steps=state.step,
            epochs=round(state.step / self.settings.steps_per_epoch, 4),
            train_examples=len(data.train.examples),
            train_available=data.available["train"],
            dev_examples=len(dev.examples),
            dev_available=data.available[dev.name],
            tokens=state.tokens,
            seconds=round(state.elapsed_s, 3),
            bad_rows=data.problems.counts(),
            seed=config.seed,
        )
        # Before the checkpoints go: a kill between the two loses nothing.
        self.process.on_main(lambda: results.write_result(result))
        self.record.finish(keep_checkpoints=False)
        return result

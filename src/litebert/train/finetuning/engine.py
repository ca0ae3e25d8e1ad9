"""Fine-tuning: one engine for every kind of task, with early stopping and resume."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from statistics import fmean

import torch
from torch import Tensor, nn

from litebert.common.errors import ConfigError, LitebertError
from litebert.common.progress import Progress, progress
from litebert.common.rng import derived_seed
from litebert.common.runs import RunFolder
from litebert.common.signals import StopRequest, stop_request
from litebert.dist.replica import Single
from litebert.dist.runtime import Runtime, runtime
from litebert.interop.folder import load_config, resolve
from litebert.model.config import ModelConfig
from litebert.optim.build import build_optimizers, set_learning_rate
from litebert.optim.config import OptimizerConfig
from litebert.optim.schedule import ScheduleConfig, factor
from litebert.predict.batches import micro_batches
from litebert.predict.evaluate import outputs_of
from litebert.predict.inputs import Batch, pad
from litebert.predict.torch_backend import TorchBackend, autocast
from litebert.tasks.base import Feature, Outputs
from litebert.tasks.problems import BAD_ROWS_FILE
from litebert.tasks.registry import data_folder, find_task
from litebert.tasks.scoring import TaskSplit, score_split
from litebert.text.tokenizer import Tokenizer
from litebert.train.finetuning.card import fine_tuning_section
from litebert.train.finetuning.config import FinetuneConfig, Settings
from litebert.train.finetuning.data import TaskData, load_task_data
from litebert.train.finetuning.exits import drawn_exit, exit_depths
from litebert.train.finetuning.model import batch_loss, load_task_model
from litebert.train.finetuning.order import BatchOrder
from litebert.train.finetuning.recipes import Recipe, recipe_for
from litebert.train.finetuning.records import FinetuneRecords, check_same_settings
from litebert.train.finetuning.results import (
    FinetuneResult,
    read_result,
    save_task_model,
    write_predictions,
    write_result,
)
from litebert.train.finetuning.seeds import open_seeds_run, seed_configs, summarize_seeds
from litebert.train.pretraining.state import Clock
from litebert.train.step import accumulate, update

_MAX_NONFINITE = 10
_EVAL_TOKENS_FACTOR = 2  # without gradients more fits


def finetune(config: FinetuneConfig) -> FinetuneResult:
    """Fine-tune a model on a task and write a run folder with the best model in it.

    Example:
        >>> result = finetune(FinetuneConfig("rte", model="runs/base/model", data=Path("glue"),
        ...                                  out=Path("runs/rte")))
        >>> result.scores["accuracy"]
        0.61
    """
    with runtime(config.device, "auto") as processes, stop_request() as stop:
        if processes.world_size > 1:
            raise ConfigError(
                "fine-tuning runs in one process: start it without torchrun, and several seeds or "
                "tasks side by side"
            )
        if config.resume == "no":
            RunFolder.refuse_existing(config.out)
        elif (finished := read_result(config.out)) is not None:
            check_same_settings(config)
            return finished
        data = prepare_data(config)
        if config.seeds == 1:
            return FineTuning(config, data, processes, stop).run()
        return _run_seeds(config, data, processes, stop)


def _run_seeds(
    config: FinetuneConfig, data: TaskData, processes: Runtime, stop: StopRequest
) -> FinetuneResult:
    """Run one seed after the other; those that have finished are not run again."""
    open_seeds_run(config)
    results = []
    for one in seed_configs(config):
        result = read_result(one.out) if config.resume == "auto" else None
        if result is None:
            result = FineTuning(one, data, processes, stop).run()
        if result.interrupted_by:
            return replace(result, run=config.out)
        results.append(result)
    return summarize_seeds(config.out, results)


def prepare_data(config: FinetuneConfig) -> TaskData:
    """Read and tokenise the data of a run; several seeds share it."""
    task = find_task(config.task)
    recipe, shape = _recipe(config)
    max_length = Settings.max_length_of(config, recipe, task.max_length, shape.max_positions)
    tokenizer = Tokenizer.load(resolve(config.model))
    if tokenizer.vocab_size > shape.vocab_size:
        raise ConfigError(
            f"{config.model} has a tokenizer of {tokenizer.vocab_size} pieces for a model of "
            f"{shape.vocab_size}: it is not the model's own"
        )
    data = load_task_data(
        task,
        data_folder(task, config.data),
        tokenizer,
        max_length,
        config.max_train_examples,
        config.strict,
        config.max_scored_examples,
    )
    for line in data.problems.report():
        print(line, file=sys.stderr)
    return data


class FineTuning:
    """One fine-tuning run with one seed; :func:`finetune` makes and runs it.

    Example:
        >>> with runtime() as processes, stop_request() as stop:
        ...     result = FineTuning(config, prepare_data(config), processes, stop).run()
    """

    def __init__(
        self, config: FinetuneConfig, data: TaskData, processes: Runtime, stop: StopRequest
    ) -> None:
        self.config, self.data, self.stop, self.device = config, data, stop, processes.device
        recipe, _ = _recipe(config)
        self.settings = Settings.resolve(config, recipe, data.max_length, len(data.train.features))
        self.head = data.task.form.head(config.head)
        generator = torch.Generator().manual_seed(derived_seed(config.seed, "new head"))
        model = load_task_model(
            config.model,
            self.head,
            len(data.task.form.labels),
            self.settings.dropout,
            self.settings.classifier_dropout,
            config.start,
            generator,
        )
        self.model = model.to(self.device).train()
        self.depths = exit_depths(load_config(config.model)) if config.train_exits else ()
        self.replica = Single(self.model, processes)
        optimizer = OptimizerConfig(
            name="adamw",
            weight_decay=config.weight_decay,
            bias_correction=self.settings.bias_correction,
        )
        named = list(self.model.named_parameters())
        self.optimizers = build_optimizers(named, optimizer, self.settings.lr)
        self.order = BatchOrder(
            [len(feature) for feature in data.train.features],
            self.settings.batch_size,
            config.seed,
        )
        self.records = FinetuneRecords(config, data.fingerprints())
        self.state = self.records.restore(self.model, self.optimizers)
        self.dev = data.evals[0].sample(config.max_dev_examples)

    def run(self) -> FinetuneResult:
        """Train to the end, evaluate the best weights, and write the result."""
        self._describe_start()
        clock = Clock(self.state.elapsed_s)
        title = f"{self.data.task.name} (seed {self.config.seed})"
        with progress(title, self.settings.steps, "step") as bar:
            bar.advance(self.state.step)
            while self.state.step < self.settings.steps and not self._is_patience_over():
                self._step(clock, bar)
                if self.stop.signum:
                    return self._interrupted()
        return self._finish()

    def _step(self, clock: Clock, bar: Progress) -> None:
        state, config = self.state, self.config
        schedule = ScheduleConfig("official", warmup_steps=self.settings.warmup_steps)
        share = state.step / self.settings.steps
        lr_factor = factor(schedule, share, self.settings.steps)
        set_learning_rate(self.optimizers, lr_factor)
        batches = self._batches(state.step)
        num_labels = sum(batch.num_labels for batch in batches)

        early = drawn_exit(self.depths, config.seed, state.step)

        def loss_of(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
            with autocast(config.precision, self.device):
                loss = batch_loss(model, batch, self.device) / num_labels
                if early is not None:
                    shallow = batch_loss(model, batch, self.device, early) / num_labels
                    loss = (loss + shallow) / 2
            return loss, loss.detach()[None]

        seeds = [
            derived_seed(config.seed, "fine-tuning dropout", state.step, number)
            for number in range(len(batches))
        ]
        loss = float(accumulate(self.replica, batches, loss_of, seeds)[0])
        norm = update(self.model.parameters(), self.optimizers, config.clip_norm, loss=loss)
        state.step += 1
        state.tokens += sum(batch.num_tokens for batch in batches)
        state.elapsed_s = clock.elapsed_s()
        self._check_finite(norm)
        values = {"loss": loss, "lr": lr_factor * self.settings.lr, "grad_norm": norm}
        self._after_step(values, bar)

    def _after_step(self, values: dict[str, float], bar: Progress) -> None:
        """Log, evaluate and save when it is time."""
        state, settings = self.state, self.settings
        is_last = state.step == settings.steps
        if state.step % self.config.log_every_steps == 0 or is_last:
            rate = state.tokens / max(state.elapsed_s, 1e-9)
            epoch = state.step / settings.steps_per_epoch
            self.records.log(
                state.step,
                {**values, "epoch": epoch, "tokens": state.tokens, "tokens_per_s": rate,
                 "elapsed_s": state.elapsed_s},
            )  # fmt: skip
            bar.update(self._status(values["loss"]))
        bar.advance()
        keep = False
        if state.step % settings.eval_every_steps == 0 or is_last:
            bar.update(f"scoring {len(self.dev.examples):,} dev examples")
            keep = self._evaluate()
            bar.update(self._status(values["loss"]))
        if keep or self.records.save_is_due():
            self.records.save(state, self.model, self.optimizers)

    def _evaluate(self) -> bool:
        """Score the dev split; return whether these weights are among the best so far."""
        started, metric = time.monotonic(), self.data.task.main_metric
        scores, _ = score_split(self.data.task, self.dev, self._outputs(self.dev))
        exits = self._exit_scores(self.dev)
        seconds = time.monotonic() - started
        dev = {f"dev_{name}": value for name, value in scores.items()}
        dev |= {f"dev_{metric}_at_depth_{depth}": value for depth, value in exits.items()}
        self.records.log(self.state.step, {**dev, "eval_s": seconds})
        # Weights for several depths must be good at all of them.
        score = fmean(exits.values()) if exits else scores[metric]
        return self.state.add(score, self.config.keep_checkpoints)

    def _batches(self, step: int) -> list[Batch]:
        members: Sequence[Feature] = [
            self.data.train.features[int(index)] for index in self.order.batch(step)
        ]
        return [
            pad([members[index] for index in part], self.data.tokenizer.pad_id)
            for part in micro_batches(members, self.config.max_tokens)
        ]

    def _is_patience_over(self) -> bool:
        patience = self.config.patience
        return patience is not None and self.state.evals_since_best >= patience

    def _check_finite(self, norm: float) -> None:
        state = self.state
        state.nonfinite_in_a_row = 0 if math.isfinite(norm) else state.nonfinite_in_a_row + 1
        if state.nonfinite_in_a_row >= _MAX_NONFINITE:
            raise LitebertError(
                f"stopped at step {state.step}: loss or gradient was not finite for "
                f"{_MAX_NONFINITE} steps in a row; lower --lr (now {self.settings.lr:g})"
            )

    def _status(self, loss: float) -> str:
        best = self.state.best
        metric = self.data.task.main_metric
        text = f"loss {loss:.3f}"
        return text if best is None else f"{text}, best {metric} {best[0]:.4g} at step {best[1]:,}"

    def _describe_start(self) -> None:
        data, run = self.data, self.records.run
        if self.state.step:
            return
        run.event("recipe", 0, **asdict(self.settings))
        data.problems.write(self.config.out / BAD_ROWS_FILE)
        run.event(
            "data",
            0,
            train_examples=len(data.train.examples),
            train_features=len(data.train.features),
            bad_rows=data.problems.counts(),
        )
        answers = data.task.form.window_counts(data.train.examples, data.train.features)
        if answers:
            run.event("answers", 0, **answers)

    def _finish(self) -> FinetuneResult:
        """Evaluate the best weights on every split with labels and write the result."""
        config, data, state = self.config, self.data, self.state
        dev = data.evals[0]
        guesses = data.task.form.baseline(data.train.examples, dev.examples)
        baseline = data.task.score(dev.examples, guesses)
        by_split = {}
        for rank, step in reversed(list(enumerate(state.kept_steps(), start=1))):
            self.model.load_state_dict(self.records.weights(step))
            by_split = {split.name: self._final_scores(split, rank == 1) for split in data.evals}
            scores = by_split[dev.name]
            save_task_model(
                self.model.eval(),
                config.out / ("model" if rank == 1 else f"model-{rank}"),
                self.head,
                data,
                resolve(config.model),
                scores,
                fine_tuning_section(config, self.settings, data, scores, baseline, step),
                self.depths,
            )
        result = FinetuneResult(
            run=config.out,
            task=data.task.name,
            metric=data.task.main_metric,
            model=config.out / "model",
            scores=by_split[dev.name],
            other_scores={split.name: by_split[split.name] for split in data.evals[1:]},
            exit_scores=self._exit_scores(dev),
            baseline=baseline,
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
        write_result(result)  # before the checkpoints go: a kill between the two loses nothing
        self.records.finish()
        return result

    def _final_scores(self, split: TaskSplit, is_best: bool) -> dict[str, float]:
        with progress(f"scoring {split.name}", len(split.features), "input") as bar:
            outputs = self._outputs(split, bar=bar)
        scores, predictions = score_split(self.data.task, split, outputs)
        if is_best:
            write_predictions(self.config.out, self.data, split, predictions)
        return scores

    def _exit_scores(self, split: TaskSplit) -> dict[str, float]:
        """Return the main score at each depth that is trained; empty without exits."""
        found = {}
        for depth in self.depths:
            scores, _ = score_split(self.data.task, split, self._outputs(split, depth))
            found[str(depth)] = scores[self.data.task.main_metric]
        return found

    def _outputs(
        self, split: TaskSplit, num_layers: int | None = None, bar: Progress | None = None
    ) -> list[Outputs]:
        return outputs_of(
            TorchBackend(self.model, precision=self.config.precision),
            self.data.task.form,
            split.features,
            self.data.tokenizer.pad_id,
            max_tokens=_EVAL_TOKENS_FACTOR * self.config.max_tokens,
            depth=num_layers,
            bar=bar,
        )

    def _interrupted(self) -> FinetuneResult:
        self.records.save(self.state, self.model, self.optimizers)
        self.records.run.event("interrupted", self.state.step, signal=self.stop.signum)
        return FinetuneResult(
            run=self.config.out,
            task=self.data.task.name,
            metric=self.data.task.main_metric,
            steps=self.state.step,
            interrupted_by=self.stop.signum,
        )


def _recipe(config: FinetuneConfig) -> tuple[Recipe, ModelConfig]:
    task, shape = find_task(config.task), load_config(config.model)
    recipe = recipe_for(task, shape)
    if task.form.head(config.head) == "span":
        recipe = replace(recipe, classifier_dropout=0.0)
    return recipe, shape

"""A run's files: metrics, events, TensorBoard, checkpoints; process 0 writes, all resume."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from torch import nn
from torch.optim import Optimizer

from litebert.common.config import to_dict
from litebert.common.errors import CheckpointError
from litebert.common.runs import RunFolder
from litebert.dist.runtime import Runtime
from litebert.model.config import ModelConfig
from litebert.train import checkpoint
from litebert.train.display import Display
from litebert.train.pretraining.config import PretrainConfig
from litebert.train.pretraining.meter import StepFigures
from litebert.train.pretraining.setup import Corpora
from litebert.train.pretraining.state import RunState

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class Records:
    """Everything a run writes while it trains.

    Example:
        >>> records = Records(config, shape, corpora, processes, screen)
        >>> state = records.restore(model, optimizers)
        >>> records.log(state.step, {"loss": 8.9})
        >>> records.save(state, model, optimizers)
    """

    def __init__(
        self,
        config: PretrainConfig,
        shape: ModelConfig,
        corpora: Corpora,
        processes: Runtime,
        screen: Display,
    ) -> None:
        self.config, self.processes, self.screen = config, processes, screen
        self.folder = config.out
        self.checkpoints = config.out / "checkpoints"
        self.identity = _identity(config, shape, corpora)
        settings = {k: v for k, v in to_dict(config).items() if k not in ("data", "extra_data")}
        processes.check_same("configuration", json.dumps(settings, sort_keys=True))
        processes.check_same("data", json.dumps(corpora.fingerprints(), sort_keys=True))
        processes.check_same("model", json.dumps(to_dict(shape), sort_keys=True))
        self._fingerprints = corpora.fingerprints()
        self._run: RunFolder | None = None
        self._saved_step: int | None = None
        self._board: SummaryWriter | None = None

    def restore(self, model: nn.Module, optimizers: Sequence[Optimizer]) -> RunState:
        """Open or create the run folder; load the last good checkpoint if one is to be resumed."""
        found = self.processes.on_main(self._open_run)
        own_step = found.step if found is not None else -1
        (step,) = self.processes.sum([float(own_step) if self.processes.is_main else 0.0])
        if step < 0:
            return RunState()
        path = self.checkpoints / f"step-{int(step)}"
        chosen = checkpoint.read(path) if found is None else found
        self._check_identity(chosen)
        checkpoint.load_model_tensors(model, chosen.tensors(checkpoint.WEIGHTS_FILE))
        states = chosen.tensors(checkpoint.OPTIMIZER_FILE)
        checkpoint.load_optimizer_tensors(model, optimizers, states)
        run_state = chosen.state["run"]
        assert isinstance(run_state, Mapping), "written by save"
        self._saved_step = chosen.step
        return RunState.from_json(run_state)

    def log(self, step: int, values: Mapping[str, object]) -> None:
        """Write one line of metrics, and the numbers to TensorBoard."""
        if self._run is None:
            return
        self._run.log(step, values)
        board = self._tensorboard(step)
        if board is not None:
            for name, value in values.items():
                if isinstance(value, (int, float)):
                    board.add_scalar(name.replace("dev_", "dev/", 1), value, step)
            board.flush()

    def event(self, name: str, text: str, step: int) -> None:
        """Write an event and tell the person who watches."""
        if self._run is not None:
            self._run.event(name, step, message=text)
        self.screen.note(text)

    def nonfinite(
        self, state: RunState, figures: StepFigures, addresses: Mapping[str, object]
    ) -> None:
        """Count a step without update and write which examples it saw."""
        state.nonfinite_total += 1
        state.nonfinite_in_a_row += 1
        if self._run is not None:
            self._run.event(
                "nonfinite",
                state.step,
                mlm_loss=str(figures.mlm_loss),
                grad_norm=str(figures.grad_norm),
                **addresses,
            )
        self.screen.note(f"step {state.step:,}: loss or gradient not finite, no update")

    def save(self, state: RunState, model: nn.Module, optimizers: Sequence[Optimizer]) -> None:
        """Write a checkpoint (all processes take part) unless that of this step is there already.

        Those no longer wanted are deleted.
        """
        if self._saved_step == state.step:
            return
        tensors = {
            checkpoint.WEIGHTS_FILE: checkpoint.model_tensors(model),
            checkpoint.OPTIMIZER_FILE: checkpoint.optimizer_tensors(model, optimizers),
        }

        def write() -> None:
            content = {
                **self._progress(state),
                "world_size": self.processes.world_size,
                "identity": self.identity,
            }
            checkpoint.save(self.checkpoints, state.step, tensors, content)
            self._prune(state)

        self.processes.on_main(write)
        self._saved_step = state.step

    def amend(self, state: RunState) -> None:
        """Write a state that changed into the checkpoint of its step; the tensors stay."""

        def write() -> None:
            checkpoint.amend(self.checkpoints / f"step-{state.step}", self._progress(state))
            self._prune(state)

        self.processes.on_main(write)

    def _progress(self, state: RunState) -> dict[str, object]:
        assert self._run is not None, "opened by restore"
        return {"run": state.to_json(), "metrics_position": self._run.metrics_position()}

    def _prune(self, state: RunState) -> None:
        keep = [] if state.best_step is None else [state.best_step]
        checkpoint.prune(self.checkpoints, self.config.checkpoint.keep_last, keep)

    def _open_run(self) -> checkpoint.Checkpoint | None:
        """On process 0: the run folder, and the checkpoint to go on from."""
        exists = (self.folder / "manifest.json").is_file()
        if not exists or self.config.resume == "no":
            self._run = self._new_run()
            return None
        self._run = RunFolder.open(self.folder)
        checkpoint.clear_leftovers(self.checkpoints)
        passed_over: list[str] = []
        found = checkpoint.latest_good(self.checkpoints, passed_over.append)
        if found is None:
            # Nothing of the earlier start is used: the manifest must be of this one.
            (self.folder / "manifest.json").unlink()
            self._run = self._new_run()
            self._run.truncate_metrics(0)
            self._run.event("resume", 0)
            self.screen.note(f"{self.folder} has no checkpoint yet: starting again")
            return None
        self._check_identity(found)
        self._go_on_from(self._run, found, passed_over)
        return found

    def _go_on_from(
        self, run: RunFolder, found: checkpoint.Checkpoint, passed_over: Sequence[str]
    ) -> None:
        """Forget what lies behind a checkpoint, and say what is different from before."""
        position = found.state["metrics_position"]
        assert isinstance(position, int), "written by save"
        run.truncate_metrics(position)
        for message in passed_over:
            self.event("damaged_checkpoint", message, found.step)
        checkpoint.drop_after(self.checkpoints, found.step)
        changed = self._changed(run)
        run.event("resume", found.step, **({"changed": changed} if changed else {}))
        news = [f"{name} {then} -> {now}" for name, (then, now) in changed.items()]
        self.screen.note(
            f"resuming {self.folder} at step {found.step:,}"
            + (f"; changed: {', '.join(news)}" if news else "")
        )

    def _new_run(self) -> RunFolder:
        seeds = {"run": self.config.seed}
        return RunFolder.create(self.folder, to_dict(self.config), seeds, self._fingerprints)

    def _changed(self, run: RunFolder) -> dict[str, list[object]]:
        """Settings that differ from those the run began with: ``{name: [then, now]}``."""
        then, now = _flat(run.manifest()["config"]), _flat(to_dict(self.config))
        return {
            key: [then[key], value]
            for key, value in now.items()
            # A setting that the run's version did not have yet cannot be compared.
            if key != "resume" and key in then and then[key] != value
        }

    def _check_identity(self, found: checkpoint.Checkpoint) -> None:
        theirs = found.state["identity"]
        assert isinstance(theirs, Mapping), "written by save"
        for key, value in self.identity.items():
            # A key that the run's version did not write yet cannot be compared.
            if key in theirs and theirs[key] != value:
                raise CheckpointError(
                    f"{found.path} is of a run with {key} = {theirs[key]}, not {value}: resume "
                    "with the same setting, or choose another --out"
                )

    def _tensorboard(self, step: int) -> SummaryWriter | None:
        if self._board is None:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                return None
            self._board = SummaryWriter(str(self.folder / "tensorboard"), purge_step=step)
        return self._board


def _identity(config: PretrainConfig, shape: ModelConfig, corpora: Corpora) -> dict[str, object]:
    """What must not change between the parts of a run; schedules, budgets and cadences may."""
    return {
        **{f"model.{key}": value for key, value in to_dict(shape).items()},
        **{f"data.{key}": value for key, value in corpora.fingerprints().items()},
        "seed": config.seed,
        "weights": to_dict(config)["weights"],
        "optimizer.name": config.optimizer.name,
        "optimizer.bias_correction": config.optimizer.bias_correction,
        "examples.task": config.examples.task,
        "examples.rules": config.examples.rules,
        "examples.block_tokens": config.examples.block_tokens,
        "examples.window_blocks": config.examples.window_blocks,
        "examples.short_probability": config.examples.short_probability,
    }


def _flat(settings: object, prefix: str = "") -> dict[str, object]:
    """Nested settings with dotted names."""
    if not isinstance(settings, Mapping):
        return {prefix: settings}
    parts = [_flat(value, f"{prefix}.{key}" if prefix else key) for key, value in settings.items()]
    return {key: value for part in parts for key, value in part.items()}

"""The files of a fine-tuning run while it trains: metrics, events, checkpoints, resume."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from torch import Tensor, nn
from torch.optim import Optimizer

from litebert.common.config import from_dict, to_dict
from litebert.common.errors import CheckpointError
from litebert.common.runs import RunFolder
from litebert.train import checkpoint
from litebert.train.finetuning.config import FinetuneConfig

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

SECONDS_BETWEEN_SAVES = 60.0
_NOT_IDENTITY = ("out", "resume", "log_every_steps", "device", "max_tokens")


@dataclass
class FinetuneState:
    """Where a run stands.

    Example:
        >>> FinetuneState(step=100, kept=((0.91, 100),)).best
        (0.91, 100)
    """

    step: int = 0
    """steps done"""
    tokens: int = 0
    """tokens trained on, without padding"""
    elapsed_s: float = 0.0
    """time in the training loop, over all resumes"""
    kept: tuple[tuple[float, ...], ...] = ()
    """(score, step) of the best evaluations, best first"""
    evals_since_best: int = 0
    """evaluations since the best one"""
    nonfinite_in_a_row: int = 0
    """latest steps whose loss or gradient was not finite"""

    @property
    def best(self) -> tuple[float, int] | None:
        """Score and step of the best evaluation."""
        return (self.kept[0][0], int(self.kept[0][1])) if self.kept else None

    def kept_steps(self) -> list[int]:
        """Steps whose checkpoints are kept, best first."""
        return [int(step) for _, step in self.kept]

    def add(self, score: float, num_kept: int) -> bool:
        """Note an evaluation of the current step; return whether its weights are to be kept."""
        is_best = not self.kept or score > self.kept[0][0]
        self.evals_since_best = 0 if is_best else self.evals_since_best + 1
        # Of equal scores the earlier one counts as better.
        ranked = sorted((*self.kept, (score, float(self.step))), key=lambda e: (-e[0], e[1]))
        self.kept = tuple(ranked[:num_kept])
        return self.step in self.kept_steps()


def check_same_settings(
    config: FinetuneConfig, fingerprints: Mapping[str, str] | None = None
) -> None:
    """Refuse to go on with a run whose settings (or data, if given) were others."""
    manifest = RunFolder.open(config.out).manifest()
    theirs, prints = manifest["config"], manifest["fingerprints"]
    assert isinstance(theirs, Mapping), "written by RunFolder"
    assert isinstance(prints, Mapping), "written by RunFolder"
    ours = {k: v for k, v in to_dict(config).items() if k not in _NOT_IDENTITY}
    # Settings that the run's version did not have yet had what is their default now.
    before = to_dict(from_dict(FinetuneConfig, theirs, str(config.out)))
    if fingerprints is not None:
        ours |= {f"the {split} data": value for split, value in fingerprints.items()}
        before |= {f"the {split} data": value for split, value in prints.items()}
    for key, value in ours.items():
        if before.get(key) != value:
            raise CheckpointError(
                f"{config.out} is a run with {key} = {before.get(key)}, not {value}: "
                "resume with the same setting, or choose another --out"
            )


class FinetuneRecords:
    """Writes metrics and checkpoints, and finds where to go on.

    Example:
        >>> records = FinetuneRecords(config, {"train": "ab12"})
        >>> state = records.restore(model, optimizers)
        >>> records.save(state, model, optimizers)
    """

    def __init__(self, config: FinetuneConfig, fingerprints: Mapping[str, str]) -> None:
        self.config, self.fingerprints = config, fingerprints
        self.checkpoints = config.out / "checkpoints"
        self.run = self._open()
        self.saved_at = time.monotonic()
        self._board: SummaryWriter | None = None

    def restore(self, model: nn.Module, optimizers: Sequence[Optimizer]) -> FinetuneState:
        """Load the last good checkpoint of a run that is to be resumed."""
        if self.config.resume == "no":
            return FinetuneState()
        checkpoint.clear_leftovers(self.checkpoints)
        damaged: list[str] = []
        found = checkpoint.latest_good(self.checkpoints, damaged.append)
        if found is None:
            self.run.truncate_metrics(0)
            return FinetuneState()
        checkpoint.load_model_tensors(model, found.tensors(checkpoint.WEIGHTS_FILE))
        states = found.tensors(checkpoint.OPTIMIZER_FILE)
        checkpoint.load_optimizer_tensors(model, optimizers, states)
        position, run_state = found.state["metrics_position"], found.state["run"]
        assert isinstance(position, int), "written by save"
        assert isinstance(run_state, Mapping), "written by save"
        self.run.truncate_metrics(position)
        for message in damaged:
            self.run.event("damaged_checkpoint", found.step, message=message)
        checkpoint.drop_after(self.checkpoints, found.step)
        self.run.event("resume", found.step)
        return from_dict(FinetuneState, run_state, str(found.path))

    def log(self, step: int, values: Mapping[str, object]) -> None:
        """Write one line of metrics, and the numbers to TensorBoard."""
        self.run.log(step, values)
        board = self._tensorboard(step)
        if board is not None:
            for name, value in values.items():
                if isinstance(value, (int, float)):
                    board.add_scalar(name.replace("dev_", "dev/", 1), value, step)

    def save_is_due(self) -> bool:
        """Whether the last checkpoint is so old that work would be lost."""
        return time.monotonic() - self.saved_at > SECONDS_BETWEEN_SAVES

    def save(self, state: FinetuneState, model: nn.Module, optimizers: Sequence[Optimizer]) -> None:
        """Write a checkpoint and delete those that are neither the last nor among the best."""
        tensors = {
            checkpoint.WEIGHTS_FILE: checkpoint.model_tensors(model),
            checkpoint.OPTIMIZER_FILE: checkpoint.optimizer_tensors(model, optimizers),
        }
        content = {"run": asdict(state), "metrics_position": self.run.metrics_position()}
        checkpoint.save(self.checkpoints, state.step, tensors, content)
        checkpoint.prune(self.checkpoints, 1, state.kept_steps())
        self.saved_at = time.monotonic()

    def weights(self, step: int) -> dict[str, Tensor]:
        """Return the weights that were saved at a step."""
        path = self.checkpoints / f"step-{step}"
        return checkpoint.verify(path).tensors(checkpoint.WEIGHTS_FILE)

    def finish(self) -> None:
        """Remove the checkpoints: the best weights are in the model folder now."""
        if self._board is not None:
            self._board.close()
        shutil.rmtree(self.checkpoints, ignore_errors=True)

    def _open(self) -> RunFolder:
        config = to_dict(self.config)
        exists = (self.config.out / "manifest.json").is_file()
        if not exists or self.config.resume == "no":
            seeds = {"run": self.config.seed}
            return RunFolder.create(self.config.out, config, seeds, self.fingerprints)
        check_same_settings(self.config, self.fingerprints)
        return RunFolder.open(self.config.out)

    def _tensorboard(self, step: int) -> SummaryWriter | None:
        if self._board is None:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                return None
            folder = str(self.config.out / "tensorboard")
            self._board = SummaryWriter(folder, purge_step=step, flush_secs=30)
        return self._board

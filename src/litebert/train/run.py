"""A run on disk: manifest, metrics, boards, events, checkpoints; process 0 writes, all resume."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar

from torch import Tensor, nn
from torch.optim import Optimizer

from litebert.common.config import flat_settings, from_dict, to_dict
from litebert.common.errors import CheckpointError, blame
from litebert.common.ownership import Inputs, clear_leftovers, owned_folder
from litebert.common.runs import MANIFEST_FILE, MODEL_FOLDER, RunFolder
from litebert.dist.replica import copy_into, whole
from litebert.dist.runtime import Process
from litebert.train import checkpoint
from litebert.train.average import WeightAverage
from litebert.train.display import Display
from litebert.train.trackers import Tracker, open_trackers, tag

if TYPE_CHECKING:
    from litebert.train.finetuning.config import FinetuneConfig
    from litebert.train.pretraining.config import PretrainConfig

    RunConfig: TypeAlias = "PretrainConfig | FinetuneConfig"

RunKind = Literal["pretraining", "fine-tuning"]


@dataclass
class TrainState:
    """Where a run stands: what a checkpoint stores besides weights and optimizer."""

    step: int = 0
    tokens: int = 0  # tokens trained on, without padding
    elapsed_s: float = 0.0  # time in the training loop, over all resumes
    nonfinite_total: int = 0  # steps without an update because loss or gradient were not finite
    nonfinite_in_a_row: int = 0

    def kept_steps(self) -> list[int]:
        """Steps whose checkpoints stay, besides the latest ones; best first."""
        return []


S_co = TypeVar("S_co", bound=TrainState, covariant=True)


class Run(Generic[S_co]):
    """Everything a run writes while it trains, and where it goes on after an interruption.

    ``identity`` must not change between the parts of a run, nor may the ``fingerprints`` of its data; all processes
    must agree on both. ``keep_last`` checkpoints are kept besides those of ``state.kept_steps()``.
    """

    def __init__(
        self,
        config: RunConfig,
        state_type: type[S_co],
        identity: Mapping[str, object],
        fingerprints: Mapping[str, str],
        keep_last: int,
        process: Process,
        screen: Display,
    ) -> None:
        self.config, self.process, self.screen = config, process, screen
        self.folder, self.checkpoints = config.out, config.out / "checkpoints"
        data = {f"data.{name}": value for name, value in fingerprints.items()}
        self.identity, self._settings = {**identity, **data}, to_dict(config)
        self._fingerprints, self._keep_last = fingerprints, keep_last
        process.check_same("data", json.dumps(data, sort_keys=True))
        process.check_same("model", json.dumps(self.identity, sort_keys=True))
        self.state = state_type()
        self._files: RunFolder | None = None  # process 0 alone has them
        self._saved_step: int | None = None
        self._trackers: list[Tracker] = []
        self._model: nn.Module | None = None
        self._optimizers: Sequence[Optimizer] = ()
        self._average: WeightAverage | None = None

    def restore(self, model: nn.Module, optimizers: Sequence[Optimizer], average: WeightAverage | None = None) -> S_co:
        """Open or create the run folder; load the last good checkpoint if one is to be resumed.

        Model, optimizers, average and the returned state are what :meth:`save` writes from now on.
        """
        self._model, self._optimizers, self._average = model, optimizers, average
        found = self.process.on_main(self._open)
        if found is not None:
            checkpoint.load_model_tensors(model, found.tensors(checkpoint.WEIGHTS_FILE))
            checkpoint.load_optimizer_tensors(model, optimizers, found.tensors(checkpoint.OPTIMIZER_FILE))
            if average is not None:
                # An average that begins now begins with the weights.
                tensors = checkpoint.finished_tensors(found)
                with blame(found.path, CheckpointError):
                    for name, tensor in average.tensors.items():
                        copy_into(tensor, tensors[name])
            self.state = from_dict(type(self.state), found.state.get("run", {}), str(found.path))
            self._saved_step = found.step
        return self.state

    def log(self, step: int, values: Mapping[str, object]) -> None:
        """Write one line of metrics, and its numbers to the trackers."""
        if self._files is None:
            return
        self._files.log(step, values)
        numbers = {tag(k): v for k, v in values.items() if isinstance(v, (int, float))}
        for tracker in self._trackers:
            tracker.log(step, numbers)

    def event(self, name: str, message: str = "", fields: Mapping[str, object] | None = None) -> None:
        """Write an event of this step, and tell the person who watches if there is a message."""
        if self._files is not None:
            said = {"message": message} if message else {}
            self._files.event(name, self.state.step, **said, **(fields or {}))
        if message:
            self.screen.note(message)

    def save(self) -> None:
        """Write a checkpoint (all processes take part) unless it is there; delete unwanted ones."""
        if self._saved_step == self.state.step:
            return
        assert self._model is not None, "restore comes first"
        tensors = {
            checkpoint.WEIGHTS_FILE: checkpoint.model_tensors(self._model),
            checkpoint.OPTIMIZER_FILE: checkpoint.optimizer_tensors(self._model, self._optimizers),
        }
        if self._average is not None:
            tensors[checkpoint.AVERAGE_FILE] = {name: whole(t) for name, t in self._average.tensors.items()}
        about = {"world_size": self.process.world_size, "identity": self.identity}
        save = partial(checkpoint.save, self.checkpoints, self.state.step, tensors)
        self._write(lambda progress: save({**progress, **about}))
        self._saved_step = self.state.step

    def amend(self) -> None:
        """Write a state that changed into the checkpoint of its step; the tensors stay."""
        self._write(partial(checkpoint.amend, self.checkpoints / f"step-{self.state.step}"))

    def weights(self, step: int) -> dict[str, Tensor]:
        """The weights that were saved at a step."""
        return checkpoint.verify(self.checkpoints / f"step-{step}").tensors(checkpoint.WEIGHTS_FILE)

    def finish(self, *, keep_checkpoints: bool) -> None:
        """Close what is open; remove the checkpoints if the weights are elsewhere now."""
        for tracker in self._trackers:
            tracker.close()
        self._trackers = []
        if self._files is not None and not keep_checkpoints:
            shutil.rmtree(self.checkpoints, ignore_errors=True)

    def _write(self, write: Callable[[Mapping[str, object]], object]) -> None:
        """On process 0: write where the run stands, and delete unwanted checkpoints."""

        def work() -> None:
            assert self._files is not None, "opened by restore"
            write({"run": asdict(self.state), "metrics_position": self._files.metrics_position()})
            checkpoint.prune(self.checkpoints, self._keep_last, self.state.kept_steps())

        self.process.on_main(work)

    def _open(self) -> checkpoint.Checkpoint | None:
        """On process 0: the run folder, and the checkpoint to go on from."""
        found, passed_over = None, list[str]()
        is_resumed = self.config.resume == "auto" and RunFolder.exists(self.folder)
        if is_resumed:
            clear_leftovers(self.checkpoints)
            found = checkpoint.latest_good(self.checkpoints, passed_over.append)
            if found is None and (self.folder / MODEL_FOLDER).is_dir():
                raise CheckpointError(
                    f"{self.folder} holds a finished run whose checkpoints are gone: there is nothing to go on from; "
                    "choose another --out, or delete that folder to start over"
                )
        if found is not None:
            self._go_on_from(files := RunFolder.open(self.folder), found, passed_over)
        else:
            if is_resumed:
                # Nothing of the earlier start is used: the manifest must be of this one.
                (self.folder / MANIFEST_FILE).unlink()
            files = RunFolder.create(self.folder, self._settings, {"run": self.config.seed}, self._fingerprints)
            if is_resumed:
                files.truncate_metrics(0)
                files.event("resume", 0)
                self.screen.note(f"{self.folder} has no checkpoint yet: starting again")
        self._files = files
        settings, step = flat_settings(self._settings), 0 if found is None else found.step
        self._trackers = open_trackers(self.config.track, self.folder, step + 1, settings)
        return found

    def _go_on_from(self, files: RunFolder, found: checkpoint.Checkpoint, passed_over: Sequence[str]) -> None:
        """Forget what came after a checkpoint, and say what is different from before."""
        before = flat_settings(files.section("config"))
        data = {f"data.{name}": value for name, value in files.section("fingerprints").items()}
        with blame(found.path, CheckpointError):
            earlier = {**data, **found.state.get("identity", {})}
            position = int(found.state["metrics_position"])
        refuse_changes(found.path, earlier, self.identity)
        files.truncate_metrics(position)
        for message in passed_over:
            files.event("damaged_checkpoint", found.step, message=message)
            self.screen.note(message)
        checkpoint.drop_after(self.checkpoints, found.step)
        changed = {
            key: [before[key], value]
            for key, value in flat_settings(self._settings).items()
            if key != "resume" and key in before and before[key] != value
        }
        files.event("resume", found.step, **({"changed": changed} if changed else {}))
        news = ", ".join(f"{name} {old} -> {new}" for name, (old, new) in changed.items())
        self.screen.note(f"resuming {self.folder} at step {found.step:,}{f'; changed: {news}' if news else ''}")


@contextmanager
def owned_run(process: Process, kind: RunKind, out: Path, inputs: Inputs = ()) -> Iterator[None]:
    """Own a run folder: process 0 does, and all processes stop if it is refused.

    A folder that holds a run of the other kind, or anything that is not of a run, is refused.
    """

    def is_ours(folder: Path) -> bool:
        if not RunFolder.exists(folder):
            return False
        settings = RunFolder(folder).manifest()["config"]
        found = "fine-tuning" if isinstance(settings, Mapping) and "task" in settings else "pretraining"
        if found != kind:
            raise CheckpointError(f"{folder} holds a {found} run; choose another --out")
        return True

    with ExitStack() as held:
        owned = owned_folder(out, is_ours, inputs, ("random",))  # a comparison with random weights runs first
        process.on_main(lambda: held.enter_context(owned))
        yield


def refuse_changes(where: Path, earlier: Mapping[str, object], now: Mapping[str, object]) -> None:
    """Refuse to go on with a run of other settings, as far as its version wrote them."""
    for key, value in now.items():
        if key in earlier and earlier[key] != value:
            raise CheckpointError(
                f"{where} is of a run with {key} = {earlier[key]}, not {value}: resume "
                "with the same setting, or choose another --out"
            )

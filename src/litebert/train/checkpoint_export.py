"""A checkpoint of a pretraining run as a model folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from litebert.common.config import from_dict
from litebert.common.errors import CheckpointError, blame
from litebert.common.files import check_free
from litebert.common.runs import RunFolder
from litebert.interop.card import model_card, pretraining_section
from litebert.interop.hf import save_model
from litebert.model.config import ModelConfig
from litebert.model.counts import check_memory
from litebert.model.heads import PretrainingModel
from litebert.model.sharing import plan_of
from litebert.text.tokenizer import has_tokenizer
from litebert.train import checkpoint
from litebert.train.pretraining.evaluate import RunState
from litebert.train.pretraining.initial import deepen, new_sets


def export_checkpoint(run: Path, out: Path, step: str = "best") -> int:
    """Write a checkpoint (best, last or a step) as a new model folder; return its step."""
    check_free(out)
    settings = RunFolder.open(run).section("config")
    folder = run / "checkpoints"
    chosen = checkpoint.verify(folder / f"step-{_find_step(folder, step)}")
    with blame(chosen.path, CheckpointError):
        shape = {
            key.removeprefix("model."): value
            for key, value in chosen.state["identity"].items()
            if key.startswith("model.")
        }
    config = from_dict(ModelConfig, shape, str(chosen.path))
    check_memory(config)
    model = PretrainingModel(config)
    checkpoint.load_model_tensors(model, checkpoint.finished_tensors(chosen))
    depth = from_dict(RunState, chosen.state.get("run", {}), str(chosen.path)).depth
    if 0 < depth < config.num_layers:  # later layers begin as copies
        deepen(model, (), new_sets(plan_of(config), depth, config.num_layers), {})
    about = {"run": f"`{run.resolve().name}`", "weights of step": f"{chosen.step:,}"}
    card = model_card(config, "pretraining", out.name, pretraining_section(about))
    save_model(model.eval(), out, _tokenizer_folder(run, settings), card)
    return chosen.step


def _find_step(folder: Path, wanted: str) -> int:
    steps = checkpoint.steps_in(folder)
    if not steps:
        raise CheckpointError(f"{folder} holds no checkpoints: is it a pretraining run?")
    if wanted == "last":
        return steps[-1]
    if wanted == "best":
        return _best_step(folder, steps)
    if not wanted.isdecimal() or int(wanted) not in steps:
        known = ", ".join(str(step) for step in steps)
        raise CheckpointError(
            f"{folder} has no checkpoint of step {wanted}: choose best, last or one of {known}"
        )
    return int(wanted)


def _best_step(folder: Path, steps: Sequence[int]) -> int:
    """The best step by the latest checkpoint whose state can be read; that one if none is best."""
    for step in reversed(steps):
        try:
            found = checkpoint.read(folder / f"step-{step}").state.get("run", {})
        except CheckpointError:
            continue
        best = from_dict(RunState, found, str(folder)).best_step
        return step if best is None else best
    raise CheckpointError(f"none of the {len(steps)} checkpoints in {folder} can be read")


def _tokenizer_folder(run: Path, settings: Mapping[str, object]) -> Path:
    """The tokenizer of the run's shards, or of the model folder if the shards are gone."""
    candidates = [Path(str(settings.get("data"))) / "tokenizer", run / "model"]
    for candidate in candidates:
        if has_tokenizer(candidate):
            return candidate
    raise CheckpointError(
        f"the tokenizer of {run} is in neither {candidates[0]} nor {candidates[1]}: put the shards "
        "back where they were"
    )

"""One run of an experiment in a process of its own: train, measure, write what was found."""

from __future__ import annotations

import os
import signal
import statistics
import sys
import threading
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np

from litebert.common.config import from_dict
from litebert.common.files import read_json, write_json
from litebert.common.ownership import LOCK_FILE, folder_lock
from litebert.common.runs import RunFolder
from litebert.data.corpus.shards import ShardSet
from litebert.experiments.plan import JOB_FILE, LAYERS_FILE, MEASURES_FILE
from litebert.interop.folder import load_config
from litebert.model.counts import count_parameters
from litebert.predict.backend import open_backend
from litebert.predict.layers import LayerAnalysis, movements
from litebert.report.log import lines_with, number, read_if_there
from litebert.train.finetuning.config import FinetuneConfig
from litebert.train.finetuning.engine import finetune
from litebert.train.finetuning.results import FinetuneResult
from litebert.train.pretraining.config import PretrainConfig
from litebert.train.pretraining.engine import pretrain
from litebert.train.pretraining.evaluate import Scores
from litebert.train.pretraining.scoring import evaluate_pretraining

TRAIN_EXAMPLES = 9000  # of a task: as many as fit a run of minutes
_LAYER_WINDOWS, _LAYER_TOKENS = 200, 62


def work(folder: Path) -> int:
    """Do the job of a folder, or what is left of it; the signal that stopped it, or 0."""
    job = read_json(folder / JOB_FILE)
    config = from_dict(PretrainConfig, job["pretrain"], str(folder))  # type: ignore[arg-type]
    found = read_if_there(path := folder / MEASURES_FILE)
    if "masked_loss" not in found or not (config.out / "model").is_dir():
        result = pretrain(config, quiet=True)
        if result.interrupted_by:
            return result.interrupted_by
        if result.scores is None:
            raise SystemExit(f"{folder}: there are no dev documents to measure on; give --dev")
        found = {**_cost(config.out), **_scores(config, result.scores)}
        write_json(path, found)
    if job["layers"] and "distance_step" not in found:
        found |= _layers(config, folder)
        write_json(path, found)
    for task in job["tasks"]:  # type: ignore[attr-defined]
        if f"{task}.score" not in found:
            done = _finetune(task, Path(str(job["task_data"])), config, folder)
            if done.interrupted_by:
                return done.interrupted_by
            scores = {"score": done.scores, "always": done.baseline, **done.baselines}
            found |= {f"{task}.{name}": of[done.metric] for name, of in scores.items()}
            write_json(path, found)
    return 0


def _scores(config: PretrainConfig, scores: Scores) -> dict[str, object]:
    """Scores on all dev text together, and the words of each corpus of it."""
    found = {key: value for key, value in asdict(scores).items() if value is not None}
    for task, rule in (("sop", "length"), ("nsp", "overlap")):
        accuracy, by_rule = found.get(f"{task}_accuracy"), found.get(f"{task}_{rule}_rule")
        if accuracy is not None and by_rule is not None:
            found[f"{task}_above_rule"] = accuracy - by_rule
    model, size, length = config.out / "model", config.evaluation.final_examples, config.examples.length
    judged = partial(evaluate_pretraining, model, every_document=True, rules=["paper"], frequencies=config.corpora)
    for corpus in config.dev_data if len(config.dev_data) > 1 else ():
        (one,) = judged([corpus], examples=size, length=length)
        for key in ("masked_loss", "mlm_accuracy"):
            found[f"{corpus.name}.{key}"] = getattr(one.scores, key)
    return found


def _cost(run: Path) -> dict[str, object]:
    """What the run took, and how fast it was: the middle of the lines of its log."""
    lines = lines_with(RunFolder.open(run).metrics(), "tokens_per_s")
    return {
        "parameters": count_parameters(load_config(run / "model")).encoder,
        "tokens": lines[-1]["tokens"],
        "seconds": lines[-1]["elapsed_s"],
        "tokens_per_s": statistics.median(number(line, "tokens_per_s") for line in lines),
    }


def _layers(config: PretrainConfig, folder: Path) -> dict[str, object]:
    """Figure 1 on dev text: how far each layer moves, and how unevenly from layer to layer."""
    text = (config.dev_data or config.corpora)[0]
    shard = ShardSet.open(text, "train" if config.dev_data else "dev").shards[0]
    tokens = np.asarray(shard.tokens[: _LAYER_WINDOWS * _LAYER_TOKENS])
    cut = [tokens[i : i + _LAYER_TOKENS].tolist() for i in range(0, len(tokens), _LAYER_TOKENS)]
    sequences = [[2, *window, 3] for window in cut]
    layers = movements(open_backend(config.out / "model"), sequences)
    write_json(folder / LAYERS_FILE, asdict(LayerAnalysis(str(folder), sum(map(len, sequences)), layers)))
    moves = {"distance": [one.distance.mean for one in layers], "angle": [one.angle_degrees.mean for one in layers]}
    steps = {f"{name}_step": float(np.abs(np.diff(found)).mean()) for name, found in moves.items()}
    return {**steps, **{f"{name}_least": min(found) for name, found in moves.items()}}


def _finetune(task: str, data: Path, config: PretrainConfig, folder: Path) -> FinetuneResult:
    """Fine-tune on a task; for the first seed beside a bag of words and random weights."""
    out, model, seed, most = folder / "tasks" / task, str(config.out / "model"), config.seed, TRAIN_EXAMPLES
    beside = ("words", "random") if seed == 0 else ()
    run = FinetuneConfig(
        task, out=out, model=model, data=data, seed=seed, baseline=beside, resume="auto", max_train_examples=most
    )
    return finetune(run)


def _follow(parent: int) -> None:
    """Save and leave when the parent is gone, instead of training on for nobody."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """``python -m litebert.experiments.work FOLDER``."""
    folder = Path(sys.argv[1])
    threading.Thread(target=_follow, args=(os.getppid(),), daemon=True).start()
    # A worker of a killed parent may still be saving: wait for it.
    with folder_lock(folder / LOCK_FILE, folder, wait_s=600.0):
        signum = work(folder)
    sys.exit(128 + signum if signum else 0)


if __name__ == "__main__":
    main()

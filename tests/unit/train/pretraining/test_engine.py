"""A small pretraining: what it writes, how it refuses, skips and continues."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from litebert.cli import main
from litebert.common.errors import CheckpointError, ConfigError, DataError, LitebertError
from litebert.common.runs import RunFolder
from litebert.interop.folder import load_config
from litebert.interop.hf import load_model
from litebert.model.config import ModelSection
from litebert.model.heads import PretrainingModel
from litebert.report.write import write_report
from litebert.train import checkpoint
from litebert.train.pretraining.config import Checkpoints, Curriculum, Evaluation, Objective
from litebert.train.pretraining.engine import pretrain
from litebert.train.pretraining.evaluate import DevSet, RunState
from litebert.train.pretraining.results import export_checkpoint
from litebert.train.pretraining.setup import open_corpora
from litebert.train.run import Run
from small_run import LEVERS, SINGLE, assert_bitwise_equal, poison, pretrain_in_parts, small_config, weights


def lines(run: Path, key: str = "mlm_loss") -> list[dict[str, Any]]:
    found = RunFolder.open(run).metrics()
    return [line for line in found if key in line and "event" not in line]


def dev_scores(run: Path) -> list[dict[str, Any]]:
    """Evaluations without their timings."""
    keep = ("step", "dev_")
    found = lines(run, "dev_mlm_loss")
    return [{k: v for k, v in line.items() if k.startswith(keep)} for line in found]


def events(run: Path, name: str) -> list[dict[str, Any]]:
    return [line for line in RunFolder.open(run).metrics() if line.get("event") == name]


def test_a_run_learns_and_leaves_everything(tiny_shards_dir: Path, tmp_path: Path) -> None:
    evaluation = Evaluation(every_steps=20, examples=32, final_examples=64)
    config = small_config(tiny_shards_dir, tmp_path / "run", steps=60, evaluation=evaluation)
    result = pretrain(config, quiet=True)
    run = tmp_path / "run"
    losses = [line["mlm_loss"] for line in lines(run)]
    assert len(losses) == 60
    assert sum(losses[-10:]) / 10 < sum(losses[:5]) / 5 - 0.5
    assert {"lr", "tokens_per_s", "wait_share", "layers"} <= lines(run)[0].keys()
    dev = lines(run, "dev_mlm_loss")
    assert [line["step"] for line in dev] == [20, 40, 60]
    rules = ("dev_sop_length_rule", "dev_nsp_overlap_rule")
    for key in ("dev_mlm_accuracy", "dev_sop_accuracy", "dev_nsp_accuracy", *rules):
        assert all(0.0 <= line[key] <= 1.0 for line in dev)
    assert all(line["dev_nsp_overlap_rule"] >= 0.5 for line in dev)
    # The rules read no weights: on the same pairs they stay the same.
    assert [dev[0][key] for key in rules] == [dev[1][key] for key in rules]
    assert result.scores is not None
    assert result.scores.mlm_loss == dev[-1]["dev_mlm_loss"]
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["config"]["steps"] == 60
    assert manifest["fingerprints"].keys() == {"tokenizer", "train.0", "dev.0"}
    assert list((run / "tensorboard").iterdir())
    assert json.loads((run / "samples.json").read_text())["fill_mask"]
    model = load_model(run / "model")
    assert isinstance(model, PretrainingModel)
    assert model.config.vocab_size == 1000


def test_same_seed_same_weights_other_seed_others(tiny_shards_dir: Path, tmp_path: Path) -> None:
    runs = {}
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        pretrain(small_config(tiny_shards_dir, tmp_path / name, steps=4, seed=seed), quiet=True)
        runs[name] = weights(tmp_path / name)
    assert_bitwise_equal(runs["a"], runs["b"])
    assert any(not torch.equal(runs["a"][k], runs["c"][k]) for k in runs["a"])


def test_recomputed_activations_change_nothing(tiny_shards_dir: Path, tmp_path: Path) -> None:
    config = small_config(tiny_shards_dir, tmp_path / "a", steps=6)
    pretrain(config, quiet=True)
    checkpointed = replace(config, out=tmp_path / "b", activation_checkpointing=True)
    pretrain(checkpointed, quiet=True)
    first = [line["mlm_loss"] for line in lines(tmp_path / "a")]
    second = [line["mlm_loss"] for line in lines(tmp_path / "b")]
    assert first == pytest.approx(second, abs=1e-5)


def test_curricula_show_in_the_metrics(tiny_shards_dir: Path, tmp_path: Path) -> None:
    table = Curriculum(
        layers=((0.0, 1), (0.5, 2)),
        length=((0.0, 16), (0.5, 32)),
        batch_size=((0.0, 4), (0.5, 8)),
        mask_rate=((0.0, 0.3), (0.75, 0.15)),
        lr_factor=((0.0, 1.0), (0.5, 0.5)),
    )
    config = small_config(tiny_shards_dir, tmp_path / "run", steps=8, curriculum=table)
    pretrain(config, quiet=True)
    found = lines(tmp_path / "run")
    assert [line["layers"] for line in found] == [1] * 4 + [2] * 4
    assert [line["length"] for line in found] == [16] * 4 + [32] * 4
    assert [line["batch_size"] for line in found] == [4] * 4 + [8] * 4
    assert [line["mask_rate"] for line in found] == [0.3] * 6 + [0.15] * 2
    assert found[4]["lr"] == pytest.approx(found[3]["lr"] / 2)
    assert found[7]["tokens"] - found[6]["tokens"] > 2 * (found[1]["tokens"] - found[0]["tokens"])


def test_what_rests_keeps_its_weights_and_begins_fresh(tiny_shards_dir: Path, tmp_path: Path) -> None:
    table = Curriculum(trainable=((0.0, "words"), (0.5, "all")))
    every = Checkpoints(every_steps=2, keep_last=9)
    config = small_config(tiny_shards_dir, tmp_path / "run", steps=8, curriculum=table)
    pretrain(replace(config, checkpoint=every), quiet=True)
    assert [line["trainable"] for line in lines(tmp_path / "run")] == ["words"] * 4 + ["all"] * 4
    saved = {step: tmp_path / "run" / "checkpoints" / f"step-{step}" for step in (2, 4, 6)}
    found = {step: load_file(path / "weights.safetensors") for step, path in saved.items()}
    learn = ("encoder.embeddings.word.", "encoder.embeddings.projection.", "mlm.")
    for name, weight in found[2].items():
        assert torch.equal(weight, found[4][name]) != name.startswith(learn), name
        assert not torch.equal(weight, found[6][name]), name
    states = load_file(saved[4] / "optimizer.safetensors")
    assert all(name.startswith(learn) for name in states)  # nothing drifts while it rests


def test_rest_is_exact_after_a_resume(tiny_shards_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Curriculum(trainable=((0.0, "words"), (0.5, "all")))
    config = small_config(tiny_shards_dir, tmp_path / "a", steps=8, curriculum=table, average=0.8)
    pretrain(config, quiet=True)
    pretrain_in_parts(replace(config, out=tmp_path / "b"), monkeypatch, 3, 6, 8)
    assert_bitwise_equal(weights(tmp_path / "a"), weights(tmp_path / "b"))


def test_levers_are_exact_after_a_resume(
    tiny_shards_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_config(tiny_shards_dir, tmp_path / "straight", steps=8, **LEVERS)
    pretrain(config, quiet=True)
    # An odd step, so that short pairs come next or not by the count of steps.
    pretrain_in_parts(replace(config, out=tmp_path / "broken"), monkeypatch, 3, 8)
    found, expected = lines(tmp_path / "broken"), lines(tmp_path / "straight")
    assert [line["loss"] for line in found] == [line["loss"] for line in expected]
    assert [line["tokens"] for line in found] == [line["tokens"] for line in expected]
    assert_bitwise_equal(weights(tmp_path / "broken"), weights(tmp_path / "straight"))
    # Every second step has short pairs besides.
    tokens = [0, *(line["tokens"] for line in expected)]
    steps = [after - before for before, after in pairwise(tokens)]
    assert min(steps[0::2]) > max(steps[1::2])


def test_probes_stand_in_every_evaluation(tiny_shards_dir: Path, tmp_path: Path) -> None:
    task = Path(__file__).resolve().parents[4] / "examples" / "custom_task" / "classification.toml"
    evaluation = Evaluation(2, examples=16, final_examples=16, probe=str(task), probe_examples=20)
    config = small_config(tiny_shards_dir, tmp_path / "run", steps=4, evaluation=evaluation)
    pretrain(config, quiet=True)
    found = lines(tmp_path / "run", "dev_probe_cls")
    assert [line["step"] for line in found] == [2, 4]
    for name in ("cls", "mean", "table", "words"):
        assert all(0.0 <= line[f"dev_probe_{name}"] <= 1.0 for line in found)
    assert "Linear probes" in write_report(tmp_path / "run").read_text()
    with pytest.raises(ConfigError, match="probes are for classes and numbers"):
        wrong = replace(evaluation, probe=f"squad1:{tmp_path}")
        pretrain(replace(config, out=tmp_path / "wrong", evaluation=wrong), quiet=True)


def test_the_model_folder_holds_the_average(tiny_shards_dir: Path, tmp_path: Path) -> None:
    config = small_config(tiny_shards_dir, tmp_path / "a", steps=6)
    averaged = replace(config, out=tmp_path / "b", average=0.9)
    for run in (config, averaged):
        pretrain(run, quiet=True)
    first, second = (checkpoint.verify(tmp_path / name / "checkpoints" / "step-6") for name in ("a", "b"))
    # Averaging changes nothing in what is trained.
    assert_bitwise_equal(*(x.tensors(checkpoint.WEIGHTS_FILE) for x in (first, second)))
    last, mean = weights(tmp_path / "a"), weights(tmp_path / "b")
    assert any(not torch.equal(last[name], mean[name]) for name in last)
    export_checkpoint(tmp_path / "b", tmp_path / "exported", "last")
    assert_bitwise_equal(mean, load_file(tmp_path / "exported" / "model.safetensors"))


def test_tasks_nsp_and_none(tiny_shards_dir: Path, tmp_path: Path) -> None:
    for task in ("nsp", "none"):
        config = small_config(tiny_shards_dir, tmp_path / task, steps=3)
        config = replace(config, examples=replace(config.examples, task=task))
        result = pretrain(config, quiet=True)
        assert result.scores is not None
        assert result.scores.sop_pairs > 0
        assert result.scores.nsp_pairs > 0
    assert "sentence_loss" in lines(tmp_path / "nsp")[0]
    assert "sentence_loss" not in lines(tmp_path / "none")[0]


def test_single_texts_have_the_words_and_pairs_the_order(
    tiny_shards_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_config(tiny_shards_dir, tmp_path / "straight", steps=4, **SINGLE)
    assert config.sentence_task == "sop"
    result = pretrain(config, quiet=True)
    assert result.scores is not None
    assert result.scores.sop_pairs > 0
    assert ["sentence_loss" in line for line in lines(tmp_path / "straight")] == [True, False, True, False]
    pretrain_in_parts(replace(config, out=tmp_path / "broken"), monkeypatch, 1, 4)
    assert_bitwise_equal(weights(tmp_path / "broken"), weights(tmp_path / "straight"))
    without = replace(config, out=tmp_path / "without", objective=replace(config.objective, pairs_every_steps=0))
    assert without.sentence_task == "none"


def test_resume_is_bitwise_and_metrics_have_each_step_once(tiny_shards_dir: Path, tmp_path: Path) -> None:
    evaluation = Evaluation(every_steps=4, examples=16, final_examples=16)
    whole = small_config(
        tiny_shards_dir,
        tmp_path / "whole",
        steps=12,
        evaluation=evaluation,
        checkpoint=Checkpoints(every_steps=5),
        model=replace(small_config(tiny_shards_dir, tmp_path).model, hidden_dropout=0.1),
    )
    pretrain(whole, quiet=True)

    parts = replace(whole, out=tmp_path / "parts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("litebert.train.loop.update", failing_after(8))
        with pytest.raises(RuntimeError, match="pulled the plug"):
            pretrain(parts, quiet=True)
    pretrain(replace(parts, resume="auto"), quiet=True)

    assert_bitwise_equal(weights(tmp_path / "whole"), weights(tmp_path / "parts"))
    first, second = lines(tmp_path / "whole"), lines(tmp_path / "parts")
    assert [line["step"] for line in second] == list(range(1, 13))
    assert [line["mlm_loss"] for line in first] == [line["mlm_loss"] for line in second]
    assert dev_scores(tmp_path / "whole") == dev_scores(tmp_path / "parts")
    assert [event["step"] for event in events(tmp_path / "parts", "resume")] == [8]


def failing_after(num_steps: int):  # type: ignore[no-untyped-def]
    from litebert.train.loop import update

    calls = 0

    def step(*args, **kwargs):  # type: ignore[no-untyped-def]
        nonlocal calls
        calls += 1
        if calls > num_steps:
            raise RuntimeError("pulled the plug")
        return update(*args, **kwargs)

    return step


def test_a_finished_run_resumes_to_its_end(tiny_shards_dir: Path, tmp_path: Path) -> None:
    config = small_config(tiny_shards_dir, tmp_path / "run", steps=3)
    pretrain(config, quiet=True)
    before = weights(tmp_path / "run")
    result = pretrain(replace(config, resume="auto"), quiet=True)
    assert result.step == 3
    assert_bitwise_equal(before, weights(tmp_path / "run"))


def test_a_finished_run_is_evaluated_once(tiny_shards_dir: Path, tmp_path: Path) -> None:
    evaluation = Evaluation(every_steps=2, examples=16, final_examples=32)
    config = small_config(tiny_shards_dir, tmp_path / "run", steps=4, evaluation=evaluation, resume="auto")
    first = pretrain(config, quiet=True)
    scores = dev_scores(tmp_path / "run")
    assert [line["step"] for line in scores] == [2, 4]
    again = pretrain(config, quiet=True)
    assert dev_scores(tmp_path / "run") == scores
    assert again.scores == first.scores
    # Asked for more examples, or for more steps, it does evaluate.
    more = replace(config, evaluation=replace(evaluation, final_examples=64))
    assert pretrain(more, quiet=True).scores != first.scores
    pretrain(replace(config, steps=6), quiet=True)
    assert dev_scores(tmp_path / "run")[-1]["step"] == 6


def test_a_signal_with_a_checkpoint_due_saves_once(
    tiny_shards_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[int] = []
    save = checkpoint.save

    def count(folder, step, tensors, state):  # type: ignore[no-untyped-def]
        saved.append(step)
        return save(folder, step, tensors, state)

    monkeypatch.setattr(checkpoint, "save", count)
    # The signal comes with the line of step 3 and is heeded after step 4, which is saved anyway.
    after_line_of_step(monkeypatch, 3, lambda: os.kill(os.getpid(), signal.SIGTERM))
    config = small_config(tiny_shards_dir, tmp_path / "run", steps=8, checkpoint=Checkpoints(every_steps=4))
    result = pretrain(config, quiet=True)
    assert (result.step, result.interrupted_by) == (4, signal.SIGTERM)
    assert saved == [4]


def after_line_of_step(monkeypatch: pytest.MonkeyPatch, step: int, action: Callable[[], object]) -> None:
    """Do something as soon as a step's metrics are written."""
    log = Run.log

    def log_and_act(self: Run[RunState], at_step: int, values: dict[str, object]) -> None:
        log(self, at_step, values)
        if at_step == step and "mlm_loss" in values:
            action()

    monkeypatch.setattr(Run, "log", log_and_act)


def test_the_last_step_is_saved_before_the_last_evaluation(
    tiny_shards_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards, out = tmp_path / "shards", tmp_path / "run"
    shutil.copytree(tiny_shards_dir, shards)
    dev_file = shards / "dev" / "00000.bin"
    aside = tmp_path / "aside"
    config = small_config(shards, out, steps=3)
    with monkeypatch.context() as patch:
        after_line_of_step(patch, 3, lambda: dev_file.rename(aside))
        with pytest.raises(DataError, match=r"dev/00000"):
            pretrain(config, quiet=True)
    found = checkpoint.latest_good(out / "checkpoints", pytest.fail)
    assert found is not None
    assert found.step == 3
    assert not (out / "model").exists()
    aside.rename(dev_file)
    result = pretrain(replace(config, resume="auto"), quiet=True)
    assert result.scores is not None
    assert [line["step"] for line in dev_scores(out)] == [3]
    assert [line["step"] for line in lines(out)] == [1, 2, 3]


def test_a_signal_during_the_last_evaluation_leaves_a_saved_run(
    tiny_shards_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    config = small_config(tiny_shards_dir, out, steps=3)
    batches = DevSet._batches

    def batches_and_signal(self, *arguments):  # type: ignore[no-untyped-def]
        os.kill(os.getpid(), signal.SIGTERM)
        return batches(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(DevSet, "_batches", batches_and_signal)
        result = pretrain(config, quiet=True)
    assert (result.step, result.interrupted_by, result.model) == (3, signal.SIGTERM, None)
    assert checkpoint.steps_in(out / "checkpoints") == [3]
    assert dev_scores(out) == []
    assert pretrain(replace(config, resume="auto"), quiet=True).scores is not None
    assert [line["step"] for line in dev_scores(out)] == [3]


def test_a_shard_lost_while_training_costs_no_step(
    tiny_shards_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shards, out, aside = tmp_path / "shards", tmp_path / "run", tmp_path / "aside"
    shutil.copytree(tiny_shards_dir, shards)
    file = shards / "train" / "00000.bin"
    command = ["pretrain", "--data", str(shards), "--out", str(out), "--steps", "40"]
    command += ["--resume", "auto", "--model.preset", "albert-tiny", "--batch-size", "8"]
    command += ["--examples.length", "32", "--examples.micro-batch-size", "8", "--device", "cpu"]
    command += ["--examples.stretch-tokens", "1024", "--examples.buffer-stretches", "2"]
    command += ["--log-every-steps", "1", "--evaluation.final-examples", "16"]
    with monkeypatch.context() as patch:
        after_line_of_step(patch, 2, lambda: file.rename(aside))
        with pytest.raises(SystemExit) as stopped:
            main(command)
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert "train/00000" in error
    assert "is saved; go on with --resume auto" in error
    done = [line["step"] for line in lines(out)]
    assert 2 < len(done) < 40
    assert checkpoint.steps_in(out / "checkpoints") == [done[-1]]
    aside.rename(file)
    main(command)
    assert [line["step"] for line in lines(out)] == list(range(1, 41))


def test_another_metric_begins_a_new_best(tiny_shards_dir: Path, tmp_path: Path) -> None:
    evaluation = Evaluation(every_steps=2, examples=16, final_examples=16)
    config = small_config(tiny_shards_dir, tmp_path / "run", steps=4, evaluation=evaluation)
    pretrain(config, quiet=True)
    other = replace(evaluation, metric="mlm_accuracy")
    pretrain(replace(config, steps=6, evaluation=other, resume="auto"), quiet=True)
    found = checkpoint.latest_good(tmp_path / "run" / "checkpoints", pytest.fail)
    assert found is not None
    state = found.state["run"]
    assert isinstance(state, dict)
    # Any accuracy is below the best loss: compared with it, none would have been better.
    last = dev_scores(tmp_path / "run")[-1]
    assert (state["best_metric"], state["best_step"]) == ("mlm_accuracy", 6)
    assert state["best_value"] == last["dev_mlm_accuracy"]


def test_a_run_is_not_overwritten(tiny_shards_dir: Path, tmp_path: Path) -> None:
    config = small_config(tiny_shards_dir, tmp_path / "run", steps=1)
    pretrain(config, quiet=True)
    with pytest.raises(DataError, match="--resume auto"):
        pretrain(config, quiet=True)


def test_resuming_with_another_model_is_refused(tiny_shards_dir: Path, tmp_path: Path) -> None:
    config = small_config(tiny_shards_dir, tmp_path / "run", steps=1)
    pretrain(config, quiet=True)
    other = replace(config, resume="auto", model=ModelSection(preset="albert-tiny"))
    with pytest.raises(CheckpointError, match=r"model\.embedding_size = 32, not 64"):
        pretrain(other, quiet=True)


def test_a_step_that_is_not_finite_changes_nothing(
    tiny_shards_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_config(tiny_shards_dir, tmp_path / "run", steps=6, max_nonfinite=2)
    poison_steps(monkeypatch, {3})
    pretrain(config, quiet=True)
    (event,) = events(tmp_path / "run", "nonfinite")
    assert event["step"] == 3
    assert event["position"] == 8
    assert len(event["addresses"]) == 4
    assert [line["step"] for line in lines(tmp_path / "run")] == [1, 2, 4, 5, 6]
    assert all(torch.isfinite(t).all() for t in weights(tmp_path / "run").values())


def test_many_such_steps_stop_with_an_intact_checkpoint(
    tiny_shards_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_config(tiny_shards_dir, tmp_path / "run", steps=9, max_nonfinite=3)
    poison_steps(monkeypatch, {4, 5, 6, 7, 8, 9})
    with pytest.raises(LitebertError, match="3 steps in a row"):
        pretrain(config, quiet=True)
    found = checkpoint.latest_good(tmp_path / "run" / "checkpoints", pytest.fail)
    assert found is not None
    assert found.step == 6
    assert all(torch.isfinite(t).all() for t in found.tensors(checkpoint.WEIGHTS_FILE).values())


def poison_steps(monkeypatch: pytest.MonkeyPatch, bad_steps: set[int]) -> None:
    """Make the loss of some steps (four micro-batches each) not a number."""
    poison(monkeypatch, lambda call: (call + 3) // 4 in bad_steps)


def test_the_best_checkpoint_is_kept(tiny_shards_dir: Path, tmp_path: Path) -> None:
    config = small_config(
        tiny_shards_dir,
        tmp_path / "run",
        steps=12,
        evaluation=Evaluation(every_steps=2, examples=16, final_examples=16),
        checkpoint=Checkpoints(every_steps=3, keep_last=1),
    )
    pretrain(config, quiet=True)
    dev = lines(tmp_path / "run", "dev_mlm_loss")
    scores = {line["step"]: line["dev_mlm_loss"] for line in dev}
    best = min(scores, key=scores.__getitem__)
    kept = checkpoint.steps_in(tmp_path / "run" / "checkpoints")
    assert set(kept) == {best, 12}


def test_continued_pretraining_starts_from_a_folder(tiny_shards_dir: Path, tmp_path: Path) -> None:
    pretrain(small_config(tiny_shards_dir, tmp_path / "a", steps=30), quiet=True)
    config = small_config(tiny_shards_dir, tmp_path / "b", steps=2, init_from=str(tmp_path / "a/model"), seed=5)
    pretrain(config, quiet=True)
    assert lines(tmp_path / "b")[0]["mlm_loss"] < lines(tmp_path / "a")[0]["mlm_loss"] - 0.5


def test_continued_pretraining_keeps_the_shape_of_the_folder(tiny_shards_dir: Path, tmp_path: Path) -> None:
    pretrain(small_config(tiny_shards_dir, tmp_path / "a", steps=1), quiet=True)
    config = small_config(tiny_shards_dir, tmp_path / "b", init_from=str(tmp_path / "a/model"))
    wider = replace(config, model=replace(config.model, intermediate_size=128))
    with pytest.raises(ConfigError, match="intermediate_size is 128 but .* leave the setting out"):
        pretrain(wider, quiet=True)
    assert not (tmp_path / "b").exists()
    deeper = replace(config, steps=1, model=replace(config.model, num_layers=5))
    pretrain(deeper, quiet=True)
    assert load_config(tmp_path / "b/model").num_layers == 5


def test_a_checkpoint_becomes_a_model_folder(tiny_shards_dir: Path, tmp_path: Path) -> None:
    config = small_config(tiny_shards_dir, tmp_path / "run", checkpoint=Checkpoints(every_steps=6, keep_last=2))
    pretrain(config, quiet=True)
    assert export_checkpoint(tmp_path / "run", tmp_path / "last", "last") == 12
    assert_bitwise_equal(load_file(tmp_path / "last/model.safetensors"), weights(tmp_path / "run"))
    assert (tmp_path / "last/spiece.model").is_file()
    assert export_checkpoint(tmp_path / "run", tmp_path / "six", "6") == 6
    with pytest.raises(CheckpointError, match="no checkpoint of step 7: choose best, last or one"):
        export_checkpoint(tmp_path / "run", tmp_path / "seven", "7")


def test_the_best_is_exported_although_the_last_is_damaged(tiny_shards_dir: Path, tmp_path: Path) -> None:
    config = small_config(
        tiny_shards_dir,
        tmp_path / "run",
        steps=8,
        evaluation=Evaluation(every_steps=4, examples=16, final_examples=16),
        checkpoint=Checkpoints(every_steps=4, keep_last=2),
    )
    pretrain(config, quiet=True)
    state = tmp_path / "run" / "checkpoints" / "step-8" / checkpoint.STATE_FILE
    state.write_bytes(state.read_bytes()[:-9])
    assert export_checkpoint(tmp_path / "run", tmp_path / "best", "best") == 4


def test_the_logged_loss_is_the_weighted_one(tiny_shards_dir: Path, tmp_path: Path) -> None:
    config = small_config(tiny_shards_dir, tmp_path / "run", steps=1, objective=Objective(2.0, sentence_weight=0.5))
    pretrain(config, quiet=True)
    (line,) = lines(tmp_path / "run")
    assert line["loss"] == pytest.approx(2.0 * line["mlm_loss"] + 0.5 * line["sentence_loss"])


def test_the_bag_of_words_is_logged_while_it_counts(tiny_shards_dir: Path, tmp_path: Path) -> None:
    config = small_config(
        tiny_shards_dir,
        tmp_path / "run",
        steps=4,
        objective=Objective(bag_weight=2.0),
        curriculum=Curriculum(bag_factor=((0.0, 0.5), (0.5, 0.0))),
    )
    pretrain(config, quiet=True)
    found = [line for line in lines(tmp_path / "run") if "mlm_loss" in line]
    assert ["bag_loss" in line for line in found] == [True, True, False, False]
    for line in found:
        parts = line["mlm_loss"] + line["sentence_loss"] + line.get("bag_loss", 0.0)
        assert line["loss"] == pytest.approx(parts)


@pytest.mark.parametrize("wrong", [{"bag_weight": -1.0}, {"mlm_weight": math.nan}, {"bag_frequency": 0.0}])
def test_weights_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"objective.{next(iter(wrong))} is"):
        Objective(**wrong)  # type: ignore[arg-type]


def test_continued_pretraining_needs_the_same_vocabulary(tiny_shards_dir: Path, tmp_path: Path) -> None:
    from litebert.interop.hf import save_model
    from litebert.model.config import ModelConfig

    shape = ModelConfig(vocab_size=500, hidden_size=64, num_layers=2)
    save_model(PretrainingModel(shape), tmp_path / "other")
    config = small_config(tiny_shards_dir, tmp_path / "b", init_from=str(tmp_path / "other"))
    with pytest.raises(ConfigError, match="500 pieces but the shards have 1000"):
        pretrain(config, quiet=True)
    save_model(PretrainingModel(replace(shape, vocab_size=1000)), tmp_path / "unknown")
    unknown = replace(config, init_from=str(tmp_path / "unknown"))
    with pytest.raises(CheckpointError, match=r"has no tokenizer.*copy the model's tokenizer"):
        pretrain(unknown, quiet=True)
    assert not (tmp_path / "b").exists()


def test_changed_tokens_are_seen_when_a_run_starts(tiny_shards_dir: Path, tmp_path: Path) -> None:
    shards = Path(shutil.copytree(tiny_shards_dir, tmp_path / "shards"))
    for split in ("train", "dev"):
        path = shards / split / "00000.bin"
        content = path.read_bytes()
        path.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
        with pytest.raises(DataError, match=f"{split}/00000.bin is damaged"):
            pretrain(small_config(shards, tmp_path / "run"), quiet=True)
        assert not (tmp_path / "run").exists()
        path.write_bytes(content)


def test_a_budget_ends_the_run_and_the_decay(tiny_shards_dir: Path, tmp_path: Path) -> None:
    config = replace(small_config(tiny_shards_dir, tmp_path / "run"), steps=None, budget="1.5s")
    result = pretrain(config, quiet=True)
    found = lines(tmp_path / "run")
    assert result.elapsed_s >= 1.5
    assert found[-1]["progress"] >= 1.0
    assert found[-1]["lr"] < max(line["lr"] for line in found)


def test_elapsed_time_goes_on_after_a_resume(tiny_shards_dir: Path, tmp_path: Path) -> None:
    config = small_config(tiny_shards_dir, tmp_path / "run", steps=4)
    first = pretrain(config, quiet=True)
    more = pretrain(replace(config, steps=8, resume="auto"), quiet=True)
    assert more.step == 8
    assert more.elapsed_s > first.elapsed_s


def test_a_damaged_checkpoint_does_not_outlive_the_good_ones(tiny_shards_dir: Path, tmp_path: Path) -> None:
    config = small_config(tiny_shards_dir, tmp_path / "run", steps=4, checkpoint=Checkpoints(2, keep_last=2))
    pretrain(config, quiet=True)
    folder = tmp_path / "run" / "checkpoints"
    assert checkpoint.steps_in(folder) == [2, 4]
    damaged = folder / "step-4" / checkpoint.WEIGHTS_FILE
    damaged.write_bytes(damaged.read_bytes()[:-1])
    again = replace(config, resume="auto", steps=3, checkpoint=Checkpoints(2, keep_last=1))
    pretrain(again, quiet=True)
    assert checkpoint.steps_in(folder) == [3]
    assert checkpoint.latest_good(folder, pytest.fail) is not None


def test_starting_again_without_a_checkpoint_writes_its_own_manifest(tiny_shards_dir: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    RunFolder.create(run, {"seed": 7}, {"run": 7}).log(1, {"loss": 9.0})
    pretrain(small_config(tiny_shards_dir, run, steps=2, resume="auto"), quiet=True)
    assert json.loads((run / "manifest.json").read_text())["config"]["steps"] == 2
    assert not [line for line in lines(run, "loss") if line["loss"] == 9.0]


def test_settings_that_decide_the_data_or_the_state_cannot_change(tiny_shards_dir: Path, tmp_path: Path) -> None:
    config = small_config(tiny_shards_dir, tmp_path / "run", steps=2)
    pretrain(config, quiet=True)
    for change in (
        {"optimizer": replace(config.optimizer, bias_correction=True)},
        {"examples": replace(config.examples, stretch_tokens=2 * config.examples.stretch_tokens)},
    ):
        with pytest.raises(CheckpointError, match=r"bias_correction|stretch_tokens"):
            pretrain(replace(config, resume="auto", **change), quiet=True)


def test_a_resumed_run_says_which_settings_changed(
    tiny_shards_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = small_config(tiny_shards_dir, tmp_path / "run", steps=2)
    pretrain(config, quiet=True)
    slower = replace(config.optimizer, lr=1e-3)
    pretrain(replace(config, resume="auto", steps=3, optimizer=slower))
    (event,) = events(tmp_path / "run", "resume")
    assert event["changed"] == {"steps": [2, 3], "optimizer.lr": [0.002, 0.001]}
    resuming, changed = f"resuming {tmp_path / 'run'} at step 2", "optimizer.lr 0.002 -> 0.001"
    notes = capsys.readouterr().err.splitlines()
    assert f"{resuming}; changed: steps 2 -> 3, {changed}" in notes


def test_evaluations_of_another_size_do_not_compete(tiny_shards_dir: Path, tmp_path: Path) -> None:
    config = small_config(
        tiny_shards_dir, tmp_path / "run", steps=4,
        evaluation=Evaluation(every_steps=2, examples=16, final_examples=64),
    )  # fmt: skip
    pretrain(config, quiet=True)
    again = small_config(
        tiny_shards_dir, tmp_path / "other", steps=4,
        evaluation=Evaluation(every_steps=2, examples=16, final_examples=16),
    )  # fmt: skip
    pretrain(again, quiet=True)
    states = [checkpoint.latest_good(tmp_path / name / "checkpoints", pytest.fail) for name in ("run", "other")]
    best = [state.state["run"]["best_value"] for state in states]  # type: ignore[union-attr]
    assert best[0] == best[1]


def test_every_corpus_is_evaluated(tiny_shards_dir: Path, tmp_path: Path) -> None:
    config = small_config(tiny_shards_dir, tmp_path, extra_data=(tiny_shards_dir,))
    corpora = open_corpora(config)
    dev = DevSet(corpora.dev, corpora.unigram_counts(), config.examples, corpora.vocabulary, 8)
    batches = dev.batches("sop", 32)
    assert [batch.source for batch in batches] == [0, 0, 1, 1]

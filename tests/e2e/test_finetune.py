"""Fine-tuning from the task file to the scored model: every kind, resume, seeds, ensembles."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

from litebert.cli import main
from litebert.common.errors import CheckpointError, ConfigError, DataError
from litebert.common.rows import read_rows
from litebert.interop.hf import load_model, save_model
from litebert.model.config import ModelConfig
from litebert.model.heads import PretrainingModel
from litebert.predict.evaluate import evaluate_models
from litebert.tasks.task_file import TaskFile
from litebert.train.finetuning import engine as engine
from litebert.train.finetuning.config import FinetuneConfig
from litebert.train.finetuning.engine import finetune
from litebert.train.finetuning.results import FinetuneResult

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "custom_task"
KINDS = sorted(path.stem for path in EXAMPLES.glob("*.toml"))


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer_dir: Path) -> Path:
    """A model folder with random weights."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    config = ModelConfig(
        vocab_size=1000, embedding_size=32, hidden_size=64, num_layers=2, num_heads=2,
        max_positions=128, initializer_range=0.05,
    )  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    save_model(PretrainingModel(config, generator=generator), folder, tiny_tokenizer_dir)
    return folder


def model_of(result: FinetuneResult) -> Path:
    assert result.model is not None
    return result.model


def config_of(kind: str, model: Path, out: Path, **changes: Any) -> FinetuneConfig:
    config = FinetuneConfig(str(EXAMPLES / f"{kind}.toml"), model=str(model), out=out)
    return replace(config, **{"lr": 1e-3, "batch_size": 16, "epochs": 20, **changes})


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_learns_beyond_its_baseline(tiny_model: Path, tmp_path: Path, kind: str) -> None:
    epochs = 40 if kind == "multi_label" else 20  # three decisions an example: slower
    # The recipe for pairs keeps what weights know, and these are random.
    plain = {"epochs": epochs, "lr_decay": 1.0, "pooler": "weights"}
    result = finetune(config_of(kind, tiny_model, tmp_path / "run", **plain))
    scale = 100 if kind == "span_extraction" else 1
    assert result.scores[result.metric] > result.baseline[result.metric] + 0.25 * scale
    model = tmp_path / "run" / "model"
    described = TaskFile.read(model)
    assert described is not None
    assert (described.name, described.max_length) == (result.task, described.max_length)
    (evaluation,) = evaluate_models(str(EXAMPLES / f"{kind}.toml"), [str(model)], None)
    assert evaluation.scores == pytest.approx(result.scores, abs=1e-6)
    assert {p.name for p in (tmp_path / "run").iterdir()} >= {
        "manifest.json", "metrics.jsonl", "mistakes.json", "model", "predictions", "result.json",
    }  # fmt: skip
    card = (model / "README.md").read_text()
    score, baseline = result.scores[result.metric], result.baseline[result.metric]
    assert f"| {result.metric} | {score:.4g} | {baseline:.4g} |" in card
    assert "| learning rate | 0.001 after warm-up" in card


@pytest.mark.parametrize("kind", ["span_extraction", "token_classification"])
def test_a_head_without_a_pooler_has_none_to_whiten(kind: str, tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="whitened pooler is for classes, scores and choices"):
        finetune(config_of(kind, tiny_model, tmp_path / "run", pooler="whitened"))


def squad2_files(folder: Path) -> Path:
    """The span example in SQuAD 2.0's layout, every third question without answer."""
    for part in ("train", "dev"):
        paragraphs = []
        lines = (EXAMPLES / f"families_{part}.jsonl").read_text().splitlines()
        for number, line in enumerate(lines):
            row = json.loads(line)
            none = number % 3 == 0
            context = row["passage"].replace(row["answer"], "many") if none else row["passage"]
            answers = [] if none else [{"text": row["answer"], "answer_start": row["start"]}]
            qa = {"id": str(number), "question": row["question"], "answers": answers,
                  "is_impossible": none}  # fmt: skip
            paragraphs.append({"context": context, "qas": [qa]})
        folder.mkdir(exist_ok=True)
        data = {"version": "v2.0", "data": [{"title": "t", "paragraphs": paragraphs}]}
        (folder / f"{part}-v2.0.json").write_text(json.dumps(data))
    return folder


@pytest.mark.parametrize("head", ["paper", "classic"])
def test_squad2_with_both_heads(tiny_model: Path, tmp_path: Path, head: Literal["paper", "classic"]) -> None:
    data = squad2_files(tmp_path / "data")
    config = FinetuneConfig(
        "squad2", model=str(tiny_model), data=data, out=tmp_path / "run", head=head,
        lr=1e-3, batch_size=16, epochs=20, max_length=96,
    )  # fmt: skip
    result = finetune(config)
    assert result.scores["best_f1"] > result.baseline["best_f1"] + 20
    assert result.scores["best_f1"] >= result.scores["f1"]
    described = TaskFile.read(tmp_path / "run" / "model")
    assert described is not None
    assert described.no_answer_threshold == result.scores["best_f1_thresh"]
    predictions = tmp_path / "run" / "predictions" / "dev"
    assert {p.name for p in predictions.iterdir()} == {
        "predictions.json", "nbest.json", "null_odds.json", "answers.json",
    }  # fmt: skip


class Killed(Exception):
    pass


def test_a_killed_run_goes_on_to_the_same_weights(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of("classification", tiny_model, tmp_path / "whole", epochs=None, steps=24,
                       eval_every_steps=6, dropout=0.1)  # fmt: skip
    whole = finetune(config)
    next_step = engine.FineTuning.next_step

    def killed(self: engine.FineTuning) -> object:
        if self.state.step == 15:
            raise Killed
        return next_step(self)

    parts = replace(config, out=tmp_path / "parts")
    monkeypatch.setattr(engine.FineTuning, "next_step", killed)
    with pytest.raises(Killed):
        finetune(parts)
    monkeypatch.undo()
    with pytest.raises(DataError, match="already holds a run"):
        finetune(parts)
    with pytest.raises(CheckpointError, match=r"lr = 0\.001, not 0\.1"):
        finetune(replace(parts, resume="auto", lr=0.1))
    resumed = finetune(replace(parts, resume="auto"))
    assert resumed.scores == whole.scores
    assert resumed.best_step == whole.best_step
    one, two = (load_model(model_of(r)).state_dict() for r in (whole, resumed))
    assert all(torch.equal(one[name], two[name]) for name in one)
    losses = [
        [line["loss"] for line in map(json.loads, (run / "metrics.jsonl").open()) if "loss" in line]
        for run in (whole.run, resumed.run)
    ]
    assert losses[0] == losses[1]
    assert finetune(replace(parts, resume="auto")) == resumed  # finished: nothing to do
    with pytest.raises(CheckpointError, match="seed = 0, not 1"):
        finetune(replace(parts, resume="auto", seed=1))


def test_accumulation_changes_nothing_but_rounding(tiny_model: Path, tmp_path: Path) -> None:
    for kind in ("classification", "token_classification", "multiple_choice"):
        weights = []
        for max_tokens in (100_000, 64):
            out = tmp_path / kind / str(max_tokens)
            result = finetune(
                config_of(
                    kind,
                    tiny_model,
                    out,
                    epochs=None,
                    steps=4,
                    max_tokens=max_tokens,
                    dropout=0.0,
                    classifier_dropout=0.0,
                    word_dropout=0.0,
                    eval_every_steps=4,
                )
            )
            weights.append(load_model(model_of(result)).state_dict())
        for name in weights[0]:
            torch.testing.assert_close(weights[0][name], weights[1][name], atol=2e-4, rtol=0)


def test_seeds_give_median_and_spread(tiny_model: Path, tmp_path: Path) -> None:
    config = config_of("regression", tiny_model, tmp_path / "run", epochs=2, seeds=3)
    result = finetune(config)
    values = sorted(row["pearson"] for row in result.by_seed)
    assert len(values) == 3
    assert result.scores["pearson"] == values[1]
    assert result.spread["pearson"] == pytest.approx(values[2] - values[0])
    best = max(result.by_seed, key=lambda row: row["spearman"])
    folder = tmp_path / "run" / f"seed-{int(best['seed'])}" / "model"
    chosen, copied = load_model(folder).state_dict(), load_model(model_of(result)).state_dict()
    assert all(torch.equal(chosen[name], copied[name]) for name in chosen)


def test_ensembles_are_chosen_on_dev(tiny_model: Path, tmp_path: Path) -> None:
    config = config_of("pair_classification", tiny_model, tmp_path / "run", epochs=3, seeds=2,
                       keep_checkpoints=2)  # fmt: skip
    finetune(config)
    models = [str(tmp_path / "run" / f"seed-{seed}" / name) for seed in (0, 1) for name in ("model", "model-2")]
    task = str(EXAMPLES / "pair_classification.toml")
    single = [evaluate_models(task, [m], None)[0].scores["accuracy"] for m in models]
    assert single[0] >= single[1]
    (chosen,) = evaluate_models(task, models, None, choose=True)
    assert chosen.scores["accuracy"] >= max(single)
    assert set(chosen.models) <= set(models)
    with_test = tmp_path / "with_test.toml"
    dev = 'dev = "statements_dev.tsv"\n'
    with_test.write_text(Path(task).read_text().replace(dev, f"{dev}test{dev[3:]}"))
    (of_test,) = evaluate_models(str(with_test), models, EXAMPLES, choose=True, split="test")
    assert (of_test.scores, of_test.models) == ({}, chosen.models), "chosen on dev all the same"


def test_early_stopping_and_other_starts(tiny_model: Path, tmp_path: Path) -> None:
    first = finetune(config_of("pair_classification", tiny_model, tmp_path / "a", epochs=8))
    patient = finetune(
        config_of(
            "pair_classification",
            tiny_model,
            tmp_path / "b",
            epochs=None,
            steps=200,
            eval_every_steps=2,
            patience=3,
            lr=1e-6,
        )
    )
    assert patient.steps < 200
    from_other = finetune(config_of("classification", model_of(first), tmp_path / "c", epochs=1))
    assert from_other.scores["accuracy"] > 0
    random = config_of("classification", tiny_model, tmp_path / "d", epochs=1, start="random")
    assert finetune(random).scores["accuracy"] >= 0


def written_predictions(run: Path) -> list[dict[str, Any]]:
    lines = (run / "predictions" / "dev" / "dev-predictions.jsonl").read_text()
    return [json.loads(line) for line in lines.splitlines()]


def test_a_fine_tuned_classifier_predicts_the_same_in_transformers(tiny_model: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    for kind, file in (("classification", "tickets_dev.csv"), ("multi_label", "films_dev.jsonl")):
        result = finetune(config_of(kind, tiny_model, tmp_path / kind, epochs=6))
        pipeline = transformers.pipeline("text-classification", str(result.model), top_k=None)
        texts = [str(next(iter(row.values()))) for _, row in read_rows(EXAMPLES / file)]
        for row, theirs in zip(written_predictions(result.run), pipeline(texts), strict=True):
            scores = {entry["label"]: entry["score"] for entry in theirs}
            assert scores == pytest.approx(row["scores"], abs=1e-5)


def test_a_fine_tuned_span_model_predicts_the_same_in_transformers(tiny_model: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    result = finetune(config_of("span_extraction", tiny_model, tmp_path / "run"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_of(result))
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(model_of(result)).eval()
    rows = [row for _, row in read_rows(EXAMPLES / "families_dev.jsonl")]
    for ours, row in zip(written_predictions(result.run), rows, strict=True):
        encoded = tokenizer(row["question"], row["passage"], return_tensors="pt", return_offsets_mapping=True)
        offsets = encoded.pop("offset_mapping")[0].tolist()
        with torch.no_grad():
            out = model(**encoded)
        passage = [i for i, part in enumerate(encoded.sequence_ids()) if part == 1]
        start, end = max(
            ((i, j) for i in passage for j in passage if i <= j < i + 30),
            key=lambda pair: out.start_logits[0, pair[0]] + out.end_logits[0, pair[1]],
        )
        answer = str(row["passage"])[offsets[start][0] : offsets[end][1]]
        assert answer.strip() == ours["answer"]


def test_the_command_line(tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    glue = tmp_path / "glue" / "SST-2"
    glue.mkdir(parents=True)
    rows = [f"{word} film number {n}\t{label}" for n in range(12) for word, label in
            (("lovely", 1), ("dull", 0))]  # fmt: skip
    for split in ("train", "dev"):
        (glue / f"{split}.tsv").write_text("sentence\tlabel\n" + "\n".join(rows) + "\n")
    (glue / "test.tsv").write_text("index\tsentence\n0\tlovely film\n")
    run = tmp_path / "run"
    arguments = ["finetune", "sst2", "--model", str(tiny_model), "--data", str(tmp_path / "glue")]
    main([*arguments, "--out", str(run), "--steps", "12", "--lr", "3e-3", "--json"])
    result = json.loads(capsys.readouterr().out)
    assert result["metric"] == "accuracy"
    assert result["steps"] == 12
    task = ["evaluate", "sst2", "--model", str(run / "model"), "--data", str(tmp_path / "glue")]
    main([*task, "--json"])
    assert json.loads(capsys.readouterr().out) == pytest.approx(result["scores"])
    main([*task, "--split", "test", "--out", str(tmp_path / "files")])
    assert (tmp_path / "files" / "SST-2.tsv").read_text().startswith("index\tprediction\n0\t")
    (glue / "train.tsv").write_text("sentence\tlabel\nfine\t1\nodd\t7\nbad\t0\n")
    strict = [*arguments, "--out", str(tmp_path / "strict"), "--steps", "2"]
    with pytest.raises(SystemExit):
        main([*strict, "--strict"])
    assert "train.tsv:3: unknown label" in capsys.readouterr().err
    main(strict)
    messages = capsys.readouterr().err
    assert f"{glue / 'train.tsv'}:3: unknown label: '7'" in messages
    assert "1 bad row: 1 unknown label" in messages


def test_a_terminated_process_saves_and_goes_on(tiny_model: Path, tmp_path: Path) -> None:
    config = config_of("classification", tiny_model, tmp_path / "run", epochs=None, steps=600,
                       eval_every_steps=50)  # fmt: skip
    flags = ["--lr", "1e-3", "--batch-size", "16", "--steps", "600", "--eval-every-steps", "50"]
    process = subprocess.Popen(
        [sys.executable, "-m", "litebert", "finetune", config.task, "--model", config.model,
         "--out", str(config.out), *flags],
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    while process.poll() is None and not list(config.out.glob("checkpoints/step-*")):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, message = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM, message
    assert "go on with --resume auto" in message
    resumed = finetune(replace(config, resume="auto"))
    whole = finetune(replace(config, out=tmp_path / "whole"))
    assert resumed.scores == whole.scores
    one, two = (load_model(model_of(r)).state_dict() for r in (whole, resumed))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_sweeps_from_the_command_line(tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = [str(EXAMPLES / f"{kind}.toml") for kind in ("classification", "regression")]
    arguments = ["sweep", *tasks, "--model", str(tiny_model), "--out", str(tmp_path / "sweep"),
                 "--grid", "steps=2,4", "--seeds", "2", "--json"]  # fmt: skip
    main(arguments)
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["settings"]["steps"] for row in rows] == [2, 4, 2, 4]
    assert all(row["median"] is not None for row in rows)
    results = {p: p.stat().st_mtime_ns for p in (tmp_path / "sweep").rglob("result.json")}
    assert len(results) == 4 * 3
    main(arguments)  # nothing is run again
    assert json.loads(capsys.readouterr().out)["rows"] == rows
    assert results == {p: p.stat().st_mtime_ns for p in (tmp_path / "sweep").rglob("result.json")}


@pytest.mark.slow
def test_a_sweep_side_by_side_gives_the_same_table(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = str(EXAMPLES / "classification.toml")
    rows = []
    for out, more in (("one", []), ("two", ["--workers", "2"])):
        main(["sweep", task, "--model", str(tiny_model), "--out", str(tmp_path / out),
              "--grid", "steps=2,4", "--grid", "threads=1", "--json", *more])  # fmt: skip
        rows.append(json.loads(capsys.readouterr().out)["rows"])
    for one, two in zip(*rows, strict=True):
        assert one | {"seconds": 0} == two | {"seconds": 0}
    assert len(list((tmp_path / "two" / "jobs").glob("*.log"))) == 2


def test_models_of_other_tasks_are_refused(tiny_model: Path, tmp_path: Path) -> None:
    result = finetune(config_of("regression", tiny_model, tmp_path / "run", epochs=1))
    with pytest.raises(CheckpointError, match=r"fine-tuned on hotels \(regression\)"):
        evaluate_models(str(EXAMPLES / "classification.toml"), [str(result.model)], None)
    with pytest.raises(CheckpointError, match=r"is a pretraining model, which cannot do"):
        evaluate_models(str(EXAMPLES / "regression.toml"), [str(tiny_model)], None)
    with pytest.raises(ConfigError, match="the model reads 8 to 128"):
        finetune(config_of("regression", tiny_model, tmp_path / "long", max_length=256))


def hotels(folder: Path, factor: float, offset: float) -> Path:
    """The regression example on another scale."""
    folder.mkdir()
    for part in ("train", "dev"):
        rows = [row for _, row in read_rows(EXAMPLES / f"hotels_{part}.csv")]
        lines = [json.dumps({"review": r["review"], "stars": factor * float(str(r["stars"])) + offset}) for r in rows]
        (folder / f"hotels_{part}.jsonl").write_text("\n".join(lines))
    text = (EXAMPLES / "regression.toml").read_text().replace(".csv", ".jsonl")
    (folder / "task.toml").write_text(text.replace('metric = "spearman"\n', ""))
    return folder / "task.toml"


@pytest.mark.parametrize(
    ("factor", "offset"), [(1.0, 0.0), (20.0, 0.0), pytest.param(0.01, -1000.0, marks=pytest.mark.slow)]
)
def test_numbers_come_back_on_the_users_scale(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factor: float, offset: float
) -> None:
    """Litebert, transformers and ONNX read the same values; a resumed run ends in the same bits."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    from litebert.interop.onnx.export import export_onnx
    from litebert.predict.predictor import Predictor, answer_rows

    task = hotels(tmp_path / "data", factor, offset)
    config = FinetuneConfig(str(task), model=str(tiny_model), out=tmp_path / "whole", lr=2e-3, batch_size=16, epochs=20)
    result = finetune(config)
    assert result.scores["mae"] < 0.6 * result.baseline["mae"]
    assert result.scores["rmse"] < 0.7 * result.baseline["rmse"]
    (evaluation,) = evaluate_models(str(task), [str(result.model)], None)
    assert evaluation.scores == pytest.approx(result.scores, rel=1e-5, abs=1e-5)
    rows = [(n, row) for n, row in read_rows(tmp_path / "data" / "hotels_dev.jsonl")][:8]
    onnx = tmp_path / "onnx"
    export_onnx(model_of(result), onnx)
    told = [
        [float(str(answer["value"])) for answer in answer_rows(Predictor.load(folder), None, rows)]
        for folder in (model_of(result), onnx)
    ]
    tokenizer = AutoTokenizer.from_pretrained(model_of(result))
    model = AutoModelForSequenceClassification.from_pretrained(model_of(result)).eval()
    with torch.no_grad():
        told.append([model(**tokenizer(row["review"], return_tensors="pt")).logits.item() for _, row in rows])
    for values in told[1:]:
        assert values == pytest.approx(told[0], abs=1e-3 * factor)
    low, high = offset, 5 * factor + offset
    assert all(low - factor <= value <= high + factor for value in told[0])
    if factor != 1.0:
        return
    next_step = engine.FineTuning.next_step

    def killed(self: engine.FineTuning) -> object:
        if self.state.step == 100:
            raise Killed
        return next_step(self)

    parts = replace(config, out=tmp_path / "parts")
    monkeypatch.setattr(engine.FineTuning, "next_step", killed)
    with pytest.raises(Killed):
        finetune(parts)
    monkeypatch.undo()
    resumed = finetune(replace(parts, resume="auto"))
    assert resumed.scores == result.scores
    one, two = (load_model(model_of(r)).state_dict() for r in (result, resumed))
    assert all(torch.equal(one[name], two[name]) for name in one)

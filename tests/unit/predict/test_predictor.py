"""The predictor: input order, batches without influence, the right head, both runtimes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from litebert.cli import main
from litebert.common.errors import CheckpointError, DataError, InputError
from litebert.model.head_table import Head
from litebert.predict.evaluate import evaluate_models, outputs_of
from litebert.predict.inputs import PaddedBatch
from litebert.predict.predictor import Json, Predictor, Record, answer_rows
from litebert.predict.torch_backend import TorchBackend
from litebert.tasks.base import Answer, Example, FloatArray
from litebert.tasks.forms.spans import SpanForm
from litebert.tasks.registry import find_task
from litebert.tasks.scoring import TaskSplit, score_split
from litebert.tasks.task_file import TaskFile

Folders = Callable[..., Path]

WORDS = ["the value of a name", "is", "expressions in parentheses yield a tuple object", "a b c"]
TEXTS = [f"{WORDS[i % 4]} {'word ' * (i % 7)}[MASK] {i}" for i in range(30)]

RECORDS: dict[Head, list[dict[str, Any]]] = {
    "classification": [{"text": text} for text in TEXTS] + [{"text": "a", "text_pair": "b c d"}],
    "regression": [{"text": text} for text in TEXTS[:6]],
    "multiple_choice": [
        {"text": "a long passage", "question": "which _ is it?", "options": ["one", "the two"]},
        {"text": "another", "options": ["a", "b", "c"]},
    ],
    "token_classification": [{"words": ["Ann", "Lee", "sat"]}, {"text": "one two three " * 40}],
    "span": [{"question": "what is it?", "context": "It is a name. " * 30}, {"question": "who?", "context": "Ann."}],
    "squad2": [{"question": "what is it?", "context": "It is a name. " * 30}, {"question": "who?", "context": "Ann."}],
}


def only(answers: Iterable[Json]) -> Any:
    """The one answer, whose JSON values may be looked at."""
    (answer,) = answers
    return answer


@pytest.fixture(params=["torch", "onnx"])
def load(request: pytest.FixtureRequest, model_folder: Folders, onnx_folder: Folders) -> Callable[[Head], Predictor]:
    folders = model_folder if request.param == "torch" else onnx_folder
    return lambda head: Predictor.load(folders(head), request.param, threads=1, max_tokens=128)


def test_answers_do_not_depend_on_their_batch(load: Callable[[Head], Predictor]) -> None:
    predictor = load("pretraining")
    together = predictor.fill_mask(TEXTS, top_k=3)
    assert len(together) == len(TEXTS)
    for text, answer in list(zip(TEXTS, together, strict=True))[::4]:
        alone = predictor.fill_mask([text], top_k=3)[0]
        assert alone.text == answer.text
        for one, other in zip(alone.masks[0], answer.masks[0], strict=True):
            assert one.token_id == other.token_id
            assert one.score == pytest.approx(other.score, rel=1e-4)


def test_order_and_embeddings(load: Callable[[Head], Predictor]) -> None:
    predictor = load("pretraining")
    order = predictor.order([("it is a name", "of the value"), ("of the value", "it is a name")])
    for judged in order:
        assert judged.in_order + judged.swapped == pytest.approx(1.0, abs=1e-6)
    assert order[0] != order[1]
    vectors = predictor.embed(TEXTS)
    first = predictor.embed(TEXTS, pooling="cls")
    assert vectors.shape == first.shape == (len(TEXTS), 32)
    assert np.abs(vectors - first).max() > 0.01
    shuffled = predictor.embed(TEXTS[::-1])
    assert np.abs(shuffled[::-1] - vectors).max() < 1e-5


def test_layer_path_has_a_step_for_each_layer(load: Callable[[Head], Predictor]) -> None:
    path = load("encoder").layer_path("the value of a name")
    assert len(path.distance) == len(path.angle_degrees) == 3
    assert min(path.distance) > 0
    assert all(0 < angle < 180 for angle in path.angle_degrees)


@pytest.mark.parametrize("head", RECORDS)
def test_runtimes_agree_on_every_task(head: Head, model_folder: Folders, onnx_folder: Folders) -> None:
    records = RECORDS[head]
    one = Predictor.load(model_folder(head), "torch", threads=1).predict(records)
    other = Predictor.load(onnx_folder(head), "onnx", threads=1).predict(records)
    assert len(one) == len(records)
    assert_nearly_equal(one, other)


def assert_nearly_equal(one: object, other: object) -> None:
    if isinstance(one, dict):
        assert isinstance(other, dict)
        assert one.keys() == other.keys()
        for key in one:
            assert_nearly_equal(one[key], other[key])
    elif isinstance(one, (list, tuple)):
        assert isinstance(other, (list, tuple))
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            assert_nearly_equal(left, right)
    elif isinstance(one, float):
        assert one == pytest.approx(other, abs=1e-4)
    else:
        assert one == other


def test_answers_are_cut_out_of_the_passage(load: Callable[[Head], Predictor]) -> None:
    context = "It is a name. Ann Lee gave the value to Bo. " * 8
    for head in ("span", "squad2"):
        answer = only(load(head).predict([{"question": "who?", "context": context}]))
        for span in answer["best"]:
            assert context[span["start"] : span["end"]] == span["text"]


def test_examples_of_a_task_are_scored(load: Callable[[Head], Predictor]) -> None:
    task = find_task("squad1")
    examples = [Example("a", "Ann sat.", "Who sat?", gold=(Answer("Ann", 0),))]
    predictor = load("span")
    features = task.form.features(examples, predictor.tokenizer, 64)
    said = outputs_of(predictor.backend, task.form, features, predictor.tokenizer.pad_id)
    scores, _ = score_split(task, TaskSplit("dev", examples, features), said)
    assert 0 <= scores["f1"] <= 100


def test_a_model_without_the_head_is_refused(load: Callable[[Head], Predictor]) -> None:
    with pytest.raises(InputError, match="this model is for span and gives no masked_logits"):
        load("span").fill_mask(["a [MASK]"])
    with pytest.raises(InputError, match="fine-tune it"):
        load("pretraining").predict([{"text": "a"}])
    with pytest.raises(InputError, match="gives no logits"):
        list(answer_rows(load("pretraining"), "sst2", [(1, {"text": "a"})]))


def test_the_task_file_of_a_fine_tuned_model_counts(tmp_path: Path, model_folder: Folders) -> None:
    """Several labels at once, and a tuned threshold: only ``task.json`` knows of them."""
    import shutil

    from litebert.interop.onnx.export import export_onnx

    labels = Predictor.load(model_folder("classification")).purpose.labels
    shutil.copytree(model_folder("classification"), tmp_path / "many")
    TaskFile("mine", "multi_label", labels, max_length=16).write(tmp_path / "many")
    export_onnx(tmp_path / "many", tmp_path / "many-onnx")
    for folder in (tmp_path / "many", tmp_path / "many-onnx"):
        predictor = Predictor.load(folder)
        answer = only(predictor.predict([{"text": "a name " * 40}]))
        assert set(answer["labels"]) == {n for n, p in answer["scores"].items() if p >= 0.5}
        assert len(predictor.question({"text": "a name " * 40}, predictor.form()).features[0]) == 16
    shutil.copytree(model_folder("span"), tmp_path / "sure")
    TaskFile("squad2", "span_extraction", (), 64, True, 1.0).write(tmp_path / "sure")
    asked = [{"question": "who?", "context": "Ann sat."}]
    answer = only(Predictor.load(tmp_path / "sure").predict(asked))
    assert answer["answer"]
    assert 0 <= answer["no_answer"] <= 1


def fine_tuned(source: Path, folder: Path, task: TaskFile) -> list[Path]:
    """Return a folder with this task.json, and its export."""
    import shutil

    from litebert.interop.onnx.export import export_onnx

    shutil.copytree(source, folder)
    task.write(folder)
    exported = folder.with_name(f"{folder.name}-onnx")
    export_onnx(folder, exported)
    assert TaskFile.read(exported) == task
    return [folder, exported]


def test_a_task_is_asked_as_the_model_was_fine_tuned(tmp_path: Path, model_folder: Folders) -> None:
    """Labels, length and columns come from the folder; another task's labels are refused."""
    described = TaskFile("mine", "classification", ("bad", "fine", "good"), 16, columns={"text": "message"})
    for folder in fine_tuned(model_folder("classification"), tmp_path / "mine", described):
        predictor = Predictor.load(folder)
        for column in ("text", "message"):
            answer = only(answer_rows(predictor, None, [(1, {column: "a name " * 40})]))
            assert set(answer["scores"]) == {"bad", "fine", "good"}
        task = find_task("sst2")
        with pytest.raises(InputError, match="labels .bad, fine, good. are not those of sst2"):
            list(answer_rows(predictor, "sst2", [(1, {"text": "a"})]))
        assert predictor.purpose.length_for(task) == 16
        (tmp_path / "dev.tsv").write_text("sentence\tlabel\na name\t1\n")
        with pytest.raises(InputError, match="labels .bad, fine, good. are not those of sst2"):
            evaluate_models(task, [str(folder)], tmp_path)
        with pytest.raises(InputError, match="fine-tuned on mine .classification."):
            list(answer_rows(predictor, "stsb", [(1, {"text": "a", "text_pair": "b"})]))


def foreign(source: Path, folder: Path, **changes: object) -> list[Path]:
    """Return a folder with these values in its config.json and no task.json, and its export."""
    import shutil

    from litebert.interop.onnx.export import export_onnx

    shutil.copytree(source, folder)
    config = folder / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), **changes}))
    exported = folder.with_name(f"{folder.name}-onnx")
    export_onnx(folder, exported)
    return [folder, exported]


def named(*labels: str) -> dict[str, str]:
    return {str(index): label for index, label in enumerate(labels)}


NLI = ("contradiction", "entailment", "neutral")  # as the table of tasks has them
OTHERS = ("entailment", "neutral", "contradiction")  # as other tools often have them
PAIRS = [("a name", "the value"), ("of it", "is"), ("b", "a tuple object"), ("is a", "name")]


def written_labels(model: Path, data: Path) -> list[str]:
    """Return the labels that evaluate writes for MNLI."""
    (found,) = evaluate_models("mnli", [str(model)], data, out=model.with_name("files"))
    return [line.split("\t")[-1] for line in found.files[0].read_text().splitlines()[1:]]


def test_labels_of_foreign_folders_are_mapped_to_the_tasks(tmp_path: Path, model_folder: Folders) -> None:
    lines = ["\t".join((*pair, NLI[0])) for pair in PAIRS]
    data = tmp_path / "dev_matched.tsv"
    data.write_text("\n".join(["sentence1\tsentence2\tgold_label", *lines]))
    rows = [(n, {"text": one, "text_pair": two}) for n, (one, two) in enumerate(PAIRS)]
    source = model_folder("classification")
    plain = foreign(source, tmp_path / "plain", id2label=named("LABEL_0", "LABEL_1", "LABEL_2"))[0]
    unnamed = Predictor.load(plain)
    outputs = [NLI.index(label) for label in written_labels(plain, data)]
    answers = list(answer_rows(unnamed, "mnli", rows))
    assert [answer["label"] for answer in answers] == [NLI[output] for output in outputs]
    for folder in foreign(source, tmp_path / "other", id2label=named(*OTHERS)):
        predictor = Predictor.load(folder)
        names = [OTHERS[output] for output in outputs]
        assert [a["label"] for a in answer_rows(predictor, "mnli", rows)] == names
        assert written_labels(folder, data) == names
        with pytest.raises(InputError, match=r"contradiction\) are not those of sst2 \(0, 1\)"):
            evaluate_models("sst2", [str(folder)], data)
        with pytest.raises(InputError, match=r"are not those of stsb \(none\)"):
            predictor.form_for(find_task("stsb"))
    with pytest.raises(InputError, match=r"LABEL_2\) are not those of sst2"):
        list(answer_rows(unnamed, "sst2", rows))


def test_several_labels_at_once_in_a_foreign_folder(tmp_path: Path, model_folder: Folders) -> None:
    several = "multi_label_classification"
    for folder in foreign(model_folder("classification"), tmp_path / "m", problem_type=several):
        answer = only(Predictor.load(folder).predict([{"text": "a name"}]))
        assert set(answer["labels"]) == {n for n, p in answer["scores"].items() if p >= 0.5}


def evaluated(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[dict[str, Any], str]:
    main(["evaluate", *map(str, arguments), "--json"])
    out, err = capsys.readouterr()
    return json.loads(out), err


def test_both_runtimes_score_the_same_splits(
    tmp_path: Path, model_folder: Folders, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also a foreign folder with its labels in another order, and one with Optimum's layout."""
    golds = (*NLI, "neutral")
    lines = ["\t".join((*pair, gold)) for pair, gold in zip(PAIRS, golds, strict=True)]
    table = "\n".join(["sentence1\tsentence2\tgold_label", *lines])
    for name in ("dev_matched", "dev_mismatched", "diagnostic"):
        (tmp_path / f"{name}.tsv").write_text(table)
    folder, exported = foreign(model_folder("classification"), tmp_path / "nli", id2label=named(*OTHERS))
    (exported / "onnx").mkdir()
    (exported / "model.onnx").rename(exported / "onnx/model.onnx")
    for task, names in (("mnli", {"accuracy", "dev_mismatched_accuracy"}), ("ax", {"matthews", "accuracy"})):
        written = []
        for model in (folder, exported):
            out = tmp_path / f"{task}-{model.name}"
            where = ("--model", model, "--data", tmp_path, "--out", out)
            scores, _ = evaluated(capsys, task, *where)
            assert scores.keys() == names
            written.append((scores, [file.read_text() for file in sorted(out.iterdir())]))
        assert written[0] == written[1]
        both = ("--model", folder, "--model", exported, "--data", tmp_path)
        mixed, notes = evaluated(capsys, task, *both, "--choose")
        assert mixed == written[0][0], "twice the same model, once in each runtime"
        assert f"ensemble: {folder}" in notes
    one_file = ("--model", exported, "--data", tmp_path / "dev_matched.tsv")
    assert evaluated(capsys, "mnli", *one_file)[0].keys() == {"accuracy"}
    (tmp_path / "diagnostic.tsv").write_text("sentence1\tsentence2\na\tb\n")
    for model in (folder, exported):
        scores, notes = evaluated(capsys, "ax", "--model", model, "--data", tmp_path)
        assert scores == {}
        assert "no score for test" in notes


def test_a_tuned_threshold_counts_only_where_nothing_is_scored(
    tmp_path: Path, model_folder: Folders, capsys: pytest.CaptureFixture[str]
) -> None:
    described = TaskFile("squad2", "span_extraction", (), 32, True, no_answer_threshold=0.0)
    questions = [
        {"id": "a", "question": "Who sat?", "answers": [{"text": "Ann", "answer_start": 0}]},
        {"id": "b", "question": "Who ran?", "answers": [], "is_impossible": True},
    ]
    data = {"data": [{"paragraphs": [{"context": "Ann sat. Bo did not.", "qas": questions}]}]}
    for split in ("dev", "test"):
        (tmp_path / f"{split}.json").write_text(json.dumps(data))
    scores = []
    for folder in fine_tuned(model_folder("span"), tmp_path / "qa", described):
        where = ("--model", folder, "--data", tmp_path)
        fixed = tmp_path / f"{folder.name}-dev"
        scores.append(evaluated(capsys, "squad2", *where, "--out", fixed)[0])
        odds = json.loads((fixed / "null_odds.json").read_text())
        for id, answer in json.loads((fixed / "predictions.json").read_text()).items():
            assert (answer == "") == (odds[id] > 0.5), "scores use the task's own threshold"
        out = tmp_path / f"{folder.name}-files"
        evaluated(capsys, "squad2", *where, "--split", "test", "--out", out)
        assert set(json.loads((out / "predictions.json").read_text()).values()) == {""}
    assert scores[0] == pytest.approx(scores[1], abs=1e-3)


def test_inputs_are_cut_to_what_the_model_can_read(tmp_path: Path, model_folder: Folders) -> None:
    described = TaskFile("mine", "classification", ("bad", "fine", "good"), max_length=10_000)
    record = {"text": "a name " * 500}
    for folder in fine_tuned(model_folder("classification"), tmp_path / "mine", described):
        predictor = Predictor.load(folder)
        positions = predictor.backend.info.max_length
        assert predictor.purpose.length_for(find_task("sst2")) == positions
        (feature,) = predictor.question(record, predictor.form()).features
        assert len(feature) == positions


def test_windows_overlap_as_in_training(tmp_path: Path, model_folder: Folders) -> None:
    described = TaskFile("squad2", "span_extraction", (), 32, True, 0.5, stride=4)
    context = "the value of a name " * 20
    record = {"question": "which?", "context": context}
    for folder in fine_tuned(model_folder("span"), tmp_path / "qa", described):
        predictor = Predictor.load(folder)
        form = predictor.form_for(find_task("squad1"))
        assert isinstance(form, SpanForm)
        assert (form.stride, form.may_be_unanswerable) == (4, False)
        close = predictor.question(record, predictor.form()).features
        far = predictor.question(record, replace(form, stride=16)).features
        assert len(close) > 3 * len(far) > 3
        assert max(map(len, close)) == 32


def test_the_dev_check_scores_as_the_model_was_fine_tuned(
    tmp_path: Path, model_folder: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    from litebert.predict.export import DevCheck, export_checked

    (tmp_path / "task.toml").write_text(
        'name = "mine"\nkind = "classification"\nlabels = ["O", "B-NAME", "I-NAME"]\n'
        'max_length = 64\n[columns]\ntext = "text"\nlabel = "label"\n'
        '[files]\ntrain = "dev.csv"\ndev = "dev.csv"\n'
    )
    lengths: list[int] = []
    texts = ["a name", "the value", "of it " * 30]
    labels = ("O", "B-NAME", "I-NAME")
    rows = [f"{text},{label}" for text, label in zip(texts, labels, strict=True)]
    (tmp_path / "dev.csv").write_text("\n".join(["text,label", *rows]))
    described = TaskFile("mine", "classification", labels, max_length=16)
    folder, _ = fine_tuned(model_folder("classification"), tmp_path / "mine", described)
    dev = DevCheck.parse(f"{tmp_path}/task.toml:{tmp_path}")
    run = TorchBackend.run

    def watched(
        self: TorchBackend, batch: PaddedBatch, outputs: Sequence[str], depth: int | None
    ) -> dict[str, FloatArray]:
        lengths.append(batch.input_ids.shape[1])
        return run(self, batch, outputs, depth)

    monkeypatch.setattr(TorchBackend, "run", watched)
    before = dev.score(folder)
    assert max(lengths) == 16, "the task's own length was used"
    report, drop = export_checked(folder, tmp_path / "out", dev)
    assert drop is not None
    assert (drop.before, drop.after) == (before, before)
    assert TaskFile.read(report.path) == described
    TaskFile("mine", "classification", (*labels[:2], "else"), 16).write(folder)
    with pytest.raises(InputError, match="are not those of mine"):
        export_checked(folder, tmp_path / "other", dev)
    assert not (tmp_path / "other").exists()


@pytest.fixture
def falling(tmp_path: Path, model_folder: Folders, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Return the arguments of an export whose dev score falls from 0.8 to 0.6."""
    from litebert.predict.export import DevCheck

    scores = iter((0.8, 0.6))
    monkeypatch.setattr(DevCheck, "score", lambda self, model: next(scores))
    source, out = str(model_folder("classification")), str(tmp_path / "out")
    return lambda *more: ["export", "onnx", source, out, "--dev", f"sst2:{tmp_path}", *more]


@pytest.mark.parametrize("allowed", [[], ["--max-drop", "0.24"]])
def test_an_export_that_loses_too_much_is_refused(
    falling: Callable[..., list[str]], tmp_path: Path, allowed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(falling(*allowed))
    assert stopped.value.code == 2
    assert "accuracy fell from 0.8 to 0.6" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("flags", [["--force"], ["--max-drop", "0.1"]])
def test_flags_about_the_dev_score_need_a_dev_set(
    model_folder: Folders, tmp_path: Path, flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    source = str(model_folder("classification"))
    with pytest.raises(SystemExit) as stopped:
        main(["export", "onnx", source, str(tmp_path / "out"), *flags])
    assert stopped.value.code == 2
    assert f"{flags[0]} is about the dev score" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("allowed", [["--force"], ["--max-drop", "0.26"]])
def test_an_export_that_may_lose_so_much_is_kept(
    falling: Callable[..., list[str]], tmp_path: Path, allowed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main(falling(*allowed, "--json"))
    assert json.loads(capsys.readouterr().out)["dev"] == {"metric": "accuracy", "before": 0.8, "after": 0.6}
    assert (tmp_path / "out/model.onnx").is_file()


def test_a_taken_folder_is_known_before_anything_is_scored(
    falling: Callable[..., list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from litebert.predict.export import DevCheck

    scored: list[Path] = []
    monkeypatch.setattr(DevCheck, "score", lambda self, model: scored.append(model))
    (tmp_path / "out").mkdir()
    (tmp_path / "out/notes.txt").write_text("mine")
    with pytest.raises(SystemExit) as stopped:
        main(falling())
    assert stopped.value.code == 2
    assert "is not empty" in capsys.readouterr().err
    assert not scored
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["notes.txt"]


def test_depth_runs_fewer_layers(model_folder: Folders, onnx_folder: Folders) -> None:
    full = Predictor.load(model_folder("encoder"), "torch")
    shallow = Predictor.load(model_folder("encoder"), "torch", depth=1, force_depth=True)
    assert np.abs(full.embed(["a name"]) - shallow.embed(["a name"])).max() > 1e-3
    assert len(shallow.layer_path("a name").distance) == 1
    with pytest.raises(InputError, match="outside 1 to 3"):
        Predictor.load(model_folder("encoder"), "torch", depth=4)
    with pytest.raises(InputError, match="export it with"):
        Predictor.load(onnx_folder("encoder"), depth=2)
    with pytest.raises(InputError, match="not trained to answer at depth 2, only at 3"):
        Predictor.load(model_folder("encoder"), "torch", depth=2)


def test_missing_models_are_named(tmp_path: Path, model_folder: Folders) -> None:
    with pytest.raises(CheckpointError, match="does not exist"):
        Predictor.load(tmp_path / "nothing")
    with pytest.raises(CheckpointError, match="litebert export onnx"):
        Predictor.load(model_folder("encoder"), "onnx")


def test_a_broken_onnx_file_is_one_line(tmp_path: Path, onnx_folder: Folders) -> None:
    import shutil

    shutil.copytree(onnx_folder("encoder"), tmp_path / "cut")
    whole = (tmp_path / "cut/model.onnx").read_bytes()
    (tmp_path / "cut/model.onnx").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError, match="cut or not an ONNX model"):
        Predictor.load(tmp_path / "cut")


def test_weights_in_a_second_file_are_found(
    tmp_path: Path, model_folder: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    from litebert.interop.onnx import export as onnx

    monkeypatch.setattr(onnx, "_LARGEST_PROTOBUF_BYTES", 1000)
    onnx.export_onnx(model_folder("encoder"), tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    one = Predictor.load(model_folder("encoder"), "torch").embed(["a name"])
    other = Predictor.load(tmp_path / "out", "onnx").embed(["a name"])
    assert np.abs(one - other).max() < 1e-4


def test_only_what_is_asked_for_is_computed(onnx_folder: Folders) -> None:
    session = Predictor.load(onnx_folder("pretraining")).backend._session  # type: ignore[attr-defined]
    assert "logits" not in {output.name for output in session.get_outputs()}


def test_a_stream_is_answered_before_it_ends(onnx_folder: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("litebert.predict.predictor._GROUP_TOKENS", 50)
    predictor = Predictor.load(onnx_folder("pretraining"), threads=1)
    taken = 0

    def rows() -> Iterator[tuple[int, Record]]:
        nonlocal taken
        for number in range(1000):
            taken = number
            yield number, {"text": f"the value {number}", "id": number}

    answers = answer_rows(predictor, "embed", rows())
    assert next(answers)["id"] == 0
    assert taken < 50, "more was read than a group holds"


def test_rows_without_tokens_are_passed_on_before_the_stream_ends(
    onnx_folder: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("litebert.predict.predictor._GROUP_QUESTIONS", 5)
    predictor = Predictor.load(onnx_folder("pretraining"), threads=1)
    taken: list[int] = []

    def rows() -> Iterator[tuple[int, Record]]:
        for number in range(100):
            taken.append(number)
            yield number, {"text": ""}

    answers = answer_rows(predictor, "embed", rows())
    assert "error" in next(answers)
    assert len(taken) == 5


def test_rows_that_cannot_be_answered_keep_their_place(onnx_folder: Folders) -> None:
    predictor = Predictor.load(onnx_folder("pretraining"), threads=1)
    rows: list[tuple[int, Record]] = [
        (1, {"text": "a [MASK]"}),
        (2, {"text": "none"}),
        (3, {"txt": 1}),
        (4, {"text": "[MASK]"}),
    ]
    answers = list(answer_rows(predictor, "fill-mask", rows))
    assert [sorted(answer) for answer in answers] == [["masks", "text"], ["error"], ["error"], ["masks", "text"]]
    with pytest.raises(DataError, match=r"input:2: the text has no \[MASK\]"):
        list(answer_rows(predictor, "fill-mask", rows, strict=True))


def test_fill_mask_command(onnx_folder: Folders, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(onnx_folder("pretraining"))
    main(["fill-mask", "--model", folder, "the [MASK] of", "--top-k", "2", "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert len(answer["masks"][0]) == 2
    main(["fill-mask", "--model", folder, "the [MASK] of [MASK]"])
    assert "mask 2" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["fill-mask", "--model", folder, "a [MASK]", "--depth", "2"])
    assert "--depth 2" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        main(["fill-mask", "--model", folder, "no mask"])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "[MASK]" in error


def test_predict_command(onnx_folder: Folders, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "pairs.jsonl"
    lines = [json.dumps({"id": i, "text": "a name", "text_pair": "b " * i}) for i in range(5)]
    rows.write_text("\n".join(lines))
    main(["predict", "order", "--model", str(onnx_folder("pretraining")), "--input", str(rows)])
    out, err = capsys.readouterr()
    answers = [json.loads(line) for line in out.splitlines()]
    assert [answer["id"] for answer in answers] == list(range(5))
    assert "error" in answers[0]
    assert "1 of 5 rows could not be answered" in err


@pytest.mark.parametrize("bad", ['{"text": "the', "[1, 2]", '"a [MASK]"', '{"text": "none"}'])
def test_a_bad_line_costs_no_other_row(
    bad: str, onnx_folder: Folders, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.jsonl"
    good = [json.dumps({"id": i, "text": "a [MASK]"}) for i in range(3)]
    rows.write_text("\n".join([*good[:2], bad, good[2]]))
    model, source = str(onnx_folder("pretraining")), str(rows)
    main(["predict", "fill-mask", "--model", model, "--input", source])
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [answer.get("id") for answer in answers] == [0, 1, None, 2]
    assert list(answers[2]) == ["error"]
    with pytest.raises(SystemExit) as stopped:
        main(["predict", "fill-mask", "--model", model, "--input", source, "--strict"])
    assert stopped.value.code == 2
    out, err = capsys.readouterr()
    assert [json.loads(line)["id"] for line in out.splitlines()] == [0, 1]
    assert f"{source}:3: " in err


def test_rows_before_an_unreadable_place_are_answered(onnx_folder: Folders, tmp_path: Path) -> None:
    from litebert.common.rows import read_rows_or_errors

    def rows() -> Iterator[tuple[int, Record | DataError]]:
        yield 1, {"text": "a name"}
        yield from read_rows_or_errors(tmp_path / "missing.jsonl")

    answers = answer_rows(Predictor.load(onnx_folder("encoder"), threads=1), "embed", rows())
    assert "embedding" in next(answers)
    with pytest.raises(DataError, match="missing"):
        next(answers)


@pytest.mark.parametrize("top_k", [0, -1])
def test_no_candidates_cannot_be_asked_for(
    top_k: int, onnx_folder: Folders, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = onnx_folder("pretraining")
    with pytest.raises(InputError, match="at least 1 candidate"):
        Predictor.load(folder, threads=1).fill_mask(["a [MASK]"], top_k)
    (tmp_path / "rows.jsonl").write_text('{"text": "a [MASK]"}')
    asked = ["predict", "fill-mask", "--input", str(tmp_path / "rows.jsonl")]
    for arguments in (asked, ["fill-mask", "a [MASK]"]):
        with pytest.raises(SystemExit) as stopped:
            main([*arguments, "--model", str(folder), "--top-k", str(top_k)])
        assert stopped.value.code == 2
        assert "at least 1 candidate" in capsys.readouterr().err


@pytest.mark.parametrize("asked", ["fill-mask", "embed"])
def test_a_group_keeps_answers_and_not_what_the_model_said(
    asked: str, onnx_folder: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    import weakref

    predictor = Predictor.load(onnx_folder("pretraining"), threads=1, max_tokens=64)
    run = predictor.backend.run
    given: list[weakref.ref[np.ndarray]] = []
    alive: list[int] = []

    def watched(batch: PaddedBatch, outputs: Sequence[str], depth: int | None) -> dict[str, FloatArray]:
        alive.append(sum(array() is not None for array in given))
        computed = run(batch, outputs, depth)
        given.extend(weakref.ref(array) for array in computed.values())
        return computed

    monkeypatch.setattr(predictor.backend, "run", watched)
    answers = list(answer_rows(predictor, asked, enumerate({"text": text} for text in TEXTS)))
    assert len(answers) == len(TEXTS)
    assert len(alive) > 5
    assert max(alive) <= 1


def test_a_masked_word_model_of_optimum_fills_masks(tmp_path: Path, onnx_folder: Folders) -> None:
    """Optimum's export gives nothing but ``logits`` at every position."""
    import shutil

    import onnx

    from litebert.interop.onnx.file import OnnxFile

    folder = tmp_path / "optimum"
    shutil.copytree(onnx_folder("masked_lm"), folder)
    model = onnx.load_from_string(OnnxFile(folder / "model.onnx").with_outputs(["logits"]))
    del model.metadata_props[:]
    onnx.save_model(model, folder / "model.onnx")
    theirs = Predictor.load(folder, threads=1, max_tokens=128)
    theirs.warm_up()
    ours = Predictor.load(onnx_folder("masked_lm"), threads=1, max_tokens=128)
    texts = [*TEXTS, "[MASK] a [MASK] name [MASK]"]
    pairs = zip(theirs.fill_mask(texts, 3), ours.fill_mask(texts, 3), strict=True)
    for theirs_filled, ours_filled in pairs:
        for one, other in zip(theirs_filled.masks, ours_filled.masks, strict=True):
            assert [x.token_id for x in one] == [x.token_id for x in other]
            scores = [x.score for x in other]
            assert [x.score for x in one] == pytest.approx(scores, abs=1e-6)
    with pytest.raises(InputError, match="gives no last_hidden_state"):
        theirs.embed(["a name"])


def test_tables_in_and_out_by_the_tasks_own_columns(
    tmp_path: Path, model_folder: Folders, capsys: pytest.CaptureFixture[str]
) -> None:
    import shutil

    from litebert.common.rows import read_rows

    (tmp_path / "task.toml").write_text(
        'name = "mine"\nkind = "classification"\n[files]\ntrain = "away.csv"\n'
        '[columns]\ntext = "message"\nlabel = "team"\n'
    )
    model = tmp_path / "model"
    shutil.copytree(model_folder("classification"), model)
    columns: dict[str, str | tuple[str, ...]] = {"text": "message", "label": "team"}
    TaskFile("mine", "classification", ("a", "b", "c"), 16, columns=columns).write(model)
    rows = "nr;message;label\n1;a name;x\n2;;y\n3;the value, or so;z\n4;one;too;many\n"
    (tmp_path / "new.csv").write_bytes(rows.encode("utf-16"))
    asked = ["--model", str(model), "--input", str(tmp_path / "new.csv")]
    tables: list[list[dict[str, Any]]] = []
    for task in ([], [str(tmp_path / "task.toml")]):
        for suffix in ("csv", "jsonl", "parquet"):
            out = tmp_path / f"out.{suffix}"
            main(["predict", *task, *asked, "--out", str(out), "--with-input"])
            tables.append([dict(row) for _, row in read_rows(out)])
    assert "1 of 4 rows" not in capsys.readouterr().err
    for table in tables:
        rows_in = [row.get("input") or {k[6:]: v for k, v in row.items()} for row in table]
        assert [row.get("message") for row in rows_in][:3:2] == ["a name", "the value, or so"]
        assert [row.get("label") for row in rows_in][:3] == ["x", "y", "z"]
        assert [bool(row.get("label")) for row in table] == [True, False, True, False]
        assert [bool(row.get("error")) for row in table] == [False, True, False, True]
    with pytest.raises(SystemExit):
        main(["predict", *asked, "--out", str(tmp_path / "new.csv")])
    assert (tmp_path / "new.csv").read_bytes() == rows.encode("utf-16")
    (tmp_path / "new.csv").write_text("text\n \n")
    with pytest.raises(SystemExit) as stopped:
        main(["predict", *asked, "--out", str(tmp_path / "none.csv")])
    assert stopped.value.code == 1
    assert "1 of 1 rows could not be answered" in capsys.readouterr().err


def test_a_pretrained_model_must_be_told_what_to_do(model_folder: Folders) -> None:
    with pytest.raises(InputError, match="use fill-mask, order or embed"):
        list(answer_rows(Predictor.load(model_folder("pretraining")), None, [(1, {"text": "a"})]))


def test_a_benchmarks_own_columns_are_known(model_folder: Folders, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(model_folder("regression"), tmp_path / "m")
    TaskFile("stsb", "regression", (), 16).write(tmp_path / "m")
    rows = [(1, {"sentence1": "a", "sentence2": "b"}), (2, {"text": "a", "text_pair": "b"})]
    first, second = answer_rows(Predictor.load(tmp_path / "m"), "stsb", rows)
    assert first == second


def test_input_is_read_as_the_tasks_own_files_are_written(
    tmp_path: Path, model_folder: Folders, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keys of the task file hold for the rows to predict too; a known suffix says the format."""
    (tmp_path / "task.toml").write_text(
        'name = "x"\nkind = "token_classification"\n[files]\ntrain = "train.txt"\nencoding = "cp1251"\n'
    )
    (tmp_path / "new.txt").write_bytes("Анна O\n\nБорис O\n".encode("cp1251"))
    (tmp_path / "new.jsonl").write_bytes('{"text": "Анна."}\n'.encode("cp1251"))
    model = str(model_folder("token_classification"))
    for name, words in (("new.txt", [["Анна"], ["Борис"]]), ("new.jsonl", [["Анна", "."]])):
        source = str(tmp_path / name)
        main(["predict", str(tmp_path / "task.toml"), "--model", model, "--input", source])
        answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [answer["words"] for answer in answers] == words

"""What is made of predictions: baselines, mistakes, confusion, and the model folder's task file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from litebert.common.errors import ConfigError, DataError
from litebert.model.head_table import HEADS
from litebert.tasks.base import Answer, Example, Form, Gold, Prediction, Span
from litebert.tasks.benchmarks.glue import GLUE_TASKS
from litebert.tasks.benchmarks.squad import SQUAD_TASKS
from litebert.tasks.forms.kinds import FORMS, Kind, form_of_head
from litebert.tasks.forms.spans import SpanForm
from litebert.tasks.forms.tags import TagForm
from litebert.tasks.forms.texts import ChoiceForm, ClassificationForm, MultiLabelForm, RegressionForm
from litebert.tasks.registry import data_folder, find_task
from litebert.tasks.scoring import worst_mistakes
from litebert.tasks.task_file import TaskFile


def examples(golds: Sequence[Gold]) -> list[Example]:
    return [Example(str(i), f"text {i}", gold=gold) for i, gold in enumerate(golds)]


def test_the_baseline_of_classes_is_the_majority_of_the_training_data() -> None:
    train, dev = examples([1, 1, 0]), examples([0, 1, 1, 1])
    task = GLUE_TASKS["sst2"]
    predictions = task.form.baseline(train, dev)
    assert task.score(dev, predictions) == {"accuracy": 0.75}


def test_baselines_of_the_other_kinds() -> None:
    scores = RegressionForm().baseline(examples([1.0, 3.0]), examples([0.0] * 3))
    assert [p.value for p in scores] == pytest.approx([2.0] * 3)
    labels = MultiLabelForm(("a", "b")).baseline(examples([(1, 0), (1, 0), (1, 1)]), examples([None]))
    assert labels[0].value == (1, 0)
    tags = TagForm(("O", "B")).baseline(examples([(0, 0, 1)]), [Example("0", "", words=("x", "y"))])
    assert tags[0].value == (0, 0)
    assert ChoiceForm().baseline(examples([2, 2, 1]), examples([0]))[0].value == 2


def test_the_baseline_of_spans_never_looks_at_the_answer() -> None:
    dev = [Example(str(i), "one two three four five", "?", gold=(Answer("five", 19),)) for i in range(9)]
    guesses = SpanForm().baseline([], dev)
    assert len({p.value for p in guesses}) > 1
    assert all(len(str(p.value).split()) == 3 for p in guesses)
    unanswerable = [Example("0", "one", "?", gold=()), Example("1", "one", "?", gold=(Answer("one", 0),))]
    task = SQUAD_TASKS["squad2"]
    scores = task.score(unanswerable, task.form.baseline([], unanswerable))
    assert (scores["exact"], scores["best_f1"]) == (50.0, 50.0)


def test_worst_mistakes_are_those_the_model_was_surest_of() -> None:
    form = ClassificationForm(("no", "yes"))
    golds = examples([0, 0, 1, 1])
    predictions = [
        Prediction("0", 1, (0.4, 0.6)),
        Prediction("1", 0, (0.9, 0.1)),
        Prediction("2", 0, (0.99, 0.01)),
        Prediction("3", 1, (0.2, 0.8)),
    ]
    found = worst_mistakes(form, golds, predictions)
    assert [(m["id"], m["gold"], m["predicted"]) for m in found] == [
        ("2", "yes", "no"), ("0", "no", "yes"),
    ]  # fmt: skip
    assert form.confusion(golds, predictions) == {"labels": ["no", "yes"], "matrix": [[1, 1], [1, 1]]}
    assert RegressionForm().confusion([], []) is None


def test_mistakes_of_spans_scores_and_tags() -> None:
    gold = [Example("0", "Ann sat", "?", gold=(Answer("Ann", 0),))]
    wrong = [Prediction("0", "sat", spans=(Span("sat", 4, 7, 1.0, 0.7),))]
    assert worst_mistakes(SpanForm(), gold, wrong)[0]["badness"] == 0.7
    assert worst_mistakes(SpanForm(), gold, [Prediction("0", "Ann")]) == []
    numbers = worst_mistakes(RegressionForm(), examples([1.0, 5.0]), [Prediction("0", 1.5), Prediction("1", 1.0)])
    assert [m["id"] for m in numbers] == ["1", "0"]
    tagged = [Example("0", "", words=("a", "b"), gold=(1, 0))]
    (mistake,) = worst_mistakes(TagForm(("O", "B")), tagged, [Prediction("0", (0, 0))])
    assert (mistake["gold"], mistake["predicted"]) == ("B O", "O O")


@pytest.mark.parametrize(
    "form",
    [
        ClassificationForm(("a", "b")),
        MultiLabelForm(("a", "b")),
        RegressionForm(),
        ChoiceForm(),
        SpanForm(),
        SpanForm(may_be_unanswerable=True),
        TagForm(("O", "B-X")),
    ],
)
def test_a_model_folder_gives_its_form_back(tmp_path: Path, form: Form) -> None:
    TaskFile.of("mine", form, 128).write(tmp_path)
    found = TaskFile.read(tmp_path)
    assert found is not None
    assert (found.form(), found.max_length) == (form, 128)


def test_folders_of_other_tools_have_no_task_file(tmp_path: Path) -> None:
    assert TaskFile.read(tmp_path) is None
    (tmp_path / "task.json").write_text('{"name": "x", "kind": "guess"}')
    with pytest.raises(ConfigError, match="kind = 'guess'"):
        TaskFile.read(tmp_path)


def test_the_tuned_threshold_decides() -> None:
    form = TaskFile("s", "span_extraction", unanswerable=True, no_answer_threshold=0.9).form()
    assert isinstance(form, SpanForm)
    assert form.no_answer_threshold == 0.9


def test_only_own_tasks_know_their_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="rte needs --data"):
        data_folder(find_task("rte"), None)
    assert data_folder(find_task("rte"), tmp_path) == tmp_path


def test_a_constant_score_correlates_with_nothing() -> None:
    dev = examples([float(v) for v in np.linspace(0, 5, 20)])
    task = GLUE_TASKS["stsb"]
    scores = task.score(dev, task.form.baseline(dev, dev))
    assert scores == {"pearson": 0.0, "spearman": 0.0}


def test_every_kind_has_a_form_and_every_task_head_a_kind() -> None:
    assert tuple(FORMS) == get_args(Kind)
    assert all(form.kind == kind for kind, form in FORMS.items())
    for head, row in HEADS.items():
        form = form_of_head(head, ("a", "b"))
        # The bare encoder comes from pretraining, and does a task: similarity.
        assert (form is None) == (row.pretrained and head != "encoder")
        if form is not None:
            assert head in form.heads
            outputs = ("last_hidden_state",) if head == "encoder" else row.output_names
            assert form.outputs(frozenset((*row.output_names, "last_hidden_state"))) == outputs
    assert form_of_head("classification", ("a", "b"), multi_label=True) == MultiLabelForm(("a", "b"))
    assert form_of_head("squad2") == SpanForm(may_be_unanswerable=True)


def test_the_head_of_spans_follows_the_task_unless_told() -> None:
    for unanswerable, auto in ((False, "span"), (True, "squad2")):
        form = SpanForm(may_be_unanswerable=unanswerable)
        assert [form.head(choice) for choice in ("auto", "paper", "classic")] == [auto, "squad2", "span"]
    assert RegressionForm().head("paper") == "regression"

"""One table is enough: the split, the labels, and what is wrong with them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from litebert.common.errors import ConfigError, DataError
from litebert.tasks.custom import CustomTask
from litebert.tasks.problems import RowProblems
from litebert.tasks.registry import find_task

TASK = """name = "tickets"
kind = "classification"
{keys}
[files]
train = "tickets.csv"
{files}
[columns]
text = "message"
label = "team"
"""


def write_task(folder: Path, rows: list[tuple[str, str]], keys: str = "", files: str = "") -> Path:
    (folder / "task.toml").write_text(TASK.format(keys=keys, files=files))
    lines = ["nr;message;team", *(f"{nr};{text};{team}" for nr, (text, team) in enumerate(rows))]
    (folder / "tickets.csv").write_bytes("\r\n".join([*lines, ""]).encode("cp1252"))
    return folder / "task.toml"


def rows(number: int, first: int = 0) -> list[tuple[str, str]]:
    teams = ("billing", "repair", "Verträge")
    return [(f"ticket number {n} für uns", teams[n % 3]) for n in range(first, first + number)]


def texts(task: CustomTask, split: str) -> set[str]:
    return {e.text for e in task.read(task.folder, split, RowProblems())}


def test_a_file_is_cut_by_its_texts_and_stays_so_when_it_grows(tmp_path: Path) -> None:
    task = CustomTask.load(write_task(tmp_path, rows(600)))
    train, dev = texts(task, "train"), texts(task, "dev")
    assert not train & dev
    assert len(train | dev) == 600
    assert 30 <= len(dev) <= 90
    grown = CustomTask.load(write_task(tmp_path, [*rows(300, 600), *rows(600)]))
    assert texts(grown, "train") >= train
    assert texts(grown, "dev") >= dev
    again = CustomTask.load(write_task(tmp_path, rows(600), files="split_seed = 1"))
    assert texts(again, "dev") != dev
    half = CustomTask.load(write_task(tmp_path, rows(600), files="dev_share = 0.5"))
    assert texts(half, "dev") > dev
    assert 250 <= len(texts(half, "dev")) <= 350


def test_equal_texts_are_never_on_both_sides(tmp_path: Path) -> None:
    task = CustomTask.load(write_task(tmp_path, [*rows(50), *rows(50), *rows(50)]))
    assert not texts(task, "train") & texts(task, "dev")


def test_a_file_given_by_data_is_cut_for_training_and_whole_for_scoring(tmp_path: Path) -> None:
    write_task(tmp_path, rows(60))
    (tmp_path / "tickets.csv").rename(tmp_path / "other.csv")
    task = find_task(str(tmp_path / "task.toml"), tmp_path / "other.csv")
    assert isinstance(task, CustomTask)
    assert task.form.labels == ("Verträge", "billing", "repair")
    assert len(task.read(tmp_path / "other.csv", "dev", RowProblems())) == 60
    cut = task.of_one_file(tmp_path / "other.csv")
    assert len(texts(cut, "train")) + len(texts(cut, "dev")) == 60


def test_bad_rows_of_a_cut_file_are_told_once(tmp_path: Path) -> None:
    path = write_task(tmp_path, rows(60))
    with (tmp_path / "tickets.csv").open("a") as stream:
        stream.write('7;a;billing;too many\n8;"never closed;billing\n9;no label;\n;;\n')
    task, problems = CustomTask.load(path), RowProblems()
    found = [task.read(tmp_path, split, problems) for split in ("train", "dev")]
    assert sum(map(len, found)) == 60
    assert problems.counts() == {"malformed row": 2, "missing label": 1}
    with pytest.raises(DataError, match=r"tickets\.csv:62: malformed row: 4 cells for 3 columns"):
        task.read(tmp_path, "train", RowProblems(strict=True))


def test_labels_are_found_counted_and_shown(tmp_path: Path) -> None:
    task = CustomTask.load(write_task(tmp_path, rows(60)))
    assert task.label_counts == {"Verträge": 20, "billing": 20, "repair": 20}
    about = task.describe_files(tmp_path)
    assert about[0].endswith("cp1252 text (für), semicolons between the cells")
    assert about[1].endswith("labels found: Verträge 20, billing 20, repair 20")
    assert task.describe_rows(tmp_path / "tickets.csv") == about[:1]
    given = CustomTask.load(write_task(tmp_path, rows(60), 'labels = ["billing", "repair"]'))
    assert given.form.labels == ("billing", "repair")
    assert task.with_labels(("b", "a")).form.labels == ("b", "a")
    assert given.with_labels(("b", "a")).form.labels == ("billing", "repair")


@pytest.mark.parametrize(
    ("kind", "cells", "labels"),
    [
        ("classification", ["10", "9", "-1", "9"], ("-1", "9", "10")),
        ("multi_label", ["x, y", "z", "", "x"], ("x", "y", "z")),
        ("token_classification", ["O I-B", "B-B O", "B-A I-A", "O O"],
         ("O", "B-A", "I-A", "B-B", "I-B")),
    ],
)  # fmt: skip
def test_labels_of_every_kind_have_an_order(
    tmp_path: Path, kind: str, cells: list[str], labels: tuple[str, ...]
) -> None:
    (tmp_path / "task.toml").write_text(
        f'name = "x"\nkind = "{kind}"\n[files]\ntrain = "a.jsonl"\n[columns]\ntext = "t"\nwords = "t"\nlabel = "l"\n'
    )
    lines = [json.dumps({"t": f"a {n}", "l": cell}) for n, cell in enumerate(cells)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    assert CustomTask.load(tmp_path / "task.toml").form.labels == labels


def test_a_column_that_does_not_hold_labels_is_refused(tmp_path: Path) -> None:
    path = write_task(tmp_path, [(f"ticket {n}", f"answer {n}") for n in range(60)])
    with pytest.raises(DataError, match="60 different values in 60 rows .* not labels"):
        _ = CustomTask.load(path).form
    path = write_task(tmp_path, [(f"ticket {n}", "one") for n in range(60)])
    with pytest.raises(DataError, match="has 1 different values"):
        _ = CustomTask.load(path).form


def test_a_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = write_task(tmp_path, rows(9))
    path.write_text(path.read_text().replace('"team"', '"taem"'))
    with pytest.raises(DataError, match=r"has no column 'taem'\. Did you mean 'team'"):
        _ = CustomTask.load(path).form


def test_files_that_are_not_there_or_empty_are_named(tmp_path: Path) -> None:
    path = write_task(tmp_path, [])
    with pytest.raises(DataError, match=r"no usable row in .*tickets\.csv"):
        _ = CustomTask.load(path).form
    with pytest.raises(ConfigError, match=r"no task file or table .*Did you mean 'tickets\.csv'"):
        find_task(str(tmp_path / "tikets.csv"))


def test_a_forgotten_label_stops_unless_that_is_wished(tmp_path: Path) -> None:
    known = 'labels = ["billing", "repair"]'
    task = CustomTask.load(write_task(tmp_path, rows(90), known, 'dev = "tickets.csv"'))
    with pytest.raises(DataError, match="30 of 90 rows have labels .*'Verträge' 30.*other_labels"):
        task.read(tmp_path, "train", RowProblems())
    skipping = f'{known}\nother_labels = "skip"'
    task, problems = CustomTask.load(write_task(tmp_path, rows(90), skipping)), RowProblems()
    task.read(tmp_path, "train", problems)
    task.read(tmp_path, "dev", problems)
    assert problems.counts() == {"unknown label": 30}
    assert "unknown labels by their number: 'Verträge' 30" in problems.report()


def test_decimal_commas_are_numbers_and_thousands_are_not_guessed(tmp_path: Path) -> None:
    path = write_task(tmp_path, [("a", "4,5"), ("b", "3"), ("c", "1,234"), ("d", "2.25")])
    path.write_text(path.read_text().replace("classification", "regression"))
    task, problems = CustomTask.load(path), RowProblems()
    found = task.read(tmp_path / "tickets.csv", "dev", problems)
    assert [e.gold for e in found] == [4.5, 3.0, 2.25]
    assert problems.counts() == {"unknown label": 1}


@pytest.mark.parametrize(
    ("header", "cells", "kind"),
    [
        ("Text,Label", ("good film,yes", "bad film,no"), "classification"),
        ("id,text,text_pair,label", ("1,a,b,yes", "2,c,d,no"), "pair_classification"),
        ("sentence1,sentence2,score", ("a,b,4.5", "c,d,3"), "regression"),
    ],
)
def test_a_plain_table_is_a_task(tmp_path: Path, header: str, cells: tuple[str, ...], kind: str) -> None:
    (tmp_path / "films.csv").write_text("\n".join([header, *cells]))
    task = find_task(str(tmp_path / "films.csv"))
    assert isinstance(task, CustomTask)
    assert (task.name, task.config.kind) == ("films", kind)
    (tmp_path / "films.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ConfigError, match=r"has the columns a, b: call two of them text"):
        find_task(str(tmp_path / "films.csv"))
    many = [f"{n},a longer text {n},{n % 2}" for n in range(20)]
    (tmp_path / "films.csv").write_text("\n".join(["nr,plot,good", *many]))
    with pytest.raises(ConfigError, match='text = "plot" and label = "good"'):
        find_task(str(tmp_path / "films.csv"))


def test_conll_needs_no_columns_and_a_task_may_be_json(tmp_path: Path) -> None:
    sentences = [f"Ann{n} B-PER\nsat O\n" for n in range(40)]
    (tmp_path / "names.conll").write_text("\n".join(sentences))
    (tmp_path / "names.txt").write_text("\n".join(sentences))
    task = {"name": "names", "kind": "token_classification", "files": {"train": "names.txt"}}
    (tmp_path / "task.json").write_text(json.dumps(task))
    for name in ("names.conll", "task.json"):
        found = find_task(str(tmp_path / name))
        assert isinstance(found, CustomTask)
        assert found.form.labels == ("O", "B-PER")
        examples = [e for s in ("train", "dev") for e in found.read(tmp_path, s, RowProblems())]
        assert Counter(e.gold for e in examples) == {(1, 0): 40}


def test_a_missing_file_is_named_with_one_place(tmp_path: Path) -> None:
    path = write_task(tmp_path, rows(9), 'labels = ["billing", "repair"]', 'dev = "nix.csv"')
    with pytest.raises(DataError, match=rf"there is no nix\.csv in {tmp_path}$"):
        CustomTask.load(path).read(tmp_path, "dev", RowProblems())

"""The demo's page: the way from text to answer with its curves, scores and samples."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path

from litebert.common.files import read_json, write_text
from litebert.common.runs import RunFolder
from litebert.demo.figures import headlines, score_rows
from litebert.demo.folder import DemoFolder
from litebert.report.charts import Series, chart, points, smoothed
from litebert.report.page import charts, page, settings, tiles


def write_demo_report(folder: DemoFolder) -> Path:
    """Write ``report.html`` of a demo; the path of the page."""
    lines = [line for line in headlines(folder) if line.value]
    figures = [(line.value, f"{line.name}; {line.note}") for line in lines]
    seconds = folder.seconds()
    parts = [
        tiles(figures),
        "<h2>Pretraining</h2>",
        _pretraining_charts(folder.pretrain),
        _filled(folder),
        _finetuning(folder),
        _confusion(folder),
        _answer(folder),
        "<h2>Stages</h2>",
        _table(("stage", "seconds"), [(name, f"{value:.1f}") for name, value in seconds.items()]),
        settings(RunFolder.open(folder.pretrain).manifest()),
    ]
    subtitle = f"raw text to a served model in {sum(seconds.values()):.0f} s, in {folder.root}"
    write_text(folder.report, page("litebert demo", subtitle, parts))
    return folder.report


def _pretraining_charts(run: Path) -> str:
    records = list(RunFolder.open(run).metrics())
    steps = [record for record in records if "mlm_loss" in record]
    dev = [record for record in records if "dev_masked_loss" in record]
    train = points(steps, "mlm_loss")
    return charts(
        [
            chart(
                "Masked-word loss (nats)",
                [
                    Series("training, each line of the log", train, faint=True),
                    Series("training, smoothed", smoothed(train)),
                    Series("dev, where the input is [MASK]", points(dev, "dev_masked_loss")),
                    Series("word frequencies alone", points(dev, "dev_unigram_loss"), dashed=True),
                ],
            ),
            chart(
                "Accuracy on dev documents",
                [
                    Series("masked words", points(dev, "dev_mlm_accuracy")),
                    Series("sentence order", points(dev, "dev_sop_accuracy")),
                ],
            ),
        ]
    )


def _finetuning(folder: DemoFolder) -> str:
    if not folder.scores.is_file():
        return "<h2>Labelled task</h2><p>None could be cut from this text.</p>"
    found = read_json(folder.scores)
    runs = (
        ("from the pretrained model", folder.finetune),
        ("from random weights", folder.untrained),
    )
    records = [(name, list(RunFolder.open(run).metrics())) for name, run in runs]
    accuracy = [Series(name, points(lines, "dev_accuracy")) for name, lines in records]
    baseline = found["baseline"]
    assert isinstance(baseline, dict), "an earlier stage wrote it"
    level = tuple((step, float(baseline["accuracy"])) for step, _ in accuracy[0].points)
    rows = score_rows(folder)
    return (
        "<h2>Labelled task: which part does a sentence come from?</h2>"
        + charts(
            [
                chart(
                    "Accuracy on dev sentences",
                    [*accuracy, Series("always the same part", level, dashed=True)],
                ),
                chart(
                    "Training loss",
                    [Series(name, smoothed(points(lines, "loss"))) for name, lines in records],
                ),
            ]
        )
        + _table((f"on {found['examples']} dev sentences", "accuracy", "macro F1"), rows)
    )


def _confusion(folder: DemoFolder) -> str:
    confusion = read_json(folder.scores)["confusion"] if folder.scores.is_file() else None
    if not isinstance(confusion, dict):
        return ""
    labels, matrix = confusion["labels"], confusion["matrix"]
    rows = [
        (label, *(str(count) for count in row)) for label, row in zip(labels, matrix, strict=True)
    ]
    return "<h2>Who is taken for whom</h2>" + _table(
        ("true part", *(f"{label}?" for label in labels)), rows
    )


def _filled(folder: DemoFolder) -> str:
    samples = read_json(folder.filled)["samples"]
    assert isinstance(samples, list), "an earlier stage wrote it"
    rows = [
        (
            sample["text"],
            sample.get("answer", ""),
            ", ".join(f"{word} {share:.0%}" for word, share in sample["candidates"]),
        )
        for sample in samples
    ]
    return "<h2>What it fills in</h2>" + _table(("text", "hidden", "the model says"), rows)


def _answer(folder: DemoFolder) -> str:
    found = read_json(folder.answer)
    rows = [
        ("server", str(found["command"])),
        ("request", f"POST {found['path']} {json.dumps(found['request'], ensure_ascii=False)}"),
        ("answer", json.dumps(found["answer"], ensure_ascii=False)),
        ("time", f"{found['milliseconds']} ms over HTTP"),
    ]
    return "<h2>One answered request</h2>" + _table(("", ""), rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in cells) + "</tr>"

    titles = row(head, "th") if any(head) else ""
    return f"<table>{titles}{''.join(row(cells, 'td') for cells in rows)}</table>"

"""The demo's figures, for the screen and for its page, and the page itself."""

from __future__ import annotations

import json

from litebert.common.files import read_json, write_text
from litebert.common.runs import RunFolder
from litebert.common.statistics import interval_in_percent
from litebert.demo.folder import DemoFolder
from litebert.report.finetuning import NamedLog, confusion_table, finetuning_charts
from litebert.report.log import Record, lines_with, number
from litebert.report.page import page, settings, table, tiles
from litebert.report.pretraining import pretraining_charts, samples_table

_LABELLERS = {
    "baseline": "always the most frequent part",
    "words": "bag of words, no model",
    "untrained": "fine-tuned from random weights",
    "pretrained": "fine-tuned from the pretrained model",
}


def headlines(folder: DemoFolder) -> list[tuple[str, str, str]]:
    """Return the demo's figures in the order of its stages: name, figure, what to compare it to."""
    found = pretraining_headlines(folder)
    if folder.scores.is_file():
        scores = read_json(folder.scores)
        said = {key: number(scores, key, "accuracy") for key in _LABELLERS if key in scores}
        sure = interval_in_percent(said["pretrained"], number(scores, "examples"))
        note = f"{sure}; always the same {said['baseline']:.1%}, from random weights "
        note += f"{said['untrained']:.1%}"
        if "words" in said:
            note += f", bag of words {said['words']:.1%}"
        found.append(("part of the text right", f"{said['pretrained']:.1%}", note))
    exported, answer = read_json(folder.exported), read_json(folder.answer)
    note = f"{number(exported, 'dev', 'after'):.1%} right" if exported["dev"] else "fills masks"
    found.append(("int8 model", f"{number(exported, 'file_bytes') / 1e6:.2f} MB", note))
    found.append(("answer over HTTP", f"{answer['milliseconds']} ms", str(answer["path"])))
    return found


def pretraining_headlines(folder: DemoFolder) -> list[tuple[str, str, str]]:
    """Return the last dev scores of pretraining; none where there are no dev documents."""
    dev = lines_with(RunFolder.open(folder.pretrain).metrics(), "dev_masked_loss")
    if not dev:
        return []

    def last(key: str) -> float:
        return number(dev[-1], f"dev_{key}")

    words, pairs = last("predictions"), last("sop_pairs")
    unigram = f"word frequencies alone {last('unigram_loss'):.2f}"
    found = [
        ("loss at [MASK]", f"{last('masked_loss'):.2f}", unigram),
        ("masked words right", f"{last('mlm_accuracy'):.1%}", f"of {words:,.0f} in dev documents"),
    ]
    if pairs:
        sure = interval_in_percent(last("sop_accuracy"), pairs)
        beside = f"comparing their lengths alone {last('sop_length_rule'):.1%}"
        note = f"{sure}, of {pairs:,.0f} pairs; {beside}"
        found.append(("sentence order right", f"{last('sop_accuracy'):.1%}", note))
    return found


def labeller_rows(folder: DemoFolder) -> list[tuple[str, str, str]]:
    """Return name, accuracy with its interval, and macro F1 of each; the fine-tuned model last."""
    found = read_json(folder.scores)
    rows = []
    for key, name in _LABELLERS.items():
        if key in found:
            right, f1 = number(found, key, "accuracy"), number(found, key, "f1_macro")
            sure = interval_in_percent(right, number(found, "examples"))
            rows.append((name, f"{right:.1%} ({sure})", f"{f1:.1%}"))
    return rows


def read_filled(folder: DemoFolder) -> list[Record]:
    """Return the masked texts with the words that the model put there."""
    samples = read_json(folder.filled)["samples"]
    assert isinstance(samples, list), "an earlier stage wrote it"
    return samples


def write_demo_report(folder: DemoFolder) -> None:
    """Write ``report.html``: the way from text to answer with its curves, scores and samples."""
    seconds = folder.seconds()
    times = [(name, f"{value:.1f}") for name, value in seconds.items()]
    pretraining = RunFolder.open(folder.pretrain)
    parts = [
        tiles([(value, f"{name}; {note}") for name, value, note in headlines(folder)]),
        "<h2>Pretraining</h2>",
        pretraining_charts(list(pretraining.metrics())),
        samples_table(read_filled(folder)),
        _labelled_task(folder),
        _answer(read_json(folder.answer)),
        table(("stage", "seconds"), times, title="Stages", numeric=(1,), narrow=True),
        settings(pretraining.manifest()),
    ]
    subtitle = f"raw text to a served model in {sum(seconds.values()):.0f} s, in {folder.root}"
    write_text(folder.report, page("litebert demo", subtitle, parts))


def _labelled_task(folder: DemoFolder) -> str:
    if not folder.scores.is_file():
        return "<h2>Labelled task</h2><p>None could be cut from this text.</p>"
    scores = read_json(folder.scores)
    runs = {folder.finetune: "from the pretrained model", folder.untrained: "from random weights"}
    logs = [NamedLog.read(run, name) for run, name in runs.items()]
    headings = (f"on {scores['examples']} dev sentences", "accuracy", "macro F1")
    return (
        "<h2>Labelled task: which part does a sentence come from?</h2>"
        + finetuning_charts(logs, scores, "accuracy")
        + table(headings, labeller_rows(folder), numeric=(1, 2), narrow=True)
        + confusion_table(scores)
    )


def _answer(found: Record) -> str:
    rows = [
        ("server", str(found["command"])),
        ("request", f"POST {found['path']} {json.dumps(found['request'], ensure_ascii=False)}"),
        ("answer", json.dumps(found["answer"], ensure_ascii=False)),
        ("time", f"{found['milliseconds']} ms over HTTP"),
    ]
    return table(("", ""), rows, title="One answered request")

"""The demo's figures as text, for the screen and for the report."""

from __future__ import annotations

from typing import NamedTuple

from litebert.common.files import read_json
from litebert.demo.folder import DemoFolder
from litebert.demo.stages import metrics


class Headline(NamedTuple):
    """A figure with its name and what to compare it with."""

    name: str
    value: str
    note: str


def headlines(folder: DemoFolder) -> list[Headline]:
    """Return the figures of all finished stages, in their order."""
    return [
        *_pretraining(folder),
        *_scores(folder),
        *_export(folder),
        *_answer(folder),
        Headline("report", "", str(folder.report)),
    ]


class ScoreRow(NamedTuple):
    """How one way to label sentences did on dev."""

    name: str
    accuracy: str
    f1_macro: str


def score_rows(folder: DemoFolder) -> list[ScoreRow]:
    """Return the scores of the baselines and, last, of the fine-tuned model."""
    found = read_json(folder.scores)
    rows = []
    for key, name in (
        ("baseline", "always the most frequent part"),
        ("untrained", "fine-tuned from random weights"),
        ("pretrained", "fine-tuned from the pretrained model"),
    ):
        values = found[key]
        assert isinstance(values, dict), "an earlier stage wrote it"
        rows.append(ScoreRow(name, f"{values['accuracy']:.1%}", f"{values['f1_macro']:.1%}"))
    return rows


def _pretraining(folder: DemoFolder) -> list[Headline]:
    dev = metrics(folder.pretrain, "dev_masked_loss")
    if not dev:
        return []
    last = {key: value for key, value in dev[-1].items() if isinstance(value, (int, float))}
    found = [
        Headline(
            "masked words right",
            f"{last['dev_mlm_accuracy']:.1%}",
            f"of {last['dev_predictions']:,.0f} on dev documents",
        ),
        Headline(
            "loss at [MASK]",
            f"{last['dev_masked_loss']:.2f}",
            f"word frequencies alone {last['dev_unigram_loss']:.2f}",
        ),
    ]
    if "dev_sop_accuracy" in last:
        note = f"of {last['dev_sop_pairs']:,.0f} pairs; chance is 50 %"
        found.append(Headline("sentence order right", f"{last['dev_sop_accuracy']:.1%}", note))
    return found


def _scores(folder: DemoFolder) -> list[Headline]:
    if not folder.scores.is_file():
        return []
    found = read_json(folder.scores)
    accuracy = {
        key: values["accuracy"] for key, values in found.items() if isinstance(values, dict)
        and "accuracy" in values
    }  # fmt: skip
    note = (
        f"always the same {accuracy['baseline']:.1%}, from random weights "
        f"{accuracy['untrained']:.1%}"
    )
    return [Headline("part of the text right", f"{accuracy['pretrained']:.1%}", note)]


def _export(folder: DemoFolder) -> list[Headline]:
    found = read_json(folder.exported)
    size, dev = found["file_bytes"], found["dev"]
    assert isinstance(size, int), "an earlier stage wrote it"
    note = f"{dev['after']:.1%} right" if isinstance(dev, dict) else "fills masks"
    return [Headline("int8 model", f"{size / 1e6:.2f} MB", note)]


def _answer(folder: DemoFolder) -> list[Headline]:
    found = read_json(folder.answer)
    return [Headline("answer over HTTP", f"{found['milliseconds']} ms", str(found["path"]))]

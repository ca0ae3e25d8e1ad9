"""The page of a pretraining run: losses, accuracies, rates, what it fills in."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path

from litebert.common.files import read_json
from litebert.common.progress import format_duration
from litebert.common.runs import RunFolder
from litebert.common.statistics import interval
from litebert.report.charts import Record, Series, chart, number, points, smoothed
from litebert.report.page import charts, events_table, page, settings, tiles


def pretraining_page(run: RunFolder) -> str:
    """The page of a run, from its manifest, metrics and samples."""
    records = list(run.metrics())
    steps = [record for record in records if "mlm_loss" in record and "event" not in record]
    dev = [record for record in records if "dev_mlm_loss" in record]
    events = [record for record in records if "event" in record]
    manifest = run.manifest()
    return page(
        run.path.resolve().name,
        _subtitle(manifest, steps),
        [
            tiles(_figures(steps, dev)),
            "<h2>Curves</h2>",
            _curves(steps, dev, events),
            events_table(events),
            _samples(run.path / "samples.json"),
            settings(manifest),
        ],
    )


def _subtitle(manifest: Record, steps: Sequence[Record]) -> str:
    config = manifest.get("config")
    model = config.get("model") if isinstance(config, Mapping) else None
    preset = model.get("preset") if isinstance(model, Mapping) else None
    parts = [str(preset or "model"), f"created {manifest.get('created', '?')}"]
    if steps:
        last = steps[-1]
        parts.append(f"{last['step']:,} steps")
        parts.append(f"{number(last, 'tokens') / 1e6:,.1f} M tokens")
        parts.append(f"{format_duration(number(last, 'elapsed_s'))} of training")
    return " · ".join(parts)


def _figures(steps: Sequence[Record], dev: Sequence[Record]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    if dev:
        last = dev[-1]
        found.append((f"{number(last, 'dev_mlm_loss'):.3f}", "dev masked-word loss"))
        accuracies = (
            ("dev_mlm_accuracy", "dev_predictions", "words predicted"),
            ("dev_sop_accuracy", "dev_sop_pairs", "sentence order (SOP)"),
            ("dev_nsp_accuracy", "dev_nsp_pairs", "next sentence (NSP)"),
        )
        for key, count_key, label in accuracies:
            if last.get(key) is not None:
                value, count = number(last, key), number(last, count_key)
                low, high = interval(value, count)
                text = f"{label}, {low:.1%} to {high:.1%} of {count:,.0f}"
                found.append((f"{value:.1%}", text))
    if steps:
        rates = sorted(number(step, "tokens_per_s") for step in steps)
        found.append((f"{rates[len(rates) // 2]:,.0f}", "tokens per second (median)"))
        shares = sorted(number(step, "gemm_share") for step in steps)
        found.append((f"{shares[len(shares) // 2]:.0%}", "of the machine's GEMM rate"))
        waits = sum(number(step, "wait_share") for step in steps) / len(steps)
        found.append((f"{waits:.1%}", "of the time waiting for data"))
    return found


def _curves(steps: Sequence[Record], dev: Sequence[Record], events: Sequence[Record]) -> str:
    left = [number(e, "step") for e in events if e["event"] == "left_plateau"]
    marks = [(step, "left the plateau") for step in left]
    train_loss = points(steps, "mlm_loss")
    loss = [
        Series("training, each line of the log", train_loss, faint=True),
        Series("training, smoothed", smoothed(train_loss)),
        Series("dev", points(dev, "dev_mlm_loss")),
        Series("dev, where the input is [MASK]", points(dev, "dev_masked_loss")),
        Series("word frequencies alone, there", points(dev, "dev_unigram_loss"), dashed=True),
    ]
    figures = [
        chart("Masked-word loss (nats)", loss, marks),
        chart(
            "Accuracy on dev documents",
            [
                Series("words", points(dev, "dev_mlm_accuracy")),
                Series("sentence order", points(dev, "dev_sop_accuracy")),
                Series("next sentence", points(dev, "dev_nsp_accuracy")),
            ],
        ),
        chart("Learning rate", [Series("learning rate", points(steps, "lr"))]),
        chart("Tokens per second", [Series("tokens/s", points(steps, "tokens_per_s"))]),
    ]
    for key, title in (
        ("layers", "Layers that run"),
        ("length", "Longest example (tokens)"),
        ("batch_size", "Examples per step"),
        ("mask_rate", "Share of tokens masked"),
    ):
        line = points(steps, key)
        if len({value for _, value in line}) > 1:
            figures.append(chart(title, [Series(title, line)]))
    return charts(figures)


def _samples(path: Path) -> str:
    if not path.is_file():
        return ""
    rows = []
    samples = read_json(path).get("fill_mask")
    for sample in samples if isinstance(samples, list) else []:
        text = html.escape(sample["text"]).replace("[MASK]", "<mark>[MASK]</mark>")
        best = [f"{html.escape(word)} {share:.0%}" for word, share in sample["candidates"]]
        cells = (text, html.escape(sample["answer"]), ", ".join(best))
        rows.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    if not rows:
        return ""
    head = "<tr><th>dev text</th><th>hidden</th><th>the model says</th></tr>"
    return f"<h2>What it fills in</h2><table>{head}{''.join(rows)}</table>"

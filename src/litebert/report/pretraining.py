"""The page of a pretraining run: losses, accuracies, rates, what it fills in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median_high

from litebert.common.progress import format_duration
from litebert.common.runs import SAMPLES_FILE, RunFolder
from litebert.common.statistics import wilson_interval
from litebert.report.log import Record, lines_with, mapping, number, points, read_if_there, smoothed
from litebert.report.page import Series, chart, events_table, page, settings, side_by_side, table, tiles

_ACCURACIES = (
    ("mlm_accuracy", "predictions", "words predicted", "", ""),
    ("sop_accuracy", "sop_pairs", "sentence order (SOP)", "sop_length_rule", "length rule"),
    ("nsp_accuracy", "nsp_pairs", "next sentence (NSP)", "nsp_overlap_rule", "overlap rule"),
)


def pretraining_page(run: RunFolder) -> str:
    """The page of a run, from its manifest, metrics and samples."""
    records, manifest = list(run.metrics()), run.manifest()
    steps = lines_with(records, "mlm_loss")
    return page(
        run.path.resolve().name,
        _subtitle(manifest, steps),
        [
            tiles([*_dev_figures(lines_with(records, "dev_mlm_loss")), *_rates(steps)]),
            "<h2>Curves</h2>",
            pretraining_charts(records),
            events_table(records),
            samples_table(read_samples(run.path)),
            settings(manifest),
        ],
    )


def read_samples(run: Path) -> list[Record]:
    """Masked dev texts of a run with what its model fills in; few dev documents give none."""
    found = read_if_there(run / SAMPLES_FILE).get("fill_mask")
    return found if isinstance(found, list) else []


def sample_rows(samples: Sequence[Record], most: int | None = None) -> Iterator[tuple[str, str, str]]:
    """Yield a text with ``[MASK]``, the hidden word where it is known, the model's candidates."""
    for sample in samples:
        candidates = sample["candidates"]
        assert isinstance(candidates, list), "pairs of a word and its probability"
        said = ", ".join(f"{word} {share:.0%}" for word, share in candidates[:most])
        yield str(sample["text"]), str(sample.get("answer", "")), said


def samples_table(samples: Sequence[Record]) -> str:
    """What the model fills in."""
    return table(("text", "hidden", "the model says"), list(sample_rows(samples)), title="What it fills in")


def pretraining_charts(records: Sequence[Record]) -> str:
    """The curves of a run's log; settings that never change are left out."""
    train, bag = points(records, "mlm_loss"), points(records, "bag_loss")
    left = [(number(line, "step"), "left the plateau") for line in records if line.get("event") == "left_plateau"]
    loss = [
        Series("training, each line of the log", train, faint=True),
        Series("training, smoothed", smoothed(train)),
        Series("dev", points(records, "dev_mlm_loss")),
        Series("dev, where the input is [MASK]", points(records, "dev_masked_loss")),
        Series("word frequencies alone, there", points(records, "dev_unigram_loss"), dashed=True),
    ]
    accuracy = [
        Series("words", points(records, "dev_mlm_accuracy")),
        Series("sentence order", points(records, "dev_sop_accuracy")),
        Series("length rule", points(records, "dev_sop_length_rule"), dashed=True),
        Series("next sentence", points(records, "dev_nsp_accuracy")),
        Series("overlap rule", points(records, "dev_nsp_overlap_rule"), dashed=True),
    ]
    bags = [Series("each line of the log", bag, faint=True), Series("smoothed", smoothed(bag))]
    probes = [
        Series("[CLS]", points(records, "dev_probe_cls")),
        Series("mean of the tokens", points(records, "dev_probe_mean")),
        Series("word table", points(records, "dev_probe_table")),
        Series("bag of words, no model", points(records, "dev_probe_words"), dashed=True),
    ]
    figures = [
        chart("Masked-word loss (nats)", loss, left),
        chart("Bag-of-words loss of [CLS] (nats)", bags),
        chart("Accuracy on dev documents", accuracy),
        chart("Linear probes of frozen states", probes),
        chart("Learning rate", [Series("learning rate", points(records, "lr"))]),
        chart("Tokens per second", [Series("tokens/s", points(records, "tokens_per_s"))]),
    ]
    for key, title in (
        ("layers", "Layers that run"),
        ("length", "Longest example (tokens)"),
        ("batch_size", "Examples per step"),
        ("mask_rate", "Share of tokens masked"),
    ):
        line = points(records, key)
        if len({value for _, value in line}) > 1:
            figures.append(chart(title, [Series(title, line)]))
    return side_by_side("charts", figures)


def _subtitle(manifest: Record, steps: Sequence[Record]) -> str:
    preset = mapping(manifest, "config", "model").get("preset") or "model"
    text = f"{preset} · created {manifest.get('created', '?')}"
    if not steps:
        return text
    last, took = steps[-1], format_duration(number(steps[-1], "elapsed_s"))
    return f"{text} · {last['step']:,} steps · {number(last, 'tokens') / 1e6:,.1f} M tokens · {took} of training"


def _dev_figures(dev: Sequence[Record]) -> list[tuple[str, str]]:
    if not dev:
        return []
    last = dev[-1]
    found = [(f"{number(last, 'dev_mlm_loss'):.3f}", "dev masked-word loss")]
    for key, count_key, label, rule_key, rule in _ACCURACIES:
        if last.get(f"dev_{key}") is not None:
            share, count = number(last, f"dev_{key}"), number(last, f"dev_{count_key}")
            low, high = wilson_interval(share, count)
            if last.get(f"dev_{rule_key}") is not None:
                label += f" ({rule} {number(last, f'dev_{rule_key}'):.1%})"
            found.append((f"{share:.1%}", f"{label}; 95 % interval {low:.1%} to {high:.1%}, of {count:,.0f}"))
    if last.get("dev_probe_cls") is not None:
        beside = f"bag of words {number(last, 'dev_probe_words'):.3f}"
        found.append((f"{number(last, 'dev_probe_cls'):.3f}", f"probe of [CLS] ({beside})"))
    return found


def _rates(steps: Sequence[Record]) -> list[tuple[str, str]]:
    if not steps:
        return []
    rate, share = (median_high(number(step, key) for step in steps) for key in ("tokens_per_s", "gemm_share"))
    waits = fmean(number(step, "wait_share") for step in steps)
    machine = [(f"{share:.0%}", "of the machine's GEMM rate")] if share else []
    return [(f"{rate:,.0f}", "tokens per second (median)"), *machine, (f"{waits:.1%}", "of the time waiting for data")]

"""Run folders to one self-contained HTML page: curves, scores, samples, settings."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from litebert.common.files import read_json, write_text
from litebert.common.progress import format_duration
from litebert.common.runs import RunFolder

Record = Mapping[str, object]

_WIDTH, _HEIGHT = 560, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 12, 30
_COLOURS = ("var(--c1)", "var(--c2)", "var(--c3)", "var(--c4)")

_STYLE = """
:root { color-scheme: light dark; --bg: #fff; --fg: #1c2024; --dim: #68707a; --line: #dfe3e8;
  --card: #f6f7f9; --c1: #2563eb; --c2: #d9480f; --c3: #2b8a3e; --c4: #9c36b5; }
@media (prefers-color-scheme: dark) { :root { --bg: #14171b; --fg: #e6e9ed; --dim: #98a2ad;
  --line: #333a43; --card: #1d2228; --c1: #6ea8fe; --c2: #ff922b; --c3: #69db7c; --c4: #da77f2; } }
* { box-sizing: border-box; }
body { background: var(--bg); color: var(--fg); font: 15px/1.5 system-ui, sans-serif;
  margin: 0 auto; max-width: 1200px; padding: 24px; }
h1 { font-size: 24px; margin: 0; } h2 { font-size: 17px; margin: 32px 0 8px; }
.dim { color: var(--dim); }
.tiles { display: grid; gap: 12px; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr));
  margin-top: 16px; }
.tile { background: var(--card); border-radius: 8px; padding: 10px 14px; }
.tile b { display: block; font-size: 22px; } .tile span { color: var(--dim); font-size: 13px; }
.charts { display: grid; gap: 20px; grid-template-columns: repeat(auto-fit, minmax(440px, 1fr)); }
figure { margin: 0; } figcaption { font-weight: 600; margin-bottom: 4px; }
svg { display: block; height: auto; width: 100%; }
svg text { fill: var(--dim); font: 11px system-ui, sans-serif; }
.legend { display: flex; flex-wrap: wrap; font-size: 13px; gap: 4px 14px; }
.legend i { border-radius: 2px; display: inline-block; height: 3px; margin-right: 5px;
  vertical-align: middle; width: 16px; }
table { border-collapse: collapse; width: 100%; }
td, th { border-bottom: 1px solid var(--line); padding: 4px 10px 4px 0; text-align: left;
  vertical-align: top; }
td.n { font-variant-numeric: tabular-nums; white-space: nowrap; }
mark { background: none; border-bottom: 2px solid var(--c2); color: inherit; font-weight: 600; }
pre { background: var(--card); border-radius: 8px; overflow: auto; padding: 12px; }
"""


@dataclass(frozen=True)
class Series:
    """One line of a chart.

    >>> Series("train", ((1, 9.1), (2, 8.7))).points[-1]
    (2, 8.7)
    """

    name: str
    points: tuple[tuple[float, float], ...]
    dashed: bool = False
    faint: bool = False


def write_report(run: Path | str, target: Path | str | None = None) -> Path:
    """Write ``report.html`` of a pretraining run; the path of the page.

    Args:
        run: a run folder.
        target: where to write; default: into the run folder.
    """
    folder = RunFolder.open(run)
    path = Path(target) if target is not None else folder.path / "report.html"
    write_text(path, render(folder))
    return path


def render(run: RunFolder) -> str:
    """The page of a run, from its manifest, metrics and samples."""
    records = list(run.metrics())
    steps = [record for record in records if "mlm_loss" in record and "event" not in record]
    dev = [record for record in records if "dev_mlm_loss" in record]
    events = [record for record in records if "event" in record]
    manifest = run.manifest()
    name = html.escape(run.path.resolve().name)
    parts = [
        f"<h1>{name}</h1>",
        f'<p class="dim">{html.escape(_subtitle(manifest, steps))}</p>',
        _tiles(steps, dev),
        "<h2>Curves</h2>",
        _curves(steps, dev, events),
        _events(events),
        _samples(run.path / "samples.json"),
        _settings(manifest),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{name}</title><style>{_STYLE}</style></head><body>"
        + "\n".join(part for part in parts if part)
        + "</body></html>\n"
    )


def _subtitle(manifest: Record, steps: Sequence[Record]) -> str:
    config = manifest.get("config")
    model = config.get("model") if isinstance(config, Mapping) else None
    preset = model.get("preset") if isinstance(model, Mapping) else None
    parts = [str(preset or "model"), f"created {manifest.get('created', '?')}"]
    if steps:
        last = steps[-1]
        parts.append(f"{last['step']:,} steps")
        parts.append(f"{_number(last, 'tokens') / 1e6:,.1f} M tokens")
        parts.append(f"{format_duration(_number(last, 'elapsed_s'))} of training")
    return " · ".join(parts)


def _tiles(steps: Sequence[Record], dev: Sequence[Record]) -> str:
    tiles: list[tuple[str, str]] = []
    if dev:
        last = dev[-1]
        tiles.append((f"{_number(last, 'dev_mlm_loss'):.3f}", "dev masked-word loss"))
        accuracies = (
            ("dev_mlm_accuracy", "dev_predictions", "words predicted"),
            ("dev_sop_accuracy", "dev_sop_pairs", "sentence order (SOP)"),
            ("dev_nsp_accuracy", "dev_nsp_pairs", "next sentence (NSP)"),
        )
        for key, count_key, label in accuracies:
            if last.get(key) is not None:
                value, count = _number(last, key), _number(last, count_key)
                half = 1.96 * math.sqrt(max(0.0, value * (1 - value)) / max(1.0, count))
                text = f"{label}, ± {half:.1%} of {count:,.0f}"
                tiles.append((f"{value:.1%}", text))
    if steps:
        rates = sorted(_number(step, "tokens_per_s") for step in steps)
        tiles.append((f"{rates[len(rates) // 2]:,.0f}", "tokens per second (median)"))
        shares = sorted(_number(step, "gemm_share") for step in steps)
        tiles.append((f"{shares[len(shares) // 2]:.0%}", "of the machine's GEMM rate"))
        waits = sum(_number(step, "wait_share") for step in steps) / len(steps)
        tiles.append((f"{waits:.1%}", "of the time waiting for data"))
    cells = [
        f'<div class="tile"><b>{value}</b><span>{html.escape(label)}</span></div>'
        for value, label in tiles
    ]
    return f'<div class="tiles">{"".join(cells)}</div>' if cells else ""


def _curves(steps: Sequence[Record], dev: Sequence[Record], events: Sequence[Record]) -> str:
    left = [_number(e, "step") for e in events if e["event"] == "left_plateau"]
    marks = [(step, "left the plateau") for step in left]
    train_loss = _points(steps, "mlm_loss")
    loss = [
        Series("training, each line of the log", train_loss, faint=True),
        Series("training, smoothed", _smoothed(train_loss)),
        Series("dev", _points(dev, "dev_mlm_loss")),
        Series("dev, where the input is [MASK]", _points(dev, "dev_masked_loss")),
        Series("word frequencies alone, there", _points(dev, "dev_unigram_loss"), dashed=True),
    ]
    charts = [
        chart("Masked-word loss (nats)", loss, marks),
        chart(
            "Accuracy on dev documents",
            [
                Series("words", _points(dev, "dev_mlm_accuracy")),
                Series("sentence order", _points(dev, "dev_sop_accuracy")),
                Series("next sentence", _points(dev, "dev_nsp_accuracy")),
            ],
        ),
        chart("Learning rate", [Series("learning rate", _points(steps, "lr"))]),
        chart("Tokens per second", [Series("tokens/s", _points(steps, "tokens_per_s"))]),
    ]
    for key, title in (
        ("layers", "Layers that run"),
        ("length", "Longest example (tokens)"),
        ("batch_size", "Examples per step"),
        ("mask_rate", "Share of tokens masked"),
    ):
        points = _points(steps, key)
        if len({value for _, value in points}) > 1:
            charts.append(chart(title, [Series(title, points)]))
    return f'<div class="charts">{"".join(charts)}</div>'


def chart(title: str, series: Sequence[Series], marks: Sequence[tuple[float, str]] = ()) -> str:
    """An SVG line chart over steps with axes and a legend; hand-made, so that a report needs no
    plotting library and follows the reader's light or dark theme."""
    drawn = [line for line in series if line.points]
    if not drawn:
        return ""
    xs = [x for line in drawn for x, _ in line.points]
    ys = [y for line in drawn for _, y in line.points]
    x_ticks, y_ticks = ticks(0.0, max(xs), 6), ticks(min(ys), max(ys), 5)
    x_low, x_high = 0.0, max(max(xs), 1.0)
    y_low, y_high = min(y_ticks[0], min(ys)), max(y_ticks[-1], max(ys))

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - x_low) / ((x_high - x_low) or 1.0)
        up = (y - y_low) / ((y_high - y_low) or 1.0)
        return (
            _LEFT + across * (_WIDTH - _LEFT - _RIGHT),
            _HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM),
        )

    shapes = []
    for tick in y_ticks:
        y = place(x_low, tick)[1]
        shapes.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
            'stroke="var(--line)"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>'
        )
    for tick in (t for t in x_ticks if t <= x_high):
        x = place(tick, y_low)[0]
        shapes.append(
            f'<text x="{x:.1f}" y="{_HEIGHT - 10}" text-anchor="middle">{_short(tick)}</text>'
        )
    for step, label in marks:
        x = place(step, y_low)[0]
        shapes.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" '
            f'stroke="var(--dim)" stroke-dasharray="2 3"/><text x="{x + 4:.1f}" y="{_TOP + 10}">'
            f"{html.escape(label)} (step {step:,.0f})</text>"
        )
    legend = []
    for line, colour in zip(drawn, _colours(drawn), strict=True):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in line.points))
        style = ' stroke-dasharray="6 4"' if line.dashed else ""
        width = 1 if line.faint else 1.8
        opacity = ' opacity="0.3"' if line.faint else ""
        value = line.points[-1][1]
        shapes.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"'
            f"{style}{opacity}><title>{html.escape(line.name)}: {value:.5g} at the end</title>"
            "</polyline>"
        )
        if not line.faint:
            legend.append(
                f'<span><i style="background:{colour}"></i>{html.escape(line.name)} '
                f"<b>{value:.4g}</b></span>"
            )
    return (
        f"<figure><figcaption>{html.escape(title)}</figcaption>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{"".join(shapes)}</svg>'
        f'<div class="legend">{"".join(legend)}</div></figure>'
    )


def ticks(low: float, high: float, count: int) -> list[float]:
    """Round values that cover a range.

    >>> ticks(0.0, 950.0, 5)
    [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]
    """
    span = high - low
    if not 1e-9 * max(1.0, abs(low)) < span < math.inf:  # too narrow for labels that differ
        return [low, low + (abs(low) or 1.0)]
    raw = span / count
    scale = 10.0 ** math.floor(math.log10(raw))
    step = scale * min((1, 2, 5, 10), key=lambda factor: abs(factor * scale - raw))
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(number * step, 12) for number in range(first, last + 1)]


def _colours(lines: Sequence[Series]) -> list[str]:
    """A faint line has the colour of the one after it; a dashed one is a reference, in grey."""
    found, number = [], 0
    for line in lines:
        found.append("var(--dim)" if line.dashed else _COLOURS[number % len(_COLOURS)])
        number += not (line.faint or line.dashed)
    return found


def _points(records: Iterable[Record], key: str) -> tuple[tuple[float, float], ...]:
    return tuple(
        (_number(record, "step"), _number(record, key))
        for record in records
        if isinstance(record.get(key), (int, float)) and math.isfinite(_number(record, key))
    )


def _smoothed(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Mean over a window that grows with the number of points."""
    half = len(points) // 60
    out = []
    for index, (step, _) in enumerate(points):
        near = points[max(0, index - half) : index + half + 1]
        out.append((step, sum(value for _, value in near) / len(near)))
    return tuple(out)


def _events(events: Sequence[Record]) -> str:
    shown = [e for e in events if e["event"] != "nonfinite"]
    skipped = len(events) - len(shown)
    rows = [
        f'<tr><td class="n">{_number(e, "step"):,.0f}</td><td>{html.escape(str(e["event"]))}</td>'
        f"<td>{html.escape(str(e.get('message', '')))}</td></tr>"
        for e in shown
    ]
    if skipped:
        rows.append(f"<tr><td></td><td>nonfinite</td><td>{skipped} steps not updated</td></tr>")
    if not rows:
        return ""
    return f"<h2>Events</h2><table><tr><th>step</th><th></th><th></th></tr>{''.join(rows)}</table>"


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


def _settings(manifest: Record) -> str:
    keys = ("config", "fingerprints", "seeds", "versions", "machine", "commit", "argv")
    shown = {key: _without_nulls(manifest.get(key)) for key in keys}
    text = html.escape(json.dumps(shown, indent=2, ensure_ascii=False))
    return f"<h2>Settings</h2><details><summary>everything</summary><pre>{text}</pre></details>"


def _without_nulls(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value


def _number(record: Record, key: str) -> float:
    value = record.get(key)
    return float(value) if isinstance(value, (int, float)) else 0.0


def _short(value: float) -> str:
    for size, suffix in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{suffix}"
    return f"{value:g}"

"""The page of a fine-tuning run: scores beside the baseline, curves, seeds, mistakes, recipe."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from litebert.common.progress import format_duration
from litebert.common.runs import BASELINES, MISTAKES_FILE, RESULT_FILE, RunFolder
from litebert.report.log import Record, lines_with, mapping, number, points, read_if_there, smoothed
from litebert.report.page import Series, chart, events_table, page, settings, side_by_side, table, tiles
from litebert.tasks.base import Form
from litebert.tasks.forms.kinds import FORMS

_MOST_CURVES = 8


@dataclass(frozen=True)
class NamedLog:
    """The log of one run, under the name that a legend gives it."""

    name: str
    path: Path
    records: Sequence[Record]

    @classmethod
    def read(cls, path: Path, name: str = "") -> NamedLog:
        """Read the log of a run folder, whose own name is taken where none is given."""
        return cls(name or path.resolve().name, path, list(RunFolder.open(path).metrics()))

    def event(self, name: str) -> Record:
        """The first event of that name, or nothing."""
        return next((r for r in self.records if r.get("event") == name), {})


def read_logs(run: Path) -> list[NamedLog]:
    """The log of a run, or those of its seeds."""
    folders = [path.parent for path in run.glob("seed-*/manifest.json")]
    folders.sort(key=lambda path: (len(path.name), path.name))  # seed-10 after seed-9
    return [NamedLog.read(path) for path in folders or [run]]


def is_finetuning(manifest: Record) -> bool:
    """Whether a manifest is that of a fine-tuning run."""
    return isinstance(mapping(manifest, "config").get("task"), str)


def finetuning_page(run: RunFolder) -> str:
    """The page of a run with one seed or several, from its files; also while it is going on."""
    manifest, logs = run.manifest(), read_logs(run.path)
    result = read_if_there(run.path / RESULT_FILE)
    records = [record for log in logs for record in log.records]
    metric = str(result.get("metric") or first_metric(records))
    scores = [number(row, metric) for row in _rows(result, "by_seed")]
    best = logs[scores.index(max(scores))] if len(scores) == len(logs) else logs[0]  # whose model the folder has
    content = read_if_there(best.path / MISTAKES_FILE)
    return page(
        run.path.resolve().name,
        _subtitle(manifest, result),
        [
            tiles([*_score_figures(logs, result, metric), *_cost_figures(logs)]),
            side_by_side("columns", _score_tables(result, metric)),
            "<h2>Curves</h2>",
            finetuning_charts(logs, result, metric),
            classes_table(content),
            confusion_table(content),
            mistakes_table(content),
            side_by_side("columns", [_recipe(best, manifest), _data(best, result)]),
            events_table(records, leave_out=("recipe", "data", "answers")),
            settings(manifest),
        ],
    )


def finetuning_charts(logs: Sequence[NamedLog], result: Record, metric: str) -> str:
    """The curves of one run or of several side by side."""
    shown, several = logs[:_MOST_CURVES], len(logs) > 1

    def series(key: str, name: str) -> list[Series]:
        return [Series(log.name if several else name, points(log.records, key)) for log in shown]

    raw = series("loss", "smoothed")
    losses = [replace(line, points=smoothed(line.points, 10)) for line in raw]
    if not several:
        losses.insert(0, Series("each line of the log", raw[0].points, faint=True))
    dev = series(f"dev_{metric}", metric)
    last = max((step for line in raw for step, _ in line.points), default=0.0)
    for name, scores in _baselines(result).items():
        if isinstance(level := scores.get(metric), (int, float)):
            dev.append(Series(name, ((0.0, level), (last, level)), dashed=True))
    marks = [(number(result, "best_step"), "best")] if result and not several else []
    figures = [
        chart("Training loss", losses),
        chart(f"{metric} on dev", dev, marks),
        chart("Learning rate", [Series("learning rate", points(shown[0].records, "lr"))]),
        chart("Norm of the gradient before clipping", series("grad_norm", "norm")),
    ]
    return side_by_side("charts", figures)


def first_metric(records: Iterable[Record]) -> str:
    """The first score of the log, for a run without a result yet."""
    keys = (key for line in lines_with(records, "eval_s") for key in line)
    return next((key.removeprefix("dev_") for key in keys if key.startswith("dev_")), "")


def _subtitle(manifest: Record, result: Record) -> str:
    config = mapping(manifest, "config")
    start = "random weights, shape of " if config.get("start") == "random" else ""
    task, created = result.get("task") or config.get("task"), manifest.get("created", "?")
    text = f"{task} · from {start}{config.get('model')} · created {created}"
    return text if result else f"{text} · not finished"


def _score_figures(logs: Sequence[NamedLog], result: Record, metric: str) -> list[tuple[str, str]]:
    if not result:
        scores = [score for log in logs for _, score in points(log.records, f"dev_{metric}")]
        return [(f"{max(scores):.4g}", f"best dev {metric} so far")] if scores else []
    seeds = len(_rows(result, "by_seed"))
    median = f", median of {seeds} seeds" if seeds else ""
    found = [(f"{number(result, 'scores', metric):.4g}", f"dev {metric}{median}")]
    if "mae" in mapping(result, "scores"):  # a correlation says nothing about the scale
        error, of_mean = number(result, "scores", "mae"), number(result, "baseline", "mae")
        found.append((f"{error:.3g}", f"mean error; always saying the mean: {of_mean:.3g}"))
    for name, beside in _baselines(result).items():
        label = "baseline that looks at no text" if name == "baseline" else name
        found.append((f"{number(beside, metric):.4g}", label))
    if seeds:
        found.append((f"{number(result, 'spread', metric):.3g}", "largest minus smallest of the seeds"))
    return found


def _cost_figures(logs: Sequence[NamedLog]) -> list[tuple[str, str]]:
    steps = [lines for log in logs if (lines := lines_with(log.records, "loss"))]
    if not steps:
        return []
    count, tokens, seconds = (sum(number(s[-1], key) for s in steps) for key in ("step", "tokens", "elapsed_s"))
    evaluating = sum(value for log in logs for _, value in points(log.records, "eval_s"))
    rate = tokens / max(1e-9, seconds - min(evaluating, 0.99 * seconds))
    share = min(1.0, evaluating / max(1e-9, seconds))
    together = f", {len(logs)} seeds together" if len(logs) > 1 else ""
    return [
        (f"{count:,.0f}", f"steps{together}"),
        (f"{tokens / 1e6:,.2f} M", "tokens, without padding"),
        (f"{rate:,.0f}", "tokens per second of training"),
        (format_duration(seconds), f"of training, {share:.0%} of it for dev scores"),
    ]


def _score_tables(result: Record, metric: str) -> list[str]:
    """Scores of dev beside baselines, the seeds' spread and other splits; of seeds, of depths."""
    compared = {"dev": mapping(result, "scores"), **_baselines(result)}
    if spread := mapping(result, "spread"):
        compared["spread"] = spread
    compared |= {k: mapping(v) for k, v in mapping(result, "other_scores").items()}
    scores = [[name, *(_figure(of.get(name)) for of in compared.values())] for name in compared["dev"]]
    by_seed = _rows(result, "by_seed")
    names = [name for row in by_seed[:1] for name in row if name != "seed"]
    seeds = [[f"{number(r, 'seed'):.0f}", *(_figure(r.get(name)) for name in names)] for r in by_seed]
    depths = [[depth, _figure(score)] for depth, score in mapping(result, "exit_scores").items()]
    return [
        _figures_table("Scores", ["", *compared], scores),
        _figures_table("Seeds", ["seed", *names], seeds),
        _figures_table("Early exits", ["layers", f"dev {metric}"], depths),
    ]


def _baselines(result: Record) -> dict[str, Record]:
    """Scores of always saying the same, and of what else was asked for, by name."""
    others = mapping(result, "baselines")
    found = {name: mapping(others, key) for key, name in BASELINES.items() if key in others}
    return {"baseline": mapping(result, "baseline"), **found}


def _data(log: NamedLog, result: Record) -> str:
    """How many examples, which rows were bad, where answers could not be found."""
    data, answers = log.event("data"), log.event("answers")
    examples, windows = data.get("train_examples"), data.get("train_features")
    found = {
        "training examples": examples,
        "windows of them": windows if windows != examples else None,
        "dev examples scored": result.get("dev_examples"),
        **{f"bad rows: {why}": count for why, count in mapping(data, "bad_rows").items()},
        "answers at piece boundaries": answers.get("exact"),
        "answers widened to whole pieces": answers.get("widened"),
        "answers in no window": answers.get("lost"),
    }
    rows = [[name, _figure(value)] for name, value in found.items() if value is not None]
    return _figures_table("Data", ["", ""], rows)


def _recipe(log: NamedLog, manifest: Record) -> str:
    recipe, config = log.event("recipe"), mapping(manifest, "config")
    own = {key: config[key] for key in ("weight_decay", "clip_norm", "seed") if key in config}
    rows = [
        [key.replace("_", " "), _figure(value)]
        for key, value in {**recipe, **own}.items()
        if key not in ("event", "step") and isinstance(value, (int, float))
    ]
    return _figures_table("Recipe", ["", ""], rows if recipe else [])


def _figures_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    numeric = range(0 if headings[0] else 1, len(headings))
    return table(headings, rows, title=title, numeric=numeric, narrow=True)


def _figure(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else ""


def _rows(content: Record, key: str) -> list[Record]:
    value = content.get(key)
    return [mapping(item) for item in value] if isinstance(value, Sequence) else []


def confusion_table(content: Record) -> str:
    """The confusion matrix: a row per gold label with the share of each predicted label."""
    confusion = content.get("confusion")
    if not isinstance(confusion, Mapping):
        return ""
    labels, rows = [html.escape(str(label)) for label in confusion["labels"]], []
    for row, counts in enumerate(confusion["matrix"]):
        cells, total = "", sum(counts)
        for column, count in enumerate(counts):
            share, colour = count / (total or 1), "var(--c3)" if row == column else "var(--c2)"
            style = f'style="background:color-mix(in srgb, {colour} {55 * share:.0f}%, transparent)"'
            cells += f'<td class="n" {style}>{count:,} <span class="dim">{share:.0%}</span></td>'
        rows.append(f"<tr><th>{labels[row]}</th>{cells}<td class='n'>{total:,}</td></tr>")
    head = "".join(f"<th>{label}</th>" for label in labels)
    return (
        f'<h2>Confusion</h2><p class="dim">Rows: the gold label; columns: what the model says, '
        f'on {_split(content)}.</p><div class="wide"><table class="confusion">'
        f"<tr><th></th>{head}<th>all</th></tr>{''.join(rows)}</table></div>"
    )


def classes_table(content: Record) -> str:
    """Precision, recall and F1 of each class, label or type of entity."""
    names = ("precision", "recall", "f1", "count")
    rows = [[str(row.get("class")), *(_figure(row.get(name)) for name in names)] for row in _rows(content, "classes")]
    return table([f"on {_split(content)}", *names], rows, title="Classes", numeric=range(1, 5))


def mistakes_table(content: Record) -> str:
    """The wrong predictions the model was surest of."""
    rows = [
        [_text(row), _said(row["gold"]), _said(row["predicted"]), f"{number(row, 'badness'):.3g}"]
        for row in _rows(content, "worst")
    ]
    form = {str(kind): form for kind, form in FORMS.items()}.get(str(content.get("kind")), Form)
    headings = [f"{_split(content)} text", "gold", "the model says", form.how_bad]
    return table(headings, rows, title="Worst mistakes", numeric=(3,))


def _text(row: Record) -> str:
    text, pair = str(row.get("text", "")).strip(), row.get("text_pair")
    return text if pair is None else f"{text}\n{str(pair).strip()}"


def _said(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, (list, tuple)):
        return " / ".join(dict.fromkeys(map(str, value))) or "(none)"
    return str(value) or "(no answer)"


def _split(content: Record) -> str:
    return str(content.get("split", "dev"))

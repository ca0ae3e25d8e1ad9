"""The page of a fine-tuning run: scores beside the baseline, curves, seeds, mistakes, recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from litebert.common.files import read_json
from litebert.common.progress import format_duration
from litebert.common.runs import RunFolder
from litebert.report.charts import Record, Series, chart, number, points, smoothed
from litebert.report.mistakes import confusion_table, mistakes_table
from litebert.report.page import charts, columns, events_table, page, settings, table, tiles
from litebert.report.scores import RESULT_FILE

_OWN_EVENTS = ("recipe", "data", "answers")
_MOST_CURVES = 8


@dataclass(frozen=True)
class _Run:
    """What one seed left: its log, and the parts of it."""

    name: str
    path: Path
    records: Sequence[Record] = field(default=())

    @classmethod
    def read(cls, folder: RunFolder) -> _Run:
        return cls(folder.path.resolve().name, folder.path, list(folder.metrics()))

    @property
    def steps(self) -> list[Record]:
        return [record for record in self.records if "loss" in record]

    @property
    def dev(self) -> list[Record]:
        return [record for record in self.records if "eval_s" in record]

    def event(self, name: str) -> Record:
        """The first event of that name, or nothing."""
        return next((r for r in self.records if r.get("event") == name), {})


def is_finetuning(manifest: Record) -> bool:
    """Whether a manifest is that of a fine-tuning run."""
    config = manifest.get("config")
    return isinstance(config, Mapping) and isinstance(config.get("task"), str)


def finetuning_page(run: RunFolder) -> str:
    """The page of a run with one seed or several, from its files; also while it is going on."""
    manifest = run.manifest()
    result = read_json(run.path / RESULT_FILE) if (run.path / RESULT_FILE).is_file() else {}
    folders = sorted(run.path.glob("seed-*/manifest.json"), key=_seed_number)
    runs = [_Run.read(RunFolder.open(path.parent)) for path in folders] or [_Run.read(run)]
    metric = str(result.get("metric") or _first_metric(runs))
    best = _best_run(runs, result, metric)
    return page(
        run.path.resolve().name,
        _subtitle(manifest, result),
        [
            tiles(_figures(runs, result, metric)),
            columns([_scores(result), _seeds(result), _depths(result, metric)]),
            "<h2>Curves</h2>",
            _curves(runs, result, metric),
            *_mistakes(best.path / "mistakes.json"),
            columns([_recipe(best, manifest), _data(best, result)]),
            events_table(_other_events(runs)),
            settings(manifest),
        ],
    )


def _seed_number(manifest: Path) -> int:
    digits = manifest.parent.name.removeprefix("seed-")
    return int(digits) if digits.isdigit() else -1


def _first_metric(runs: Sequence[_Run]) -> str:
    """The first score of the log, for a run without a result yet."""
    names = [key for run in runs for record in run.dev for key in record if key.startswith("dev_")]
    return names[0].removeprefix("dev_") if names else ""


def _best_run(runs: Sequence[_Run], result: Record, metric: str) -> _Run:
    """The run whose model the folder has."""
    seeds = _rows(result.get("by_seed"))
    if len(seeds) != len(runs):
        return runs[0]
    scores = [number(row, metric) for row in seeds]
    return runs[scores.index(max(scores))]


def _subtitle(manifest: Record, result: Record) -> str:
    config = _mapping(manifest.get("config"))
    start = "random weights, shape of " if config.get("start") == "random" else ""
    parts = [f"{result.get('task') or config.get('task')}", f"from {start}{config.get('model')}"]
    parts.append(f"created {manifest.get('created', '?')}")
    if not result:
        parts.append("not finished")
    return " · ".join(parts)


def _figures(runs: Sequence[_Run], result: Record, metric: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    scores, baseline = _mapping(result.get("scores")), _mapping(result.get("baseline"))
    seeds = len(_rows(result.get("by_seed")))
    if result:
        median = f", median of {seeds} seeds" if seeds else ""
        found.append((f"{number(scores, metric):.4g}", f"dev {metric}{median}"))
        found.append((f"{number(baseline, metric):.4g}", "baseline that looks at no text"))
    else:
        values = [value for run in runs for _, value in points(run.dev, f"dev_{metric}")]
        if values:
            found.append((f"{max(values):.4g}", f"best dev {metric} so far"))
    if seeds:
        spread = number(_mapping(result.get("spread")), metric)
        found.append((f"{spread:.3g}", "largest minus smallest of the seeds"))
    lasts = [run.steps[-1] for run in runs if run.steps]
    if lasts:
        seconds = sum(number(last, "elapsed_s") for last in lasts)
        tokens = sum(number(last, "tokens") for last in lasts)
        evaluating = sum(number(record, "eval_s") for run in runs for record in run.dev)
        rate = tokens / max(1e-9, seconds - min(evaluating, 0.99 * seconds))
        steps = sum(number(last, "step") for last in lasts)
        found.append((f"{steps:,.0f}", f"steps, {len(runs)} seeds together" if seeds else "steps"))
        found.append((f"{tokens / 1e6:,.2f} M", "tokens, without padding"))
        found.append((f"{rate:,.0f}", "tokens per second of training"))
        share = min(1.0, evaluating / max(1e-9, seconds))
        found.append((format_duration(seconds), f"of training, {share:.0%} of it for dev scores"))
    return found


def _scores(result: Record) -> str:
    scores, baseline = _mapping(result.get("scores")), _mapping(result.get("baseline"))
    if not scores:
        return ""
    spread = _mapping(result.get("spread"))
    others = _mapping(result.get("other_scores"))
    headings = ["", "dev", "baseline", *(["spread"] if spread else []), *others]
    rows = []
    for name in scores:
        row = [name, _figure(scores, name), _figure(baseline, name)]
        row += [_figure(spread, name)] if spread else []
        rows.append(row + [_figure(_mapping(of_split), name) for of_split in others.values()])
    return "<h2>Scores</h2>" + table(headings, rows, numeric=range(1, len(headings)), narrow=True)


def _seeds(result: Record) -> str:
    rows = _rows(result.get("by_seed"))
    if not rows:
        return ""
    names = [name for name in rows[0] if name != "seed"]
    cells = [[f"{number(r, 'seed'):.0f}", *(_figure(r, name) for name in names)] for r in rows]
    return "<h2>Seeds</h2>" + table(
        ["seed", *names], cells, numeric=range(len(names) + 1), narrow=True
    )


def _depths(result: Record, metric: str) -> str:
    """Scores of a model that may stop early, by the layer it stops at."""
    found = _mapping(result.get("exit_scores"))
    rows = [[depth, _figure(found, depth)] for depth in found]
    if not rows:
        return ""
    return "<h2>Early exits</h2>" + table(
        ["layers", f"dev {metric}"], rows, numeric=(0, 1), narrow=True
    )


def _curves(runs: Sequence[_Run], result: Record, metric: str) -> str:
    shown = runs[:_MOST_CURVES]
    several = len(runs) > 1
    losses: list[Series] = []
    for run in shown:
        line = points(run.steps, "loss")
        if not several:
            losses.append(Series("each line of the log", line, faint=True))
        losses.append(Series(run.name if several else "smoothed", smoothed(line, 10)))
    dev = [
        Series(run.name if several else metric, points(run.dev, f"dev_{metric}")) for run in shown
    ]
    last = max((number(record, "step") for run in runs for record in run.steps), default=0.0)
    level = _mapping(result.get("baseline")).get(metric)
    if isinstance(level, (int, float)):
        dev.append(Series("baseline", ((0.0, float(level)), (last, float(level))), dashed=True))
    best_step = number(result, "best_step")
    marks = [(best_step, "best")] if result and not several else []
    norms = [
        Series(run.name if several else "norm", points(run.steps, "grad_norm")) for run in shown
    ]
    return charts(
        [
            chart("Training loss", losses),
            chart(f"{metric} on dev", dev, marks),
            chart("Learning rate", [Series("learning rate", points(shown[0].steps, "lr"))]),
            chart("Norm of the gradient before clipping", norms),
        ]
    )


def _mistakes(path: Path) -> list[str]:
    if not path.is_file():
        return []
    content = read_json(path)
    return [confusion_table(content), mistakes_table(content)]


def _data(run: _Run, result: Record) -> str:
    """How many examples, which rows were bad, where answers could not be found."""
    data, answers = run.event("data"), run.event("answers")
    rows = []
    if data:
        rows.append(["training examples", f"{number(data, 'train_examples'):,.0f}"])
        if data.get("train_features") != data.get("train_examples"):
            rows.append(["windows of them", f"{number(data, 'train_features'):,.0f}"])
    if result:
        rows.append(["dev examples scored", f"{number(result, 'dev_examples'):,.0f}"])
    for reason, count in _mapping(data.get("bad_rows")).items():
        rows.append([f"bad rows: {reason}", f"{count:,}"])
    if answers:
        for key, text in (
            ("exact", "answers at piece boundaries"),
            ("widened", "answers widened to whole pieces"),
            ("lost", "answers in no window"),
        ):
            rows.append([text, f"{number(answers, key):,.0f}"])
    return "<h2>Data</h2>" + table(["", ""], rows, numeric=(1,), narrow=True) if rows else ""


def _recipe(run: _Run, manifest: Record) -> str:
    recipe = run.event("recipe")
    rows = [
        [key.replace("_", " "), _setting(value)]
        for key, value in recipe.items()
        if key not in ("event", "step") and isinstance(value, (int, float))
    ]
    config = _mapping(manifest.get("config"))
    for key in ("weight_decay", "clip_norm", "seed"):
        if key in config:
            rows.append([key.replace("_", " "), f"{config[key]}"])
    return "<h2>Recipe</h2>" + table(["", ""], rows, numeric=(1,), narrow=True) if recipe else ""


def _setting(value: float) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else f"{value:,}"


def _other_events(runs: Sequence[_Run]) -> list[Record]:
    return [r for run in runs for r in run.records if r.get("event", "recipe") not in _OWN_EVENTS]


def _figure(values: Record, name: str) -> str:
    value = values.get(name)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else ""


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _rows(value: object) -> list[Mapping[str, object]]:
    return [_mapping(item) for item in value] if isinstance(value, Sequence) else []

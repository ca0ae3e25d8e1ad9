"""What runs have shown: our table beside the paper's, verdicts, pictures, pages, the evidence."""

from __future__ import annotations

import base64
import html
import math
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Literal

from litebert.common.config import from_dict, load_toml, recipe_path
from litebert.common.files import write_json, write_text
from litebert.common.runs import RESULT_FILE
from litebert.experiments.config import Contrast, Exact, Experiment, Weights, experiment_names, load_experiment
from litebert.experiments.plan import Assignment, Record, Records, Runs
from litebert.model.config import PRESETS
from litebert.model.counts import count_parameters
from litebert.report.log import read_if_there
from litebert.report.page import markdown_table, page, table, tiles
from litebert.report.plots import plot_curves
from litebert.train.finetuning.config import Recipe

PICTURE_FILE = "figure.png"
_COMMAND = textwrap.TextWrapper(130, break_long_words=False, break_on_hyphens=False)
_TASK_KINDS = {".score": "", ".random": ", random weights", ".words": ", bag of words", ".always": ", always the same"}
"""What is measured of a task, and how it is called after the task's name."""
_NAMES = {
    "masked_loss": "loss at masks",
    **dict.fromkeys(("squad.masked_loss", "squad.mlm_accuracy"), "the same, SQuAD text"),
    **dict.fromkeys(("race.masked_loss", "race.mlm_accuracy"), "the same, RACE text"),
    "mlm_accuracy": "words right, %",
    "masked_accuracy": "at masks, %",
    "nsp_accuracy": "NSP right, %",
    "nsp_overlap_rule": "word overlap, %",
    "sop_accuracy": "SOP right, %",
    "sop_length_rule": "length rule, %",
    "sop_above_rule": "SOP above the rule",
    "tokens_per_s": "tokens/s",
    "distance_step": "distance, change a layer",
    "angle_step": "angle, change a layer",
    "distance_least": "least distance",
    "angle_least": "least angle",
}
"""Measures in the words of a table."""

MOST_SEEDS = 1000
Rows = list[list[str]]
Values = Mapping[str, Mapping[int, float]]
"""A measure: condition -> seed -> value."""


@dataclass(frozen=True)
class Finding:
    """A claim of the paper and what our runs say of it."""

    claim: str
    answer: str
    detail: str


@dataclass(frozen=True)
class Table:
    """Rows of figures; the first cell of a row is its condition."""

    title: str
    heading: list[str]
    rows: Rows

    def markdown(self) -> str:
        """The table under its title."""
        return f"{self.title}:\n\n{markdown_table(self.heading, self.rows)}"


@dataclass(frozen=True)
class Result:
    """What is known of an experiment; the page and the evidence are made of it."""

    name: str
    tables: list[Table]
    findings: list[Finding]
    command: str
    runs: int = 0
    seeds: int = 0
    minutes: float = 0.0  # of training, one thread each
    tokens: float = 0.0
    note: str = ""
    picture: str = ""  # file name beside it


def conclude(name: str, request: Assignment, runs: Runs, command: str) -> Result:
    """Judge an experiment by its runs; write its result, table, picture and page."""
    experiment, folder = load_experiment(name), request.out / name
    folder.mkdir(parents=True, exist_ok=True)
    records = {key: one for key, run in runs.items() if (one := run.record()) is not None}
    found = {key: one.measures for key, one in records.items()}
    findings = [_exact(one) for one in experiment.exact]
    for contrast in experiment.contrasts:
        values: dict[str, dict[int, float]] = {}
        for (condition, seed), measures in found.items():
            if contrast.measure in measures:
                values.setdefault(condition, {})[seed] = measures[contrast.measure]
        verdict = judge(contrast, values)
        findings.append(Finding(contrast.claim, verdict.answer, verdict.describe()))
    is_short = not runs and len(request.data) < experiment.corpora and experiment.rows(request.scale)
    missing = f"Not run: it needs {experiment.corpora} folders of --data. " if is_short else ""
    once = {runs[key].key: measures for key, measures in found.items()}
    result = Result(
        name,
        _tables(experiment, found),
        findings,
        command,
        runs=len(once),
        seeds=len({seed for _, seed in found}),
        minutes=sum(measures["seconds"] for measures in once.values()) / 60,
        tokens=sum(measures["tokens"] for measures in once.values()),
        note=missing + experiment.note,
        picture=_draw(experiment, records, folder) if found else "",
    )
    write_json(folder / RESULT_FILE, asdict(result))
    write_text(folder / "table.md", "\n".join(table.markdown() for table in result.tables))
    write_text(folder / "report.html", _page(experiment, result, folder))
    return result


def write_evidence(out: Path, target: Path, records: Records) -> None:
    """Write all results of a folder as one Markdown page; ``records`` are of all runs ever made."""
    experiments = {name: load_experiment(name) for name in experiment_names()}
    results: dict[str, Result] = {}
    for name in experiments:
        values = read_if_there(path := out / name / RESULT_FILE)
        if "tables" in values:  # before 0.2 a result had one: it is concluded again when asked for
            results[name] = from_dict(Result, values, str(path))
    rows = [row for name, one in experiments.items() for row in _summary(one, results.get(name))]
    hours = sum(record.measures["seconds"] for record in records.values()) / 3600
    parts = [
        "# Evidence: the paper's tables and figures\n",
        "Written by `litebert reproduce`: for each finding of the paper what small runs say.",
        "A verdict compares conditions in pairs by seed: *holds* and *does not hold* need the",
        "whole 95 % interval on one side, all else is *cannot tell*",
        "([decision 0013](decisions/0013-the-judge.md)).\n",
        markdown_table(["", "finding", "verdict"], rows),
        f"{len(records)} runs, {hours:.1f} hours of one thread by the clock; a run of two tables "
        f"is counted in both below. Measures and curves: `{target.with_suffix('.jsonl').name}`.\n",
    ]
    for name, result in results.items():
        title = experiments[name].title
        parts += [f"## {title}\n", f"{experiments[name].finding}\n"]
        parts += [one.markdown() for one in result.tables]
        parts += [_wrapped(f"- {f.claim}: **{f.answer}**; {f.detail}") for f in result.findings]
        parts.append("")
        if name.startswith("figure") and result.picture:
            picture = target.parent / "images" / f"{name}.png"
            picture.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(out / name / result.picture, picture)
            parts.append(f"![{title}](images/{picture.name})\n")
        if result.note:
            parts.append(f"{_wrapped(result.note)}\n")
        if result.runs:
            command = " \\\n      ".join(_COMMAND.wrap(result.command))  # for a shell one line
            took = f"{result.minutes:.0f} minutes of one thread, {result.tokens / 1e6:.0f} M tokens"
            parts.append(f"{result.runs} runs, {result.seeds} seeds, {took}:\n\n    {command}\n")
    write_text(target, "\n".join(parts))


def _summary(experiment: Experiment, result: Result | None) -> Rows:
    """What the first table of the page says of an experiment; of counts all in one line."""
    if result is None or not result.findings:
        return [[experiment.title, experiment.finding, "not run"]]
    if not experiment.exact:
        return [[experiment.title, one.claim, one.answer] for one in result.findings]
    equal = [one.answer == "holds" for one in result.findings]
    claim = f"{sum(equal)} of {len(equal)} rows equal the paper's, without any run"
    return [[experiment.title, claim, "holds" if all(equal) else "does not hold"]]


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 150, subsequent_indent="  " if text.startswith("- ") else "")


def _tables(experiment: Experiment, found: Mapping[tuple[str, int], Mapping[str, float]]) -> list[Table]:
    """Ours, what fine-tuning made of it, and the paper's; without what there is nothing of."""
    if experiment.exact:
        names = {key: key for one in experiment.exact for key in one.expected}
        figures = {one.name: {key: f"{value:,.10g}" for key, value in one.expected.items()} for one in experiment.exact}
        return [_table("The paper's", names, figures)]
    tasks = {f"{task}{kind}": f"{task}{name}" for task in experiment.tasks for kind, name in _TASK_KINDS.items()}
    measures = {name: _NAMES.get(name, name) for name in experiment.measures}
    conditions = [one for one in experiment.conditions if one.is_row]
    ours = {}
    for condition in conditions:
        measured = [values for (name, _), values in found.items() if name == condition.name]
        cells = {name: [one[name] for one in measured if name in one] for name in (*measures, *tasks)}
        ours[condition.name] = {name: _cell(name, values) for name, values in cells.items()}
    paper = {key: key for one in conditions for key in one.figures}
    tables = [_table("Ours", measures, ours), _table("Fine-tuned, % right on dev", tasks, ours)]
    tables.append(_table("The paper's", paper, {one.name: one.figures for one in conditions}))
    return [one for one in tables if one.rows]


def _table(title: str, columns: Mapping[str, str], cells: Mapping[str, Mapping[str, str]]) -> Table:
    """Figures by condition and column; columns and rows without any are left out."""
    used = {key: name for key, name in columns.items() if any(c.get(key) for c in cells.values())}
    rows = [
        [condition, *(figures.get(key, "") for key in used)]
        for condition, figures in cells.items()
        if any(figures.get(key) for key in used)
    ]
    return Table(title, ["", *used.values()], rows)


def _cell(name: str, values: Sequence[float]) -> str:
    if not values:
        return ""
    if name in ("parameters", "tokens_per_s", "tokens", "seconds"):
        return f"{fmean(values):,.0f}"
    is_share = "accuracy" in name or name.endswith(("rule", *_TASK_KINDS))
    scale, digits = (100.0, 1) if is_share else (1.0, 3)
    spread = f" ± {stdev(values) * scale:.{digits}f}" if len(set(values)) > 1 else ""
    return f"{fmean(values) * scale:.{digits}f}{spread}"


def _exact(one: Exact) -> Finding:
    """Whether a preset or a recipe has the paper's figures."""
    if one.name in PRESETS:
        shape = PRESETS[one.name]
        found = {**vars(shape), "parameters": count_parameters(shape).encoder}
    else:
        found = vars(load_toml(Recipe, recipe_path("finetune", one.name)))
    wrong = [key for key, value in one.expected.items() if found.get(key) != value]
    said = ", ".join(f"{key} is {found.get(key)}" for key in wrong) or "all equal"
    return Finding(one.name, "does not hold" if wrong else "holds", said)


def _draw(experiment: Experiment, records: Mapping[tuple[str, int], Record], folder: Path) -> str:
    """Draw the curves of all runs, or Figure 1; the file's name, nothing without matplotlib."""
    rows = [one.name for one in experiment.rows("cpu")]
    try:
        if experiment.layers:
            from litebert.predict.layers import LayerAnalysis, plot_layers

            analyses = [from_dict(LayerAnalysis, {**records[name, 0].layers, "model": name}) for name in rows]
            plot_layers(analyses, folder / PICTURE_FILE)
        else:
            drawn = experiment.curve
            curves = {row: [one.curves[drawn] for (name, _), one in records.items() if name == row] for row in rows}
            plot_curves(curves, folder / PICTURE_FILE, drawn)
    except ModuleNotFoundError:
        return ""
    return PICTURE_FILE


def _page(experiment: Experiment, result: Result, folder: Path) -> str:
    verdicts = [(finding.claim, finding.answer, finding.detail) for finding in result.findings]
    figures = [(f"{result.runs}", "runs"), (f"{result.seeds}", "seeds")]
    figures += [(f"{result.minutes:.0f}", "minutes of one thread"), (f"{result.tokens / 1e6:.1f} M", "tokens")]
    parts = [tiles(figures), table(("finding", "verdict", ""), verdicts, title="Verdicts")]
    parts += [table(one.heading, one.rows, title=one.title) for one in result.tables]
    if result.picture:
        data = base64.b64encode((folder / result.picture).read_bytes()).decode()
        parts.append(f'<p><img alt="" style="max-width:100%" src="data:image/png;base64,{data}"></p>')
    if result.note:
        parts.append(f"<p>{html.escape(result.note)}</p>")
    parts.append(f"<h2>Command</h2><pre>{html.escape(result.command)}</pre>")
    return page(experiment.title, experiment.finding, parts)


@dataclass(frozen=True)
class Interval:
    """Mean of some differences and the 95 % interval of Student's t around it."""

    mean: float
    low: float
    high: float
    deviation: float  # standard deviation of one difference
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        """Of one value the interval is everything."""
        mean, count = fmean(values), len(values)
        if count < 2:
            return cls(mean, -math.inf, math.inf, math.nan, count)
        deviation = stdev(values)
        half = half_width(deviation, count)
        return cls(mean, mean - half, mean + half, deviation, count)


@dataclass(frozen=True)
class Verdict:
    """What the runs say of a contrast."""

    answer: Literal["holds", "does not hold", "cannot tell"]
    interval: Interval | None  # None if nothing was measured
    reason: str

    def describe(self) -> str:
        """Figures and reason as one line."""
        found = self.interval
        if found is None:
            return self.reason
        if found.count < 2:
            return f"{found.mean:+.4g} of one seed; {self.reason}"
        said = f"{found.mean:+.4g} ({found.low:+.4g} to {found.high:+.4g}, {found.count} seeds)"
        return f"{said}; {self.reason}" if self.reason else said


def half_width(deviation: float, count: int) -> float:
    """Half of the 95 % interval of the mean of ``count`` values."""
    from scipy.stats import t

    return float(t.ppf(0.975, count - 1)) * deviation / math.sqrt(count)


def judge(contrast: Contrast, values: Values) -> Verdict:
    """The verdict on a contrast: seeds that all its conditions have are compared in pairs.

    Holds: the whole interval on the paper's side, and the mean beyond the margin. Does not hold: the whole interval on
    the other side. For "equal" the interval must lie within (outside) a third of the gap. All else cannot be told, and
    how many seeds it would take is said.
    """
    differences = _sums(contrast.weights, values)
    if not differences:
        return Verdict("cannot tell", None, f"{contrast.measure} was not measured")
    found = Interval.of([value - contrast.constant for value in differences])
    if found.count < 2:
        return Verdict("cannot tell", found, "an interval needs two seeds")
    if contrast.expect == "equal":
        return _judge_equality(contrast, found, values)
    sign = 1.0 if contrast.expect == "above" else -1.0
    low, high = sorted((sign * found.low, sign * found.high))
    if low > 0 and sign * found.mean < contrast.margin:
        return Verdict("cannot tell", found, f"on the paper's side, but less than the margin of {contrast.margin:g}")
    if low > 0 or high < 0:
        return Verdict("holds" if low > 0 else "does not hold", found, "")
    return Verdict("cannot tell", found, _seeds_needed(found, abs(found.mean)))


def _judge_equality(contrast: Contrast, found: Interval, values: Values) -> Verdict:
    gap = Interval.of(_sums(contrast.gap, values) or [math.nan])
    if not (gap.low > 0 or gap.high < 0):
        return Verdict("cannot tell", found, "the gap to compare it with is not established")
    bound = abs(gap.mean) / 3
    beside = f"a third of the gap is {bound:.4g}"
    if -bound < found.low and found.high < bound:
        return Verdict("holds", found, beside)
    if found.low > bound or found.high < -bound:
        return Verdict("does not hold", found, beside)
    needed = _seeds_needed(found, abs(bound - abs(found.mean)))
    return Verdict("cannot tell", found, f"{beside}; {needed}")


def _sums(weights: Weights, values: Values) -> list[float]:
    """The weighted sum of each seed that all conditions have."""
    seeds = set.intersection(*(set(values.get(name, ())) for name in weights))
    return [sum(weight * values[name][seed] for name, weight in weights.items()) for seed in sorted(seeds)]


def _seeds_needed(found: Interval, distance: float) -> str:
    """How many seeds would tell, if mean and spread stayed as they are."""
    count = found.count + 1
    while count <= MOST_SEEDS and half_width(found.deviation, count) >= distance:
        count += 1 + count // 50
    if count > MOST_SEEDS:
        return f"it would take more than {MOST_SEEDS:,} seeds"
    return f"it would take about {count} seeds"

"""What runs have shown: our table beside the paper's, verdicts, pictures, pages, the evidence."""

from __future__ import annotations

import base64
import html
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, stdev

from litebert.common.config import from_dict, load_toml, recipe_path
from litebert.common.files import read_json, write_json, write_text
from litebert.experiments.config import Exact, Experiment, experiment_names, load_experiment
from litebert.experiments.judge import Values, judge
from litebert.experiments.plan import Assignment, Runs
from litebert.experiments.records import Record, Records, records_path
from litebert.model.config import PRESETS
from litebert.model.counts import count_parameters
from litebert.report.log import Points
from litebert.report.page import markdown_table, page, table, tiles
from litebert.report.plots import plot_curves
from litebert.train.finetuning.config import Recipe

RESULT_FILE = "result.json"
PICTURE_FILE = "figure.png"
_TASK_KINDS = {
    ".score": "",
    ".random": ", random weights",
    ".words": ", bag of words",
    ".always": ", always the same",
}
"""What is measured of a task, and how it is called after the task's name."""
_NAMES = {
    "masked_loss": "loss at masks",
    "squad.masked_loss": "the same, SQuAD text",
    "race.masked_loss": "the same, RACE text",
    "mlm_accuracy": "words right, %",
    "squad.mlm_accuracy": "the same, SQuAD text",
    "race.mlm_accuracy": "the same, RACE text",
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

Rows = list[list[str]]
Found = dict[tuple[str, int], dict[str, float]]
"""What was measured, by condition and seed."""


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
    minutes: float = 0.0
    """of training, one thread each"""
    tokens: float = 0.0
    note: str = ""
    picture: str = ""
    """file name beside it"""


def conclude(name: str, request: Assignment, runs: Runs, command: str) -> Result:
    """Judge an experiment by its runs; write its result, table, picture and page."""
    experiment, folder = load_experiment(name), request.out / name
    folder.mkdir(parents=True, exist_ok=True)
    records = {key: one for key, run in runs.items() if (one := run.record()) is not None}
    found = {key: one.measures for key, one in records.items()}
    tables = _tables(experiment, found)
    findings = [_exact(one) for one in experiment.exact]
    for contrast in experiment.contrasts:
        verdict = judge(contrast, _values(contrast.measure, found))
        findings.append(Finding(contrast.claim, verdict.answer, verdict.describe()))
    once = {runs[key].key: values for key, values in found.items()}
    result = Result(
        name,
        tables,
        findings,
        command,
        runs=len(once),
        seeds=len({seed for _, seed in found}),
        minutes=sum(values["seconds"] for values in once.values()) / 60,
        tokens=sum(values["tokens"] for values in once.values()),
        note=_note(experiment, request, runs),
        picture=_draw(experiment, records, folder) if found else "",
    )
    write_json(folder / RESULT_FILE, asdict(result))
    write_text(folder / "table.md", "\n".join(table.markdown() for table in tables))
    write_text(folder / "report.html", _page(experiment, result, folder))
    return result


def write_evidence(out: Path, target: Path, records: Records) -> None:
    """Write all results of a folder as one Markdown page; ``records`` are of all runs ever made."""
    parts = [
        "# Evidence: the paper's tables and figures\n",
        "Written by `litebert reproduce`: for each finding of the paper what small runs say.",
        "A verdict compares conditions in pairs by seed: *holds* and *does not hold* need the",
        "whole 95 % interval on one side, all else is *cannot tell*",
        "([decision 0013](decisions/0013-the-judge.md)).\n",
    ]
    found = {name: _read(out / name) for name in experiment_names()}
    results = [result for result in found.values() if result is not None]
    rows = []
    for name, result in found.items():
        rows += _summary(load_experiment(name), result)
    parts.append(markdown_table(["", "finding", "verdict"], rows))
    hours = sum(record.measures["seconds"] for record in records.values()) / 3600
    parts.append(
        f"{len(records)} runs, {hours:.1f} hours of one thread by the clock; a run of two tables "
        f"is counted in both below. Measures and curves: `{records_path(target).name}`.\n"
    )
    for result in results:
        experiment = load_experiment(result.name)
        parts += [f"## {experiment.title}\n", f"{experiment.finding}\n"]
        parts += [one.markdown() for one in result.tables]
        parts += [_wrapped(f"- {f.claim}: **{f.answer}**; {f.detail}") for f in result.findings]
        parts.append("")
        if result.name.startswith("figure") and result.picture:
            picture = Path("images") / f"{result.name}.png"
            (target.parent / picture).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(out / result.name / result.picture, target.parent / picture)
            parts.append(f"![{experiment.title}]({picture.as_posix()})\n")
        if result.note:
            parts.append(f"{_wrapped(result.note)}\n")
        if result.runs:
            parts.append(
                f"{result.runs} runs, {result.seeds} seeds, {result.minutes:.0f} minutes of one "
                f"thread, {result.tokens / 1e6:.0f} M tokens:\n\n{_code(result.command)}\n"
            )
    write_text(target, "\n".join(parts))


def _summary(experiment: Experiment, result: Result | None) -> Rows:
    """What the first table of the page says of an experiment; of counts all in one line."""
    if result is None or not result.findings:
        return [[experiment.title, experiment.finding, "not run"]]
    if not experiment.exact:
        return [[experiment.title, one.claim, one.answer] for one in result.findings]
    equal = [finding.answer == "holds" for finding in result.findings]
    claim = f"{sum(equal)} of {len(equal)} rows equal the paper's, without any run"
    return [[experiment.title, claim, "holds" if all(equal) else "does not hold"]]


def _code(command: str) -> str:
    """A command as lines of a code block that a shell reads as one."""
    lines = textwrap.wrap(command, 130, break_long_words=False, break_on_hyphens=False)
    return textwrap.indent(" \\\n  ".join(lines), "    ")


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 150, subsequent_indent="  " if text.startswith("- ") else "")


def _read(folder: Path) -> Result | None:
    path = folder / RESULT_FILE
    values = read_json(path) if path.is_file() else {}
    # Before 0.2 a result had one table: it is concluded again when it is asked for.
    return from_dict(Result, values, str(path)) if "tables" in values else None


def _values(measure: str, found: Found) -> Values:
    values: dict[str, dict[int, float]] = {}
    for (condition, seed), measures in found.items():
        if measure in measures:
            values.setdefault(condition, {})[seed] = measures[measure]
    return values


def _tables(experiment: Experiment, found: Found) -> list[Table]:
    """Ours, what fine-tuning made of it, and the paper's; without what there is nothing of."""
    if experiment.exact:
        names = {key: key for one in experiment.exact for key in one.expected}
        figures = {
            one.name: {key: f"{value:,.10g}" for key, value in one.expected.items()}
            for one in experiment.exact
        }
        return [_table("The paper's", names, figures)]
    tasks = {
        f"{task}{kind}": f"{task}{name}"
        for task in experiment.tasks
        for kind, name in _TASK_KINDS.items()
    }
    measures = {name: _NAMES.get(name, name) for name in experiment.measures}
    conditions = [one for one in experiment.conditions if one.is_row]
    ours = {}
    for condition in conditions:
        measured = [values for (name, _), values in found.items() if name == condition.name]
        ours[condition.name] = {
            name: _cell(name, [one[name] for one in measured if name in one])
            for name in (*measures, *tasks)
        }
    paper = {key: key for one in conditions for key in one.figures}
    tables = (
        _table("Ours", measures, ours),
        _table("Fine-tuned, % right on dev", tasks, ours),
        _table("The paper's", paper, {one.name: one.figures for one in conditions}),
    )
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
        counts = {"parameters": count_parameters(shape).encoder}
        found = {key: counts.get(key, getattr(shape, key, None)) for key in one.expected}
    else:
        recipe = load_toml(Recipe, recipe_path("finetune", one.name))
        found = {key: getattr(recipe, key) for key in one.expected}
    wrong = [key for key, value in one.expected.items() if found[key] != value]
    said = ", ".join(f"{key} is {found[key]}" for key in wrong) or "all equal"
    return Finding(one.name, "does not hold" if wrong else "holds", said)


def _note(experiment: Experiment, request: Assignment, runs: Runs) -> str:
    missing = ""
    if not runs and len(request.data) < experiment.corpora and experiment.rows(request.scale):
        missing = f"Not run: it needs {experiment.corpora} folders of --data. "
    return missing + experiment.note


def _draw(experiment: Experiment, records: Mapping[tuple[str, int], Record], folder: Path) -> str:
    """Draw the curves of all runs, or Figure 1; the file's name, nothing without matplotlib."""
    rows = [one.name for one in experiment.rows("cpu")]
    try:
        if experiment.layers:
            from litebert.predict.layers import LayerAnalysis, plot_layers

            analyses = [
                replace(from_dict(LayerAnalysis, records[name, 0].layers, name), model=name)
                for name in rows
            ]
            plot_layers(analyses, folder / PICTURE_FILE)
        else:
            curves: dict[str, list[Points]] = {name: [] for name in rows}
            for (name, _), record in records.items():
                if name in curves:
                    curves[name].append(record.curves[experiment.curve])
            plot_curves(curves, folder / PICTURE_FILE, experiment.curve)
    except ModuleNotFoundError:
        return ""
    return PICTURE_FILE


def _page(experiment: Experiment, result: Result, folder: Path) -> str:
    verdicts = [[finding.claim, finding.answer, finding.detail] for finding in result.findings]
    figures = [
        (f"{result.runs}", "runs"),
        (f"{result.seeds}", "seeds"),
        (f"{result.minutes:.0f}", "minutes of one thread"),
        (f"{result.tokens / 1e6:.1f} M", "tokens"),
    ]
    picture = ""
    if result.picture:
        data = base64.b64encode((folder / result.picture).read_bytes()).decode()
        picture = f'<p><img alt="" style="max-width:100%" src="data:image/png;base64,{data}"></p>'
    return page(
        experiment.title,
        experiment.finding,
        [
            tiles(figures),
            table(("finding", "verdict", ""), verdicts, title="Verdicts"),
            *(table(one.heading, one.rows, title=one.title) for one in result.tables),
            picture,
            f"<p>{html.escape(result.note)}</p>" if result.note else "",
            f"<h2>Command</h2><pre>{html.escape(result.command)}</pre>",
        ],
    )

"""The bundled model's card: shape, recipe, figures from the run's files, samples as they come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hidden_words import HiddenWords

from litebert.common.config import from_dict
from litebert.common.errors import DataError
from litebert.common.files import read_json
from litebert.common.progress import format_duration
from litebert.common.runs import RESULT_FILE, RunFolder
from litebert.common.statistics import wilson_interval
from litebert.interop.folder import load_config
from litebert.model.counts import count_parameters
from litebert.predict.predictor import Predictor
from litebert.train.finetuning.results import FinetuneResult
from litebert.train.probe import Features, ProbeResult

PLAIN_SENTENCES = (
    "the capital of france is [MASK].",
    "she drank a cup of [MASK].",
    "he was born in the year [MASK].",
    "the [MASK] of the river is north of the city.",
    "the film was directed by [MASK].",
    "water boils when it is [MASK].",
    "the king and the [MASK] lived in a castle.",
    "they played football in the [MASK].",
    "the book was [MASK] in 1950.",
    "it is the largest [MASK] in the world.",
    "the train left the [MASK] at noon.",
    "he studied [MASK] at the university.",
    "the war [MASK] in 1945.",
    "a dog is an [MASK].",
    "in winter it is very [MASK].",
    "she [MASK] the door and went in.",
    "the population of the town is [MASK] people.",
    "he is the author of several [MASK].",
    "the sun rises in the [MASK].",
    "two and two make [MASK].",
)


@dataclass(frozen=True)
class Earlier:
    """The training of the model that a run has continued."""

    tokens: int = 0
    text: str = ""
    """how it was trained, in a sentence"""


_BESIDE = ("random", "words")
_STATES: dict[Features, str] = {
    "cls": "`[CLS]`", "mean": "mean of the tokens", "table": "mean of the word table",
}  # fmt: skip


def bundle_card(
    run: Path,
    model: Path,
    words: HiddenWords,
    data: str,
    finetuned: Sequence[Path],
    earlier: Earlier | None = None,
    probe: ProbeResult | None = None,
) -> str:
    """Return the card of a model folder made from a run.

    Args:
        run: the pretraining run: its manifest and its log.
        model: the folder that is shipped.
        words: what it finds on held-out sentences.
        data: what the texts are and under which licence.
        finetuned: fine-tuning runs that started from this model.
        earlier: what came before the run, if it continued a model.
        probe: what the model's frozen states know of a task.
    """
    earlier = earlier or Earlier()
    steps, evaluations = _log(run)
    dev = evaluations[-1]
    seen = int(_number(steps[-1], "tokens")) + earlier.tokens
    parts = [
        _HEAD.format(tokens=_millions(seen)),
        _shape_table(model),
        f"## Data\n\n{data}\n",
        _recipe(run, steps[-1], earlier),
        _curve(evaluations),
        "## What it reaches\n\nOn documents that it was not trained on:\n",
        _scores_table(dev, words),
        _probe(probe),
        _finetuned(finetuned),
        "## Twenty plain sentences\n\nThe first five guesses as they come, none left out:\n",
        _samples(model),
        _LIMITS + _own_limits(run, dev),
    ]
    return "\n".join(parts)


_HEAD = """---
library_name: transformers
license: apache-2.0
tags:
- albert
- litebert
---

# The model that comes with litebert

A small ALBERT, pretrained by litebert, for a first answer and for tests without a network. It is
**not a substitute for a released ALBERT**: it has seen {tokens} tokens, those hundreds of billions.
"""

_LIMITS = """## Limits

- It knows little of the world and repeats what its texts say, errors and prejudices included.
- Accents are dropped and upper case is not kept; a language other than that of its texts comes out
  as fragments.
- Use it to try litebert and to test programs; train or download a larger model for real work.
"""


def _own_limits(run: Path, dev: Mapping[str, object]) -> str:
    """What this run did not learn, as far as its figures say so."""
    config = RunFolder.open(run).manifest()["config"]
    assert isinstance(config, Mapping), "the run wrote it"
    lines = [
        f"- Most of its training had {config['examples']['length']} tokens at a time; it reads longer inputs less well."
    ]
    if dev.get("dev_sop_accuracy") is not None:
        accuracy, pairs = _number(dev, "dev_sop_accuracy"), _number(dev, "dev_sop_pairs")
        if wilson_interval(accuracy, pairs)[0] < 0.5:
            lines.append("- It cannot tell the order of sentences: its answers are chance.")
        elif isinstance(rule := dev.get("dev_sop_length_rule"), float) and wilson_interval(accuracy, pairs)[0] <= rule:
            lines.append("- It hardly tells the order of sentences: that is not clearly above what their lengths say.")
    return "\n".join(lines) + "\n"


def _table(*rows: Sequence[str]) -> str:
    """A Markdown table whose first row is the head."""
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def _shape_table(model: Path) -> str:
    shape = load_config(model)
    parameters = count_parameters(shape).encoder
    layers = f"{shape.num_layers} layers (shared: {shape.sharing})"
    return _table(
        ("", ""),
        ("parameters", f"{parameters:,} in the encoder; stored in float16, computed in float32"),
        ("shape", f"hidden {shape.hidden_size}, {layers}, {shape.heads} heads"),
        ("embeddings", f"{shape.embedding_size} wide, {shape.vocab_size:,} pieces, lower case"),
        ("longest input", f"{shape.max_positions} tokens"),
    )


def _recipe(run: Path, last: Mapping[str, object], earlier: Earlier) -> str:
    config = RunFolder.open(run).manifest()["config"]
    assert isinstance(config, Mapping), "the run wrote it"
    optimizer, curriculum = config["optimizer"], config["curriculum"]
    assert isinstance(optimizer, Mapping), "the run wrote it"
    assert isinstance(curriculum, Mapping), "the run wrote it"
    duration = format_duration(_number(last, "elapsed_s"))
    changes = "".join(
        f"- {name.replace('_', ' ')}: "
        + ", ".join(f"{_plain(value)} from {share:.0%}" for share, value in table)
        + "\n"
        for name, table in curriculum.items()
        if table
    )
    if changes:
        changes = f"What changed at a share of the time:\n\n{changes}"
    steps = f"{_number(last, 'step'):,.0f}"
    losses = _losses(config["objective"], config.get("teacher") is not None)
    before = f"{earlier.text}\n\nThen, from those weights:\n" if earlier.text else ""
    return f"""## Recipe

{before}{steps} steps, {_millions(last["tokens"])} tokens, {duration} (h:mm:ss) of
training, {optimizer["name"]}, {losses}, seed {config["seed"]}.
{changes}"""


def _plain(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _losses(objective: Mapping[str, float], has_teacher: bool) -> str:
    parts = ["masked n-grams", "the sentence task"]
    if every := objective["pairs_every_steps"]:
        size = objective["pairs_batch_size"]
        parts.append(f"{size} short pairs more for it every {every} steps")
    if objective["bag_weight"]:
        parts.append("a bag of words for `[CLS]`")
    if has_teacher:
        size = objective["teacher_batch_size"]
        parts.append(f"the vectors of a sentence encoder for `[CLS]` of {size} texts a step")
    return ", ".join(parts)


def _probe(found: ProbeResult | None) -> str:
    """What linear models read in the frozen states of this model and of random weights."""
    if found is None:
        return "Probes: not run.\n"
    rows = [("frozen states", "this model", "random weights")]
    for features, name in _STATES.items():
        own, random = found.find(features), found.find(features, "random")
        if own is not None and random is not None:
            rows.append((name, f"{own.score:.1%}", f"{random.score:.1%}"))
    words = found.find("words", "none")
    beside = "" if words is None else f" A bag of words without a model: {words.score:.1%}."
    return (
        f"Linear models of its frozen states, {found.task}, {found.train_examples:,} training "
        f"examples, {found.metric} on {found.dev_examples:,}.{beside}\n\n{_table(*rows)}"
    )


def _curve(evaluations: Sequence[Mapping[str, object]]) -> str:
    """About ten rows of the run: what a picture would show, in a file that is text alone."""
    picked = list(evaluations[:: max(1, len(evaluations) // 10)])
    if picked[-1] is not evaluations[-1]:
        picked.append(evaluations[-1])
    rows = [("tokens", "time", "dev loss at `[MASK]`", "masked words right")]
    for line in picked:
        rows.append(
            (
                _millions(line["tokens"]),
                format_duration(_number(line, "elapsed_s")),
                f"{_number(line, 'dev_masked_loss'):.2f}",
                f"{_number(line, 'dev_mlm_accuracy'):.1%}",
            )
        )
    note = "The way there (the last row has more dev examples than those before it):"
    return f"{note}\n\n{_table(*rows)}"


def _scores_table(dev: Mapping[str, object], words: HiddenWords) -> str:
    rows = [
        ("", "this model", "word frequencies alone", "random weights or a simple rule"),
        (
            "loss at `[MASK]` (nats)",
            f"{_number(dev, 'dev_masked_loss'):.3f}",
            f"{_number(dev, 'dev_unigram_loss'):.3f}",
            "",
        ),
        (
            f"masked words right, of {_number(dev, 'dev_predictions'):,.0f}",
            f"{_number(dev, 'dev_mlm_accuracy'):.1%}",
            "",
            "",
        ),
    ]
    if dev.get("dev_sop_accuracy") is not None:
        name = f"sentence order right, of {_number(dev, 'dev_sop_pairs'):,.0f} pairs"
        rule = dev.get("dev_sop_length_rule")  # not in the logs of older runs
        simple = f"{rule:.1%} (length rule)" if isinstance(rule, float) else "50 % (chance)"
        rows.append((name, f"{_number(dev, 'dev_sop_accuracy'):.1%}", "", simple))
    if isinstance(overlap := dev.get("dev_nsp_overlap_rule"), float):
        name = f"next sentence or not, of {_number(dev, 'dev_nsp_pairs'):,.0f} pairs"
        accuracy = f"{_number(dev, 'dev_nsp_accuracy'):.1%}"
        rows.append((name, accuracy, "", f"{overlap:.1%} (word overlap)"))
    rows += [
        (
            f"one hidden word in each of {words.sentences} sentences: first guess",
            f"{words.model_top1:.1%}",
            f"{words.unigram_top1:.1%}",
            f"{words.random_top1:.1%}",
        ),
        (
            "the same: among the first five guesses",
            f"{words.model_top5:.1%}",
            f"{words.unigram_top5:.1%}",
            f"{words.random_top5:.1%}",
        ),
    ]
    return _table(*rows)


def _log(run: Path) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """The lines of training and of evaluation."""
    lines = list(RunFolder.open(run).metrics())
    steps = [line for line in lines if "tokens" in line and "elapsed_s" in line]
    evaluations = [line for line in lines if "dev_masked_loss" in line]
    if not steps or not evaluations:
        raise DataError(f"{run} has no evaluation in its log; a card needs one")
    return steps, evaluations


def _finetuned(runs: Sequence[Path]) -> str:
    if not runs:
        return "Fine-tuned scores: not run.\n"
    heading = ("task", "metric", "examples", "this model", "random weights", "bag of words")
    rows: list[tuple[str, ...]] = [(*heading, "always the same")]
    for run in runs:
        result = from_dict(FinetuneResult, read_json(run / RESULT_FILE), str(run))
        metric = result.metric
        beside = {name: _score(scores[metric]) for name, scores in result.baselines.items()}
        if (path := run / "random" / RESULT_FILE).is_file():  # a run of its own, which has the score of each seed
            beside["random"] = _scores(from_dict(FinetuneResult, read_json(path), str(path)))
        others = [beside.get(name, "not run") for name in _BESIDE]
        always = _score(result.baseline[metric])
        rows.append((result.task, metric, f"{result.train_examples:,}", _scores(result), *others, always))
    return "Fine-tuned, on dev; of several seeds the median, lowest and highest:\n\n" + _table(*rows)


def _scores(result: FinetuneResult) -> str:
    """The score; of several seeds the median, the lowest and the highest."""
    seeds = [scores[result.metric] for scores in result.by_seed]
    ends = f" ({_score(min(seeds))} to {_score(max(seeds))})" if seeds else " (one seed)"
    return _score(result.scores[result.metric]) + ends


def _score(value: float) -> str:
    return f"{round(value, 4) + 0.0:.4g}"  # adding 0.0 turns a rounded -0.0 into 0.0


def _samples(model: Path) -> str:
    rows = [("text", "guesses")]
    filled = Predictor.load(model, "torch").fill_mask(PLAIN_SENTENCES)
    for text, found in zip(PLAIN_SENTENCES, filled, strict=True):
        said = ", ".join(f"{c.token} {c.score:.0%}" for c in found.masks[0])
        rows.append((text, said.replace("|", r"\|")))
    return _table(*rows)


def _millions(value: object) -> str:
    assert isinstance(value, int), "a count of tokens"
    return f"{value / 1e6:,.1f} million"


def _number(line: Mapping[str, object], key: str) -> float:
    value = line[key]
    assert isinstance(value, (int, float)), "a figure of the log"
    return float(value)

"""The evaluate command: score a model on a task or on shards, or a file of predictions."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from litebert.commands.flags import SEVERAL
from litebert.common.errors import ConfigError
from litebert.common.runs import is_main_process
from litebert.data.batches.example import Rules
from litebert.data.corpus.parts import raw_texts
from litebert.data.corpus.sources import find_inputs, fingerprint_sources
from litebert.predict.backend import Threads
from litebert.predict.characters import character_loss
from litebert.predict.evaluate import evaluate_models
from litebert.predict.predictor import Predictor
from litebert.tasks.problems import BAD_ROWS_FILE, RowProblems
from litebert.tasks.registry import data_folder, find_task


def evaluate(
    task: str,
    *,
    data: Annotated[list[Path] | None, SEVERAL] = None,
    text: Annotated[list[Path] | None, SEVERAL] = None,
    model: list[str] | None = None,
    predictions: Path | None = None,
    null_odds: Path | None = None,
    split: str | None = None,
    choose: bool = False,
    ensemble: Literal["official", "probabilities"] | None = None,
    examples: int | None = None,
    length: int | None = None,
    rules: Annotated[list[Rules] | None, SEVERAL] = None,
    verify: bool = False,
    out: Path | None = None,
    strict: bool = False,
    threads: Threads = "auto",
    allow_unknown: bool = False,
    json_: bool = False,
) -> None:
    """Score a model on a task, or a file of predictions in the official script's format.

    Examples:
        litebert evaluate sst2 --model runs/sst2/model --data glue
        litebert evaluate rte --model runs/a/model --model runs/b/model --choose --data glue
        litebert evaluate mnli --model runs/mnli/model --data glue --split test_matched --out files
        litebert evaluate squad1 --predictions predictions.json --data dev-v1.1.json --json
        litebert evaluate squad2 --predictions answers.json --null-odds odds.json --data dev.json
        litebert evaluate pretraining --model runs/small/model --data shards/wiki shards/novels
        litebert evaluate pretraining --model runs/small/model --text held-out.txt

    Args:
        task: a benchmark (cola sst2 mrpc stsb qqp mnli qnli rte wnli ax squad1 squad2 race race-middle race-high) or a
            TOML file that describes your own; pretraining: masked words and sentence tasks on token shards.
        data: a file with the gold labels, or the folder that holds the task's files; for pretraining folders of shards.
        text: pretraining: files, folders or globs of raw text for the loss per character, which models of different
            vocabularies can be compared by.
        model: a fine-tuned model folder, run folder, hub name or ONNX folder; several are averaged.
        predictions: a file of predictions to score; no model is loaded.
        null_odds: how likely each question has no answer (SQuAD 2.0), for the best thresholds.
        split: the split to score or predict, such as test; default: those with labels. A test split with a leaderboard
            is predicted for it, not scored. For pretraining: dev, or all for text that is kept apart.
        choose: of several models take those that make the average better on dev.
        ensemble: how several models with the paper's SQuAD 2.0 head are averaged: log scores over the models that hold
            a span (official, the default), or probabilities over all.
        examples: pretraining: examples of each sentence task and corpus; default: 4096.
        length: pretraining: longest example in tokens; default: 128.
        rules: pretraining: readings of the rules for pairs and masks; default: paper official.
        verify: pretraining: check every shard against its checksum; without it, of more than 4 GB a tenth.
        out: folder for the predictions, in the official script's or leaderboard's format.
        strict: stop at the first bad row.
        threads: of the processor; auto: all.
        allow_unknown: continue where the vocabulary does not know most of the text.
        json_: print JSON with the official script's keys.
    """
    if task == "pretraining":
        about_tasks = {"--predictions": predictions, "--null-odds": null_odds, "--out": out, "--choose": choose}
        _refuse("pretraining", about_tasks)
        if text and model and len(model) == 1 and not data:
            _characters(model[0], text, threads, json_)
            return
        _refuse("--data or several models", {"--text": text or None})
        if not model or len(model) > 1 or not data:
            raise ConfigError("evaluate pretraining needs one --model DIR and --data SHARDS")
        if split not in (None, "dev", "all"):
            raise ConfigError(f"--split {split}: pretraining is scored on dev or all documents")
        from litebert.train.pretraining.scoring import describe_scores, evaluate_pretraining
        from litebert.train.threads import thread_limit

        with thread_limit(threads):
            corpora = evaluate_pretraining(
                model[0],
                data,
                every_document=split == "all",
                examples=examples or 4096,
                length=length,
                rules=rules or ["paper", "official"],
                verify=verify,
            )
        if is_main_process() and json_:
            print(json.dumps([one.record() for one in corpora]))
        elif is_main_process():
            for one in corpora:
                print(f"{one.corpus}, rules {one.rules}, length {one.length}")
                print("\n".join(describe_scores(one.scores, "  ")))
        return
    drawing = {"--examples": examples, "--length": length, "--rules": rules}
    _refuse("a task", {"--text": text, **drawing, "--verify": verify})
    if data is not None and len(data) > 1:
        raise ConfigError(f"--data has {len(data)} folders: a task's files are in one")
    source = data[0] if data else None
    if (model is None) == (predictions is None):
        raise ConfigError("evaluate needs either --model DIR or --predictions FILE, one of them")
    problems = RowProblems(strict)
    if predictions is not None:
        _refuse("--predictions", {"--out": out, "--choose": choose})
        found = find_task(task, source)
        where, name = data_folder(found, source), split or found.eval_splits[0]
        scores = found.score_file(predictions, where, name, null_odds, problems)
    else:
        _refuse("--model", {"--null-odds": null_odds})
        evaluations = evaluate_models(
            task,
            model or [],
            source,
            split=split,
            out=out,
            choose=choose,
            ensemble=ensemble,
            problems=problems,
            threads=threads,
            allow_unknown=allow_unknown,
        )
        scores = dict(evaluations[0].scores)  # of other splits with the split's name
        for evaluation in evaluations[1:]:
            scores |= {f"{evaluation.split}_{k}": v for k, v in evaluation.scores.items()}
        for evaluation in evaluations:
            if choose:
                print(f"ensemble: {', '.join(evaluation.models)}", file=sys.stderr)
            if not evaluation.scores:
                print(f"no score for {evaluation.split}: it is a test split, or has no labels", file=sys.stderr)
            for file in evaluation.files:
                print(f"wrote {file}", file=sys.stderr)
    if out is not None:
        problems.write(out / BAD_ROWS_FILE)
    for line in problems.report():
        print(line, file=sys.stderr)
    if json_:
        print(json.dumps(scores))
        return
    width = max(map(len, scores), default=0)
    for name, value in scores.items():
        shown = f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
        print(f"{name:<{width}}  {shown}")


def _characters(model: str, text: list[Path], threads: Threads, json_: bool) -> None:
    inputs = find_inputs(text, "dev", "auto", "en", Path(model).absolute())
    texts = raw_texts(list(fingerprint_sources(inputs, ())))
    found = character_loss(Predictor.load(model, threads=threads), texts)
    if found is None:
        raise ConfigError(f"--text {' '.join(map(str, text))}: there is no word in it")
    print(json.dumps(asdict(found)) if json_ else found.describe())


def _refuse(other: str, flags: Mapping[str, object]) -> None:
    """Refuse flags that do nothing together with another; None and False are not given."""
    for flag, value in flags.items():
        if value is not None and value is not False:
            raise ConfigError(f"{flag} does nothing together with {other}")

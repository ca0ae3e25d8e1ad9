"""The whole way, small: raw text to a pretrained, fine-tuned, exported and served model.

The table of the stages, how they run one after another, then what each of them does. What is
finished is kept, what follows a redone stage is redone.
"""

from __future__ import annotations

import json
import math
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Literal
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

from litebert.common.config import from_dict, read_toml, recipe_path
from litebert.common.errors import ConfigError, LitebertError, install_command
from litebert.common.files import read_json, remove, write_json
from litebert.common.rows import read_rows
from litebert.common.runs import MISTAKES_FILE, RESULT_FILE, RunFolder
from litebert.data.corpus.config import PrepareConfig
from litebert.data.corpus.prepare import prepare
from litebert.demo import show
from litebert.demo.folder import DemoConfig, DemoFolder
from litebert.demo.python_text import write_corpus
from litebert.demo.show import Screen
from litebert.demo.task import corpus_sections, cut_task, python_sections
from litebert.predict.predictor import Predictor
from litebert.report.log import Record, mapping, points
from litebert.report.pretraining import read_samples
from litebert.tasks.registry import find_task
from litebert.text.tokenizer import Tokenizer
from litebert.text.train import TokenizerTrainConfig, train_tokenizer

_NEEDED_PACKAGES = ("torch", "onnx", "onnxruntime", "fastapi", "uvicorn", "sentencex", "sklearn")

# Of the budget, for pretraining and for each of the two fine-tunings; the rest is for the others.
PRETRAIN_SHARE, FINETUNE_SHARE = 0.7, 0.08
FINETUNE_BATCH = 32
FINETUNE_EPOCHS = 10  # at most, however much time there is
SERVER_S = 60.0  # the server answers, and stops, within this time

PROMPTS = (
    "return a new [MASK] with the same elements.",
    "the [MASK] statement is used to import a module.",
    "raises an exception if the [MASK] is not found.",
    "wait until the [MASK] is finished and return its result.",
)


class StageInterrupted(Exception):
    """A signal, whose number it carries, asked to stop; the stage has saved its work."""


@dataclass(frozen=True)
class DemoStage:
    """One step of the way."""

    name: str
    title: str
    outputs: tuple[Path, ...]  # the last of them is written last and proves that it is finished
    work: Callable[[DemoFolder], None]
    show: Callable[[DemoFolder, Screen], None]
    resumes: bool = False  # the work goes on where an interruption left it; otherwise it begins anew
    needs_task: bool = False


def demo(config: DemoConfig, screen: Screen) -> int:
    """Run every stage that is not finished yet; the signal that stopped it, 0 at its end."""
    if missing := [name for name in _NEEDED_PACKAGES if find_spec(name) is None]:
        needed = f"the demo goes the whole way and needs {', '.join(missing)}"
        raise ConfigError(f"{needed}; install it with {install_command('demo')}")
    with DemoFolder.open(config) as folder:
        started = time.monotonic()
        screen.opening(folder)
        try:
            run_stages(the_way(folder), folder, screen)
        except (StageInterrupted, KeyboardInterrupt) as stop:
            screen.console.print()
            screen.line(f"stopped; the same command goes on where it was ({folder.root}/)", 0, "yellow")
            if isinstance(stop, StageInterrupted):
                return int(stop.args[0])
            raise
        screen.closing(folder, time.monotonic() - started)
    return 0


def the_way(folder: DemoFolder) -> list[DemoStage]:
    """Return the stages: name, title, what it makes, what makes it, what shows it."""
    f, steps = folder, folder.config.steps
    length = f"{PRETRAIN_SHARE * f.config.budget_s:.0f} s" if steps is None else f"{steps:,} steps"
    stages = [
        DemoStage("collect", "Collect the text that every Python carries",
            (f.text,), lambda folder: write_corpus(folder.text), show.text),
        DemoStage("vocabulary", "Learn a vocabulary", (f.tokenizer,), learn_vocabulary, show.vocabulary),
        DemoStage("shards", "Tokenise the text once, into shards",
            (f.shards, f.shards / "manifest.json"), tokenise, show.shards, resumes=True),
        DemoStage("pretrain", f"Pretrain albert-tiny: masked n-grams and sentence order ({length})",
            (f.pretrain, f.model / "config.json"), pretrain_tiny, show.pretraining, resumes=True),
        DemoStage("fill-mask", "Ask it for hidden words", (f.filled,), fill_masks, show.filled),
        DemoStage("task", "Cut a small labelled task: which part does a sentence come from?",
            (f.task, f.task / "cut.json"), cut_labels, show.task),
        DemoStage("finetune", "Fine-tune the pretrained model on it",
            (f.finetune, f.finetune / RESULT_FILE), partial(finetune_task, start="weights"),
            partial(show.finetuning, run=f.finetune), resumes=True, needs_task=True),
        DemoStage("untrained", "The same from random weights, to see what pretraining gave",
            (f.untrained, f.untrained / RESULT_FILE), partial(finetune_task, start="random"),
            partial(show.finetuning, run=f.untrained), resumes=True, needs_task=True),
        DemoStage("score", "Score them on documents that neither has seen labels of",
            (f.scores,), score, show.scores, needs_task=True),
        DemoStage("export", "Export to ONNX, 8-bit integers", (f.int8, f.exported), export_int8, show.export),
        DemoStage("serve", "Start the server, ask it one question, stop it", (f.answer,), ask, show.answer),
        DemoStage("report", "Write a page about all of it",
            (f.report,), show.write_demo_report, show.written_page),
    ]  # fmt: skip
    return stages if f.config.corpus is None else stages[1:]


def run_stages(stages: Sequence[DemoStage], folder: DemoFolder, screen: Screen) -> None:
    """Run every stage that is not finished yet, and show what each has made."""
    for number, stage in enumerate(stages, start=1):
        head = f"[{number:>2}/{len(stages)}] "
        if stage.needs_task and not folder.task_file.is_file():
            screen.stage(head, stage.title, "skipped: there is no labelled task")
            continue
        if stage.outputs[-1].exists():
            before = folder.seconds().get(stage.name)
            took = "" if before is None else f" (it took {before:.1f} s)"
            screen.stage(head, stage.title, f"kept from an earlier run{took}")
        else:
            screen.stage(head, stage.title)
            # Half-done work, and what follows from a stage that is redone.
            for outdated in stages[number if stage.resumes else number - 1 :]:
                for path in outdated.outputs:
                    remove(path)
            started = time.monotonic()
            stage.work(folder)
            seconds = time.monotonic() - started
            folder.record(stage.name, seconds)
            screen.line(f"done in {seconds:.1f} s", style="green")
        stage.show(folder, screen)


def learn_vocabulary(folder: DemoFolder) -> None:
    """Learn the pieces; a small text gets fewer."""
    train_tokenizer(TokenizerTrainConfig(input=(folder.corpus,), out=folder.tokenizer, vocab_size=4_000, shrink=True))


def tokenise(folder: DemoFolder) -> None:
    """Turn the text into shards."""
    source, tokenizer = (folder.corpus,), folder.tokenizer
    prepare(PrepareConfig(input=source, tokenizer=tokenizer, out=folder.shards, dev_fraction=0.05))


def pretrain_tiny(folder: DemoFolder) -> None:
    """Pretrain by the recipe ``tiny``, by the clock unless steps are given."""
    from litebert.train.pretraining.config import PretrainConfig
    from litebert.train.pretraining.engine import pretrain

    config = folder.config
    paths = {"data": str(folder.shards), "out": str(folder.pretrain)}
    values = read_toml(recipe_path("pretrain", "tiny")) | {"steps": config.steps, "resume": "auto", **paths}
    if config.steps is None:
        values["budget"] = f"{PRETRAIN_SHARE * config.budget_s:.0f}s"
    result = pretrain(from_dict(PretrainConfig, values, "demo"))
    if result.interrupted_by:
        raise StageInterrupted(result.interrupted_by)


def fill_masks(folder: DemoFolder) -> None:
    """Ask the pretrained model for hidden words: fixed prompts, or sentences of the dev text."""
    if folder.config.corpus is None:
        filled = Predictor.load(folder.model).fill_mask(PROMPTS)
        samples: list[Record] = [
            {"text": text, "candidates": [[c.token, round(c.score, 4)] for c in found.masks[0]]}
            for text, found in zip(PROMPTS, filled, strict=True)
        ]
    else:
        samples = sorted(read_samples(folder.pretrain), key=lambda one: -len(str(one["text"])))
    write_json(folder.filled, {"samples": samples[: len(PROMPTS)]})


def cut_labels(folder: DemoFolder) -> None:
    """Cut a labelled task from the same text, or write down why there is none."""
    corpus = folder.config.corpus
    parts = python_sections(folder.text) if corpus is None else corpus_sections(corpus, folder.root)
    cut_task(parts, folder.task)


def finetune_task(folder: DemoFolder, start: Literal["weights", "random"]) -> None:
    """Fine-tune on the task file, from the pretrained weights or from random ones."""
    from litebert.train.finetuning.config import FinetuneConfig
    from litebert.train.finetuning.engine import finetune

    config = FinetuneConfig(
        str(folder.task_file),
        model=str(folder.model),
        out=folder.finetune if start == "weights" else folder.untrained,
        steps=finetune_steps(folder),
        batch_size=FINETUNE_BATCH,
        lr=5e-4,
        start=start,
        baseline=("words",) if start == "weights" else (),
        resume="auto",
    )
    result = finetune(config)
    if result.interrupted_by:
        raise StageInterrupted(result.interrupted_by)


def finetune_steps(folder: DemoFolder) -> int:
    """Return as many steps as fit into fine-tuning's share, at the speed seen in pretraining."""
    config = folder.config
    texts = [str(row["text"]) for _, row in read_rows(folder.task / "train.jsonl")]
    most = FINETUNE_EPOCHS * math.ceil(len(texts) / FINETUNE_BATCH)
    if config.steps is not None:
        return min(most, config.steps)
    pieces = Tokenizer.load(folder.tokenizer).encode_batch(texts)
    tokens_per_step = FINETUNE_BATCH * statistics.mean(len(ids) + 2 for ids in pieces)
    rates = [rate for _, rate in points(RunFolder.open(folder.pretrain).metrics(), "tokens_per_s")]
    rate = statistics.median(rates[len(rates) // 2 :])  # at full depth
    return max(1, min(most, int(FINETUNE_SHARE * config.budget_s * rate / tokens_per_step)))


def score(folder: DemoFolder) -> None:
    """Score the saved model on dev, beside what looks at no text and what was not pretrained."""
    from litebert.predict.evaluate import evaluate_models

    found = evaluate_models(str(folder.task_file), [str(folder.finetune / "model")], None)[0]
    result = read_json(folder.finetune / RESULT_FILE)
    scores = {
        "examples": result["dev_examples"],
        "baseline": result["baseline"],
        **mapping(result, "baselines"),
        "untrained": read_json(folder.untrained / RESULT_FILE)["scores"],
        "pretrained": found.scores,
        "confusion": read_json(folder.finetune / MISTAKES_FILE)["confusion"],
    }
    write_json(folder.scores, scores)


def export_int8(folder: DemoFolder) -> None:
    """Write the fine-tuned model (the pretrained one if there is no task) as int8 ONNX."""
    from litebert.predict.export import DevCheck, export_checked

    source, dev = folder.model, None
    if folder.task_file.is_file():
        source = folder.finetune / "model"
        dev = DevCheck(find_task(str(folder.task_file)), folder.task)
    # A demo shows what int8 costs, whatever that is.
    report, drop = export_checked(source, folder.int8, dev, int8=True)
    write_json(folder.exported, {**asdict(report), "path": str(report.path), "dev": drop and asdict(drop)})


def ask(folder: DemoFolder) -> None:
    """Ask the real server one question: the part of a dev sentence, or a masked word."""
    if folder.task_file.is_file():
        rows = [row for _, row in read_rows(folder.task / "dev.jsonl")]
        row = next((row for row in rows if len(str(row["text"]).split()) >= 15), rows[0])
        answer = ask_server(folder.int8, "/classify", {"text": str(row["text"])})
        answer |= {"gold": row["part"], "from": row["document"]}
    else:
        answer = ask_server(folder.int8, "/fill-mask", {"text": show.masked_text(folder)})
    write_json(folder.answer, answer)


def ask_server(model: Path, path: str, body: Mapping[str, object]) -> dict[str, object]:
    """Serve a model in a process of its own, ask one question, stop the server; how that went."""
    arguments = ["serve", "--port", "0", "--model", str(model)]
    command = [sys.executable, "-m", "litebert", *arguments]
    # A key in the environment would be asked for; this server is ours alone.
    environment = {key: value for key, value in os.environ.items() if key != "LITEBERT_API_KEY"}
    with Popen(command, stderr=PIPE, stdout=DEVNULL, text=True, env=environment) as server:
        try:
            assert server.stderr is not None, "a pipe was asked for"
            url, started = _address(server.stderr) + path, time.perf_counter()
            answer = _post(url, body)
            seconds = time.perf_counter() - started
            server.terminate()
            status = server.wait(SERVER_S)
        finally:
            server.kill()  # nothing happens if it has ended
    return {
        "command": f"litebert {' '.join(arguments)}",
        "path": path,
        "request": dict(body),
        "answer": answer,
        "milliseconds": round(1000 * seconds, 1),
        "exit_status": status,
    }


def _address(lines: Iterable[str]) -> str:
    """The address that the server prints once it answers."""
    said: list[str] = []
    for line in lines:
        if found := re.search(r"on (http://\S+)", line):
            return found.group(1)
        said.append(line.strip())
    raise LitebertError(f"the server did not start: {' '.join(said) or 'it said nothing'}")


def _post(url: str, body: Mapping[str, object]) -> object:
    request = Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    opener = build_opener(ProxyHandler({}))  # a proxy knows nothing of this machine's loopback
    try:
        with opener.open(request, timeout=SERVER_S) as response:
            return json.load(response)
    except HTTPError as error:
        raise LitebertError(f"{url} answered {error.code}: {error.read().decode()}") from None
    except URLError as error:
        raise LitebertError(f"{url} cannot be reached: {error.reason}") from None

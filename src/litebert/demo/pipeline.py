"""The whole way, small: raw text to a pretrained, fine-tuned, exported and served model."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from litebert.common.errors import ConfigError
from litebert.demo import show as show
from litebert.demo import stages as work
from litebert.demo.folder import DemoConfig, DemoFolder

if TYPE_CHECKING:
    from litebert.demo.show import Screen

__all__ = ["DemoConfig", "DemoResult", "Stage", "demo"]

_NEEDED_PACKAGES = ("torch", "onnx", "onnxruntime", "fastapi", "uvicorn", "sentencex")


@dataclass(frozen=True)
class DemoResult:
    """How the demo ended.

    Example:
        >>> demo(DemoConfig(steps=20), Screen(Console())).model
        PosixPath('demo/pretrain/model')
    """

    model: Path
    """the pretrained model"""
    report: Path
    """the page about all of it"""
    interrupted_by: int = 0
    """signal that stopped it, 0 if it came to its end"""


@dataclass(frozen=True)
class Stage:
    """One step of the way.

    Attributes:
        name: its key in ``demo.json``.
        title: what is going to happen.
        outputs: what it makes; the last of them is written last and proves that it is finished.
        work: makes them.
        show: says what was made.
        resumes: the work goes on where an interruption left it; otherwise it begins anew.
        skip: says why there is nothing to do, or "".
    """

    name: str
    title: str
    outputs: tuple[Path, ...]
    work: Callable[[], None]
    show: Callable[[Screen], None]
    resumes: bool = False
    skip: Callable[[], str] = lambda: ""

    @property
    def is_finished(self) -> bool:
        """Whether its last output is there."""
        return self.outputs[-1].exists()

    def forget(self) -> None:
        """Remove what it made: an earlier stage was redone, or its work is half done."""
        for path in self.outputs:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def demo(config: DemoConfig, screen: Screen) -> DemoResult:
    """Run every stage that is not finished yet and show what it made."""
    missing = [name for name in _NEEDED_PACKAGES if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"the demo goes the whole way and needs {', '.join(missing)}; install it with "
            "`pip install litebert[all]`"
        )
    work.budget_s(config)  # a wrong duration is refused before anything is made
    folder = DemoFolder.open(config)
    stages = _stages(config, folder)
    started = time.monotonic()
    screen.opening(config, folder)
    try:
        _run(stages, folder, screen)
    except work.StageInterrupted as stop:
        screen.interrupted(config)
        return DemoResult(folder.model, folder.report, stop.signum)
    except KeyboardInterrupt:
        screen.interrupted(config)
        raise
    screen.closing(config, folder, time.monotonic() - started)
    return DemoResult(folder.model, folder.report)


def _run(stages: Sequence[Stage], folder: DemoFolder, screen: Screen) -> None:
    for number, stage in enumerate(stages, start=1):
        reason = stage.skip()
        if reason:
            screen.stage(number, len(stages), stage.title, f"skipped: {reason}")
            continue
        if stage.is_finished:
            before = folder.seconds().get(stage.name)
            took = "" if before is None else f" (it took {before:.1f} s)"
            screen.stage(number, len(stages), stage.title, f"kept from an earlier run{took}")
        else:
            screen.stage(number, len(stages), stage.title)
            if not stage.resumes:
                stage.forget()
            for later in stages[number:]:
                later.forget()
            started = time.monotonic()
            stage.work()
            seconds = time.monotonic() - started
            folder.record(stage.name, seconds)
            screen.took(seconds)
        stage.show(screen)


def _stages(config: DemoConfig, folder: DemoFolder) -> list[Stage]:
    corpus = config.corpus or folder.text
    no_task = partial(_why_no_task, folder)
    collect = Stage(
        "collect", "Collect the text that every Python carries", (folder.text,),
        partial(work.collect, folder), partial(show.text, folder),
    )  # fmt: skip
    stages = [
        Stage(
            "vocabulary", "Learn a vocabulary", (folder.tokenizer,),
            partial(work.train_vocabulary, corpus, folder), partial(show.vocabulary, folder),
        ),
        Stage(
            "shards", "Tokenise the text once, into shards",
            (folder.shards, folder.shards / "manifest.json"),
            partial(work.tokenise, corpus, folder), partial(show.shards, folder), resumes=True,
        ),
        Stage(
            "pretrain", f"Pretrain albert-tiny: masked n-grams and sentence order{_time(config)}",
            (folder.pretrain, folder.model / "config.json"),
            partial(work.pretrain_tiny, config, folder), partial(show.pretraining, folder),
            resumes=True,
        ),
        Stage(
            "fill-mask", "Ask it for hidden words", (folder.filled,),
            partial(work.fill_masks, config, folder), partial(show.filled, folder),
        ),
        Stage(
            "task", "Cut a small labelled task: which part does a sentence come from?",
            (folder.task, folder.task / "cut.json"),
            partial(work.cut_labels, config, folder), partial(show.task, folder),
        ),
        Stage(
            "finetune", "Fine-tune the pretrained model on it",
            (folder.finetune, folder.finetune / "result.json"),
            partial(work.finetune_task, config, folder, "weights"),
            partial(show.finetuning, folder.finetune), resumes=True, skip=no_task,
        ),
        Stage(
            "untrained", "The same from random weights, to see what pretraining gave",
            (folder.untrained, folder.untrained / "result.json"),
            partial(work.finetune_task, config, folder, "random"),
            partial(show.finetuning, folder.untrained), resumes=True, skip=no_task,
        ),
        Stage(
            "score", "Score them on documents that neither has seen labels of", (folder.scores,),
            partial(work.score, folder), partial(show.scores, folder), skip=no_task,
        ),
        Stage(
            "export", "Export to ONNX, 8-bit integers", (folder.int8, folder.exported),
            partial(work.export_int8, folder), partial(show.export, folder),
        ),
        Stage(
            "serve", "Start the server, ask it one question, stop it", (folder.answer,),
            partial(work.ask, folder), partial(show.answer, folder),
        ),
        Stage(
            "report", "Write a page about all of it", (folder.report,),
            partial(_write_report, folder), partial(show.report, folder),
        ),
    ]  # fmt: skip
    return stages if config.corpus is not None else [collect, *stages]


def _time(config: DemoConfig) -> str:
    if config.steps is not None:
        return f" ({config.steps:,} steps)"
    return f" ({work.PRETRAIN_SHARE * work.budget_s(config):.0f} s)"


def _why_no_task(folder: DemoFolder) -> str:
    return "" if work.has_task(folder) else "there is no labelled task"


def _write_report(folder: DemoFolder) -> None:
    from litebert.demo.report import write_demo_report

    write_demo_report(folder)

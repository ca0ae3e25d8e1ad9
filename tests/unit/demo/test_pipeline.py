"""How long the demo's fine-tuning may take, and its curve in text."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from litebert.common.errors import ConfigError
from litebert.common.runs import RunFolder
from litebert.demo import pipeline, show
from litebert.demo.folder import DemoConfig, DemoFolder
from litebert.text.tokenizer import Tokenizer


def test_steps_of_fine_tuning_fit_into_their_share(tmp_path: Path, tiny_tokenizer_dir: Path) -> None:
    """At the rate seen in pretraining, fine-tuning takes its share of the time, or its epochs."""
    out = tmp_path / "demo"
    folder = DemoFolder(DemoConfig(out))
    folder.task.mkdir(parents=True)
    num_rows = 640
    lines = [json.dumps({"text": "the value of the object"})] * num_rows
    (folder.task / "train.jsonl").write_text("\n".join(lines), encoding="utf-8")
    most = pipeline.FINETUNE_EPOCHS * num_rows // pipeline.FINETUNE_BATCH
    assert pipeline.finetune_steps(DemoFolder(DemoConfig(out, steps=7))) == 7
    assert pipeline.finetune_steps(DemoFolder(DemoConfig(out, steps=1_000_000))) == most

    shutil.copytree(tiny_tokenizer_dir, folder.tokenizer)
    pretraining = RunFolder.create(folder.pretrain, {}, {})
    for step, rate in enumerate([9999.0, 9999.0, 1000.0, 1000.0]):  # slower at full depth
        pretraining.log(step, {"tokens_per_s": rate})
    length = len(Tokenizer.load(tiny_tokenizer_dir).encode("the value of the object")) + 2
    seconds = 100 * pipeline.FINETUNE_SHARE
    steps = pipeline.finetune_steps(DemoFolder(DemoConfig(out, budget="100s")))
    assert steps == int(seconds * 1000.0 / (pipeline.FINETUNE_BATCH * length))
    assert pipeline.finetune_steps(DemoFolder(DemoConfig(out, budget="100h"))) == most


def test_the_curve_goes_from_top_left_to_bottom_right() -> None:
    lines = show.text_curve([(0, 2.0), (10, 1.0)], 1.0, 10, 2, ascii_only=True)
    assert lines == ["2.00 |*****", "1.00 |-----*****", "     +----------", "      0       10"]


def test_the_reference_is_a_broken_line() -> None:
    lines = show.text_curve([(0, 1.0), (9, 1.0)], 2.0, 4, 3)
    assert lines[0] == "2.00 ┤┄┄┄┄"
    assert lines[2] == "1.00 ┤••••"


def test_pretraining_is_shown_as_a_curve_and_a_table(tmp_path: Path) -> None:
    folder = DemoFolder(DemoConfig(tmp_path / "demo"))
    log = RunFolder.create(folder.pretrain, {}, {})
    log.log(10, {"tokens_per_s": 9.0, "tokens": 3_000_000})
    dev = {"dev_unigram_loss": 6.5, "dev_mlm_accuracy": 0.125, "dev_predictions": 1000}
    for step, loss in ((10, 7.0), (20, 6.0)):
        log.log(step, {**dev, "dev_masked_loss": loss})
    said = io.StringIO()
    show.pretraining(folder, show.Screen(Console(file=said, width=80)))
    lines = [" ".join(line.split()) for line in said.getvalue().splitlines()]
    assert lines[0].endswith("10 steps, 3.0 M tokens")
    assert lines[2].startswith("7.00 ┤•")
    assert any(line.startswith("6.00 ┤") and line.endswith("•") for line in lines)
    assert "loss at [MASK] 6.00 word frequencies alone 6.50" in lines
    assert "masked words right 12.5% of 1,000 in dev documents" in lines
    assert not any("sentence order" in line for line in lines)  # none was asked for


def test_what_the_demo_needs_is_looked_for_before_its_first_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "find_spec", lambda name: None if name == "sklearn" else name)
    with pytest.raises(ConfigError, match="needs sklearn; install it with"):
        pipeline.demo(DemoConfig(out=tmp_path / "demo"), show.Screen(Console(file=io.StringIO())))
    assert not (tmp_path / "demo").exists()

"""How long the demo's fine-tuning may take, and its curve in text."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from litebert.common.runs import RunFolder
from litebert.demo import pipeline
from litebert.demo.folder import DemoConfig, DemoFolder
from litebert.demo.show import text_curve
from litebert.text.tokenizer import Tokenizer


def test_steps_of_fine_tuning_fit_into_their_share(
    tmp_path: Path, tiny_tokenizer_dir: Path
) -> None:
    """At the rate seen in pretraining, fine-tuning takes its share of the time, or its epochs."""
    out = tmp_path / "demo"
    folder = DemoFolder.open(DemoConfig(out))
    folder.task.mkdir()
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
    lines = text_curve([(0, 2.0), (10, 1.0)], 1.0, 10, 2, ascii_only=True)
    assert lines == ["2.00 |*****", "1.00 |-----*****", "     +----------", "      0       10"]


def test_the_reference_is_a_broken_line() -> None:
    lines = text_curve([(0, 1.0), (9, 1.0)], 2.0, 4, 3)
    assert lines[0] == "2.00 ┤┄┄┄┄"
    assert lines[2] == "1.00 ┤••••"

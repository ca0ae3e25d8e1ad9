"""The torch backend: what it keeps for each shape of a batch is bounded."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from litebert.common.errors import ConfigError
from litebert.model.cpu import SHAPE_CACHES, has_onednn
from litebert.predict.predictor import Predictor

SHAPES = """
import sys
from litebert.predict.predictor import Predictor
from litebert.predict.questions import embed

def resident_mb():
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * 4096 / 1e6

predictor = Predictor.load(sys.argv[1], "torch", 1)
after = []
for spell in range(2):
    for length in range(1 + 150 * spell, 151 + 150 * spell):
        features = [embed("a " * 30, predictor, "mean").features[0]] * (length // 30 + 1)
        features.append(embed("a " * (length % 30 + 1), predictor, "mean").features[0])
        predictor.run_batch(features, ("last_hidden_state",))
    after.append(resident_mb())
print(after[1] / after[0])
"""


def test_a_gpu_that_is_not_there_is_one_line(
    model_folder: Callable[..., Path], onnx_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    import onnxruntime
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    for folder in (model_folder("pretraining"), onnx_folder("pretraining")):
        with pytest.raises(ConfigError, match="finds no GPU here; use --device cpu"):
            Predictor.load(folder, device="cuda")
        assert Predictor.load(folder, device="auto").embed(["a"]).shape[0] == 1


@pytest.mark.slow
@pytest.mark.skipif(not has_onednn(), reason="nothing is packed on this processor")
def test_new_shapes_cost_no_memory_in_the_long_run(model_folder: Callable[..., Path]) -> None:
    from litebert.bundled import BUNDLED

    environment = {name: value for name, value in os.environ.items() if name not in SHAPE_CACHES}
    done = subprocess.run(
        [sys.executable, "-c", SHAPES, BUNDLED], capture_output=True, text=True, check=True, env=environment
    )
    assert float(done.stdout) < 1.1

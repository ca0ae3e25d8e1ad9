"""LAMB and AdamW equal the official optimisers' weights after each of 12 steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch

from litebert.optim.adamw import AdamW
from litebert.optim.build import build_optimizers, is_excluded, set_learning_rate
from litebert.optim.config import OptimizerConfig
from litebert.optim.lamb import Lamb
from litebert.optim.schedule import ScheduleConfig, factor

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
TOLERANCE = 1e-6
PEAK = {"lamb": 0.00176, "adamw": 0.001}


def read(name: str) -> tuple[dict[str, np.ndarray], list[str]]:
    with np.load(FIXTURES / f"{name}.npz") as file:
        arrays = {key: file[key] for key in file.files}
    return arrays, [key.removeprefix("init:") for key in arrays if key.startswith("init:")]


def largest_difference(
    name: str,
    optimizers: list[torch.optim.Optimizer],
    params: dict[str, torch.nn.Parameter],
    arrays: dict[str, np.ndarray],
) -> float:
    worst = 0.0
    for step, lr in enumerate(arrays["lr"]):
        set_learning_rate(optimizers, float(lr) / PEAK[name])
        for key, param in params.items():
            param.grad = torch.tensor(arrays[f"grad:{key}"][step])
        torch.nn.utils.clip_grad_norm_(list(params.values()), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        for key, param in params.items():
            expected = arrays[f"after:{key}"][step]
            worst = max(worst, float(np.abs(param.detach().numpy() - expected).max()))
    return worst


@pytest.mark.parametrize("name", ["lamb", "adamw"])
def test_twelve_official_steps(
    name: Literal["lamb", "adamw"], record_exactness: Callable[[str, float, str], None]
) -> None:
    arrays, names = read(name)
    params = {key: torch.nn.Parameter(torch.tensor(arrays[f"init:{key}"])) for key in names}
    optimizers = build_optimizers(params.items(), OptimizerConfig(name=name), PEAK[name])
    worst = largest_difference(name, optimizers, params, arrays)
    command = "pytest tests/parity/test_optimizers.py"
    record_exactness(f"official {name} optimizer, weights after 12 steps", worst, command)
    assert worst <= TOLERANCE


@pytest.mark.parametrize(("name", "kind"), [("lamb", Lamb), ("adamw", AdamW)])
def test_plain_construction_reproduces_the_steps_too(name: str, kind: type[AdamW]) -> None:
    arrays, names = read(name)
    params = {key: torch.nn.Parameter(torch.tensor(arrays[f"init:{key}"])) for key in names}
    excluded = {"weight_decay": 0.0} | ({"adapt": False} if name == "lamb" else {})
    groups: list[dict[str, Any]] = [
        {"params": [p for key, p in params.items() if not is_excluded(key)]},
        {"params": [p for key, p in params.items() if is_excluded(key)], **excluded},
    ]
    optimizer = kind(groups, lr=PEAK[name])
    for group in optimizer.param_groups:
        group["peak_lr"] = PEAK[name]
    assert largest_difference(name, [optimizer], params, arrays) <= TOLERANCE


@pytest.mark.parametrize("variant", ["bias_correction", "no_exclusion"])
def test_a_departure_from_the_official_arithmetic_is_seen(variant: str) -> None:
    arrays, names = read("lamb")
    params = {key: torch.nn.Parameter(torch.tensor(arrays[f"init:{key}"])) for key in names}
    if variant == "bias_correction":
        config = OptimizerConfig(name="lamb", bias_correction=True)
        optimizers = build_optimizers(params.items(), config, PEAK["lamb"])
    else:
        optimizers = [Lamb(params.values(), lr=PEAK["lamb"])]
        optimizers[0].param_groups[0]["peak_lr"] = PEAK["lamb"]
    assert largest_difference("lamb", optimizers, params, arrays) > 1e-4


@pytest.mark.parametrize("name", ["lamb", "adamw"])
def test_schedule_gives_the_official_rates(name: str) -> None:
    arrays, _ = read(name)
    schedule = ScheduleConfig(name="official", warmup_steps=4)
    rates = [PEAK[name] * factor(schedule, step / 10, steps=10) for step in range(12)]
    np.testing.assert_allclose(rates, arrays["lr"], rtol=0, atol=1e-9)

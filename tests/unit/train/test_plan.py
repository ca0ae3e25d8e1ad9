"""The simulator agrees with published runs and with the paper's ratios."""

from __future__ import annotations

import json
from functools import partial

import pytest

from litebert.cli import main, run
from litebert.common.errors import ConfigError
from litebert.model.config import preset
from litebert.train.estimate import ClusterRun, Memory, TrainingEstimate, estimate_training, step_flops, traffic_bytes


def estimate(model: str, gpus: int, **settings: object) -> TrainingEstimate:
    return estimate_training(preset(model), gpus, ClusterRun(**settings))  # type: ignore[arg-type]


@pytest.mark.parametrize(("machines", "hours"), [(1, 144), (2, 75), (4, 38), (8, 20)])
def test_albert_base_on_v100_machines_as_aws_measured(machines: int, hours: float) -> None:
    found = estimate("albert-base", 8 * machines, gpu="v100")
    assert found.hours == pytest.approx(hours, rel=0.1)


def test_traffic_shows_the_papers_factor() -> None:
    albert = estimate("albert-large", 64)
    bert = estimate("bert-large", 64)
    assert 18 <= bert.traffic_bytes / albert.traffic_bytes <= 19
    assert traffic_bytes(1000, 2) == 4000


def test_flops_are_those_of_matrix_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted by torch on the model itself, in products that it knows."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from litebert.model import cpu
    from litebert.model.heads import PretrainingModel

    monkeypatch.setattr(cpu, "has_onednn", lambda: False)

    shape = preset("albert-tiny", vocab_size=300, num_layers=3)
    model = PretrainingModel(shape)
    model.encoder.attention_implementation = "eager"
    ids = torch.randint(5, 300, (4, 32))
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(ids, masked_positions_M=torch.arange(20))
    forward = step_flops(shape, 4, 32, 20) / 3
    assert forward == pytest.approx(counter.get_total_flops(), rel=0.01)


def test_more_gpus_take_less_time_and_more_network() -> None:
    plans = [estimate("bert-large", n, gpu="v100") for n in (8, 64, 512)]
    assert plans[0].hours > plans[1].hours > plans[2].hours
    assert plans[0].gpu_hours < plans[2].gpu_hours


def test_sharding_makes_room() -> None:
    ddp = estimate("albert-xxlarge", 64, parallel="ddp")
    fsdp = estimate("albert-xxlarge", 64, parallel="fsdp")
    assert fsdp.memory.optimizer < ddp.memory.optimizer / 60
    # The shared block is gathered for the whole step, so weights are not saved.
    assert fsdp.memory.weights >= ddp.memory.weights
    with pytest.raises(ConfigError, match="does not fit"):
        estimate_training(preset("albert-xxlarge", hidden_size=16384), 8, ClusterRun("rtx4090"))


def test_logits_are_held_by_slices() -> None:
    shape = preset("albert-base")
    estimate = partial(Memory.of, shape, parameters=1, tokens=4096)
    whole = estimate(predictions=600)
    sliced = estimate(predictions=600, slice_elements=60_000)
    assert whole.activations - sliced.activations == 8 * 598 * 30_000
    # A slice has at least one row, and no more than there are.
    least = estimate(predictions=600, slice_elements=1)
    assert least == estimate(predictions=1)
    assert estimate(predictions=600, slice_elements=10**9) == whole


def test_text_gives_epochs_and_disk() -> None:
    found = estimate("albert-base", 8, text_gb=16)
    assert found.epochs == pytest.approx(74, rel=0.05)
    assert found.shard_bytes == pytest.approx(7.1e9, rel=0.01)


def test_the_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    run(["plan", "--model", "albert-large", "--gpus", "8", "64", "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert [row["gpus"] for row in rows] == [8, 64]
    assert rows[0]["parameters"] == 17_847_474


def test_unknown_gpu_is_refused() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'a100'"):
        ClusterRun(gpu="a10")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--efficiency", "0"], "efficiency is 0"),
        (["--efficiency", "40"], "efficiency is 40"),
        (["--text-gb", "0"], "--text-gb is 0"),
        (["--network-gbit", "0"], "--network-gbit is 0"),
        (["--network-gbit", "-1"], "--network-gbit is -1"),
        (["--batch-size", "0"], "--batch-size is 0"),
        (["--length", "-5"], "length is -5"),
        (["--steps", "0"], "steps is 0"),
        (["--gpus", "8", "-8"], "gpus is -8"),
        (["--gpus-per-machine", "0"], "--gpus-per-machine is 0"),
    ],
)
def test_impossible_numbers_are_refused(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["plan", *arguments])
    assert stopped.value.code == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert error.count("\n") == 0


def test_gpus_without_an_example_do_not_help() -> None:
    few = {"gpu": "a100", "gpus_per_machine": 64, "batch_size": 8}
    plans = [estimate("albert-base", n, **few) for n in (8, 16)]
    assert plans[0].compute_s == pytest.approx(plans[1].compute_s)
    assert plans[0].hours <= plans[1].hours
    # Nine examples on eight GPUs take as long as sixteen.
    nine, sixteen = (estimate("albert-base", 8, batch_size=size) for size in (9, 16))
    assert nine.compute_s == pytest.approx(sixteen.compute_s, rel=1e-4)

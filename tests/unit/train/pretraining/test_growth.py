"""Layers of their own that begin as copies: which ones, exact after a resume, from one start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from litebert.common.errors import ConfigError
from litebert.interop.hf import load_model
from litebert.model.config import ModelSection, Sharing
from litebert.model.sharing import plan
from litebert.train.pretraining.config import Checkpoints, Curriculum
from litebert.train.pretraining.engine import pretrain
from litebert.train.pretraining.initial import new_sets
from litebert.train.pretraining.results import export_checkpoint
from small_run import GROWTH, assert_bitwise_equal, small_config, weights


@pytest.mark.parametrize(
    ("strategy", "groups", "before", "after", "expected"),
    [
        ("all", 1, 2, 4, []),
        ("none", 1, 2, 4, [(2, 0), (3, 1)]),
        ("none", 1, 1, 4, [(1, 0), (2, 0), (3, 0)]),
        ("none", 1, 3, 4, [(3, 0)]),
        ("groups", 2, 1, 4, [(1, 0)]),
        ("groups", 2, 3, 4, []),
    ],
)
def test_new_layers_repeat_the_old_ones(
    strategy: Sharing, groups: int, before: int, after: int, expected: Sequence[tuple[int, int]]
) -> None:
    found = list(new_sets(plan(strategy, 4, groups), before, after))
    kinds = ("attention", "feed_forward", "norms")
    assert found == [(kind, *pair) for kind in kinds for pair in expected]


def test_a_layer_of_its_own_begins_as_a_copy(tiny_shards_dir: Path, tmp_path: Path) -> None:
    """Three steps never reach the second stage: at the end the layers are still the same."""
    late = Curriculum(layers=((0.0, 1), (0.9, 2)))
    config = small_config(tiny_shards_dir, tmp_path / "run", steps=3, **GROWTH)
    config = replace(config, curriculum=late, checkpoint=Checkpoints(every_steps=2))
    for _ in range(2):  # a run that is resumed at its end leaves the same folder
        result = pretrain(config, quiet=True)
        config = replace(config, resume="auto")
        encoder = load_model(result.run / "model", "pretraining").get_submodule("encoder")
        for kind in ("attention", "feed_forward", "norms"):
            first, second = (part.state_dict() for part in getattr(encoder, kind))
            assert_bitwise_equal(first, second)
    export_checkpoint(tmp_path / "run", tmp_path / "exported", "2")
    model = load_model(tmp_path / "exported", "pretraining")
    first, second = (model.get_submodule(f"encoder.attention.{n}").state_dict() for n in (0, 1))
    assert_bitwise_equal(first, second)


def test_a_deeper_stage_trains_its_layers_apart(tiny_shards_dir: Path, tmp_path: Path) -> None:
    pretrain(small_config(tiny_shards_dir, tmp_path / "run", steps=6, **GROWTH), quiet=True)
    model = load_model(tmp_path / "run" / "model", "pretraining")
    names = [f"encoder.feed_forward.{number}.contract.weight" for number in (0, 1)]
    first, second = (model.get_parameter(name) for name in names)
    assert not torch.equal(first, second)
    assert torch.nn.functional.cosine_similarity(first.flatten(), second.flatten(), 0) > 0.9


@pytest.mark.parametrize("stopped_at", [5, 6])
def test_resume_is_exact_across_the_change(tiny_shards_dir: Path, tmp_path: Path, stopped_at: int) -> None:
    whole = small_config(tiny_shards_dir, tmp_path / "whole", average=0.8, **GROWTH)
    pretrain(whole, quiet=True)
    parts = replace(whole, out=tmp_path / "parts", resume="auto")
    for last in (stopped_at, 12):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                "litebert.train.pretraining.engine.Pretraining.share",
                lambda self, last=last: 1.0 if self.state.step >= last else self.state.step / 12,
            )
            pretrain(parts, quiet=True)
    assert_bitwise_equal(weights(tmp_path / "whole"), weights(tmp_path / "parts"))


@pytest.mark.parametrize("sharing", ["none", "ffn", "attention", "groups"])
def test_every_way_of_sharing_starts_from_one_shared_model(
    tiny_shards_dir: Path, tmp_path: Path, sharing: Sharing
) -> None:
    """The first loss is that of the shared model: the layers are copies of its one layer."""
    pretrain(small_config(tiny_shards_dir, tmp_path / "start", steps=4), quiet=True)
    start = str(tmp_path / "start" / "model")
    losses = []
    for name, model in (
        ("all", ModelSection(num_layers=4)),
        (sharing, ModelSection(num_layers=4, sharing=sharing, num_groups=2 if sharing == "groups" else None)),
    ):
        config = small_config(tiny_shards_dir, tmp_path / name, steps=2, init_from=start, model=model)
        # As in a TOML file: nothing of the shape but what differs.
        pretrain(config, quiet=True)
        metrics = (tmp_path / name / "metrics.jsonl").read_text().splitlines()
        losses.append(metrics[0].split('"mlm_loss": ')[1].split(",")[0])
    assert float(losses[0]) == pytest.approx(float(losses[1]), abs=1e-6)


def test_a_model_with_layers_of_its_own_keeps_them(tiny_shards_dir: Path, tmp_path: Path) -> None:
    pretrain(small_config(tiny_shards_dir, tmp_path / "own", steps=2, **GROWTH), quiet=True)
    config = small_config(
        tiny_shards_dir, tmp_path / "b", init_from=str(tmp_path / "own" / "model"), model=ModelSection(sharing="all")
    )
    with pytest.raises(ConfigError, match=r"model\.sharing is all but"):
        pretrain(config, quiet=True)

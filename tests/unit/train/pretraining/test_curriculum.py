"""Progress is one number; tables decide what holds when."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litebert.common.config import from_dict, to_dict
from litebert.common.errors import ConfigError
from litebert.data.batches.example import ExampleConfig
from litebert.model.config import ModelConfig, ModelSection, preset
from litebert.optim.schedule import ScheduleConfig
from litebert.train.pretraining.config import Curriculum, Objective, PretrainConfig, parse_duration
from litebert.train.pretraining.curriculum import check, progress_share, stage_at, value_at

HERE = Path()


def config(**changes: object) -> PretrainConfig:
    return replace(PretrainConfig(data=HERE, out=HERE, steps=100), **changes)  # type: ignore[arg-type]


def test_progress_is_the_largest_share() -> None:
    run = config(steps=100, tokens=1000, budget="50s")
    assert progress_share(run, step=10, tokens=500, elapsed_s=5.0) == 0.5
    assert progress_share(run, step=10, tokens=0, elapsed_s=45.0) == 0.9
    assert progress_share(config(), step=100, tokens=10**9, elapsed_s=10**9) == 1.0


def test_stages_follow_their_tables() -> None:
    table = Curriculum(
        layers=((0.0, 2), (0.5, 4), (0.75, 12)),
        length=((0.0, 128), (0.9, 512)),
        batch_size=((0.0, 16), (0.5, 64)),
        mask_rate=((0.0, 0.3), (0.8, 0.15)),
    )
    run = config(curriculum=table, examples=ExampleConfig(length=512, micro_batch_size=8))
    first, middle, last = (stage_at(run, preset("albert-base"), p) for p in (0.0, 0.5, 0.95))
    assert (first.layers, middle.layers, last.layers) == (2, 4, 12)
    assert (first.length, last.length) == (128, 512)
    assert (first.batch_size, middle.batch_size) == (16, 64)
    assert (first.mask_rate, last.mask_rate) == (0.3, 0.15)
    # The token budget of 8 x 512 holds 32 examples of 128.
    assert (first.num_micro, first.micro_batch_size) == (1, 16)
    assert (middle.num_micro, middle.micro_batch_size) == (2, 32)
    assert (last.num_micro, last.micro_batch_size) == (8, 8)


@given(st.integers(1, 200), st.integers(1, 64), st.sampled_from([16, 32, 128, 512]), st.floats(0, 0.99))
def test_micro_batches_cover_the_batch_within_the_budget(
    batch_size: int, micro: int, length: int, share: float
) -> None:
    examples = ExampleConfig(length=512, micro_batch_size=micro)
    run = config(batch_size=batch_size, examples=examples, curriculum=Curriculum(length=((0.0, length),)))
    stage = stage_at(run, ModelConfig(), share)
    assert stage.num_micro * stage.micro_batch_size >= batch_size
    assert (stage.num_micro - 1) * stage.micro_batch_size < batch_size
    assert stage.micro_batch_size * length <= max(micro * 512, length)


def test_value_before_the_first_row_is_the_default() -> None:
    assert value_at((), 0.3, 7) == 7
    assert value_at(((0.0, 1), (0.5, 2)), 0.49999, 7) == 1


@pytest.mark.parametrize("rows", [((0.5, 2), (0.0, 4)), ((0.1, 2),), ((0.0, 2), (1.0, 4)), ((0.0, 2, 3),)])
def test_malformed_tables_are_refused(rows: tuple[tuple[float, ...], ...]) -> None:
    with pytest.raises(ConfigError, match=r"curriculum\.layers"):
        Curriculum(layers=rows)  # type: ignore[arg-type]


def test_contradictions_are_refused() -> None:
    deepen = Curriculum(layers=((0.0, 2), (0.5, 12)))
    with pytest.raises(ConfigError, match="ends with 12 layers but the model has 6"):
        check(config(curriculum=deepen), preset("albert-small"))
    with pytest.raises(ConfigError, match="512 positions"):
        check(config(examples=ExampleConfig(length=1024)), ModelConfig())
    with pytest.raises(ConfigError, match="positions is 513 but the model has 512"):
        check(config(examples=ExampleConfig(positions=513)), ModelConfig())
    with pytest.raises(ConfigError, match="mask_rate"):
        check(config(curriculum=Curriculum(mask_rate=((0.0, 1.5),))), ModelConfig())


def test_tasks_follow_each_other_and_none_is_refused() -> None:
    nsp_first = Curriculum(task=((0.0, "nsp"), (0.5, "sop")), sentence_factor=((0.0, 3.0),))
    run = config(curriculum=nsp_first)
    assert [stage_at(run, ModelConfig(), share).task for share in (0.0, 0.7)] == ["nsp", "sop"]
    assert stage_at(run, ModelConfig(), 0.0).sentence_factor == 3.0
    with pytest.raises(ConfigError, match="sentence task is none"):
        check(replace(run, examples=ExampleConfig(task="none")), ModelConfig())
    single = config(examples=ExampleConfig(task="none"), objective=Objective(pairs_every_steps=2))
    with pytest.raises(ConfigError, match="objective.pairs_task"):
        check(single, ModelConfig())
    assert from_dict(Curriculum, to_dict(nsp_first)) == nsp_first
    with pytest.raises(ConfigError, match="is not one of"):
        from_dict(Curriculum, {"task": [[0.0, "nps"]]})


def test_a_run_needs_a_length() -> None:
    with pytest.raises(ConfigError, match="no length"):
        PretrainConfig(data=HERE, out=HERE)


def test_a_warm_up_longer_than_the_run_is_refused() -> None:
    schedule = ScheduleConfig(warmup_steps=3125)
    PretrainConfig(data=HERE, out=HERE, steps=3125, schedule=schedule)
    with pytest.raises(ConfigError, match="only 200 steps: shorten the warm-up"):
        PretrainConfig(data=HERE, out=HERE, steps=200, schedule=schedule)
    with pytest.raises(ConfigError, match="warmup_steps is 3125 but there is no --steps"):
        PretrainConfig(data=HERE, out=HERE, tokens=200, schedule=schedule)


def test_durations() -> None:
    assert parse_duration("90s") == 90.0
    assert parse_duration("1h30m") == 5400.0
    assert parse_duration("45") == 45.0
    for wrong in ("soon", "3 parsecs", "", "0m", "-3m"):
        with pytest.raises(ConfigError):
            parse_duration(wrong)


def test_vocabulary_comes_from_the_shards_unless_set() -> None:
    assert ModelSection(preset="albert-tiny").resolve(1234).vocab_size == 1234
    assert ModelSection(preset="albert-tiny", vocab_size=2000).resolve(1234).vocab_size == 2000
    with pytest.raises(ConfigError, match="1234 pieces"):
        ModelSection(preset="albert-tiny", vocab_size=1000).resolve(1234)


def test_default_rate_uses_the_depth_training_starts_with() -> None:
    model = preset("albert-small")
    adamw = replace(config().optimizer, name="adamw")
    deep = config(optimizer=adamw).learning_rate(model)
    shallow_first = Curriculum(layers=((0.0, 2), (0.5, 6)))
    shallow = config(optimizer=adamw, curriculum=shallow_first).learning_rate(model)
    assert shallow == pytest.approx(3 * deep)

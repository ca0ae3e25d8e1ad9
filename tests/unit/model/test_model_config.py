"""Model configurations: the released shapes, and refusals that name the value and a remedy."""

from __future__ import annotations

from dataclasses import fields
from typing import get_type_hints

import pytest

from litebert.common.errors import ConfigError
from litebert.model.config import PRESETS, ModelConfig, ModelSection, ShapeOverrides, preset


@pytest.mark.parametrize(
    ("name", "hidden", "layers", "heads", "embedding", "sharing"),
    [
        ("albert-base", 768, 12, 12, 128, "all"),
        ("albert-large", 1024, 24, 16, 128, "all"),
        ("albert-xlarge", 2048, 24, 32, 128, "all"),
        ("albert-xxlarge", 4096, 12, 64, 128, "all"),
        ("bert-base", 768, 12, 12, 768, "none"),
        ("bert-large", 1024, 24, 16, 1024, "none"),
        ("bert-xlarge", 2048, 24, 32, 2048, "none"),
        ("albert-small", 256, 6, 4, 128, "all"),
    ],
)
def test_presets_have_the_published_shapes(
    name: str, hidden: int, layers: int, heads: int, embedding: int, sharing: str
) -> None:
    config = PRESETS[name]
    assert (config.hidden_size, config.num_layers, config.heads) == (hidden, layers, heads)
    assert (config.embedding_size, config.sharing, config.ffn) == (embedding, sharing, 4 * hidden)
    assert (config.activation, config.layer_norm_eps, config.initializer_range) == ("gelu_tanh", 1e-12, 0.02)


def test_version_1_has_dropout_except_xxlarge_and_the_plain_name_is_version_2() -> None:
    for size in ("base", "large", "xlarge", "xxlarge"):
        rate = 0.0 if size == "xxlarge" else 0.1
        first = PRESETS[f"albert-{size}-v1"]
        assert (first.hidden_dropout, first.attention_dropout) == (rate, rate)
        second = PRESETS[f"albert-{size}-v2"]
        assert (second.hidden_dropout, second.attention_dropout) == (0.0, 0.0)
        assert second == PRESETS[f"albert-{size}"]
        assert first.classifier_dropout == second.classifier_dropout == 0.1


def test_our_small_models_get_smaller() -> None:
    def work(name: str) -> int:
        return PRESETS[name].num_layers * PRESETS[name].hidden_size ** 2

    assert work("albert-tiny") < work("albert-mini") < work("albert-small") < work("albert-base")


def test_preset_takes_overrides() -> None:
    config = preset("albert-small", vocab_size=99, num_heads=8)
    assert (config.vocab_size, config.heads, config.hidden_size) == (99, 8, 256)


def test_projection_exists_exactly_when_the_sizes_differ_unless_said() -> None:
    assert ModelConfig(embedding_size=128, hidden_size=768).has_projection
    assert not ModelConfig(embedding_size=768, hidden_size=768).has_projection
    assert ModelConfig(embedding_size=768, hidden_size=768, embedding_projection=True).has_projection


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"hidden_size": 100}, ["100", "num_heads", "1, 2, 4, 5, 10"]),
        ({"num_heads": 5}, ["num_heads 5", "hidden_size 768", "1, 2, 3, 4, 6"]),
        ({"num_layers": 0}, ["num_layers is 0", "1 or more"]),
        ({"hidden_dropout": 1.0}, ["hidden_dropout is 1.0", "less than 1"]),
        ({"layer_norm_eps": 0.0}, ["layer_norm_eps", "more than 0"]),
        ({"num_groups": 2}, ["num_groups is 2", '"all"', '"groups"']),
        ({"num_groups": 13, "sharing": "groups"}, ["num_groups 13", "num_layers 12"]),
        ({"embedding_projection": False}, ["embedding_size 128", "hidden_size 768"]),
        ({"sharing": "attentoin"}, ["attentoin", "Did you mean 'attention'?"]),
        ({"activation": "swish"}, ["swish", "gelu_tanh"]),
    ],
)
def test_contradictions_are_one_line_with_the_value_and_a_remedy(fields: dict[str, object], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        ModelConfig(**fields)  # type: ignore[arg-type]
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_unknown_presets_and_fields_are_named_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"albert-bas.*Did you mean 'albert-base'"):
        preset("albert-bas")
    with pytest.raises(ConfigError, match=r"gpt.*Known: albert-base"):
        preset("gpt")
    with pytest.raises(ConfigError, match=r"hiden_size.*Did you mean 'hidden_size'"):
        preset("albert-base", hiden_size=3)
    with pytest.raises(ConfigError, match="hidden_size"):
        preset("albert-base", hidden_size="wide")


@pytest.mark.parametrize("cls", [ShapeOverrides, ModelSection])
def test_what_a_preset_may_change_are_fields_of_the_model(cls: type[ShapeOverrides]) -> None:
    model, hints = get_type_hints(ModelConfig), get_type_hints(cls)
    hints.pop("preset", None)
    assert hints == {name: model[name] | None for name in hints}
    assert all(item.default is None for item in fields(cls) if item.name != "preset")


def test_changes_are_what_was_set() -> None:
    assert ShapeOverrides().changes() == {}
    section = ModelSection(preset="albert-tiny", embedding_projection=False, hidden_dropout=0.0)
    assert section.changes() == {"embedding_projection": False, "hidden_dropout": 0.0}

"""config.json says the same model in both directions, and what it cannot say is refused."""

from __future__ import annotations

import pytest

from litebert.common.errors import CheckpointError
from litebert.interop.hf_config import foreign_config, head_of, labels_of, model_config
from litebert.model.config import PRESETS, ModelConfig
from litebert.model.head_table import HEADS, Head

VALUES = foreign_config(ModelConfig(), "pretraining")


def resolved(config: ModelConfig) -> tuple[object, ...]:
    return (
        config.vocab_size,
        config.embedding_size,
        config.hidden_size,
        config.num_layers,
        config.heads,
        config.ffn,
        config.sharing,
        config.num_groups,
        config.inner_group_num,
        config.embedding_layout,
        config.has_projection,
        config.activation,
        config.hidden_dropout,
        config.attention_dropout,
        config.classifier_dropout,
        config.max_positions,
        config.type_vocab_size,
        config.layer_norm_eps,
        config.initializer_range,
    )


@pytest.mark.parametrize(
    "config",
    [
        *PRESETS.values(),
        ModelConfig(sharing="attention", classifier_dropout=0.2),
        ModelConfig(sharing="ffn", activation="relu"),
        ModelConfig(sharing="groups", num_groups=3, inner_group_num=2),
        ModelConfig(sharing="groups", num_groups=12),
        ModelConfig(sharing="groups", num_groups=1),
        ModelConfig(sharing="none", num_layers=1),
        ModelConfig(sharing="groups", num_layers=1, num_groups=1),
        ModelConfig(embedding_layout="projected_words", initializer_range=0.01),
        ModelConfig(embedding_size=768, embedding_projection=True),
        ModelConfig(num_heads=6, intermediate_size=100, max_positions=64, type_vocab_size=1),
        ModelConfig(num_layers=18, sharing="groups", num_groups=14),
    ],
)
@pytest.mark.parametrize("head", ["encoder", "squad2"])
def test_round_trip(config: ModelConfig, head: Head) -> None:
    values = foreign_config(config, head)
    assert resolved(model_config(values, "config.json")) == resolved(config)
    assert head_of(values, "config.json") == head


@pytest.mark.parametrize("head", HEADS)
def test_heads_are_told_apart(head: Head) -> None:
    labels = ["only"] if head == "regression" else ["no", "yes", "maybe"]
    values = foreign_config(ModelConfig(), head, labels)
    assert head_of(values, "config.json") == head
    if head in ("classification", "token_classification"):
        assert labels_of(values, "config.json") == ("no", "yes", "maybe")
        assert values["label2id"] == {"no": 0, "yes": 1, "maybe": 2}


@pytest.mark.parametrize(
    ("name", "activation"),
    [("gelu", "gelu"), ("gelu_new", "gelu_tanh"), ("gelu_pytorch_tanh", "gelu_tanh"), ("relu", "relu")],
)
def test_gelu_is_the_erf_form_as_transformers_runs_it(name: str, activation: str) -> None:
    assert model_config({**VALUES, "hidden_act": name}, "config.json").activation == activation


def test_absent_keys_mean_what_they_mean_to_transformers() -> None:
    config = model_config({"model_type": "albert"}, "config.json")
    assert (config.hidden_size, config.heads, config.ffn) == (4096, 64, 16384)


def test_keys_of_other_programs_are_ignored() -> None:
    extra = {"net_structure_type": 0, "gap_size": 0, "down_scale_factor": 1, "torch_dtype": "float16"}
    assert model_config({**VALUES, **extra}, "config.json") == model_config(VALUES, "config.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "bert"}, "model_type is 'bert'"),
        ({"hidden_act": "swish"}, "hidden_act is 'swish'"),
        ({"hidden_size": "wide"}, "hidden_size = 'wide'"),
        ({"num_attention_heads": 5}, "num_heads 5 does not divide"),
        ({"num_hidden_groups": 13}, "num_groups 13"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings"),
        ({"num_hidden_layers": 18, "num_hidden_groups": 14}, "transformers rounds 14 groups"),
        ({"embedding_projection": False}, "embedding_projection is off"),
    ],
)
def test_refused_settings(change: dict[str, object], message: str) -> None:
    with pytest.raises(CheckpointError, match=message) as info:
        model_config({**VALUES, **change}, "config.json")
    assert str(info.value).startswith("config.json: ")
    assert "\n" not in str(info.value)


def test_unknown_architectures_are_refused() -> None:
    with pytest.raises(CheckpointError, match="architectures is 'BertModel'"):
        head_of({**VALUES, "architectures": ["BertModel"]}, "config.json")


def test_several_labels_at_once_need_the_same_weights_as_one() -> None:
    for problem in ("single_label_classification", "multi_label_classification"):
        change = {"architectures": ["AlbertForSequenceClassification"], "problem_type": problem}
        assert head_of({**VALUES, **change}, "config.json") == "classification"


def test_one_unnamed_output_is_a_regression() -> None:
    values = {"architectures": ["AlbertForSequenceClassification"], "id2label": {"0": "LABEL_0"}}
    assert head_of(values, "config.json") == "regression"


@pytest.mark.parametrize("labels", [[], {"1": "a"}, "a", {}])
def test_refused_labels(labels: object) -> None:
    with pytest.raises(CheckpointError, match="id2label"):
        labels_of({"id2label": labels}, "config.json")


def test_a_word_about_sharing_that_the_groups_contradict_is_not_believed() -> None:
    """The key is litebert's; transformers and its weights go by the number of groups."""
    for groups, word, found in ((1, "none", "all"), (12, "all", "none"), (3, "all", "groups")):
        values = {**VALUES, "num_hidden_groups": groups, "sharing": word}
        assert model_config(values, "config.json").sharing == found
    assert "sharing" not in VALUES


def test_a_number_is_not_a_probability_to_sentence_transformers() -> None:
    """Its CrossEncoder applies a sigmoid to one output unless the folder says otherwise."""
    told = {"activation_fn": "torch.nn.modules.linear.Identity"}
    config = PRESETS["albert-base"]
    assert foreign_config(config, "regression", ["score"])["sentence_transformers"] == told
    assert "sentence_transformers" not in foreign_config(config, "classification", ["a", "b"])

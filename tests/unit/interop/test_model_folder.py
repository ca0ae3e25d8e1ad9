"""Model folders: what is missing, surplus, damaged or of another shape, and what is written."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import huggingface_hub
import pytest
import torch
from huggingface_hub.errors import LocalEntryNotFoundError
from safetensors.torch import load_file, save_file

from litebert.cli import main
from litebert.common.errors import CheckpointError, ConfigError, DataError
from litebert.interop.folder import ModelFolder, load_config
from litebert.interop.hf import build_model, copy_model, load_model, save_model
from litebert.model.config import ModelConfig
from litebert.model.encoder import Encoder
from litebert.model.heads import PretrainingModel, SequenceClassifier

TINY = ModelConfig(vocab_size=23, embedding_size=8, hidden_size=16, num_heads=2, num_layers=2, max_positions=12)
LAYER = "albert.encoder.albert_layer_groups.0.albert_layers.0"


@pytest.fixture
def model() -> PretrainingModel:
    return PretrainingModel(TINY, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def folder(model: PretrainingModel, tmp_path: Path) -> Path:
    save_model(model, tmp_path / "model")
    return tmp_path / "model"


def edit_weights(folder: Path, **changes: torch.Tensor | None) -> None:
    """Replace, add or (with None) remove tensors; dots are written as double underscores."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    for name, tensor in changes.items():
        name = name.replace("__", ".")
        if tensor is None:
            del tensors[name]
        else:
            tensors[name] = tensor
    save_file(tensors, path, metadata={"format": "pt"})


def edit_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def assert_same(one: torch.nn.Module, other: torch.nn.Module, prefix: str = "") -> None:
    expected, found = one.state_dict(), other.state_dict()
    assert set(expected) == set(found)
    for name in expected:
        if name.startswith(prefix):
            assert torch.equal(expected[name], found[name]), name


# Writing.


def test_files_of_a_folder(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {"config.json", "model.safetensors", "README.md"}
    assert "albert_layer_groups" in (folder / "model.safetensors").read_bytes()[:4000].decode("latin1")


def test_tied_weights_are_stored_once(folder: Path, model: PretrainingModel) -> None:
    stored = load_file(folder / "model.safetensors")
    assert not any("decoder" in name for name in stored)
    assert sum(t.numel() for t in stored.values()) == sum(p.numel() for p in model.parameters())


def test_saving_is_whole_or_nothing(model: PretrainingModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("safetensors.torch.save_file", fail)
    with pytest.raises(OSError, match="disk full"):
        save_model(model, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_kept_unless_replaced(folder: Path, model: PretrainingModel) -> None:
    with pytest.raises(DataError, match="not empty"):
        save_model(model, folder)
    save_model(model, folder, card="# new", replace=True)
    assert (folder / "README.md").read_text() == "# new"


def test_tokenizer_files_are_copied(model: PretrainingModel, tmp_path: Path) -> None:
    source = tmp_path / "tokenizer"
    source.mkdir()
    for name in ("spiece.model", "tokenizer.json", "tokenizer_config.json", "other.txt"):
        (source / name).write_text(f'{{"file": "{name}"}}')
    save_model(model, tmp_path / "model", source)
    assert (tmp_path / "model" / "tokenizer.json").read_text() == '{"file": "tokenizer.json"}'
    assert not (tmp_path / "model" / "other.txt").exists()


def test_labels(tmp_path: Path) -> None:
    model = SequenceClassifier(TINY, 3)
    with pytest.raises(ConfigError, match="2 labels were given for a head of 3"):
        save_model(model, tmp_path / "model", labels=["a", "b"])
    save_model(model, tmp_path / "model", labels=["no", "maybe", "yes"])
    assert ModelFolder(tmp_path / "model").labels == ("no", "maybe", "yes")
    loaded = load_model(tmp_path / "model")
    assert isinstance(loaded, SequenceClassifier)
    assert len(loaded.get_parameter("classifier.bias")) == 3
    with pytest.raises(CheckpointError, match="a head of 3 labels, not 2"):
        load_model(tmp_path / "model", num_labels=2)


def test_a_wrapped_model_is_refused(model: PretrainingModel, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="unwrap it"):
        save_model(torch.nn.Sequential(model), tmp_path / "model")


# What is missing, surplus or of another shape.


def test_a_missing_encoder_tensor_is_named(folder: Path) -> None:
    edit_weights(folder, **{f"{LAYER}.ffn.bias": None})
    with pytest.raises(CheckpointError, match=r"encoder.feed_forward.0.expand.bias"):
        load_model(folder)
    with pytest.raises(CheckpointError, match=r"encoder.feed_forward.0.expand.bias"):
        load_model(folder, "classification", new_head=True)


def test_a_missing_head_is_an_error_unless_a_new_one_is_asked_for(folder: Path, model: PretrainingModel) -> None:
    with pytest.raises(CheckpointError, match=r"head 'classification': classifier.bias"):
        load_model(folder, "classification")
    loaded = load_model(folder, "classification", new_head=True, num_labels=5)
    assert isinstance(loaded, SequenceClassifier)
    assert loaded.get_parameter("classifier.weight").shape == (5, 16)
    assert_same(model.encoder, loaded.encoder)


def test_a_new_head_is_drawn_from_the_generator_even_if_there_is_one(tmp_path: Path) -> None:
    model = SequenceClassifier(TINY, 2)
    save_model(model, tmp_path / "model")

    def fresh(seed: int) -> torch.Tensor:
        loaded = load_model(tmp_path / "model", new_head=True, generator=torch.Generator().manual_seed(seed))
        return loaded.get_parameter("classifier.weight")

    assert not torch.equal(fresh(1), model.get_parameter("classifier.weight"))
    assert torch.equal(fresh(1), fresh(1))
    assert not torch.equal(fresh(1), fresh(2))


def test_parts_of_a_pretraining_head(folder: Path, model: PretrainingModel) -> None:
    """The hub's releases have the masked-word head but no sentence head."""
    edit_weights(folder, sop_classifier__classifier__weight=None, sop_classifier__classifier__bias=None)
    with pytest.raises(CheckpointError, match=r"sentence.bias, sentence.weight"):
        load_model(folder)
    words = load_model(folder, "masked_lm")
    assert_same(model.get_submodule("mlm"), words.get_submodule("mlm"))
    renewed = load_model(folder, "pretraining", new_head=True)
    assert_same(model.get_submodule("mlm"), renewed.get_submodule("mlm"))


def test_masked_lm_keeps_a_sentence_head_that_is_there(folder: Path, model: PretrainingModel) -> None:
    assert_same(model, load_model(folder, "masked_lm"))


def test_the_pooler_is_needed_only_where_the_head_uses_it(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    edit_weights(folder, albert__pooler__weight=None, albert__pooler__bias=None)
    for head in ("span", "token_classification", "squad2"):
        load_model(folder, head, new_head=True)
    load_model(folder, "masked_lm")
    assert caplog.records == []
    with pytest.raises(CheckpointError, match=r"encoder.pooler.bias"):
        load_model(folder, "pretraining")
    assert isinstance(load_model(folder, "encoder"), Encoder)
    assert "has no pooler" in caplog.text


def test_surplus_tensors_are_reported(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    edit_weights(folder, bert_encoder__weight=torch.zeros(2))
    load_model(folder, "encoder")
    levels = {record.levelname: record.getMessage() for record in caplog.records}
    assert "unknown tensors are not used: bert_encoder.weight" in levels["WARNING"]
    assert "predictions.bias" in levels["INFO"]


def test_older_folders_hold_copies_and_counters(
    folder: Path, model: PretrainingModel, caplog: pytest.LogCaptureFixture
) -> None:
    tensors = load_file(folder / "model.safetensors")
    edit_weights(
        folder,
        predictions__decoder__weight=tensors["albert.embeddings.word_embeddings.weight"].clone(),
        predictions__decoder__bias=tensors["predictions.bias"].clone(),
        predictions__bias=None,
        albert__embeddings__position_ids=torch.arange(12)[None],
        albert__embeddings__LayerNorm__gamma=tensors["albert.embeddings.LayerNorm.weight"].clone(),
        albert__embeddings__LayerNorm__weight=None,
    )
    assert_same(model, load_model(folder))
    assert caplog.records == []


def test_another_shape_is_named(folder: Path) -> None:
    edit_config(folder, vocab_size=24)
    with pytest.raises(CheckpointError, match=r"word_embeddings.weight has \(23, 8\), not \(24, 8\)"):
        load_model(folder)


def test_an_unknown_head_gets_a_suggestion(folder: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'classification'"):
        load_model(folder, "clasification")  # type: ignore[arg-type]


# Damage.


def test_damaged_folders_take_one_line(folder: Path, tmp_path: Path) -> None:
    weights, config = folder / "model.safetensors", folder / "config.json"
    whole, settings = weights.read_bytes(), config.read_text()

    def message() -> str:
        with pytest.raises(CheckpointError) as info:
            load_model(folder)
        assert "\n" not in str(info.value)
        return str(info.value)

    for length in (0, 5, 300, len(whole) - 1):
        weights.write_bytes(whole[:length])
        assert "model.safetensors is cut or not a safetensors file" in message()
    weights.unlink()
    assert "has no weights" in message()
    weights.write_bytes(whole)
    for broken in ("", "{", "[1]", settings[:-20], '{"model_type": "bert"}', "\x00"):
        config.write_text(broken)
        assert str(config) in message()
    config.write_bytes(b"\xff\xfe\x00")
    assert str(config) in message()
    config.unlink()
    assert "config.json does not exist" in message()


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="does not exist"):
        load_model(tmp_path / "nothing")
    with pytest.raises(CheckpointError, match="does not exist"):
        load_model(str(tmp_path / "nothing"))
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="is a file, not a model folder"):
        load_model(tmp_path / "file")


def test_command_line_says_it_in_one_line_with_status_2(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as info:
        main(["import", "tf", str(folder), str(tmp_path / "out")])
    assert info.value.code == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "no TensorFlow checkpoint" in captured.err
    assert not (tmp_path / "out").exists()


# Other formats of weights.


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_load_as_float32(folder: Path, model: PretrainingModel, dtype: torch.dtype) -> None:
    path = folder / "model.safetensors"
    save_file({name: tensor.to(dtype) for name, tensor in load_file(path).items()}, path)
    loaded = load_model(folder)
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor.to(dtype).float()), name


def test_older_pickled_weights(folder: Path, model: PretrainingModel, tmp_path: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    pickled = folder / "pytorch_model.bin"
    torch.save({name: tensor.bfloat16() for name, tensor in tensors.items()}, pickled)
    loaded = load_model(folder).state_dict()
    assert all(torch.equal(loaded[n], t.bfloat16().float()) for n, t in model.state_dict().items())
    pickled.write_bytes(pickled.read_bytes()[:1000])
    with pytest.raises(CheckpointError, match=r"pytorch_model.bin is cut or not a file"):
        load_model(folder)


class _Attack:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (Path.touch, (Path("attacked"),))  # type: ignore[return-value]


def test_a_pickle_that_runs_code_is_refused(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (folder / "model.safetensors").unlink()
    torch.save({"albert.pooler.bias": _Attack()}, folder / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"pytorch_model.bin"):
        load_model(folder)
    assert not (tmp_path / "attacked").exists()


def test_sharded_weights(folder: Path, model: PretrainingModel) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    path.unlink()
    names = sorted(tensors)
    shards = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for file, part in shards.items():
        save_file({name: tensors[name] for name in part}, folder / file)
    weight_map = {name: file for file, part in shards.items() for name in part}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    assert_same(model, load_model(folder))
    index.write_text(json.dumps({"weight_map": {"a": "../elsewhere.safetensors"}}))
    with pytest.raises(CheckpointError, match="has no weight_map"):
        load_model(folder)
    index.write_text(json.dumps({"weight_map": {"a": "model-3.safetensors"}}))
    with pytest.raises(CheckpointError, match=r"model-3.safetensors does not exist"):
        load_model(folder)


# The square projection.


@pytest.mark.parametrize("projection", [True, None])
def test_square_projection(projection: bool | None, tmp_path: Path) -> None:
    config = ModelConfig(**{**vars(TINY), "embedding_size": 16, "embedding_projection": projection})
    model = Encoder(config)
    if projection:  # an identity that somebody wants to train stays
        torch.nn.init.eye_(model.get_parameter("embeddings.projection.weight"))
    save_model(model, tmp_path / "model")
    assert load_config(tmp_path / "model").has_projection is bool(projection)
    assert_same(model, load_model(tmp_path / "model"))


def test_a_square_projection_that_the_config_denies_is_an_error(tmp_path: Path) -> None:
    config = ModelConfig(**{**vars(TINY), "embedding_size": 16, "embedding_projection": True})
    save_model(Encoder(config), tmp_path / "model")
    edit_config(tmp_path / "model", embedding_projection=False)
    with pytest.raises(CheckpointError, match="is not the identity"):
        load_config(tmp_path / "model")


# Hub names and settings that are known to be off.


def test_offline_hub_name_takes_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: object, **__: object) -> str:
        raise LocalEntryNotFoundError("Got: ConnectError: no network\nPlease check ...")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    with pytest.raises(CheckpointError, match=r"cannot be fetched .* while online") as info:
        load_model("albert/albert-base-v2")
    assert "\n" not in str(info.value)


def test_hub_names_are_served_from_the_cache(
    folder: Path, model: PretrainingModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, list[str]]] = []

    def cached(name: str, allow_patterns: list[str]) -> str:
        asked.append((name, allow_patterns))
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", cached)
    assert_same(model, load_model("albert/albert-base-v2"))
    assert asked[0][0] == "albert/albert-base-v2"
    assert all("pytorch_model.bin" not in patterns for _, patterns in asked)
    wanted = {"config.json", "task.json", "model.onnx*", "spiece.model", "modules.json"}
    assert all(wanted <= set(patterns) for _, patterns in asked)


@pytest.mark.parametrize(
    ("name", "settings", "override", "note"),
    [
        ("albert-base-v1", {"hidden_act": "gelu"}, {"activation": "gelu_tanh"}, "erf form"),
        ("albert-xlarge-v2", {"num_attention_heads": 16}, {"num_heads": 8}, "the weights cannot tell"),
    ],
)
def test_released_settings_that_are_off_are_noted_and_can_be_overridden(
    name: str,
    settings: dict[str, object],
    override: dict[str, object],
    note: str,
    folder: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    edit_config(folder, **settings)
    released = folder.rename(folder.with_name(name))
    load_config(released)
    assert note in caplog.text
    caplog.clear()
    ((field, value),) = override.items()
    assert getattr(load_config(released, override), field) == value
    assert caplog.records == []


def test_copy_with_corrected_settings(folder: Path, model: PretrainingModel, tmp_path: Path) -> None:
    edit_config(folder, hidden_act="gelu")
    assert copy_model(folder, tmp_path / "copy", {"activation": "gelu_tanh"}) == "pretraining"
    copied = load_model(tmp_path / "copy")
    assert_same(model, copied)
    assert isinstance(copied, PretrainingModel)
    assert copied.config.activation == "gelu_tanh"


def test_a_copy_keeps_what_the_model_was_fine_tuned_for(tmp_path: Path) -> None:
    classifier = SequenceClassifier(TINY, 3)
    save_model(classifier, tmp_path / "model", labels=("a", "b", "c"), multi_label=True)
    (tmp_path / "model/task.json").write_text('{"name": "mine", "kind": "multi_label"}')
    copy_model(tmp_path / "model", tmp_path / "copy", {"activation": "gelu"})
    copied = ModelFolder(tmp_path / "copy")
    assert copied.is_multi_label
    assert copied.classes == ("a", "b", "c")
    task_files = [(tmp_path / name / "task.json").read_text() for name in ("model", "copy")]
    assert task_files[0] == task_files[1]
    assert (tmp_path / "copy/README.md").read_text().find(".tmp") < 0
    with pytest.raises(DataError, match="not empty"):
        copy_model(tmp_path / "model", tmp_path / "copy")


def test_overrides_are_checked(folder: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'hidden_dropout'"):
        load_model(folder, overrides={"hidden_dropuot": 0.1})
    assert load_config(folder, {"hidden_dropout": 0.1}).hidden_dropout == 0.1


def test_weights_are_read_without_torch(folder: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from litebert.interop.folder import ModelFolder\n"
        f"folder = ModelFolder({str(folder)!r})\n"
        "print(folder.parameters(folder.head).found['mlm.bias'].shape)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert answer.stdout.strip() == "(23,)", answer.stderr


def test_build_model_needs_no_labels_for_the_others() -> None:
    assert isinstance(build_model(TINY, "masked_lm"), PretrainingModel)


def test_import_hf_command(folder: Path, tmp_path: Path) -> None:
    main(["import", "hf", str(folder), str(tmp_path / "copy"), "--activation", "gelu"])
    assert load_config(tmp_path / "copy").activation == "gelu"
    assert load_config(tmp_path / "copy").heads == 2

"""The folder for every runtime: its files, the facts of its card, what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import ModelCard

from litebert.cli import main
from litebert.common.errors import CheckpointError, ConfigError, DataError
from litebert.interop.hub import HubFacts, export_hub
from litebert.model.head_table import Head
from litebert.predict.predictor import Predictor
from small_finetuning import small_finetuning
from small_run import small_config
from tiny_models import HEADS, random_model_folder

Folder = Callable[[Head], Path]

FILES = {
    "README.md", "config.json", "model.safetensors", "onnx/model.onnx",
    "onnx/model_quantized.onnx", "spiece.model", "tokenizer.json", "tokenizer_config.json",
}  # fmt: skip
POOLING = {"modules.json", "sentence_bert_config.json", "1_Pooling/config.json"}


def files_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def metadata(folder: Path) -> dict[str, object]:
    """The card's metadata as the hub's own library reads and checks it."""
    data: dict[str, object] = ModelCard.load(folder / "README.md").data.to_dict()
    return data


@pytest.mark.parametrize("head", HEADS)
def test_every_head_has_every_file(tmp_path: Path, model_folder: Folder, head: Head) -> None:
    report = export_hub(model_folder(head), tmp_path / "out")
    pooled = head in ("encoder", "pretraining", "masked_lm")
    assert files_of(tmp_path / "out") == FILES | (POOLING if pooled else set())
    assert report.files == {name: (tmp_path / "out" / name).stat().st_size for name in report.files}
    assert set(report.files) == files_of(tmp_path / "out")
    source = model_folder(head) / "model.safetensors"
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == source.read_bytes()
    tag = metadata(tmp_path / "out")["pipeline_tag"]
    script = "transformers.js" in metadata(tmp_path / "out")["tags"]  # type: ignore[operator]
    assert script == (head not in ("squad2", "multiple_choice", "token_classification")), tag


def test_both_onnx_files_answer_as_the_weights_do(tmp_path: Path, model_folder: Folder) -> None:
    import onnxruntime

    export_hub(model_folder("pretraining"), tmp_path / "out")
    texts = ["the value of a name", "an expression, in parentheses"]
    expected = Predictor.load(model_folder("pretraining"), "torch").embed(texts)
    found = Predictor.load(tmp_path / "out").embed(texts)
    assert np.abs(found - expected).max() < 1e-5
    ids = np.array([[2, *Predictor.load(tmp_path / "out").tokenizer.encode(texts[0]), 3]])
    feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    for name, most in (("model.onnx", 1e-5), ("model_quantized.onnx", 0.5)):
        session = onnxruntime.InferenceSession(tmp_path / "out" / "onnx" / name)
        (states,) = session.run(["last_hidden_state"], feeds)
        assert np.abs(states[0].mean(0) - expected[0]).max() < most


def test_a_fine_tuning_run_gives_scores_cost_and_data(tmp_path: Path, model_folder: Folder) -> None:
    from litebert.train.finetuning.engine import finetune

    run = finetune(small_finetuning(model_folder("pretraining"), tmp_path / "run", "classification", steps=2))
    export_hub(tmp_path / "run", tmp_path / "out", HubFacts(("en", "pt-BR"), "apache-2.0"))
    data = metadata(tmp_path / "out")
    assert data["language"] == ["en", "pt-BR"]
    assert data["license"] == "apache-2.0"
    assert data["pipeline_tag"] == "text-classification"
    assert data["library_name"] == "transformers"
    cost = data["training_cost"]
    assert isinstance(cost, dict)
    assert (cost["steps"], cost["tokens"], cost["seconds"]) == (2, run.tokens, run.seconds)
    card = ModelCard.load(tmp_path / "out" / "README.md")
    card.validate = lambda *_: None  # asks the hub
    found = {result.metric_name: result.metric_value for result in card.data.eval_results}
    assert found == run.scores
    assert {result.dataset_name for result in card.data.eval_results} == {run.task}
    assert (tmp_path / "out" / "task.json").is_file()
    assert "## Fine-tuning" in card.text


def test_a_pretraining_run_gives_loss_and_cost(tmp_path: Path, tiny_shards_dir: Path) -> None:
    from litebert.train.pretraining.engine import pretrain

    pretrain(small_config(tiny_shards_dir, tmp_path / "run", steps=2))
    export_hub(tmp_path / "run" / "model", tmp_path / "out")
    data = metadata(tmp_path / "out")
    assert data["training_cost"]["steps"] == 2  # type: ignore[index]
    results = ModelCard.load(tmp_path / "out" / "README.md").data.eval_results
    assert {result.metric_type for result in results} == {"loss", "accuracy"}
    assert "license" not in data


def test_flags_go_before_the_run_and_the_model_s_own_card(
    tmp_path: Path, model_folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "source"
    shutil.copytree(model_folder("encoder"), source)
    own = "---\nlanguage: de\nlicense: mit\nbase_model: a/b\n---\n\n# x\n\n## Made\n\nby hand\n"
    (source / "README.md").write_text(own, encoding="utf-8")
    command = ["export", "hub", str(source), str(tmp_path / "out"), "--licence", "cc-by-4.0"]
    main([*command, "--scores.accuracy", "0.5", "--task", "sst2", "--cost.seconds", "12", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert report["facts"]["language"] == ["de"]
    data = metadata(tmp_path / "out")
    assert (data["language"], data["license"], data["base_model"]) == (["de"], "cc-by-4.0", "a/b")
    result = ModelCard.load(tmp_path / "out" / "README.md").data.eval_results[0]
    assert (result.dataset_type, result.dataset_config) == ("nyu-mll/glue", "sst2")
    assert (result.metric_type, result.metric_value) == ("accuracy", 0.5)
    text = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "by hand" in text
    assert "## Made" in text


def test_pooling_that_is_recorded_is_kept(tmp_path: Path, model_folder: Folder) -> None:
    source = tmp_path / "source"
    export_hub(model_folder("encoder"), source, pooling="cls")
    modules = json.loads((source / "modules.json").read_text())
    modules.append({"idx": 2, "name": "2", "path": "2_Normalize",
                    "type": "sentence_transformers.models.Normalize"})  # fmt: skip
    (source / "modules.json").write_text(json.dumps(modules))
    (source / "2_Normalize").mkdir()
    (source / "2_Normalize" / "config.json").write_text("{}")
    export_hub(source, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "modules.json").read_text()) == modules
    pooling = json.loads((tmp_path / "out" / "1_Pooling" / "config.json").read_text())
    assert pooling["pooling_mode_cls_token"]
    data = metadata(tmp_path / "out")
    assert (data["pipeline_tag"], data["library_name"]) == (
        "sentence-similarity", "sentence-transformers",
    )  # fmt: skip


def test_other_weight_files_become_one_of_safetensors(tmp_path: Path, model_folder: Folder) -> None:
    import torch
    from safetensors.torch import load_file

    source = tmp_path / "source"
    shutil.copytree(model_folder("span"), source)
    torch.save(load_file(source / "model.safetensors"), source / "pytorch_model.bin")
    (source / "model.safetensors").unlink()
    export_hub(source, tmp_path / "out")
    assert files_of(tmp_path / "out") == FILES


def test_what_cannot_be_published_is_one_line(tmp_path: Path, model_folder: Folder) -> None:
    with pytest.raises(ConfigError, match="language is 'English'; use an ISO code"):
        HubFacts(("English",))
    with pytest.raises(ConfigError, match="licence is 'Apache 2'; use the hub's spelling"):
        HubFacts(licence="Apache 2")
    bare = random_model_folder(tmp_path / "bare", "encoder", None)
    with pytest.raises(CheckpointError, match="has no tokenizer, so nobody could use it"):
        export_hub(bare, tmp_path / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(DataError, match="exists and is not empty"):
        export_hub(model_folder("encoder"), tmp_path / "full")
    broken = tmp_path / "broken"
    shutil.copytree(model_folder("encoder"), broken)
    (broken / "README.md").write_text("---\nlanguage: [\n---\n")
    with pytest.raises(CheckpointError, match="metadata at the top of .*README.md is not YAML"):
        export_hub(broken, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]

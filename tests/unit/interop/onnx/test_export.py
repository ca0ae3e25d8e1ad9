"""The ONNX export: weights once, every head and plan, integer products, whole or not at all."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from litebert import __version__
from litebert.common.errors import CheckpointError
from litebert.interop.card import model_card
from litebert.interop.folder import ModelFolder
from litebert.interop.onnx import export as onnx_export
from litebert.interop.onnx import verify as onnx_verify
from litebert.interop.onnx.export import export_onnx
from litebert.interop.onnx.file import OnnxFile
from litebert.interop.onnx.graph import LARGEST, quantize_rows
from litebert.interop.onnx.verify import check_eight_bits, verify_export
from litebert.model.config import Pooling
from litebert.model.head_table import Head
from tiny_models import HEADS, TINY, random_model_folder

BIG = 1000
"""Elements from which an initializer counts as a weight matrix here."""

SHAPES = {
    "shared": TINY,
    "groups": replace(TINY, sharing="groups", num_groups=2, num_layers=4),
    "inner": replace(TINY, inner_group_num=2, num_layers=2),
    "attention": replace(TINY, sharing="attention"),
    "ffn": replace(TINY, sharing="ffn"),
    "bert": replace(TINY, sharing="none", embedding_size=32),
    "projected words": replace(TINY, embedding_layout="projected_words"),
    "erf gelu": replace(TINY, activation="gelu"),
    "relu": replace(TINY, activation="relu"),
}


def num_nodes(graph: onnx.GraphProto, kind: str) -> int:
    return sum(node.op_type == kind for node in graph.node)


def stored_bytes(path: Path) -> int:
    return sum(len(tensor.raw_data) for tensor in onnx.load(path).graph.initializer)


@pytest.mark.parametrize("head", HEADS)
def test_every_head_is_exported_exactly_and_stored_once(tmp_path: Path, head: Head) -> None:
    source = random_model_folder(tmp_path / "model", head, None)
    report = export_onnx(source, tmp_path / "out")
    assert report.difference < 1e-5
    assert len(report.shapes) >= 4
    weights = sum(a.nbytes for a in ModelFolder(source).parameters(head).found.values())
    assert report.file_bytes <= 1.03 * weights + 1e6
    constants = 2000
    assert stored_bytes(tmp_path / "out/model.onnx") <= weights + constants


@pytest.mark.parametrize("shape", SHAPES)
def test_every_sharing_plan_is_exported_exactly(tmp_path: Path, shape: str) -> None:
    source = random_model_folder(tmp_path / "model", "pretraining", None, SHAPES[shape])
    assert export_onnx(source, tmp_path / "out").difference < 1e-5


def test_depth_does_not_change_the_size_of_a_shared_model(tmp_path: Path) -> None:
    sizes = []
    for layers in (1, 12):
        config = replace(TINY, num_layers=layers)
        source = random_model_folder(tmp_path / f"model{layers}", "encoder", None, config)
        export_onnx(source, tmp_path / f"out{layers}")
        sizes.append(stored_bytes(tmp_path / f"out{layers}/model.onnx"))
    assert sizes[0] == sizes[1]


def test_fewer_layers_on_request_are_the_first_layers(tmp_path: Path) -> None:
    source = random_model_folder(tmp_path / "model", "encoder", None)
    report = export_onnx(source, tmp_path / "out", depth=2)
    assert report.num_layers == 2
    folder = ModelFolder(source)
    parameters = folder.parameters("encoder").found
    path = tmp_path / "out/model.onnx"
    shallow = verify_export(path, folder.config, parameters, "encoder", depth=2)
    full = verify_export(path, folder.config, parameters, "encoder")
    assert shallow.difference < 1e-5 < full.difference


@pytest.mark.parametrize("head", HEADS)
def test_int8_multiplies_every_matrix_as_integers(tmp_path: Path, head: Head) -> None:
    source = random_model_folder(tmp_path / "model", head, None)
    report = export_onnx(source, tmp_path / "out", int8=True)
    graph = onnx.load(tmp_path / "out/model.onnx").graph
    assert report.num_integer_matmuls == num_nodes(graph, "MatMulInteger")
    assert report.num_integer_matmuls >= 4 * TINY.num_layers + 1
    big = {t.name for t in graph.initializer if np.prod(t.dims) > BIG and t.data_type == 1}
    floats = {name for node in graph.node if node.op_type in ("MatMul", "Gemm") for name in node.input}
    assert not big & floats, "a weight matrix is multiplied in float32"


def test_int8_is_a_quarter_of_float32(tmp_path: Path) -> None:
    config = replace(TINY, vocab_size=8000, embedding_size=64, hidden_size=128)
    source = random_model_folder(tmp_path / "model", "pretraining", None, config)
    full = export_onnx(source, tmp_path / "full")
    small = export_onnx(source, tmp_path / "small", int8=True)
    assert small.file_bytes < 0.3 * full.file_bytes


def test_names_and_free_dimensions_are_those_of_optimum(tmp_path: Path) -> None:
    export_onnx(random_model_folder(tmp_path / "m", "span", None), tmp_path / "out")
    graph = onnx.load(tmp_path / "out/model.onnx").graph
    onnx.checker.check_model(str(tmp_path / "out/model.onnx"), full_check=True)
    assert [i.name for i in graph.input] == ["input_ids", "attention_mask", "token_type_ids"]
    assert [o.name for o in graph.output][:2] == ["start_logits", "end_logits"]
    for value in graph.input:
        dims = [dim.dim_param for dim in value.type.tensor_type.shape.dim]
        assert dims == ["batch_size", "sequence_length"]


STATES = "last_hidden_state"
OUTPUTS: dict[Head, list[str]] = {
    "encoder": [STATES, "pooler_output"],
    "pretraining": ["logits", "masked_logits", "pooler_output", "sop_logits", STATES],
    "masked_lm": ["logits", "masked_logits", STATES],
    "classification": ["logits", STATES],
    "regression": ["logits", STATES],
    "multiple_choice": ["logits", STATES],
    "token_classification": ["logits", STATES],
    "span": ["start_logits", "end_logits", STATES],
    "squad2": ["start_top_log_probs", "start_top_index", "end_top_log_probs", "end_top_index", "answer_logits", STATES],
}


@pytest.mark.parametrize("head", HEADS)
def test_outputs_come_in_the_order_of_optimum(tmp_path: Path, head: Head) -> None:
    """Programs that read outputs by their place find Optimum's first, then ours."""
    export_onnx(random_model_folder(tmp_path / "m", head, None), tmp_path / "out")
    assert list(OnnxFile(tmp_path / "out/model.onnx").outputs) == OUTPUTS[head]


def test_a_copy_with_fewer_outputs_computes_nothing_else(tmp_path: Path) -> None:
    export_onnx(random_model_folder(tmp_path / "m", "pretraining", None), tmp_path / "out")
    file = OnnxFile(tmp_path / "out/model.onnx")
    whole = onnx.load(tmp_path / "out/model.onnx").graph
    copy = onnx.load_from_string(file.with_outputs(["sop_logits"])).graph
    assert [output.name for output in copy.output] == ["sop_logits"]
    assert num_nodes(whole, "Gemm") == 2
    assert num_nodes(copy, "Gemm") == 0
    read = {name for node in copy.node for name in node.input}
    assert {tensor.name for tensor in copy.initializer} <= read
    assert "mlm.bias" not in str(read)


def test_the_folder_is_whole(tmp_path: Path, tiny_tokenizer_dir: Path) -> None:
    source = random_model_folder(tmp_path / "model", "pretraining", tiny_tokenizer_dir)
    export_onnx(source, tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"model.onnx", "config.json", "spiece.model", "tokenizer.json"} <= names


def test_the_card_is_that_of_the_onnx_folder(tmp_path: Path) -> None:
    source = random_model_folder(tmp_path / "model", "pretraining", None)
    about = "\n## Pretraining\n\n| steps | 7 |\n"
    card = model_card(TINY, "pretraining", "model", about, ["ko", "en"])
    (source / "README.md").write_text(card)
    for int8, precision in ((False, "float32"), (True, "int8")):
        export_onnx(source, tmp_path / precision, int8=int8, depth=2)
        text = (tmp_path / precision / "README.md").read_text()
        assert text.startswith("---\nlibrary_name: onnx\nlanguage:\n- ko\n- en\ntags:\n")
        assert f"# {precision}\n" in text
        assert "model.onnx" in text
        assert f"| format | ONNX, {precision} |" in text
        assert "| layers | 2 |" in text
        assert "from_pretrained" not in text
        assert text.endswith(about)
        model = onnx.load(tmp_path / precision / "model.onnx")
        assert (model.producer_name, model.producer_version) == ("litebert", __version__)
    (source / "README.md").unlink()
    export_onnx(source, tmp_path / "without")
    assert "ONNX, float32" in (tmp_path / "without" / "README.md").read_text()


def test_a_failed_verification_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = random_model_folder(tmp_path / "model", "span", None)
    monkeypatch.setattr(onnx_verify, "FLOAT_TOLERANCE", 0.0)
    with pytest.raises(CheckpointError, match="differs from the weights"):
        export_onnx(source, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_refused_export_leaves_nothing(tmp_path: Path) -> None:
    def refuse(folder: Path) -> None:
        assert (folder / "model.onnx").is_file()
        raise CheckpointError("too bad")

    source = random_model_folder(tmp_path / "model", "span", None)
    with pytest.raises(CheckpointError, match="too bad"):
        export_onnx(source, tmp_path / "out", accept=refuse)
    assert not (tmp_path / "out").exists()


def test_verification_notices_a_changed_weight(tmp_path: Path) -> None:
    source = random_model_folder(tmp_path / "model", "classification", None)
    export_onnx(source, tmp_path / "out")
    folder = ModelFolder(source)
    parameters = dict(folder.parameters("classification").found)
    generator = np.random.default_rng(0)
    for name, array in parameters.items():
        if name == "encoder.attention.0.key.bias":
            continue  # softmax does not see what is added to all keys alike
        noise = 0.1 * generator.standard_normal(array.shape)
        changed = parameters | {name: array + noise.astype(np.float32)}
        path = tmp_path / "out/model.onnx"
        assert not verify_export(path, folder.config, changed, "classification").passed, name


def test_large_models_keep_their_weights_in_a_second_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = random_model_folder(tmp_path / "model", "encoder", None)
    monkeypatch.setattr(onnx_export, "_LARGEST_PROTOBUF_BYTES", 1000)
    report = export_onnx(source, tmp_path / "out")
    assert (tmp_path / "out/model.onnx_data").stat().st_size > 0.9 * report.weight_bytes
    assert report.difference < 1e-5


def test_a_folder_without_its_head_is_refused(tmp_path: Path) -> None:
    import json

    source = random_model_folder(tmp_path / "model", "encoder", None)
    config = json.loads((source / "config.json").read_text())
    config["architectures"] = ["AlbertForQuestionAnswering"]
    (source / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match="lacks span"):
        export_onnx(source, tmp_path / "out")


@given(arrays(np.float32, (4, 9), elements=st.floats(-100, 100, width=32)))
def test_rounding_errs_by_half_a_step_at_most(matrix: np.ndarray) -> None:
    values, scales = quantize_rows(matrix)
    assert np.abs(values).max() <= LARGEST
    error = np.abs(values * scales[:, None] - matrix)
    assert (error <= 0.5001 * scales[:, None] + 1e-6).all()


def test_eight_bits_are_nearer_and_refused_where_their_sums_overflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = random_model_folder(tmp_path / "model", "classification", None)
    try:
        full = export_onnx(source, tmp_path / "full", int8=True, int8_bits=8)
    except CheckpointError:
        pytest.skip("the sums of full-range bytes overflow on this processor")
    assert full.difference < export_onnx(source, tmp_path / "seven", int8=True).difference

    class Overflowing:
        def __init__(self, model: bytes) -> None: ...

        def run(self, outputs: None, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
            return [np.full((len(feeds["a"]), 32), 2**15 - 1)]

    monkeypatch.setattr("onnxruntime.InferenceSession", Overflowing)
    with pytest.raises(CheckpointError, match="--int8-bits 7"):
        check_eight_bits(tmp_path / "other")


def test_products_of_bytes_fit_sixteen_bits() -> None:
    assert 2 * 255 * LARGEST <= 2**15 - 1


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_folders_for_embeddings_say_how_to_pool(tmp_path: Path, pooling: Pooling) -> None:
    source = random_model_folder(tmp_path / "model", "pretraining", None)
    export_onnx(source, tmp_path / "out", pooling=pooling)
    modules = json.loads((tmp_path / "out/modules.json").read_text())
    assert [module["path"] for module in modules] == ["", "1_Pooling"]
    assert all(module["type"].startswith("sentence_transformers.") for module in modules)
    settings = json.loads((tmp_path / "out/1_Pooling/config.json").read_text())
    assert settings["word_embedding_dimension"] == TINY.hidden_size
    assert [key for key, value in settings.items() if value is True] == [
        f"pooling_mode_{'cls_token' if pooling == 'cls' else 'mean_tokens'}"
    ]


def test_folders_for_tasks_are_no_embedding_models(tmp_path: Path) -> None:
    source = random_model_folder(tmp_path / "model", "classification", None)
    export_onnx(source, tmp_path / "out")
    assert not (tmp_path / "out/modules.json").exists()

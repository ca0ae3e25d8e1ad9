"""Layer distances and angles equal a plain computation, padding does not count, output is whole."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from litebert.cli import main
from litebert.common.errors import ConfigError, DataError, InputError
from litebert.interop.hf import save_model
from litebert.model.config import ModelConfig
from litebert.model.encoder import Encoder
from litebert.predict.layers import LayerAnalysis, analyze_layers, angle_degrees, movements, plot_layers, short_names
from litebert.predict.torch_backend import TorchBackend

CONFIG = ModelConfig(vocab_size=1000, embedding_size=8, hidden_size=16, num_heads=2, num_layers=3, max_positions=32)
SEQUENCES = [[2, 7, 9, 11, 3], [2, 8, 3], [2, 5, 6, 3], [2, 9, 3]]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder(CONFIG, generator=torch.Generator().manual_seed(0)).eval()


def plainly(encoder: Encoder, sequences: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """[blocks, tokens] distances and angles, one sequence at a time, by the textbook."""
    distances, angles = [], []
    for sequence in sequences:
        with torch.no_grad():
            states = encoder(torch.tensor([sequence]), return_hidden_states=True).hidden_states
        x = np.stack([state[0].double().numpy() for state in states])
        norms = np.linalg.norm(x, axis=-1)
        cosines = (x[:-1] * x[1:]).sum(-1) / (norms[:-1] * norms[1:])
        distances.append(np.linalg.norm(x[1:] - x[:-1], axis=-1))
        angles.append(np.degrees(np.arccos(cosines)))
    return np.concatenate(distances, axis=1), np.concatenate(angles, axis=1)


def test_equal_to_a_plain_computation_whatever_the_padding(encoder: Encoder) -> None:
    distances, angles = plainly(encoder, SEQUENCES)
    layers = movements(TorchBackend(encoder), SEQUENCES)
    assert [layer.layer for layer in layers] == [1, 2, 3]
    for number, layer in enumerate(layers):
        for spread, values in ((layer.distance, distances[number]), (layer.angle_degrees, angles[number])):
            expected = (values.mean(), values.std(), *np.quantile(values, (0.1, 0.9)))
            found = (spread.mean, spread.std, spread.p10, spread.p90)
            np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_angles() -> None:
    a = np.array([[1.0, 0.0], [1.0, 0.0], [3.0, 0.0], [1.0, 1.0]])
    b = np.array([[0.0, 2.0], [-5.0, 0.0], [1.0, 1e-9], [2.0, 2.0]])
    expected = [90.0, 180.0, math.degrees(1e-9), 0.0]
    np.testing.assert_allclose(angle_degrees(a, b), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("models", "names"),
    [
        (["runs/base/model", "runs/large/model"], ["base", "large"]),
        (["a/bert", "b/bert"], ["a/bert", "b/bert"]),
        (["albert/albert-base-v2"], ["albert-base-v2"]),
        (["same", "same"], ["same", "same"]),
    ],
)
def test_names_tell_models_apart(models: list[str], names: list[str]) -> None:
    assert short_names(models) == names


@pytest.fixture(scope="module")
def folders(encoder: Encoder, tiny_tokenizer_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("models")
    deeper = ModelConfig(**{**vars(CONFIG), "num_layers": 5, "sharing": "none"})
    save_model(encoder, folder / "albert", tiny_tokenizer_dir)
    save_model(Encoder(deeper), folder / "bert", tiny_tokenizer_dir)
    return folder / "albert", folder / "bert"


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    words = "the value of the expression is an object of the class"
    path.write_text("\n\n".join(f"{words}\n{words} {number}" for number in range(12)))
    return path


def test_windows_of_a_text(folders: tuple[Path, Path], text: Path) -> None:
    whole = analyze_layers(folders[0], text)
    assert len(whole.layers) == 3
    assert analyze_layers(folders[0], text, max_tokens=100).num_tokens == 100
    assert whole.num_tokens > 12 * 22
    assert analyze_layers(folders[0], text, length=8).num_tokens > whole.num_tokens


def test_what_cannot_be_analyzed(folders: tuple[Path, Path], text: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="length 33 does not fit"):
        analyze_layers(folders[0], text, length=33)
    with pytest.raises(DataError, match="does not exist"):
        analyze_layers(folders[0], tmp_path / "nothing.txt")
    with pytest.raises(InputError, match=r"ends in \.png"):
        plot_layers([], tmp_path / "figure.xyz")
    (tmp_path / "empty.txt").write_text("\n\n \n")
    with pytest.raises(DataError, match="no text"):
        analyze_layers(folders[0], tmp_path / "empty.txt")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    with pytest.raises(DataError, match="line 1 is not UTF-8"):
        analyze_layers(folders[0], tmp_path / "latin.txt")


def test_command(folders: tuple[Path, Path], text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["analyze", "layers", "--input", str(text)]
    for folder in folders:
        arguments += ["--model", str(folder)]
    main([*arguments, "--json", "--plot", str(tmp_path / "figure.png")])
    reports = json.loads(capsys.readouterr().out)
    assert [Path(report["model"]).name for report in reports] == ["albert", "bert"]
    assert [len(report["layers"]) for report in reports] == [3, 5]
    layer = reports[0]["layers"][0]
    assert layer["distance"]["p10"] <= layer["distance"]["mean"] <= layer["distance"]["p90"]
    assert 0 < layer["angle_degrees"]["mean"] < 180
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    main(arguments)
    table = capsys.readouterr().out
    assert "albert" in table
    assert "angle (degrees)" in table
    assert f"{layer['distance']['mean']:.2f}" in table


def test_plot_of_a_trained_encoder(shared: Path, tmp_path: Path) -> None:
    """Trained weights: embeddings keep moving after twelve layers, as the paper's figure shows."""
    from safetensors.numpy import save_file

    from litebert.common.files import write_json
    from litebert.interop.hf import load_model

    source = shared / "fixtures/checkpoints/plbert"
    with np.load(source / "weights.npz") as file:
        save_file({name: file[name] for name in file.files}, tmp_path / "model.safetensors")
    with np.load(source / "reference_io.npz") as file:
        sequence = file["input_ids"][0].tolist()
    config = {
        "model_type": "albert",
        "vocab_size": 178,
        "hidden_size": 768,
        "num_attention_heads": 12,
        "intermediate_size": 2048,
    }
    write_json(tmp_path / "config.json", config)
    encoder = load_model(tmp_path)
    assert isinstance(encoder, Encoder)
    layers = movements(TorchBackend(encoder), [sequence])
    assert len(layers) == 12
    assert all(layer.angle_degrees.mean > 1 for layer in layers)
    plot_layers([LayerAnalysis("plbert", len(sequence), layers)], tmp_path / "figure.svg")
    assert "<svg" in (tmp_path / "figure.svg").read_text()

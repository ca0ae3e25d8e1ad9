"""Exits: the head answers at the depths it was trained for, and folder and tools know them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch

from litebert.cli import main
from litebert.common.errors import ConfigError, InputError
from litebert.common.files import read_json
from litebert.interop.hf import build_model, save_model
from litebert.model.config import ModelConfig, preset
from litebert.model.encoder import Encoder
from litebert.model.heads import PretrainingModel
from litebert.model.similarity import SentenceEncoder
from litebert.predict.evaluate import outputs_of
from litebert.predict.predictor import Predictor
from litebert.predict.torch_backend import TorchBackend
from litebert.tasks.problems import RowProblems
from litebert.tasks.registry import find_task
from litebert.tasks.task_file import TaskFile
from litebert.text.tokenizer import Tokenizer
from litebert.train.finetuning.config import FinetuneConfig
from litebert.train.finetuning.engine import finetune
from litebert.train.finetuning.order import drawn_exit, exit_depths, share_of
from litebert.train.finetuning.setup import TaskLoss

EXAMPLES = Path(__file__).resolve().parents[4] / "examples" / "custom_task"
TINY = ModelConfig(
    vocab_size=1000, embedding_size=32, hidden_size=64, num_layers=4, num_heads=2,
    max_positions=128, initializer_range=0.05,
)  # fmt: skip


def test_exits_are_quarters_of_the_depth() -> None:
    assert exit_depths(preset("albert-base")) == (3, 6, 9, 12)
    assert exit_depths(replace(TINY, num_layers=2)) == (1, 2)
    assert exit_depths(replace(TINY, num_layers=6)) == (2, 3, 5, 6)


@pytest.mark.parametrize("changes", [{"sharing": "none"}, {"sharing": "ffn"}, {"num_layers": 1}])
def test_layers_of_their_own_have_no_exits(changes: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="train_exits"):
        exit_depths(replace(TINY, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", sorted(path.stem for path in EXAMPLES.glob("*.toml")))
@pytest.mark.parametrize("choice", ["auto", "paper"])
def test_a_model_that_stops_early_is_the_shallow_model(
    tiny_tokenizer: Tokenizer, kind: str, choice: Literal["auto", "paper"]
) -> None:
    task = find_task(str(EXAMPLES / f"{kind}.toml"))
    head = task.form.head(choice)
    deep = build_model(TINY, head, len(task.form.labels) or None, torch.Generator().manual_seed(1))
    shallow = build_model(replace(TINY, num_layers=1), head, len(task.form.labels) or None)
    shallow.load_state_dict(deep.state_dict())
    examples = task.read(EXAMPLES, "dev", RowProblems())[:4]
    features = task.form.features(examples, tiny_tokenizer, 64)[:4]
    device, is_joint = torch.device("cpu"), head == "encoder"
    (batch,) = share_of(features, tiny_tokenizer.pad_id, 10_000, 0, 1, is_joint)
    in_training = [SentenceEncoder(m) if isinstance(m, Encoder) else m for m in (deep, shallow)]
    losses = [
        TaskLoss(in_training[which].eval(), device, "float32").summed(batch, depth).item()
        for which, depth in ((0, 1), (1, None), (0, None))
    ]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    assert losses[0] != pytest.approx(losses[2], abs=1e-5)
    pad_id = tiny_tokenizer.pad_id
    early = outputs_of(TorchBackend(deep), task.form, features, pad_id, depth=1)
    others = outputs_of(TorchBackend(shallow), task.form, features, pad_id)
    for one, other in zip(early, others, strict=True):
        assert all(np.allclose(one[name], values, atol=1e-5) for name, values in other.items())


def test_every_early_exit_is_drawn_as_often() -> None:
    counts = Counter(drawn_exit((1, 2, 3, 4), 7, step) for step in range(3000))
    assert set(counts) == {1, 2, 3}
    assert all(abs(count - 1000) < 130 for count in counts.values())  # five standard deviations
    assert drawn_exit((), 7, 0) is None
    assert drawn_exit((1, 2, 3, 4), 7, 5) == drawn_exit((1, 2, 3, 4), 7, 5)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer_dir: Path) -> dict[str, Path]:
    """The same fine-tuning with and without exits."""
    work = tmp_path_factory.mktemp("exits")
    generator = torch.Generator().manual_seed(0)
    save_model(PretrainingModel(TINY, generator=generator), work / "tiny", tiny_tokenizer_dir)
    task = str(EXAMPLES / "classification.toml")
    plain = FinetuneConfig(task, model=str(work / "tiny"), out=work, lr=1e-3, batch_size=16, epochs=20)
    finetune(replace(plain, out=work / "plain", epochs=None, steps=2))
    finetune(replace(plain, out=work / "exits", train_exits=True, eval_every_steps=50))
    return {"plain": work / "plain", "exits": work / "exits"}


def result(run: Path) -> dict[str, Any]:
    return read_json(run / "result.json")


def test_every_trained_depth_beats_the_baseline(runs: dict[str, Path]) -> None:
    found = result(runs["exits"])
    metric = found["metric"]
    assert list(found["exit_scores"]) == ["1", "2", "3", "4"]
    assert found["exit_scores"]["4"] == found["scores"][metric]
    for score in found["exit_scores"].values():
        assert score > found["baseline"][metric] + 0.25
    assert result(runs["plain"])["exit_scores"] == {}


def test_the_folder_says_which_depths_may_be_asked_for(runs: dict[str, Path]) -> None:
    described = TaskFile.read(runs["exits"] / "model")
    assert described is not None
    assert described.depths == (1, 2, 3, 4)
    rows = [{"text": "a name"}, {"text": "the value of it"}]
    answers = {depth: Predictor.load(runs["exits"] / "model", depth=depth).predict(rows) for depth in (None, 1, 4)}
    assert answers[None] == answers[4] != answers[1]
    with pytest.raises(InputError, match="not trained to answer at depth 2, only at 4"):
        Predictor.load(runs["plain"] / "model", depth=2)
    Predictor.load(runs["plain"] / "model", depth=2, force_depth=True).predict(rows)


def test_an_export_at_an_exit_answers_as_torch_there(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(runs["exits"] / "model")
    main(["export", "onnx", model, str(tmp_path / "two"), "--depth", "2"])
    rows = [{"text": "a name"}, {"text": "the value of it"}]
    shallow = Predictor.load(model, depth=2).predict(rows)
    for one, other in zip(Predictor.load(tmp_path / "two").predict(rows), shallow, strict=True):
        assert one["scores"] == pytest.approx(other["scores"], abs=1e-4)
    plain = str(runs["plain"] / "model")
    with pytest.raises(SystemExit):
        main(["export", "onnx", plain, str(tmp_path / "no"), "--depth", "2"])
    assert "--train-exits" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()
    main(["export", "onnx", plain, str(tmp_path / "yes"), "--depth", "2", "--force-depth"])
    assert (tmp_path / "yes/model.onnx").is_file()

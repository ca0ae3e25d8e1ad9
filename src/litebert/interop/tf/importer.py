"""Import official TensorFlow checkpoints (encoder, pretraining, SQuAD 2.0) without TensorFlow.

Every variable is used exactly once or is known to be an optimizer's; anything else is refused by
name. The official ``gelu`` is the tanh form, so the folder written says ``gelu_new``.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from litebert.common.errors import CheckpointError
from litebert.interop.hf_config import OWN_TYPE, model_config, read_settings
from litebert.interop.names import block_modules, some_of, tensor_names, tensor_shapes
from litebert.interop.tf.bundle import TensorBundle
from litebert.model.config import ModelConfig
from litebert.model.head_table import HEADS, Head
from litebert.model.sharing import plan_of
from litebert.text.tokenizer import MODEL_FILE

if TYPE_CHECKING:
    from torch import nn

CONFIG_FILE = "albert_config.json"
_SHOWN = 8  # names in an error line

_NOT_WEIGHTS = re.compile(
    r"(global_step|save_counter(/.*)?|_CHECKPOINTABLE_OBJECT_GRAPH|beta[12]_power"
    r"|.*/(adam_m|adam_v|lamb_m|lamb_v|Adam|Adam_1))"
)
"""Step counters and optimizer slots; none of them is part of the model."""


class Variable(NamedTuple):
    """A TensorFlow variable; ``transposed`` if it is [in, out], where torch wants [out, in]."""

    name: str
    transposed: bool


@dataclass(frozen=True)
class Imported:
    """What an import found."""

    head: Head
    num_variables: int  # variables that became parameters
    num_skipped: int  # optimizer slots and counters
    tokenizer: bool  # whether a SentencePiece model was found


def import_tf(checkpoint: Path | str, out: Path | str) -> Imported:
    """Convert an official checkpoint to a model folder ``out``.

    ``checkpoint`` is the folder with ``albert_config.json`` and the checkpoint, or the checkpoint's
    prefix (``.../model.ckpt-best``) when the folder holds several.
    """
    from litebert.interop.hf import save_model

    prefix = find_checkpoint(Path(checkpoint))
    config = read_config(prefix.parent)
    bundle = TensorBundle(prefix)
    head = head_of_variables(bundle.entries)
    variables = variable_names(config, head)
    model = build(bundle, config, head, variables)
    vocabulary = _find_vocabulary(prefix.parent)
    with tempfile.TemporaryDirectory() as temporary:
        if vocabulary is not None:
            shutil.copyfile(vocabulary, Path(temporary) / MODEL_FILE)
        save_model(model, out, None if vocabulary is None else temporary)
    return Imported(head, len(variables), len(bundle.entries) - len(variables), vocabulary is not None)


def build(bundle: TensorBundle, config: ModelConfig, head: Head, variables: Mapping[str, Variable]) -> nn.Module:
    """Build the model that a checkpoint holds; ``variables`` as from :func:`variable_names`."""
    import torch

    from litebert.interop.hf import build_model

    _check_names(bundle, variables)
    with torch.device("meta"):
        model = build_model(config, head)
    expected = tensor_shapes(config, head)
    state: dict[str, torch.Tensor] = {}
    prefix = "encoder." if HEADS[head].bare else ""
    for ours, variable in variables.items():
        array = bundle.read(variable.name)
        array = array.T if variable.transposed else array
        if array.shape != expected[ours]:
            stored = bundle.entries[variable.name].shape
            problem = f"{variable.name} has shape {stored}, which does not fit {CONFIG_FILE}"
            raise CheckpointError(f"{bundle.prefix}: {problem} (our {ours} is {expected[ours]})")
        state[ours.removeprefix(prefix)] = torch.from_numpy(np.ascontiguousarray(array))
    model.load_state_dict(state, assign=True)
    return model.eval()


def _check_names(bundle: TensorBundle, variables: Mapping[str, Variable]) -> None:
    """Every variable of the model must be there, and no other beside counters and slots."""
    wanted = {variable.name for variable in variables.values()}
    assert len(wanted) == len(variables), "each variable is used once"
    weights = {name for name in bundle.entries if not _NOT_WEIGHTS.fullmatch(name)}
    if missing := wanted - weights:
        raise CheckpointError(f"{bundle.prefix} lacks {len(missing)} variables: {some_of(missing, _SHOWN)}")
    if foreign := weights - wanted:
        raise CheckpointError(
            f"{bundle.prefix} has {len(foreign)} variables that fit nowhere: {some_of(foreign, _SHOWN)}"
        )


# Files of the official archives.


def find_checkpoint(path: Path) -> Path:
    """Return the prefix of the checkpoint in a folder, or of the given prefix itself."""
    if path.with_name(path.name + ".index").is_file():
        return path
    if not path.is_dir():
        raise CheckpointError(f"{path} is neither a folder nor the prefix of a checkpoint")
    prefixes = sorted(file.with_suffix("") for file in path.glob("*.index"))
    if not prefixes:
        raise CheckpointError(f"{path} has no TensorFlow checkpoint: no file ends in .index")
    best = path / "model.ckpt-best"
    if len(prefixes) == 1 or best in prefixes:
        return best if best in prefixes else prefixes[0]
    names = [prefix.name for prefix in prefixes]
    raise CheckpointError(f"{path} has several checkpoints; give one of them: {some_of(names, _SHOWN)}")


def read_config(folder: Path) -> ModelConfig:
    """Read ``albert_config.json``, whose ``gelu`` is the tanh form and whose groups may differ."""
    path = folder / CONFIG_FILE
    values = read_settings(path)
    if "vocab_size" not in values:
        raise CheckpointError(f"{path} has no vocab_size: it is not an ALBERT configuration")
    # Our own type: whether transformers could run the model does not matter here.
    config = model_config({**values, "model_type": OWN_TYPE}, str(path))
    if config.activation == "gelu":
        config = replace(config, activation="gelu_tanh")
    groups = plan_of(config).num_sets.attention // config.inner_group_num
    layers = config.num_layers
    official = [int(layer / layers * groups) for layer in range(layers)]
    if official != [layer * groups // layers for layer in range(layers)]:
        problem = f"rounds {groups} groups over {layers} layers to other groups than l * G // L"
        raise CheckpointError(f"{path}: the official code {problem}, so such a checkpoint cannot be imported")
    return config


def _find_vocabulary(folder: Path) -> Path | None:
    """Return the SentencePiece model beside a checkpoint, if there is exactly one."""
    found = sorted(folder.glob("*.model")) or sorted((folder / "assets").glob("*.model"))
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise CheckpointError(f"{folder} has several SentencePiece models: {names}; keep one")
    return found[0] if found else None


# Variable names of the official code.

_NAMES: dict[str, str] = {
    "encoder.embeddings.word.weight": "bert/embeddings/word_embeddings",
    "encoder.embeddings.position.weight": "bert/embeddings/position_embeddings",
    "encoder.embeddings.segment.weight": "bert/embeddings/token_type_embeddings",
    "encoder.embeddings.norm": "bert/embeddings/LayerNorm",
    "encoder.embeddings.projection": "bert/encoder/embedding_hidden_mapping_in",
    "encoder.pooler": "bert/pooler/dense",
    # The heads.
    "mlm.transform": "cls/predictions/transform/dense",
    "mlm.norm": "cls/predictions/transform/LayerNorm",
    "mlm.bias": "cls/predictions/output_bias",
    # The sentence head is the one matrix that the official code keeps as [out, in].
    "sentence.weight": "cls/seq_relationship/output_weights",
    "sentence.bias": "cls/seq_relationship/output_bias",
    "start": "start_logits/dense",
    "end_hidden": "end_logits/dense_0",
    "end_norm": "end_logits/LayerNorm",
    "end": "end_logits/dense_1",
    "answer_hidden": "answer_class/dense_0",
    "answer": "answer_class/dense_1",
}
_BLOCK: Mapping[str, Mapping[str, str]] = {
    "attention": {
        **{name: f"attention_1/self/{name}" for name in ("query", "key", "value")},
        "output": "attention_1/output/dense",
    },
    "feed_forward": {"expand": "ffn_1/intermediate/dense", "contract": "ffn_1/intermediate/output/dense"},
    "norms": {"attention": "LayerNorm", "feed_forward": "LayerNorm_1"},
}
_LAYER = "bert/encoder/transformer/group_{group}/inner_group_{inner}/"


def head_of_variables(names: Collection[str]) -> Head:
    """Say which of the official models has these variables."""
    if any(name.startswith("cls/") for name in names):
        return "pretraining"
    if any(name.startswith(("start_logits/", "end_logits/", "answer_class/")) for name in names):
        return "squad2"
    return "encoder"


def variable_names(config: ModelConfig, head: Head) -> dict[str, Variable]:
    """Map each of our parameters to the variable that holds it.

    >>> variable_names(ModelConfig(), "encoder")["encoder.pooler.weight"]
    Variable(name='bert/pooler/dense/kernel', transposed=True)
    """
    known = _NAMES | block_modules(config, _LAYER, _BLOCK)
    variables = {}
    for ours in tensor_names(config, head):
        module, _, part = ours.rpartition(".")
        if ours in known:
            variables[ours] = Variable(known[ours], transposed=False)
            continue
        is_norm = known[module].rpartition("/")[2].startswith("LayerNorm")
        weight, bias = ("gamma", "beta") if is_norm else ("kernel", "bias")
        name = f"{known[module]}/{weight if part == 'weight' else bias}"
        variables[ours] = Variable(name, transposed=part == "weight" and not is_norm)
    return variables

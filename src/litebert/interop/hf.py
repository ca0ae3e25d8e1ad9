"""Save and load models of every head as Hugging Face folders, the only model format there is."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from litebert.common.errors import CheckpointError, ConfigError, suggestion
from litebert.common.files import atomic_folder, write_json, write_text
from litebert.interop.card import CARD_FILE, model_card
from litebert.interop.folder import CONFIG_FILE, WEIGHTS_FILE, ModelFolder, Parameters
from litebert.interop.hf_config import default_labels, foreign_config
from litebert.interop.names import FOREIGN_PROJECTION, POOLER, is_foreign, some_of, tensor_names
from litebert.model.config import TASK_FILE, ModelConfig
from litebert.model.counts import check_memory
from litebert.model.head_table import HEADS, Head, head_class, head_of_class
from litebert.text.folder import copy_tokenizer
from litebert.text.tokenizer import has_tokenizer

_logger = logging.getLogger(__name__)


def save_model(
    model: nn.Module,
    folder: Path | str,
    tokenizer_folder: Path | str | None = None,
    card: str | None = None,
    *,
    head: Head | None = None,
    labels: Sequence[str] | None = None,
    multi_label: bool = False,
    replace: bool = False,
) -> None:
    """Write a model folder in float32, whole or not at all.

    Args:
        model: an :class:`Encoder` or one of the models in ``litebert.model.heads``.
        folder: must be absent or empty, unless ``replace``.
        tokenizer_folder: its tokenizer files are put beside the weights.
        card: text of the model card; by default a description of the shape.
        head: ``masked_lm`` writes a pretraining model without its sentence head, for one that was
            never trained; otherwise the model says it.
        labels: names of the outputs of a classifier, in order.
        multi_label: whether a classifier may give several of them.
        replace: take the place of an existing folder.
    """
    head = _head_of_model(model, head)
    config = model.config
    assert isinstance(config, ModelConfig), "every model carries its configuration"
    if not HEADS[head].labelled:
        labels = None
    else:
        num_outputs = len(model.get_parameter(f"{HEADS[head].linear}.bias"))
        labels = default_labels(num_outputs) if labels is None else labels
        if len(labels) != num_outputs:
            raise ConfigError(f"{len(labels)} labels were given for a head of {num_outputs} outputs")
    with atomic_folder(folder, replace=replace) as temporary:
        write_json(temporary / CONFIG_FILE, foreign_config(config, head, labels, multi_label=multi_label))
        _write_weights(model, config, head, temporary / WEIGHTS_FILE)
        if tokenizer_folder is not None:
            masks = "masked_logits" in HEADS[head].output_names
            copy_tokenizer(Path(tokenizer_folder), temporary, masks=masks)
        text = model_card(config, head, Path(folder).name) if card is None else card
        write_text(temporary / CARD_FILE, text)


def _head_of_model(model: nn.Module, asked: Head | None) -> Head:
    head = head_of_class(type(model))
    name = type(model).__name__
    if head is None:
        raise TypeError(f"a {name} is not a litebert model; unwrap it before saving")
    if asked is None or asked == head or HEADS[asked].part_of == head:
        return asked or head
    raise TypeError(f"a {name} has no head '{asked}'")


def _write_weights(model: nn.Module, config: ModelConfig, head: Head, path: Path) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    foreign = is_foreign(config, head)
    prefix = "encoder." if HEADS[head].bare else ""
    state = {prefix + name: tensor for name, tensor in model.state_dict().items()}
    names = tensor_names(config, head)
    assert set(names) == set(state) - _left_out(config, head), sorted(set(names) ^ set(state))
    if foreign and not HEADS[head].pooled:
        # transformers builds these heads without a pooler and would call it unexpected.
        names = {ours: name for ours, name in names.items() if ours not in POOLER}
    tensors = {name: state[ours].detach().to("cpu", torch.float32).contiguous() for ours, name in names.items()}
    if foreign and not config.has_projection:
        tensors[f"{FOREIGN_PROJECTION}.weight"] = torch.eye(config.hidden_size)
        tensors[f"{FOREIGN_PROJECTION}.bias"] = torch.zeros(config.hidden_size)
    if foreign and HEADS[head].bare:
        tensors = {name.removeprefix("albert."): tensor for name, tensor in tensors.items()}
    try:
        save_file(tensors, path, metadata={"format": "pt"})
    except SafetensorError as error:
        raise CheckpointError(f"the weights cannot be written: {error}; make room and try again") from None


def _left_out(config: ModelConfig, head: Head) -> set[str]:
    """Parameters that a model has and the folder of this head has not."""
    whole = HEADS[head].part_of or head
    return set(tensor_names(config, whole)) - set(tensor_names(config, head))


def build_model(
    config: ModelConfig, head: Head, num_labels: int | None = None, generator: torch.Generator | None = None
) -> nn.Module:
    """Build a model with a head by its name; ``num_labels`` for those that have labels."""
    if torch.get_default_device().type != "meta":
        check_memory(config)
    labels = {"num_labels": num_labels or 2} if HEADS[head].has_classes else {}
    return head_class(head)(config, generator=generator, **labels)


def load_model(
    source: Path | str | ModelFolder,
    head: Head | None = None,
    new_head: bool = False,
    num_labels: int | None = None,
    *,
    overrides: Mapping[str, object] | None = None,
    generator: torch.Generator | None = None,
) -> nn.Module:
    """Load a model from a folder or from the hub, in float32 and evaluation mode.

    Missing encoder tensors are an error. A missing head is an error unless ``new_head``. The pooler is needed only
    where the head uses it. What the folder holds beyond that is reported through ``logging``.

    Args:
        source: a model folder (its path, or opened), or a hub name: ``albert/albert-base-v2``.
        head: the head to load; by default the one that the folder holds. ``masked_lm`` gives a pretraining model whose
            sentence head may be missing.
        new_head: start with a fresh head. A pretraining head keeps the parts that are there.
        num_labels: outputs of a fresh head; by default as many as the folder's labels.
        overrides: fields of :class:`ModelConfig` to replace, such as ``hidden_dropout``.
        generator: draws what starts fresh.
    """
    if head is not None and head not in HEADS:
        raise ConfigError(f"unknown head '{head}': use one of {', '.join(HEADS)}.{suggestion(head, HEADS)}")
    folder = source if isinstance(source, ModelFolder) else ModelFolder(source, overrides)
    head = folder.head if head is None else head
    num_labels = _number_of_labels(folder, head, num_labels, new_head)
    parameters = folder.parameters(HEADS[head].part_of or head)
    fresh = _fresh_names(folder, head, parameters, new_head)
    used = {name: a for name, a in parameters.found.items() if name not in fresh}
    folder.check(used, HEADS[head].part_of or head, num_labels)
    # Without fresh parts nothing has to be drawn, nor memory filled twice.
    with torch.device("cpu" if fresh else "meta"):
        model = build_model(folder.config, head, num_labels, generator)
    prefix = "encoder." if HEADS[head].bare else ""
    state = {name.removeprefix(prefix): torch.from_numpy(np.ascontiguousarray(array)) for name, array in used.items()}
    for name in POOLER:
        if name in parameters.missing and name not in fresh:
            state[name] = torch.zeros(model.get_parameter(name).shape)
    model.load_state_dict(state, strict=False, assign=True)
    assert not any(parameter.is_meta for parameter in model.parameters()), "all are filled"
    _report(folder, head, parameters, fresh)
    return model.eval()


def copy_model(source: Path | str, out: Path | str, overrides: Mapping[str, object] | None = None) -> Head:
    """Copy a folder or hub model with some settings replaced; return its head."""
    folder = ModelFolder(source, overrides)
    head, whole = folder.head, HEADS[folder.head].part_of
    if whole is not None and not folder.parameters(whole).missing:
        head = whole  # a folder that says masked words may hold the sentence head too
    model = load_model(folder, head)
    with atomic_folder(out) as temporary:
        save_model(
            model,
            temporary,
            folder.path if has_tokenizer(folder.path) else None,
            model_card(folder.config, head, Path(out).name),
            head=head,
            labels=folder.labels if HEADS[head].labelled else None,
            multi_label=folder.is_multi_label,
        )
        if (folder.path / TASK_FILE).is_file():
            shutil.copyfile(folder.path / TASK_FILE, temporary / TASK_FILE)
    return head


def _number_of_labels(folder: ModelFolder, head: Head, num_labels: int | None, new_head: bool) -> int | None:
    if not HEADS[head].labelled:
        return None
    if num_labels is None:
        return len(folder.labels)
    if not new_head and folder.head == head and num_labels != len(folder.labels):
        raise CheckpointError(
            f"{folder.path} holds a head of {len(folder.labels)} labels, not {num_labels}; ask for a new head"
        )
    return num_labels


def _fresh_names(folder: ModelFolder, head: Head, parameters: Parameters, new_head: bool) -> frozenset[str]:
    """Our names of the parameters that are drawn anew; an error if others are missing."""
    missing = set(parameters.missing)
    pooler = missing & set(POOLER)
    if in_encoder := {name for name in missing if name.startswith("encoder.")} - pooler:
        raise CheckpointError(f"{folder.path} lacks weights of the encoder: {some_of(in_encoder)}")
    if not HEADS[head].pooled:
        missing -= pooler  # nobody looks at it: it becomes zero
    optional = set(POOLER) if HEADS[head].bare else _left_out(folder.config, head)
    needed = missing - optional
    if needed and not new_head:
        problem = f"lacks weights of the head '{head}': {some_of(needed)}"
        raise CheckpointError(f"{folder.path} {problem}; choose the head it holds, or ask for a new one")
    if new_head and not HEADS[head].pretrained:
        missing |= {name for name in parameters.found if not name.startswith("encoder.")}
    return frozenset(missing)


def _report(folder: ModelFolder, head: Head, parameters: Parameters, fresh: frozenset[str]) -> None:
    """Say what was not used and what is random; nothing is passed over in silence."""
    if unknown := folder.unknown(parameters.surplus):
        _logger.warning("%s: unknown tensors are not used: %s", folder.path, some_of(unknown))
    if others := set(parameters.surplus) - set(unknown):
        _logger.info("%s: not used by '%s': %s", folder.path, head, some_of(others))
    if fresh & set(POOLER):
        _logger.warning("%s has no pooler: it starts from random values", folder.path)
    if fresh - set(POOLER):
        _logger.info("%s: new, from random values: %s", folder.path, some_of(fresh - set(POOLER)))

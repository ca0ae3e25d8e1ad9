"""Check an ONNX file against the plain numpy model, over several shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from litebert.interop.onnx.reference import ReferenceInputs, ReferenceModel
from litebert.model.config import ModelConfig
from litebert.model.head_table import Head

FLOAT_TOLERANCE = 1e-4
INT8_TOLERANCE = 0.25

Array = npt.NDArray[np.generic]
Floats = npt.NDArray[np.float64]

_SHAPES = ((1, 1), (1, 7), (3, 24), (2, 65))
_PER_TOKEN = ("last_hidden_state", "start_logits", "end_logits")


@dataclass(frozen=True)
class Verification:
    """How far an export is from its weights.

    Example:
        >>> verify(Path("exported/model.onnx"), config, parameters, "span").passed
        True
    """

    difference: float
    """float32: the largest of any value, relative to the output's largest value or 1; int8: the
    root mean square over all inputs, relative to the output's own or 1; the worst output counts"""
    tolerance: float
    """what is allowed"""
    shapes: tuple[tuple[int, int], ...]
    """(batch, length) of the inputs"""

    @property
    def passed(self) -> bool:
        """Whether the difference is allowed (one that is not a number is not)."""
        return self.difference <= self.tolerance


def verify(
    path: Path,
    config: ModelConfig,
    parameters: Mapping[str, Array],
    head: Head,
    depth: int | None = None,
) -> Verification:
    """Compare an ONNX file with the numpy reference on random inputs of several shapes."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    is_int8 = session.get_modelmeta().custom_metadata_map["precision"] == "int8"
    reference = ReferenceModel(config, parameters, depth)
    wanted: dict[str, list[Floats]] = {}
    found: dict[str, list[Floats]] = {}
    shapes = []
    for inputs in _check_inputs(config):
        shapes.append(inputs.input_ids_BS.shape)
        expected = reference.outputs(head, inputs)
        computed = session.run(list(expected), _feeds(head, inputs))
        keep = inputs.attention_mask_BS.astype(bool)
        for (name, right), got in zip(expected.items(), computed, strict=True):
            got = got.astype(np.float64).reshape(right.shape)
            if name in _PER_TOKEN or right.ndim == 3:
                right, got = right[keep], got[keep]  # what stands at padding is nobody's business
            wanted.setdefault(name, []).append(right.ravel())
            found.setdefault(name, []).append(got.ravel())
    measure = _root_mean_square if is_int8 else _largest
    difference = 0.0
    for name in wanted:
        right, got = np.concatenate(wanted[name]), np.concatenate(found[name])
        # numpy's maximum keeps what is not a number; Python's may drop it.
        difference = np.maximum(difference, measure(got - right) / max(1.0, measure(right)))
    return Verification(
        float(difference), INT8_TOLERANCE if is_int8 else FLOAT_TOLERANCE, tuple(shapes)
    )


def _root_mean_square(values: Floats) -> float:
    return float(np.sqrt((values**2).mean()))


def _largest(values: Floats) -> float:
    return float(np.abs(values).max())


def _check_inputs(config: ModelConfig) -> Iterator[ReferenceInputs]:
    """Yield random batches: one token, one text, several with padding."""
    generator = np.random.default_rng(0)
    for batch, wished in _SHAPES:
        length = min(wished, config.max_positions)
        ids = generator.integers(0, config.vocab_size, (batch, length))
        lengths = generator.integers(max(1, length // 2), length + 1, (batch, 1))
        lengths[0] = length
        mask = (np.arange(length) < lengths).astype(np.int64)
        types = np.minimum(np.arange(length) * 2 // length, config.type_vocab_size - 1)
        yield ReferenceInputs(ids, mask, np.broadcast_to(types, ids.shape).astype(np.int64))


def _feeds(head: Head, inputs: ReferenceInputs) -> dict[str, Array]:
    names = ("input_ids", "attention_mask", "token_type_ids")
    feeds: dict[str, Array] = dict(zip(names, inputs, strict=True))
    if head == "multiple_choice":
        return {name: array[:, None] for name, array in feeds.items()}
    if head == "squad2":
        # The reference has the answerability logit with only the padding out of the running.
        feeds["p_mask"] = 1 - inputs.attention_mask_BS
    return feeds

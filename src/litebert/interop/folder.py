"""Read a model folder (or a hub name) without torch: settings, head, labels and weights as numpy.

Weights come from ``model.safetensors``, from the shards that ``model.safetensors.index.json`` lists, or from an older
``pytorch_model.bin`` (read by torch with ``weights_only``). All of them come out as float32.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from litebert.bundled import bundled_model, is_bundled
from litebert.common.config import from_dict, to_dict
from litebert.common.errors import CheckpointError, needs
from litebert.common.files import near_folders
from litebert.common.limits import check_regular
from litebert.common.runs import MANIFEST_FILE, MODEL_FOLDER, is_main_process
from litebert.interop import hf_config
from litebert.interop.card import CARD_FILE
from litebert.interop.names import BUFFERS, FOREIGN_PROJECTION, TIED_COPIES, some_of, tensor_names, tensor_shapes
from litebert.model.config import TASK_FILE, ModelConfig
from litebert.model.head_table import HEADS, Head
from litebert.text.tokenizer import TOKENIZER_FILES

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
PICKLED_FILE = "pytorch_model.bin"

Array = npt.NDArray[np.generic]

_BFLOAT16 = "BF16"
"""The upper half of a float32, which numpy lacks."""
_TYPES = ("F16", "F32", "F64", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64", "BOOL")
"""Types of safetensors that numpy has too."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Parameters:
    """The weights of a folder as one head wants them."""

    found: dict[str, Array]  # our parameter name (``encoder.`` and the head's) -> float32 array
    missing: tuple[str, ...]  # our names that the folder lacks
    surplus: tuple[str, ...]  # names in the folder that the head does not use


class ModelFolder:
    """A Hugging Face model folder, ours or transformers', or a model's name on the hub.

    Settings are read at once, weights when they are asked for; ``overrides`` are fields of
    :class:`ModelConfig` to replace, such as ``activation``.
    """

    def __init__(self, source: Path | str, overrides: Mapping[str, object] | None = None) -> None:
        self.path = resolve(source)
        config_path = self.path / CONFIG_FILE
        self.source = str(config_path)
        self.values = hf_config.read_settings(config_path)
        self.is_own = self.values.get("model_type") == hf_config.OWN_TYPE
        written = hf_config.model_config(self.values, self.source)
        if self._has_square_projection(written):
            written = replace(written, embedding_projection=True)
        overrides = overrides or {}
        _note_release(Path(source).name, written, overrides)
        # A config says of itself what does not fit, so overrides are checked like a file's keys.
        self.config = from_dict(ModelConfig, {**to_dict(written), **overrides}, "overrides")

    @property
    def head(self) -> Head:
        """The head that the folder holds."""
        return hf_config.head_of(self.values, self.source)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the outputs of a labelled head."""
        return hf_config.labels_of(self.values, self.source)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes or tags that the head tells apart; empty for other heads."""
        return self.labels if HEADS[self.head].has_classes else ()

    @property
    def is_multi_label(self) -> bool:
        """Whether the head is a classifier that may give several labels."""
        return self.values.get("problem_type") == hf_config.MULTI_LABEL

    @property
    def card(self) -> str:
        """The text of its model card; empty if it has none."""
        path = self.path / CARD_FILE
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""

    @cached_property
    def tensors(self) -> dict[str, Array]:
        """All tensors by their name in the folder (those of a bare encoder with its prefix)."""
        tensors = _read_weights(self.path)
        if self.is_own:
            return tensors
        tensors = {_canonical(name): tensor for name, tensor in tensors.items()}
        for copy, original in TIED_COPIES.items():
            if copy in tensors and original not in tensors:
                tensors[original] = tensors.pop(copy)
        return tensors

    def parameters(self, head: Head) -> Parameters:
        """Return the weights by our names, as far as the folder has those that the head wants."""
        names = self._names(head)
        surplus = set(self.tensors) - set(names.values())
        if not self.is_own and not self.config.has_projection:
            # transformers has a projection even where E = H: here it is the identity.
            surplus -= {f"{FOREIGN_PROJECTION}.weight", f"{FOREIGN_PROJECTION}.bias"}
        return Parameters(
            {ours: self.tensors[name] for ours, name in names.items() if name in self.tensors},
            tuple(ours for ours, name in names.items() if name not in self.tensors),
            tuple(sorted(surplus)),
        )

    def check(self, parameters: Mapping[str, Array], head: Head, num_labels: int | None = None) -> None:
        """Refuse weights that are not finite numbers of the shapes that ``config.json`` says."""
        names = self._names(head)
        shapes = tensor_shapes(self.config, head, num_labels)
        wrong = [
            f"{names[name]} has {array.shape}, not {shapes[name]}"
            for name, array in parameters.items()
            if array.shape != shapes[name]
        ]
        if wrong:
            raise CheckpointError(f"{self.path}: weights and {CONFIG_FILE} are of different shape: {some_of(wrong)}")
        for name, array in parameters.items():
            if array.dtype != np.float32:
                problem = f"{names[name]} holds {array.dtype} values"
                remedy = "weights are read as float16, bfloat16, float32 or float64"
                raise CheckpointError(f"{self.path}: {problem}; {remedy}")
            # The ends of the values, for they show a NaN and need no memory.
            if not np.isfinite([array.min(initial=0), array.max(initial=0)]).all():
                problem = f"{names[name]} has values that are not finite numbers, so every answer would be NaN"
                raise CheckpointError(f"{self.path}: {problem}; its training diverged, or the file is damaged")

    def unknown(self, surplus: tuple[str, ...]) -> tuple[str, ...]:
        """Return the surplus tensors that are not another head's, nor a tied copy or a counter."""
        known = {*BUFFERS, *TIED_COPIES}.union(*(self._names(head).values() for head in HEADS))
        return tuple(name for name in surplus if name not in known)

    def _names(self, head: Head) -> dict[str, str]:
        return tensor_names(self.config, head, foreign=not self.is_own)

    def _has_square_projection(self, config: ModelConfig) -> bool:
        """Whether a folder with E = H has a projection that does something."""
        is_square = config.embedding_size == config.hidden_size and not self.is_own
        if not is_square or config.embedding_projection or not _weight_files(self.path):
            return False
        weight, bias = (self.tensors.get(f"{FOREIGN_PROJECTION}.{x}") for x in ("weight", "bias"))
        if weight is None or bias is None or weight.shape != (config.hidden_size,) * 2:
            return False  # a wrong shape is refused with the others
        identity = np.array_equal(weight, np.eye(config.hidden_size)) and not bias.any()
        if not identity and config.embedding_projection is False:
            problem = f"embedding_projection is false, but {FOREIGN_PROJECTION} is not the identity"
            raise CheckpointError(f"{self.source}: {problem}; remove the key")
        return not identity


def load_config(source: Path | str, overrides: Mapping[str, object] | None = None) -> ModelConfig:
    """Read the shape of the model in a folder or on the hub."""
    return ModelFolder(source, overrides).config


def _note_release(name: str, config: ModelConfig, overrides: Mapping[str, object]) -> None:
    """Warn where the hub's config of a released model is known to differ from its training."""
    is_gelu = config.activation == "gelu" and "activation" not in overrides
    if is_gelu and re.fullmatch(r"albert-(base|large|xlarge|xxlarge)-v1", name):
        problem = "its config says gelu (the erf form), but it was trained with the tanh form"
        _logger.warning("%s: %s; `litebert import hf ... --activation gelu_tanh` corrects it", name, problem)
    has_16_heads = config.heads == 16 and "num_heads" not in overrides
    if has_16_heads and re.fullmatch(r"albert-xlarge-v[12]", name):
        problem = "its config says 16 heads, the paper and the official archive 32, and the weights cannot tell"
        _logger.warning("%s: %s; `litebert import hf ... --num-heads 32` changes it", name, problem)


def resolve(source: Path | str) -> Path:
    """Return the folder of a model: its path, a run folder's, or a hub name's in the cache.

    The one meaning of ``--model`` in every command and function. What does not exist is never replaced by something
    else. The names ``bundled`` and ``bundled-sentences`` are the models that come with the package; a folder of that
    name has to be given by its absolute path. A ``Path`` is never a hub name.
    """
    name = str(source)
    if is_bundled(name):
        folder = bundled_model(name)
        _say_once("using the small model that comes with litebert; --model names another")
        return folder
    path = Path(source).expanduser()
    if path.is_dir():
        return _model_in(path)
    if path.exists():
        raise CheckpointError(f"{path} is a file, not a model folder; name its folder")
    is_hub_name = re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", name) is not None
    is_in_folder = path.parent != Path() and path.parent.is_dir()
    if isinstance(source, Path) or is_in_folder or not is_hub_name:
        raise CheckpointError(f"model folder {path} does not exist.{near_folders(path)}")
    return _download(name)


def _model_in(path: Path) -> Path:
    """Return the folder itself, or the model of a run; say what else it is if it has none."""
    if (path / CONFIG_FILE).is_file():
        return path
    if (path / MODEL_FOLDER / CONFIG_FILE).is_file():
        _say_once(f"{path} is a run folder: using its model, {path / MODEL_FOLDER}")
        return path / MODEL_FOLDER
    if (path / "checkpoints").is_dir():
        remedy = f"make one of a checkpoint with `litebert export checkpoint {path} OUT`"
        raise CheckpointError(f"{path} is a run that has no model yet: let it finish with --resume auto, or {remedy}")
    places = (CONFIG_FILE, f"{MODEL_FOLDER}/{CONFIG_FILE}", f"*/{MODEL_FOLDER}/{CONFIG_FILE}")
    if below := [str(file.parent) for place in places for file in sorted(path.glob(f"*/{place}"))]:
        hint = f"below it are {', '.join(below[:3])}"
    elif (path / MANIFEST_FILE).is_file():
        hint = "it holds the token shards of a corpus, or an unfinished run"
    elif any((path / file).is_file() for file in TOKENIZER_FILES):
        hint = "it holds a tokenizer without a model"
    else:
        hint = "name one that litebert or transformers wrote"
    raise CheckpointError(f"{path} is not a model folder: {CONFIG_FILE} does not exist; {hint}")


@cache
def _say_once(line: str) -> None:
    """Tell people on standard error, once however often the model is looked up."""
    if is_main_process():
        print(line, file=sys.stderr, flush=True)


def _download(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import RepositoryNotFoundError

    weights = ["model*.safetensors", INDEX_FILE, "model.onnx*"]
    vectors = ["modules.json", "*_Pooling/config.json"]  # how they are made of a text
    patterns = [CONFIG_FILE, TASK_FILE, *weights, *vectors, *TOKENIZER_FILES]
    try:
        path = Path(snapshot_download(name, allow_patterns=patterns))
        if not _weight_files(path):
            path = Path(snapshot_download(name, allow_patterns=[*patterns, PICKLED_FILE]))
    except RepositoryNotFoundError:
        raise CheckpointError(
            f"{name} is neither a folder here nor a model on the Hugging Face hub.{near_folders(Path(name))}"
        ) from None
    except (OSError, ValueError) as error:
        # Offline, refused or full disk: the library's message is long, its first line says which.
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(
            f"{name} is not a folder here and cannot be fetched from the Hugging Face hub; "
            f"download it once while online, or give a folder ({reason}).{near_folders(Path(name))}"
        ) from None
    return path


def _weight_files(path: Path) -> list[Path]:
    """The files that hold the weights, best format first; empty if there are none."""
    if (path / WEIGHTS_FILE).is_file():
        return [path / WEIGHTS_FILE]
    if (path / INDEX_FILE).is_file():
        shards = hf_config.read_settings(path / INDEX_FILE).get("weight_map")
        # An entry names a file of the same folder, never one outside.
        if not isinstance(shards, dict) or not all(
            isinstance(name, str) and Path(name).name == name for name in shards.values()
        ):
            raise CheckpointError(f"{path / INDEX_FILE} has no weight_map from tensors to files")
        return [path / name for name in sorted(set(shards.values()))]
    return [path / PICKLED_FILE] if (path / PICKLED_FILE).is_file() else []


def _read_weights(path: Path) -> dict[str, Array]:
    files = _weight_files(path)
    if not files:
        raise CheckpointError(f"{path} has no weights: expected {WEIGHTS_FILE} or {PICKLED_FILE}")
    tensors: dict[str, Array] = {}
    for file in files:
        tensors |= _read_pickled(file) if file.suffix == ".bin" else _read_safetensors(file)
    for name, tensor in tensors.items():
        if tensor.dtype.kind == "f":
            with np.errstate(over="ignore"):  # too large a float64 is refused as not finite
                tensors[name] = tensor.astype(np.float32, copy=False)
    return tensors


def _read_safetensors(path: Path) -> dict[str, Array]:
    from safetensors import SafetensorError, deserialize, safe_open

    try:
        with hf_config.readable(path):
            check_regular(path)
            with safe_open(path, framework="np") as stream:
                types = {name: stream.get_slice(name).get_dtype() for name in stream.keys()}  # noqa: SIM118
                if odd := [name for name in types if types[name] not in (*_TYPES, _BFLOAT16)]:
                    raise CheckpointError(
                        f"{path}: {odd[0]} is of type {types[odd[0]]}, which is not read; save the weights as float32"
                    )
                tensors = {name: stream.get_tensor(name) for name in types if types[name] in _TYPES}
            if len(tensors) == len(types):
                return tensors
            views = deserialize(path.read_bytes())  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise CheckpointError(f"{path} is cut or not a safetensors file: {error}") from None
    for name, view in views:
        if view["dtype"] == _BFLOAT16:
            halves = np.frombuffer(view["data"], "<u2").astype("<u4")
            tensors[name] = (halves << 16).view("<f4").reshape(view["shape"])
    return tensors


def _read_pickled(path: Path) -> dict[str, Array]:
    with needs("train", f"reading {path}", CheckpointError):
        import torch
    with hf_config.readable(path):
        check_regular(path)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        return {
            str(name): (tensor.float() if tensor.is_floating_point() else tensor).numpy()
            for name, tensor in state.items()
        }
    except Exception as error:  # a damaged pickle may raise anything while torch reads it
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(f"{path} is cut or not a file of torch weights: {reason}") from None


def _canonical(name: str) -> str:
    """transformers' present name of a tensor, with the prefix that a bare encoder leaves out."""
    if re.match(r"(embeddings|encoder|pooler)\.", name):
        name = "albert." + name
    return re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", name))

"""Strict typed configuration: frozen dataclasses filled from TOML, unknown keys refused."""

from __future__ import annotations

import dataclasses
import json
import math
import tomllib
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from litebert.common.errors import ConfigError, DataError, suggestion
from litebert.common.files import read_bytes

T = TypeVar("T")

Rule = Literal["8 or more", "2 or more", "1 or more", "0 or more", "more than 0", "0 or more and less than 1", "0 to 1"]
_OBEYS: dict[Rule, Callable[[float], bool]] = {
    "8 or more": lambda value: value >= 8,
    "2 or more": lambda value: value >= 2,
    "1 or more": lambda value: value >= 1,
    "0 or more": lambda value: value >= 0,
    "more than 0": lambda value: value > 0,
    "0 or more and less than 1": lambda value: 0 <= value < 1,
    "0 to 1": lambda value: 0 <= value <= 1,
}
_ELSEWHERE = {
    **dict.fromkeys(("learning_rate", "peak_lr", "max_lr"), "lr"),
    **dict.fromkeys(("max_steps", "num_steps", "train_steps", "num_train_steps"), "steps"),
    **dict.fromkeys(("num_epochs", "num_train_epochs"), "epochs"),
    **dict.fromkeys(("train_batch_size", "per_device_train_batch_size"), "batch_size"),
    **dict.fromkeys(("max_seq_length", "max_seq_len", "seq_length", "seq_len"), "length"),
    **dict.fromkeys(("warmup_ratio", "warmup_proportion"), "warmup_share"),
    **dict.fromkeys(("output", "output_dir", "run_dir"), "out"),
    **dict.fromkeys(("data_dir", "dataset", "train_file"), "data"),
    **dict.fromkeys(("max_grad_norm", "grad_clip"), "clip_norm"),
    **dict.fromkeys(("fp16", "bf16"), "precision"),
    "dev_share": "dev_fraction",
    "gradient_accumulation_steps": "accumulation",
    "logging_steps": "log_every_steps",
    "max_position_embeddings": "max_positions",
    "mlm_probability": "rate",
    "model_name_or_path": "model",
    "num_attention_heads": "num_heads",
    "num_hidden_layers": "num_layers",
    "num_workers": "workers",
    "resume_from_checkpoint": "resume",
}
"""What other tools call a setting -> the last part of its name here."""
MOST = 10**15  # in any setting: more tokens than were ever written
MOST_PROCESSES = 1024  # workers or threads of one command on one machine
_LONGEST_TOML = 1 << 24


def check_range(config: object, rule: Rule, *names: str, table: str = "", most: float = MOST) -> None:
    """Refuse a number that does not obey the rule (None does), or is so large that it would take the machine's memory.

    ``table`` is the TOML table it stands in, for the error line.
    """
    for name in names:
        value = getattr(config, name)
        if value is not None and not (_OBEYS[rule](value) and value <= most):
            bound = f", at most {most:,}" if value > most else ""
            raise ConfigError(f"{f'{table}.' if table else ''}{name} is {value}: use {rule}{bound}.")


def from_dict(cls: type[T], values: Mapping[str, object], source: str = "configuration") -> T:
    """Build a configuration dataclass, also with others inside, from TOML or JSON values; errors name ``source``."""
    try:
        return cast(T, _build(cls, values, source, ""))
    except ConfigError as error:  # what a class checks of itself does not know the file
        prefix = "" if str(error).startswith(source) else f"{source}: "
        raise ConfigError(f"{prefix}{error}") from None


def check_values(cls: type, values: Mapping[str, object], source: str, others: Collection[str] = ()) -> None:
    """Check key and type of some settings of a configuration; ``others`` are keys of the caller's own."""
    _check_table(cls, {k: v for k, v in values.items() if k not in others}, source, "", cls)


def setting_names(cls: type, prefix: str = "") -> list[str]:
    """Return the dotted names of all settings, tables included."""
    names = list[str]()
    for name, kind in _settings_of(cls).items():
        names += [prefix + name, *(setting_names(kind, f"{prefix}{name}.") if _is_table(kind) else ())]
    return names


def near_setting(name: str, known: Collection[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for a setting: by its own name, or by what others call it.

    >>> near_setting("learning_rate", ["steps", "optimizer.lr"])
    " Did you mean 'optimizer.lr'?"
    """
    last = name.rpartition(".")[2].replace("-", "_")
    wanted = _ELSEWHERE.get(last, last)
    same = [one for one in known if one.rpartition(".")[2].replace("-", "_") == wanted]
    if same and name not in same:
        return f" Did you mean {' or '.join(repr(one) for one in same[:3])}?"
    return suggestion(name, known)


def to_dict(config: object) -> dict[str, object]:
    """Turn a configuration dataclass into values that JSON and :func:`from_dict` understand."""
    kind: Any = type(config)
    return {name: _plain(getattr(config, name)) for name in _settings_of(kind)}


def flat_settings(settings: object, prefix: str = "") -> dict[str, object]:
    """Return nested settings by their dotted names.

    >>> flat_settings({"steps": 5, "optimizer": {"name": "lamb"}})
    {'steps': 5, 'optimizer.name': 'lamb'}
    """
    if not isinstance(settings, Mapping):
        return {prefix: settings}
    flat: dict[str, object] = {}
    for key, value in settings.items():
        flat |= flat_settings(value, f"{prefix}.{key}" if prefix else key)
    return flat


def read_toml(path: Path | str) -> dict[str, object]:
    """Read a TOML file; a missing or broken one is a ConfigError that names it."""
    try:
        return tomllib.loads(read_bytes(path, _LONGEST_TOML).decode())
    except DataError as error:
        raise ConfigError(f"config file {error}") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"config file {path} is not valid TOML: {error}") from None
    except RecursionError:
        raise ConfigError(f"config file {path} has too many brackets inside each other") from None


def recipe_path(kind: str, name: str) -> Path:
    """The file of a recipe that comes with the package, such as ("pretrain", "tiny")."""
    folder = Path(__file__).resolve().parent.parent / "configs" / kind
    path = folder / f"{name}.toml"
    if not path.is_file():
        known = sorted(file.stem for file in folder.glob("*.toml"))
        raise ConfigError(f"no {kind} recipe '{name}'; there are {', '.join(known)}.{suggestion(name, known)}")
    return path


def load_toml(cls: type[T], path: Path | str) -> T:
    """Read a configuration dataclass from a TOML file."""
    return from_dict(cls, read_toml(path), str(path))


def _build(kind: Any, value: object, source: str, name: str) -> object:
    """Convert ``value`` to the annotated type ``kind``, or say why it cannot be."""
    origin, arguments = get_origin(kind), get_args(kind)
    if _is_table(kind) and not isinstance(value, kind):
        return _build_dataclass(kind, value, source, name)
    if origin in (Union, types.UnionType):
        return _build_union(arguments, value, source, name)
    if origin is Literal:
        if value in arguments:
            return value
        choices, near = ", ".join(map(repr, arguments)), suggestion(str(value), map(str, arguments))
        raise ConfigError(f"{source}: {name} = {value!r} is not one of {choices}.{near}")
    if origin in (tuple, list) and isinstance(value, (list, tuple)):
        fixed = origin is tuple and Ellipsis not in arguments
        if fixed and len(arguments) != len(value):
            raise ConfigError(f"{source}: {name} = {_plain(value)!r} should have {len(arguments)} values")
        kinds = arguments if fixed else arguments[:1] * len(value)
        items = enumerate(zip(kinds, value, strict=True))
        return origin(_build(kind, item, source, f"{name}[{i}]") for i, (kind, item) in items)
    if origin is dict and isinstance(value, Mapping):
        return {str(k): _build(arguments[1], v, source, f"{name}.{k}") for k, v in value.items()}
    if kind in (int, float):
        is_whole = isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 64
        if is_whole or (kind is float and isinstance(value, float) and math.isfinite(value)):
            return kind(value)
    elif kind is Path and isinstance(value, (str, Path)):
        return Path(value)
    elif isinstance(kind, type) and not arguments and isinstance(value, kind):
        return value
    expected = getattr(kind, "__name__", str(kind)) if not arguments else str(kind)
    raise ConfigError(f"{source}: {name} = {value!r} should be of type {expected}")


@cache
def _settings_of(cls: Any) -> dict[str, Any]:
    """The fields that a configuration is built of, with their types."""
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}


def _is_table(kind: object) -> bool:
    return isinstance(kind, type) and dataclasses.is_dataclass(kind)


def _build_dataclass(cls: type, value: object, source: str, name: str) -> object:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{source}: {name} = {value!r} should be a table")
    prefix, known = f"{name}." if name else "", _settings_of(cls)
    if unknown := [key for key in value if key not in known]:
        near = suggestion(unknown[0], known) or f" Known keys: {', '.join(known)}."
        raise ConfigError(f"{source}: unknown key '{prefix}{unknown[0]}'.{near}")
    for field in dataclasses.fields(cls):
        needed = field.init and field.default is field.default_factory is dataclasses.MISSING
        if needed and field.name not in value:
            raise ConfigError(f"{source}: missing key '{prefix}{field.name}'")
    return cls(**{key: _build(known[key], v, source, prefix + key) for key, v in value.items()})


def _check_table(cls: type, value: object, source: str, name: str, root: type) -> None:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{source}: {name} = {value!r} should be a table")
    known = _settings_of(cls)
    for key, item in value.items():
        full = f"{name}.{key}" if name else key
        if key not in known:
            near = near_setting(full, setting_names(root)) or f" Known keys: {', '.join(known)}."
            raise ConfigError(f"{source}: unknown key '{full}'.{near}")
        if _is_table(known[key]):
            _check_table(known[key], item, source, full, root)
        else:  # 2e6 is how people write a whole number of tokens
            is_whole = isinstance(item, float) and item.is_integer()
            _build(known[key], int(item) if is_whole else item, source, full)


def _build_union(kinds: tuple[object, ...], value: object, source: str, name: str) -> object:
    failures: list[ConfigError] = []
    for kind in kinds:
        try:
            return _build(kind, value, source, name)
        except ConfigError as error:
            failures.append(error)
    # A nested "unknown key" says more than a type mismatch of another alternative.
    raise next((one for one in reversed(failures) if "unknown key" in str(one)), failures[0])


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return to_dict(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def toml_lines(values: Mapping[str, object], defaults: Mapping[str, object], table: str = "") -> Iterator[str]:
    """Lines of TOML for what differs, plain values before tables; JSON's values are TOML's."""
    differing = {k: v for k, v in values.items() if v is not None and v != defaults.get(k)}
    plain = {k: v for k, v in differing.items() if not isinstance(v, Mapping)}
    if table and plain:
        yield f"\n[{table}]"
    for key, value in plain.items():
        yield f"{key} = {json.dumps(value, ensure_ascii=False)}"
    for key, value in differing.items():
        if isinstance(value, Mapping):
            inner = defaults.get(key)
            assert isinstance(inner, Mapping), "a table is one in the defaults too"
            yield from toml_lines(value, inner, f"{table}.{key}" if table else key)

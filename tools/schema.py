"""JSON schemas of the TOML files, for editors: configs/schema/*.json, from the dataclasses."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import json
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Union, get_args, get_origin, get_type_hints

from litebert.experiments.config import Experiment
from litebert.tasks.custom_config import CustomConfig
from litebert.train.finetuning.config import FinetuneConfig
from litebert.train.pretraining.config import PretrainConfig

FOLDER = Path(__file__).resolve().parent.parent / "src" / "litebert" / "configs" / "schema"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
PLAIN: dict[object, str] = {
    bool: "boolean", int: "integer", float: "number", str: "string", Path: "string",
}  # fmt: skip
# What a file may leave out because a flag gives it: nothing is required of these.
FILES: dict[str, tuple[type, bool]] = {
    "pretrain": (PretrainConfig, False),
    "finetune": (FinetuneConfig, False),
    "task": (CustomConfig, True),
    "experiment": (Experiment, True),
}


def schema_of(name: str) -> dict[str, object]:
    """Return the schema of one kind of file."""
    cls, is_whole = FILES[name]
    return {"$schema": DIALECT, "title": f"litebert {name}", **_table(cls, is_whole)}


def schema_text(name: str) -> str:
    """Return the file of a schema."""
    return json.dumps(schema_of(name), indent=1, ensure_ascii=False) + "\n"


def _table(cls: type, is_whole: bool) -> dict[str, object]:
    hints, docs = get_type_hints(cls), dict(_field_docs(cls))
    fields = [field for field in dataclasses.fields(cls) if field.init]
    properties: dict[str, object] = {}
    for field in fields:
        entry = _value(hints[field.name], is_whole)
        if field.name in docs:
            entry["description"] = docs[field.name]
        if isinstance(field.default, str | int | float):
            entry["default"] = field.default
        properties[field.name] = entry
    table: dict[str, object] = {
        "type": "object", "properties": properties, "additionalProperties": False,
    }  # fmt: skip
    needed = [field.name for field in fields if field.default is field.default_factory is dataclasses.MISSING]
    return {**table, "required": needed} if is_whole and needed else table


def _value(kind: object, is_whole: bool) -> dict[str, object]:
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _table(kind, is_whole)
    if origin is Literal:
        # Python takes literals of another order for the same, and gives out whichever came first.
        return {"enum": sorted(arguments, key=str)}
    if origin in (Union, types.UnionType):
        kinds = [_value(one, is_whole) for one in arguments if one is not type(None)]
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    if origin in (tuple, list):
        if origin is tuple and Ellipsis not in arguments:
            items = [_value(one, is_whole) for one in arguments]
            return {"type": "array", "prefixItems": items, "minItems": len(items), "items": False}
        return {"type": "array", "items": _value(arguments[0], is_whole)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _value(arguments[1], is_whole)}
    return {"type": PLAIN[kind]} if kind in PLAIN else {}


def _field_docs(cls: type) -> Iterator[tuple[str, str]]:
    """Yield fields and the strings that stand below them, those of base classes first."""
    for one in reversed(cls.__mro__):
        if not dataclasses.is_dataclass(one):
            continue
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(one))).body
        assert isinstance(body, ast.ClassDef)
        for statement, below in zip(body.body, body.body[1:], strict=False):
            if not isinstance(statement, ast.AnnAssign) or not isinstance(below, ast.Expr):
                continue
            if isinstance(below.value, ast.Constant) and isinstance(statement.target, ast.Name):
                yield statement.target.id, " ".join(str(below.value.value).split())


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    FOLDER.mkdir(exist_ok=True)
    for name in FILES:
        (FOLDER / f"{name}.json").write_text(schema_text(name), encoding="utf-8")

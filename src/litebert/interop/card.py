"""The model card (README.md) of a model folder: what the model is and how to load it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from litebert.interop.names import is_foreign
from litebert.model.config import ModelConfig
from litebert.model.head_table import HEADS, Head

CARD_FILE = "README.md"

_PIPELINES = {
    "fill-mask": "fill-mask",
    "classify": "text-classification",
    "multiple-choice": "multiple-choice",
    "tag": "token-classification",
    "answer": "question-answering",
}
"""What a head answers -> the hub's word for it."""
_ANYWHERE = ("fill-mask", "text-classification", "feature-extraction")
_WITH_PIPELINE = (*_ANYWHERE, "token-classification")
"""Tasks that transformers has a pipeline for; version 5 has none for questions."""
_IN_SCRIPT = (*_ANYWHERE, "question-answering")
"""Tasks that transformers.js has an ALBERT for."""


def model_card(config: ModelConfig, head: Head, name: str, about: str = "", languages: Sequence[str] = ()) -> str:
    """Return a card that states the shape and the two ways to load the folder.

    ``about`` is Markdown that says how the model came about. Licence and intended use are the author's to add.
    """
    if is_foreign(config, head):
        library, use = "transformers", _from_pretrained(head, name)
        note = "litebert and transformers read this folder."
    else:
        library = "litebert"
        use = ["from litebert.interop.hf import load_model", f'model = load_model("{name}")']
        note = "Only litebert reads this folder: transformers has no such model."
    note = f"An ALBERT model made with litebert. {note}"
    return _card(_front(library, languages), name, note, _shape(config, head), use, about)


def onnx_card(config: ModelConfig, head: Head, name: str, precision: str, num_layers: int, card: str) -> str:
    """Return the card of an ONNX folder; ``card`` is that of the model it was made from.

    What that one says about training and scores, and its languages, stay.
    """
    rows = {**_shape(config, head), "layers": num_layers, "format": f"ONNX, {precision}"}
    load = f'predictor = Predictor.load("{name}")  # needs onnxruntime, not torch'
    about = "An ALBERT model as ONNX (`model.onnx`), made with `litebert export onnx`."
    if precision == "int8":
        about += " Its weights are 8-bit integers; scores below are of the model before that."
    languages = re.search(r"^language:\n((?:- .+\n)+)", card, re.MULTILINE)
    found = [line[2:] for line in languages[1].splitlines()] if languages else []
    use = ["from litebert import Predictor", load]
    return _card(_front("onnx", found), name, about, rows, use, sections(card))


def hub_card(config: ModelConfig, head: Head, name: str, front: str, sizes: Mapping[str, int], about: str) -> str:
    """Return the card of a folder that every runtime loads.

    ``front`` is its metadata as YAML, ``sizes`` its files with their bytes, ``about`` Markdown that
    says how the model came about.
    """
    task, foreign = pipeline_tag(head), is_foreign(config, head)
    ways = ["from litebert import Predictor", f'predictor = Predictor.load("{name}")']
    if foreign and task in _WITH_PIPELINE:
        ways += ["from transformers import pipeline", f'model = pipeline("{task}", "{name}")']
    elif foreign:
        ways += _from_pretrained(head, name)
    if HEADS[head].pretrained:
        vectors = f'model = SentenceTransformer("{name}")  # or with backend="onnx"'
        ways += ["from sentence_transformers import SentenceTransformer", vectors]
    opened = f'onnxruntime.InferenceSession("{name}/onnx/model_quantized.onnx")'
    ways += ["import onnxruntime", f"session = {opened}"]
    files = {f"`{file}`": f"{size / 1e6:,.2f} MB" for file, size in sizes.items()}
    if runs_in_script(config, head):
        about = f"""
```js
import {{ pipeline }} from "@huggingface/transformers"; // in a browser or under Node

const model = await pipeline("{task}", "{name}", {{ dtype: "q8" }});
```
{about}"""
    note = "An ALBERT model made with litebert: one folder for every runtime."
    return _card(front, name, note, _shape(config, head) | files, ways, about)


def _from_pretrained(head: Head, name: str) -> list[str]:
    model = f"Albert{HEADS[head].architecture}"
    return [f"from transformers import {model}", f'model = {model}.from_pretrained("{name}")']


def runs_in_script(config: ModelConfig, head: Head) -> bool:
    """Whether transformers.js has a class for the model."""
    return is_foreign(config, head) and pipeline_tag(head) in _IN_SCRIPT


def pipeline_tag(head: Head) -> str:
    """Return what the hub calls the task of a head."""
    return next((_PIPELINES[name] for name in HEADS[head].answers), "feature-extraction")


def sections(card: str) -> str:
    """Return the part of a card that says how a model came about: from its first section on."""
    _, heading, rest = card.partition("\n## ")
    return heading + rest


def pretraining_section(rows: Mapping[str, object], title: str = "Pretraining") -> str:
    """Return Markdown that says what a model was trained on, and what came of it."""
    return f"\n## {title}\n\n{_table(rows)}\n"


def _shape(config: ModelConfig, head: Head) -> dict[str, object]:
    groups = f" ({config.num_groups})" if config.sharing == "groups" else ""
    return {
        "head": head,
        "vocabulary": f"{config.vocab_size:,}",
        "embedding size": config.embedding_size,
        "hidden size": config.hidden_size,
        "layers": config.num_layers,
        "attention heads": config.heads,
        "feed-forward size": config.ffn,
        "shared parameters": config.sharing + groups,
        "activation": config.activation,
        "longest sequence": config.max_positions,
    }


def _front(library: str, languages: Sequence[str]) -> str:
    spoken = "".join(f"- {language}\n" for language in languages)
    spoken = f"language:\n{spoken}" if spoken else ""
    return f"library_name: {library}\n{spoken}tags:\n- albert\n- litebert"


def _card(front: str, name: str, note: str, rows: Mapping[str, object], use: Sequence[str], about: str) -> str:
    code = "\n\n".join(use)
    return f"""---
{front}
---

# {name}

{note}

{_table(rows)}

```python
{code}
```
{about}"""


def _table(rows: Mapping[str, object]) -> str:
    return "\n".join(["| | |", "| --- | --- |", *(f"| {key} | {value} |" for key, value in rows.items())])

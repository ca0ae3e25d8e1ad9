"""The model card (README.md) of a model folder: what the model is and how to load it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from litebert.interop.names import is_foreign
from litebert.model.config import ModelConfig
from litebert.model.head_table import HEADS, Head

CARD_FILE = "README.md"


def model_card(
    config: ModelConfig, head: Head, name: str, about: str = "", languages: Sequence[str] = ()
) -> str:
    """Return a card that states the shape and the two ways to load the folder.

    ``about`` is Markdown that says how the model came about. Licence and intended use are the
    author's to add.
    """
    if is_foreign(config, head):
        library = "transformers"
        use = (
            f"from transformers import Albert{HEADS[head].architecture}\n\n"
            f'model = Albert{HEADS[head].architecture}.from_pretrained("{name}")'
        )
        note = "litebert and transformers read this folder."
    else:
        library = "litebert"
        use = f'from litebert.interop.hf import load_model\n\nmodel = load_model("{name}")'
        note = "Only litebert reads this folder: transformers has no such model."
    note = f"An ALBERT model made with litebert. {note}"
    return _card(library, languages, name, note, _shape(config, head), use, about)


def onnx_card(
    config: ModelConfig, head: Head, name: str, precision: str, num_layers: int, card: str
) -> str:
    """Return the card of an ONNX folder; ``card`` is that of the model it was made from.

    What that one says about training and scores, and its languages, stay.
    """
    rows = {**_shape(config, head), "layers": num_layers, "format": f"ONNX, {precision}"}
    use = (
        "from litebert import Predictor\n\n"
        f'predictor = Predictor.load("{name}")  # needs onnxruntime, not torch'
    )
    about = "An ALBERT model as ONNX (`model.onnx`), made with `litebert export onnx`."
    if precision == "int8":
        about += " Its weights are 8-bit integers; scores below are of the model before that."
    languages = re.search(r"^language:\n((?:- .+\n)+)", card, re.MULTILINE)
    found = [line[2:] for line in languages[1].splitlines()] if languages else []
    _, heading, rest = card.partition("\n## ")
    return _card("onnx", found, name, about, rows, use, heading + rest)


def pretraining_section(rows: Mapping[str, object], title: str = "Pretraining") -> str:
    """Return Markdown that says what a model was trained on, and what came of it."""
    return f"\n## {title}\n\n{_table(rows)}\n"


def _shape(config: ModelConfig, head: Head) -> dict[str, object]:
    return {
        "head": head,
        "vocabulary": f"{config.vocab_size:,}",
        "embedding size": config.embedding_size,
        "hidden size": config.hidden_size,
        "layers": config.num_layers,
        "attention heads": config.heads,
        "feed-forward size": config.ffn,
        "shared parameters": config.sharing
        + (f" ({config.num_groups})" if config.sharing == "groups" else ""),
        "activation": config.activation,
        "longest sequence": config.max_positions,
    }


def _card(
    library: str,
    languages: Sequence[str],
    name: str,
    note: str,
    rows: Mapping[str, object],
    use: str,
    about: str,
) -> str:
    spoken = "".join(f"- {language}\n" for language in languages)
    spoken = f"language:\n{spoken}" if spoken else ""
    return f"""---
library_name: {library}
{spoken}tags:
- albert
- litebert
---

# {name}

{note}

{_table(rows)}

```python
{use}
```
{about}"""


def _table(rows: Mapping[str, object]) -> str:
    lines = [f"| {key} | {value} |" for key, value in rows.items()]
    return "\n".join(["| | |", "| --- | --- |", *lines])

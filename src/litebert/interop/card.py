"""The model card (README.md) of a model folder: what the model is and how to load it."""

from __future__ import annotations

from litebert.interop.names import is_foreign
from litebert.model.config import ModelConfig
from litebert.model.head_table import HEADS, Head


def model_card(config: ModelConfig, head: Head, name: str) -> str:
    """Return a card that states the shape and the two ways to load the folder.

    Training data, results and licence are the author's to add.
    """
    foreign = is_foreign(config, head)
    rows = {
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
    table = "\n".join(f"| {key} | {value} |" for key, value in rows.items())
    if foreign:
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
    return f"""---
library_name: {library}
tags:
- albert
- litebert
---

# {name}

An ALBERT model made with litebert. {note}

| | |
| --- | --- |
{table}

```python
{use}
```
"""

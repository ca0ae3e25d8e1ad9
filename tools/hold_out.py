"""Cut text in two by its documents: every twentieth is held out.

    python tools/hold_out.py TEXT OUT       OUT/train.jsonl and OUT/held.jsonl
    python tools/hold_out.py python OUT     the same of the demo's text, the Python documentation

TEXT is a file, folder or glob as `litebert prepare` reads it. What is there already stays.
"""

from __future__ import annotations

import sys
from pathlib import Path

from litebert.common.files import write_json_lines
from litebert.data.corpus.parts import raw_texts
from litebert.data.corpus.sources import find_inputs, fingerprint_sources
from litebert.demo.python_text import write_corpus

EVERY = 20


def hold_out(text: Path, out: Path) -> None:
    """Write both parts, one JSON object with a ``text`` a line."""
    inputs = find_inputs([text], "dev", "auto", "en", out.absolute())
    documents = list(raw_texts(list(fingerprint_sources(inputs, ()))))
    train = (text for number, text in enumerate(documents) if number % EVERY)
    out.mkdir(parents=True, exist_ok=True)
    write_json_lines(out / "train.jsonl", ({"text": text} for text in train))
    write_json_lines(out / "held.jsonl", ({"text": text} for text in documents[::EVERY]))


def main() -> None:
    """Run from the command line."""
    text, out = sys.argv[1:]
    if (Path(out) / "held.jsonl").is_file():
        return
    source = Path(text)
    if text == "python":
        source = Path(out).with_name(f"{Path(out).name}.jsonl")
        source.parent.mkdir(parents=True, exist_ok=True)
        write_corpus(source)
    hold_out(source, Path(out))


if __name__ == "__main__":
    main()

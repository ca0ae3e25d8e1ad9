"""Corpus preparation side by side with `datasets.map`: time, memory and disk on the same text.

    python bench/prepare.py                      a slice of 16 MB, 1 and 2 workers, both sides
    python bench/prepare.py --megabytes 0        the whole corpus
    python bench/prepare.py --no-peer            ours alone

The naive path is what tutorials show: `load_dataset("text")`, `map` with the fast tokenizer,
`map` again to cut examples of 512 tokens, and a collator that masks. It gets the same text, the
same tokenizer and as many processes; it does not split sentences, drop duplicates or make pairs.
Each measurement is a process of its own, held to as many cores as it has workers.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from machine import on_this_machine, ratio_text

from litebert.common.errors import install_command

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("LITEBERT_SHARED", REPOSITORY.parent / "shared"))
LENGTH = 512
BATCH = 32


@dataclass
class Result:
    """One side with one number of workers."""

    side: str
    workers: int
    prepare_s: float
    pass_s: float
    text_mb: float
    tokens: int
    peak_mb: float = 0.0
    disk_mb: float = 0.0


def prepare_ours(text: Path, tokenizer: Path, out: Path, workers: int) -> Result:
    """Prepare shards, then draw every example once with pairs and masks."""
    from litebert.data.batches.example import ExampleConfig
    from litebert.data.batches.loader import Loader
    from litebert.data.corpus.config import PrepareConfig
    from litebert.data.corpus.prepare import prepare

    started = time.perf_counter()
    config = PrepareConfig(input=(text,), tokenizer=tokenizer, out=out, workers=workers)
    report = prepare(config)
    prepared = time.perf_counter()
    loader = Loader.open([out], ExampleConfig(length=LENGTH, micro_batch_size=BATCH), seed=0)
    tokens = sum(batch.num_tokens for batch in loader.epoch_batches())
    seconds = time.perf_counter() - prepared
    text_mb = report.manifest.sources.text_bytes / 1e6
    return Result("litebert", workers, prepared - started, seconds, text_mb, tokens)


def prepare_naively(text: Path, tokenizer: Path, out: Path, workers: int) -> Result:
    """Tokenise and cut with `datasets.map`, then collate every example once with masks."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # processes, as on our side
    import datasets
    import torch
    from transformers import AutoTokenizer, DataCollatorForLanguageModeling

    torch.set_num_threads(workers)
    started = time.perf_counter()
    fast = AutoTokenizer.from_pretrained(tokenizer)

    def tokenise(rows: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        texts = [line for line in rows["text"] if line.strip()]
        encoded = fast(texts, add_special_tokens=False, return_attention_mask=False)
        return {"input_ids": encoded["input_ids"]}

    def group(rows: dict[str, list[list[int]]]) -> dict[str, list[list[int]]]:
        flat = [token for ids in rows["input_ids"] for token in ids]
        size = LENGTH - 2
        starts = range(0, len(flat) - size + 1, size)
        cls, sep = fast.cls_token_id, fast.sep_token_id
        return {"input_ids": [[cls, *flat[start : start + size], sep] for start in starts]}

    datasets.disable_progress_bars()
    processes = workers if workers > 1 else None
    rows = datasets.load_dataset("text", data_files=str(text), cache_dir=str(out), split="train")
    rows = rows.map(tokenise, batched=True, remove_columns=["text"], num_proc=processes)
    rows = rows.map(group, batched=True, num_proc=processes)
    prepared = time.perf_counter()
    collator = DataCollatorForLanguageModeling(fast, mlm_probability=0.15)
    tokens = 0
    for start in range(0, len(rows), BATCH):
        chunk = rows[start : start + BATCH]["input_ids"]
        batch = collator([{"input_ids": ids} for ids in chunk])
        tokens += int(batch["attention_mask"].sum())
    seconds = time.perf_counter() - prepared
    text_mb = _text_bytes(text) / 1e6
    side = f"datasets {datasets.__version__}"
    return Result(side, workers, prepared - started, seconds, text_mb, tokens)


def _text_bytes(path: Path) -> int:
    if path.suffix != ".xz":
        return path.stat().st_size
    with lzma.open(path) as stream:
        return sum(len(chunk) for chunk in iter(lambda: stream.read(1 << 20), b""))


def measure(side: str, text: Path, tokenizer: Path, folder: Path, workers: int) -> Result:
    """Run one side in a process of its own and watch the memory of all its processes."""
    import psutil

    out = folder / f"{side}-{workers}"
    answer = folder / "answer.json"
    cores = sorted(os.sched_getaffinity(0))[:workers]
    command = [sys.executable, __file__, "--side", side, "--workers", str(workers)]
    for name, path in (("text", text), ("tokenizer", tokenizer), ("out", out), ("answer", answer)):
        command += [f"--{name}", str(path)]
    process = subprocess.Popen(command, preexec_fn=lambda: os.sched_setaffinity(0, cores))
    peak = 0
    while process.poll() is None:
        peak = max(peak, _memory_of(psutil.Process(process.pid)))
        time.sleep(0.1)
    if process.returncode:
        raise SystemExit(f"{side} with {workers} workers failed")
    result = Result(**json.loads(answer.read_text()))
    result.peak_mb = peak / 2**20
    result.disk_mb = sum(p.stat().st_size for p in out.rglob("*") if p.is_file()) / 1e6
    shutil.rmtree(out)
    return result


def _memory_of(process: object) -> int:
    """Return the resident memory of a process and its children; shared pages count repeatedly."""
    import psutil

    assert isinstance(process, psutil.Process)
    total = 0
    try:
        for member in [process, *process.children(recursive=True)]:
            try:
                total += member.memory_info().rss
            except psutil.NoSuchProcess:
                continue
    except psutil.NoSuchProcess:
        return 0
    return total


def write_slice(folder: Path, megabytes: float) -> Path:
    """Return a text file to prepare: the wiki corpus or its beginning, else Python's own texts."""
    corpus = SHARED / "data" / "corpus" / "wiki.txt.xz"
    path = folder / "slice.txt"
    if not corpus.is_file():
        from litebert.demo.python_text import library

        print(f"no corpus at {corpus} (LITEBERT_SHARED): using the standard library's docstrings")
        path.write_text("\n\n".join("\n".join(text) for _, text in library()), encoding="utf-8")
        return path
    if not megabytes:
        return corpus
    with lzma.open(corpus) as stream:
        data = stream.read(int(megabytes * 1e6))
    path.write_bytes(data[: data.rfind(b"\n\n") + 2])
    return path


def tokenizer_folder(folder: Path, text: Path) -> Path:
    """Return a tokenizer with 30,000 pieces, ALBERT's own if it is there."""
    from litebert.text.tokenizer import Tokenizer
    from litebert.text.train import TokenizerTrainConfig, train_tokenizer

    out = folder / "tokenizer"
    official = SHARED / "fixtures" / "official"
    if (official / "spiece.model").is_file():
        Tokenizer.load(official).save(out)
    else:
        config = TokenizerTrainConfig(input=(text,), out=out, vocab_size=30_000, shrink=True)
        train_tokenizer(config)
    return out


def print_table(results: list[Result]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="raw text to shards, then one pass of masked examples")
    columns = ("side", "workers", "prepare s", "MB/s", "peak MiB", "disk / text", "pass tokens/s")
    for column in columns:
        table.add_column(column, justify="left" if column == "side" else "right")
    for r in results:
        table.add_row(
            r.side,
            str(r.workers),
            f"{r.prepare_s:.1f}",
            f"{r.text_mb / r.prepare_s:.2f}",
            f"{r.peak_mb:,.0f}",
            f"{r.disk_mb / r.text_mb:.2f}",
            f"{r.tokens / r.pass_s:,.0f}",
        )
    Console().print(table)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--megabytes", type=float, default=16, help="0: the whole corpus")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=2, help="how often both take their turn")
    parser.add_argument("--no-peer", action="store_true", help="measure ours alone")
    parser.add_argument("--json", type=Path, help="write the figures to a file")
    for name in ("--side", "--text", "--tokenizer", "--out", "--answer"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    return parser.parse_args()


def run_side(arguments: argparse.Namespace) -> None:
    """Do one measurement; this runs in the child process."""
    function = prepare_ours if arguments.side == "ours" else prepare_naively
    paths = (Path(arguments.text), Path(arguments.tokenizer), Path(arguments.out))
    result = function(*paths, arguments.workers[0])
    Path(arguments.answer).write_text(json.dumps(asdict(result)))


def main() -> None:
    arguments = parse_arguments()
    if arguments.side:
        run_side(arguments)
        return
    sides = ["ours"] if arguments.no_peer else ["ours", "peer"]
    missing = [name for name in ("psutil", "datasets", "transformers") if not find_spec(name)]
    if "psutil" in missing:
        raise SystemExit(f"'psutil' is missing: {install_command('bench')}")
    if "peer" in sides and missing:
        print(f"no comparison: '{missing[0]}' is missing, {install_command('bench')}")
        sides = ["ours"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = write_slice(folder, arguments.megabytes)
        tokenizer = tokenizer_folder(folder, text)
        results = [
            measure(side, text, tokenizer, folder, workers)
            for _ in range(arguments.rounds)
            for workers in arguments.workers
            for side in sides
        ]
    print_table(results)
    if "peer" in sides:
        print_ratios(results)
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(result) for result in results], indent=2))


def print_ratios(results: list[Result]) -> None:
    """How much faster ours are, by the best round, with the range over the rounds."""
    for workers in dict.fromkeys(result.workers for result in results):
        same = [result for result in results if result.workers == workers]
        ours = [result for result in same if result.side == "litebert"]
        theirs = [result for result in same if result.side != "litebert"]
        prepared = ratio_text([r.prepare_s for r in theirs], [r.prepare_s for r in ours])
        seconds = [[r.pass_s / r.tokens for r in side] for side in (theirs, ours)]
        print(f"{workers} workers: preparing {prepared}, a pass {ratio_text(*seconds)}")


if __name__ == "__main__":
    with on_this_machine():
        main()

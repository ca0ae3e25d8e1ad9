"""Damaged and hostile files, and a process that gives them to every command that reads such a file.

``python tests/hostile_files.py WORLD SEED NAME=COUNT ...`` mutates files of the folder WORLD (made
by :func:`make_world`), runs the commands on them and prints what happened as one JSON object.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HANGS_AFTER_S = 300
"""So long that only an endless command reaches it, on any machine."""

TEXT = "The [MASK] of a class is called when it is made."
ABSURD = (
    "0", "-1", "1000000000", "999999999999999999999", "9223372036854775807", "1e400", "-1e400",
    "NaN", "5.5", "null", "true", '"7"', "[]", "{}", "[[[]]]", '""', '"\\ud800"', '"../../etc"',
    '"\\u0000"', "[" * 3000 + "]" * 3000, "9" * 5000, '"' + "x" * 100_000 + '"',
)  # fmt: skip
NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")


# How files are damaged.


def flip(data: bytes, draw: random.Random) -> bytes:
    """Flip a few bits."""
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 8))):
        if changed:
            changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def cut(data: bytes, draw: random.Random) -> bytes:
    """Keep the beginning, as an interrupted copy does."""
    return data[: draw.randrange(len(data) + 1)]


def splice(data: bytes, draw: random.Random) -> bytes:
    """Replace a stretch by noise, zeros (a power cut), text or a copy of another stretch."""
    start = draw.randrange(len(data) + 1)
    size = draw.choice((0, 1, 8, 64, 4096))
    other = draw.randrange(len(data) + 1)
    noise = draw.choice((draw.randbytes(size), bytes(size), b"\xff" * 9, b"\n\n{[,:", data[other : other + size]))
    return data[:start] + noise + data[start + draw.choice((0, len(noise))) :]


def absurd_number(data: bytes, draw: random.Random) -> bytes:
    """Put something else in the place of a number that stands in a text."""
    found = list(NUMBER.finditer(data))
    if not found:
        return splice(data, draw)
    place = draw.choice(found)
    return data[: place.start()] + draw.choice(ABSURD).encode() + data[place.end() :]


def absurd_value(data: bytes, draw: random.Random) -> bytes:
    """Replace, remove, double or add a value of a JSON object, at any depth."""
    try:
        value = json.loads(data)
    except ValueError:
        return absurd_number(data, draw)
    places: list[tuple[object, object]] = []

    def collect(node: object) -> None:
        items = node.items() if isinstance(node, dict) else enumerate(node)  # type: ignore[arg-type]
        for key, child in items:
            places.append((node, key))
            if isinstance(child, (dict, list)):
                collect(child)

    if not isinstance(value, (dict, list)) or not value:
        return absurd_number(data, draw)
    collect(value)
    node, key = draw.choice(places)
    marker = "@@absurd@@"
    if draw.random() < 0.2:
        del node[key]  # type: ignore[attr-defined]
    elif draw.random() < 0.1 and isinstance(node, dict):
        node["unheard_of"] = marker
    else:
        node[key] = marker  # type: ignore[index]
    return json.dumps(value).replace(f'"{marker}"', draw.choice(ABSURD)).encode()


ANY = (flip, cut, splice, lambda data, draw: draw.choice((b"", b"\0" * 512, draw.randbytes(999))))
TEXTS = (*ANY, absurd_number, absurd_number)
JSONS = (*TEXTS, absurd_value, absurd_value, absurd_value, absurd_value)


def resealed(mutate: Callable[[bytes, random.Random], bytes]) -> Callable[..., bytes]:
    """A change of a checkpoint's state that its own checksum does not show."""

    def change(data: bytes, draw: random.Random) -> bytes:
        from litebert.train.checkpoint import _digest

        changed = mutate(data, draw)
        try:
            state = json.loads(changed)
            state["checksum"] = _digest(state)
        except (ValueError, TypeError, RecursionError):
            return changed
        return json.dumps(state).encode()

    return change


def header(data: bytes, draw: random.Random) -> bytes:
    """A safetensors file whose header is whole JSON of other values."""
    size = int.from_bytes(data[:8], "little")
    changed = absurd_value(data[8 : 8 + size], draw)
    return len(changed).to_bytes(8, "little") + changed + data[8 + size :]


def graph(data: bytes, draw: random.Random) -> bytes:
    """An ONNX file that is whole but says other things of itself."""
    import onnx

    model = onnx.load_from_string(data)
    part = draw.choice(("note", "shape", "output", "input", "node", "weights"))
    if part == "note":
        draw.choice(model.metadata_props).value = draw.choice(ABSURD)[:50]
    elif part == "shape":
        tensor = draw.choice(model.graph.initializer)
        if tensor.dims:
            tensor.dims[draw.randrange(len(tensor.dims))] = draw.choice((0, -1, 7, 10**9, 2**62))
    elif part == "output":
        draw.choice(model.graph.output).name = "nothing"
    elif part == "input":
        draw.choice(model.graph.input).name = "nothing"
    elif part == "node":
        del model.graph.node[draw.randrange(len(model.graph.node))]
    else:
        del model.graph.initializer[draw.randrange(len(model.graph.initializer))]
    changed: bytes = model.SerializeToString()
    return changed


def bundle_block(data: bytes, draw: random.Random) -> bytes:
    """A TensorFlow index with a changed block that has the right checksum."""
    from litebert.interop.tf.bundle import _handle, masked_crc32c

    _, position = _handle(data[-48:], 0)
    (index_offset, _), _ = _handle(data[-48:], position)
    end = index_offset
    for candidate in range(end - 5, 0, -1):
        crc = int.from_bytes(data[candidate + 1 : candidate + 5], "little")
        if candidate < end - 20 and masked_crc32c(data[0 : candidate + 1]) == crc:
            changed = bytearray(data[: candidate + 1])
            for _ in range(draw.choice((1, 2, 4))):
                changed[draw.randrange(candidate)] = draw.choice((0, 1, 0x7F, 0x80, 0xFF))
            return bytes(changed) + masked_crc32c(bytes(changed)).to_bytes(4, "little") + data[candidate + 5 :]
    return flip(data, draw)


# Which commands read what.


@dataclass(frozen=True)
class Reader:
    """A kind of file: one or several of them in the world, and the commands that read it."""

    files: tuple[str, ...]
    commands: tuple[str, ...]
    mutations: tuple[Callable[[bytes, random.Random], bytes], ...] = ANY
    stdin: str = ""
    irregular: bool = True
    """whether a pipe, a folder and a device are put in its place too"""
    outputs: tuple[str, ...] = field(default=("out",))


FILL = f"fill-mask|--model|model|{TEXT}"
COPY = "import|hf|model|out"
ONNX = "export|onnx|model|out"
TRAIN = "pretrain|--config|tiny.toml|--data|shards|--out|out|--steps|1"
RESUME = "pretrain|--config|tiny.toml|--data|shards|--out|run|--resume|auto|--steps|3"
REPORT = "report|run"
SCORE = "evaluate|task.toml|--model|classifier|--data|."
ROWS = "predict|task.toml|--model|classifier|--input|"
PREPARE = "prepare|--tokenizer|tokenizer|--out|out|--workers|1|--input|"

READERS: dict[str, Reader] = {
    "config (TOML)": Reader(("tiny.toml",), (TRAIN.replace("shards", "none"),), TEXTS),
    "task file (TOML)": Reader(("task.toml",), (SCORE, ROWS + "rows.csv"), TEXTS),
    "config.json": Reader(("model/config.json",), (FILL, ONNX, COPY), JSONS),
    "config.json of ONNX": Reader(("onnx/config.json",), (FILL.replace("|model|", "|onnx|"),), JSONS),
    "task.json": Reader(
        ("classifier/task.json", "span/task.json"),
        (ROWS + "rows.jsonl", "predict|squad1|--model|span|--input|questions.jsonl"),
        JSONS,
    ),
    "shard manifest": Reader(("shards/manifest.json",), ("inspect|shards", "inspect|shards", TRAIN), JSONS),
    "shard tokens": Reader(("shards/train/00000.bin", "shards/dev/00000.bin"), ("inspect|shards", TRAIN)),
    "shard offsets": Reader(("shards/train/00000.idx",), ("inspect|shards", TRAIN)),
    "unigrams.npy": Reader(("shards/train/unigrams.npy",), (TRAIN,)),
    "run manifest": Reader(
        ("run/manifest.json",),
        (REPORT, REPORT, RESUME, "export|checkpoint|run|out"),
        JSONS,
        outputs=("out", "run/report.html"),
    ),
    "metrics.jsonl": Reader(
        ("run/metrics.jsonl", "finetuned/metrics.jsonl"), (REPORT, "report|finetuned", RESUME), TEXTS
    ),
    "report figures": Reader(
        ("finetuned/result.json", "finetuned/mistakes.json", "run/samples.json", "finetuned/manifest.json"),
        (REPORT, "report|finetuned", "report|finetuned|--table|out"),
        JSONS,
    ),
    "checkpoint state": Reader(
        ("run/checkpoints/step-2/state.json",),
        (RESUME, "export|checkpoint|run|out", "export|checkpoint|run|out|--step|last"),
        (*JSONS, resealed(absurd_value), resealed(absurd_value), resealed(absurd_value)),
    ),
    "checkpoint tensors": Reader(
        ("run/checkpoints/step-2/weights.safetensors", "run/checkpoints/step-2/optimizer.safetensors"),
        (RESUME, "export|checkpoint|run|out"),
        (*ANY, header),
    ),
    "safetensors": Reader(("model/model.safetensors",), (FILL, ONNX, COPY), (*ANY, header, header, header)),
    "safetensors index": Reader(
        ("sharded/model.safetensors.index.json",), (FILL.replace("|model|", "|sharded|"),), JSONS
    ),
    "pytorch_model.bin": Reader(("pickled/pytorch_model.bin",), (FILL.replace("|model|", "|pickled|"),)),
    "ONNX": Reader(("onnx/model.onnx",), (FILL.replace("|model|", "|onnx|"),), (*ANY, graph, graph, graph)),
    "Parquet": Reader(("rows.parquet",), (ROWS + "rows.parquet", PREPARE + "rows.parquet")),
    "JSON lines": Reader(("rows.jsonl",), (ROWS + "rows.jsonl", PREPARE + "rows.jsonl"), TEXTS),
    "CSV and TSV": Reader(("rows.csv", "rows.tsv"), (ROWS + "rows.csv", ROWS + "rows.tsv", SCORE), TEXTS),
    "plain text": Reader(("text.txt", "text.txt.gz"), (PREPARE + "text.txt", PREPARE + "text.txt.gz")),
    "SQuAD JSON": Reader(
        ("squad.json", "answers.json"), ("evaluate|squad1|--predictions|answers.json|--data|squad.json",), JSONS
    ),
    "spiece.model": Reader(("tokenizer/spiece.model",), ("tokenizer|encode|--tokenizer|tokenizer",), stdin=TEXT),
    "tokenizer JSON": Reader(("model/tokenizer.json", "model/tokenizer_config.json"), (FILL, COPY, ONNX), JSONS),
    "TensorFlow index": Reader(
        ("tf/model.ckpt-best.index",), ("import|tf|tf|out",), (*ANY, bundle_block, bundle_block)
    ),
    "TensorFlow data": Reader(
        ("tf/model.ckpt-best.data-00000-of-00001", "tf/albert_config.json"), ("import|tf|tf|out",), JSONS
    ),
    "build records": Reader(
        ("finished/sources.jsonl", "finished/manifest.json"),
        (PREPARE.replace("out|--", "finished|--") + "text.txt",),
        JSONS,
    ),
}


def make_world(world: Path, tokenizer: Path, shards: Path) -> None:
    """Fill a folder with one small file of every kind."""
    import gzip

    import pyarrow
    import pyarrow.parquet
    import torch
    from safetensors.torch import load_file, save_file

    from litebert.interop.onnx.export import export_onnx
    from litebert.tasks.task_file import TaskFile
    from litebert.train.finetuning.engine import finetune
    from litebert.train.pretraining.engine import pretrain
    from small_finetuning import EXAMPLES, small_finetuning
    from small_run import small_config
    from tiny_models import LABELS, random_model_folder

    shutil.copytree(tokenizer, world / "tokenizer")
    shutil.copytree(shards, world / "shards")
    model = random_model_folder(world / "model", "pretraining", tokenizer)
    export_onnx(model, world / "onnx")
    for name in ("sharded", "pickled"):
        shutil.copytree(model, world / name)
        tensors = load_file(world / name / "model.safetensors")
        (world / name / "model.safetensors").unlink()
        if name == "pickled":
            torch.save(tensors, world / name / "pytorch_model.bin")
        else:
            save_file(tensors, world / name / "model-1.safetensors")
            index = {"weight_map": dict.fromkeys(tensors, "model-1.safetensors")}
            (world / name / "model.safetensors.index.json").write_text(json.dumps(index))
    random_model_folder(world / "classifier", "classification", tokenizer)
    TaskFile("task", "classification", LABELS, 32).write(world / "classifier")
    random_model_folder(world / "span", "span", tokenizer)
    TaskFile("squad1", "span_extraction", (), 32, stride=8).write(world / "span")
    (world / "tiny.toml").write_text(
        'batch_size = 8\n[model]\npreset = "albert-tiny"\nhidden_size = 64\nembedding_size = 32\n'
        "intermediate_size = 64\n[examples]\nlength = 32\nmicro_batch_size = 2\n[optimizer]\n"
        'name = "adamw"\nlr = 2e-3\n[evaluation]\nevery_steps = 0\nexamples = 8\n'
        "final_examples = 8\n[checkpoint]\nevery_steps = 1\n[curriculum]\n"
        "layers = [[0.0, 1], [0.5, 2]]\n"
    )
    labels = ", ".join(f'"{label}"' for label in LABELS)
    (world / "task.toml").write_text(
        f'name = "task"\nkind = "classification"\nlabels = [{labels}]\nmax_length = 32\n'
        '[files]\ntrain = "rows.csv"\ndev = "rows.csv"\n[columns]\ntext = "text"\nlabel = "label"\n'
    )
    rows = [{"text": f"{TEXT} {i}", "label": LABELS[i % 3]} for i in range(12)]
    (world / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for separator, name in ((",", "rows.csv"), ("\t", "rows.tsv")):
        lines = [separator.join(("text", "label")), *(separator.join(row.values()) for row in rows)]
        (world / name).write_text("\n".join(lines) + "\n")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), world / "rows.parquet")
    asked = [{"question": "What is called?", "context": f"{TEXT} " * 4}]
    (world / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked))
    squad = {"id": "1", "question": "What?", "answers": [{"text": "class", "answer_start": 18}]}
    content = {"data": [{"paragraphs": [{"context": TEXT, "qas": [squad]}]}], "version": "1.1"}
    (world / "squad.json").write_text(json.dumps(content))
    (world / "answers.json").write_text('{"1": "a class"}')
    text = "\n\n".join(f"{TEXT} It has {i} methods.\nThey do things." for i in range(40))
    (world / "text.txt").write_text(text)
    (world / "text.txt.gz").write_bytes(gzip.compress(text.encode()))
    shutil.copytree(Path(__file__).parent / "fixtures" / "tf_checkpoint", world / "tf")
    config = small_config(world / "shards", world / "run", steps=2, batch_size=8)
    pretrain(config, quiet=True)
    small = small_finetuning(world / "classifier", world / "finetuned", "classification", steps=2)
    finetune(small)
    assert EXAMPLES.is_dir()
    _run("prepare|--tokenizer|tokenizer|--out|finished|--workers|1|--input|text.txt", "", world)


# Running.


def _run(command: str, stdin: str, world: Path) -> tuple[int, str]:
    """Run a command as the shell does; its exit status and standard error."""
    from litebert.cli import main

    streams = sys.stdin, sys.stdout, sys.stderr
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()))
    sys.stdout = io.TextIOWrapper(io.BytesIO(), "utf-8")
    written, before = io.BytesIO(), Path.cwd()
    errors = sys.stderr = io.TextIOWrapper(written, "utf-8", "backslashreplace")  # as Python's own
    os.chdir(world)
    signal.alarm(HANGS_AFTER_S)
    try:
        main(command.split("|"))
        status = 0
    except SystemExit as end:
        status = int(end.code or 0)
    finally:
        signal.alarm(0)
        os.chdir(before)
        errors.flush()
        sys.stdin, sys.stdout, sys.stderr = streams
    return status, written.getvalue().decode(errors="replace")


def _replace_by_irregular(path: Path, draw: random.Random) -> str:
    kind = draw.choice(("pipe", "folder", "device", "loop"))
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "device" else path)
    return kind


def attack(name: str, world: Path, draw: random.Random, command: str = "") -> str | None:
    """Damage one file, run one command; what is wrong with how it ended, or None.

    With a ``command`` that one runs on the whole file, and must work.
    """
    reader = READERS[name]
    path = world / draw.choice(reader.files)
    is_whole = bool(command)
    command = command or draw.choice(reader.commands)
    kept = [world / part for part in {Path(file).parts[0] for file in reader.files}]
    backup = world / "backup"
    backup.mkdir()
    for item in kept:
        (shutil.copytree if item.is_dir() else shutil.copy2)(item, backup / item.name)
    if is_whole:
        how = "nothing"
    elif reader.irregular and draw.random() < 0.03:
        how = _replace_by_irregular(path, draw)
    else:
        data = path.read_bytes()
        mutate = draw.choice(reader.mutations)
        how = getattr(mutate, "__name__", "other")
        path.write_bytes(mutate(data, draw))
    problem = None
    (world / "now").write_text(f"{name}: {how} of {path.name}, {command}")
    try:
        status, errors = _run(command, reader.stdin, world)
        lines = [line for line in errors.splitlines() if line.startswith("litebert: error:")]
        if is_whole and status and "none" not in command:
            problem = f"exit {status} with whole files: {errors[-300:]}"
        elif status == 2 and len(lines) != 1:
            problem = f"exit 2 without one line: {errors[-300:]}"
        elif status not in (0, 1, 2):
            problem = f"exit {status}: {errors[-300:]}"
        elif len("".join(lines)) > 4000:
            problem = f"a line of {len(lines[0])} characters: {lines[0][:300]}"
    except BaseException:
        problem = traceback.format_exc()[-1800:]
    if problem is not None:
        saved = world / "failed"
        saved.mkdir(exist_ok=True)
        if path.is_file():
            shutil.copy2(path, saved / f"{len(list(saved.iterdir()))}-{path.name}")
        problem = f"{name}: {how} of {path.name}, litebert {command.replace('|', ' ')}\n{problem}"
    for item in (*kept, *(world / output for output in reader.outputs)):
        (shutil.rmtree if item.is_dir() and not item.is_symlink() else _unlink)(item)
    for item in kept:
        shutil.move(backup / item.name, item)
    shutil.rmtree(backup)
    return problem


def _unlink(path: Path) -> None:
    path.unlink(missing_ok=True)


def main(arguments: Sequence[str]) -> None:
    world, seed, counts = Path(arguments[0]), int(arguments[1]), arguments[2:]
    # Whatever gets through must not take the machine with it.
    resource.setrlimit(resource.RLIMIT_DATA, (3 << 30, 3 << 30))
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError("it hangs")))
    tried, problems = Counter[str](), []
    for item in counts:
        name, _, count = item.partition("=")
        for command in READERS[name].commands if int(count) > 9 else ():
            problem = attack(name, world, random.Random(0), command)
            problems += [] if problem is None else [problem]
        for index in range(int(count)):
            problem = attack(name, world, random.Random(f"{seed}/{name}/{index}"))
            tried[name] += 1
            if problem is not None:
                problems.append(problem)
    # Not getrusage, whose figure begins with that of the process that started this one.
    peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    assert peak is not None
    print(json.dumps({"tried": tried, "problems": problems, "peak_bytes": int(peak[1]) * 1024}))


if __name__ == "__main__":
    main(sys.argv[1:])

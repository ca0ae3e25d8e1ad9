"""A model that runs in the page: its files for a browser, and the playground without a server."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from litebert.common.errors import CheckpointError, ConfigError, InputError, install_command
from litebert.common.files import atomic_folder, check_free, file_sizes, write_json, write_text
from litebert.interop.folder import ModelFolder
from litebert.interop.hub import ONNX_FOLDER, QUANTIZED_FILE
from litebert.interop.onnx.export import MODEL_FILE, export_onnx
from litebert.interop.onnx.file import OnnxFile
from litebert.model.config import ModelConfig
from litebert.model.counts import count_parameters
from litebert.model.head_table import HEADS
from litebert.predict.backend import ONNX_FILES
from litebert.predict.purpose import Purpose
from litebert.text.folder import copy_tokenizer
from litebert.text.foreign import JsonTokenizer
from litebert.text.tokenizer import TOKENIZER_FILES, Tokenizer, has_tokenizer

STATIC = Path(__file__).parent / "static"
RUNTIME = STATIC / "vendor"
"""onnxruntime-web and a tokenizer, which `make web` puts there; the wheel has them if they are."""
DESCRIPTION_FILE = "model.json"
PAGE_FILES = (DESCRIPTION_FILE, MODEL_FILE, "tokenizer.json", "tokenizer_config.json")
"""What a page loads of a model."""

NEEDED_OUTPUTS = {
    "fill-mask": "masked_logits",
    "order": "sop_logits",
    "embeddings": "last_hidden_state",
    "layers": "hidden_states",
}
"""What models of several heads can be asked -> the output that the answer is read from."""
_LARGEST_MODEL = 1_000_000_000  # a browser holds a file and the runtime's copy of it in 4 GB


def shape_of(config: ModelConfig, num_layers: int | None = None) -> dict[str, object]:
    """Return what the playground shows of a model's shape, of which ``num_layers`` run."""
    size = config.hidden_size
    unshared = replace(config, sharing="none", num_groups=1, embedding_size=size, embedding_projection=None)
    return {
        **{name: getattr(config, name) for name in ("vocab_size", "embedding_size", "hidden_size", "sharing")},
        "num_layers": num_layers or config.num_layers,
        "num_parameters": count_parameters(config).encoder,
        "num_parameters_bert": count_parameters(unshared).encoder,
    }


def write_page_model(source: Path | str, target: Path, name: str, depth: int | None = None) -> None:
    """Write what a page needs: graph (an int8 or other ONNX file, else exported to int8), tokenizer, description."""
    folder = ModelFolder(source)
    head = HEADS[folder.head]
    if not has_tokenizer(folder.path):
        raise CheckpointError(f"{folder.path} has no tokenizer; copy its spiece.model there")
    if not head.pretrained and "classify" not in head.answers:
        runs = "a page runs those that fill masks, judge order, classify or embed"
        raise InputError(f"{folder.path} is a {folder.head} model; {runs}; others need `litebert serve`")
    with tempfile.TemporaryDirectory() as scratch:
        there = (f"{ONNX_FOLDER}/{QUANTIZED_FILE}", *ONNX_FILES)
        found = next((file for file in map(folder.path.joinpath, there) if file.is_file()), None)
        if found is None or depth is not None:
            export_onnx(folder.path, Path(scratch) / "int8", int8=True, depth=depth)
            found = Path(scratch) / "int8" / MODEL_FILE
        size = sum(file.stat().st_size for file in found.parent.glob(f"{found.name}*"))
        if size > _LARGEST_MODEL:
            raise CheckpointError(f"{found} has {size / 1e6:,.0f} MB; a page holds up to {_LARGEST_MODEL / 1e6:,.0f}")
        file = OnnxFile(found)
        wanted = ("masked_logits", "sop_logits", "last_hidden_state", "logits")
        outputs = [output for output in wanted if output in file.outputs]
        if "masked_logits" in outputs:  # those of every position cost more than all the rest
            outputs.remove("logits")
        (target / MODEL_FILE).write_bytes(file.with_outputs(outputs))
    copy_tokenizer(folder.path, target, masks="masked_logits" in head.output_names)
    for other in set(TOKENIZER_FILES) - set(PAGE_FILES):
        (target / other).unlink(missing_ok=True)
    purpose, tokenizer = Purpose.read(folder.path), Tokenizer.load(folder.path)
    abilities = [able for able, output in NEEDED_OUTPUTS.items() if output in outputs]
    if head.pretrained and "logits" in outputs:
        abilities.append("fill-mask")
    form = None if head.pretrained else purpose.form()
    is_wordpiece = isinstance(tokenizer, JsonTokenizer) and tokenizer.is_wordpiece
    description = {
        "name": name,
        "head": folder.head,
        "runtime": f"onnx {file.metadata.get('precision', 'float32')}",
        "can": abilities + ([] if head.pretrained else ["classify"]),
        "labels": list(form.labels) if form else [],
        "kind": form.kind if form else None,
        **shape_of(folder.config, depth),
        "max_length": folder.config.max_positions,
        "task_length": purpose.length(),
        "pooling": purpose.vectors.pooling,
        "continuation": "##" if is_wordpiece else None,
        **{name: getattr(tokenizer, name) for name in ("cls_id", "sep_id", "mask_id")},
        "bytes": sum((target / file).stat().st_size for file in PAGE_FILES[1:]),
    }
    write_json(target / DESCRIPTION_FILE, description)


class PageModels:
    """The models of a server as files for its page, made when they are first asked for."""

    def __init__(self) -> None:
        # One at a time, on a thread that no question waits for.
        self._thread = ThreadPoolExecutor(1, "page-models")
        self._made: dict[str, tempfile.TemporaryDirectory[str]] = {}

    async def file(self, name: str, source: Path, depth: int | None, file: str) -> Path:
        """Return a file of a model; an InputError says why it cannot run in a page."""

        def made() -> Path:
            if name not in self._made:
                folder = tempfile.TemporaryDirectory(prefix="litebert-page-")
                write_page_model(source, Path(folder.name), name, depth)
                self._made[name] = folder
            return Path(self._made[name].name) / file

        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, made)
        except ModuleNotFoundError as error:
            raise InputError(f"running it in the page needs {error.name}: {install_command('onnx')}") from None
        except CheckpointError as error:
            raise InputError(str(error)) from None

    def close(self) -> None:
        """Remove the files."""
        self._thread.shutdown()
        for folder in self._made.values():
            folder.cleanup()


def export_page(source: Path | str, out: Path | str) -> dict[str, int]:
    """Write a new folder that runs a model in the browser, from any file server; its files."""
    check_free(out)
    if not (RUNTIME / "ort.wasm.gz").is_file():
        remedy = "run `make web` in a clone of litebert (it needs Node)"
        raise ConfigError(f"{RUNTIME} has no onnxruntime-web, which the page needs; {remedy}")
    path = ModelFolder(source).path
    name = path.resolve().parent.name if path.name == "model" else path.name
    with atomic_folder(out) as temporary:
        server_only = shutil.ignore_patterns("docs.html", "docs.js", "index.html")
        shutil.copytree(STATIC, temporary / "static", ignore=server_only)
        page = (STATIC / "index.html").read_text(encoding="utf-8")
        write_text(temporary / "index.html", page.replace("<html", '<html data-page="static"', 1))
        (temporary / "model").mkdir()
        write_page_model(source, temporary / "model", name)
    return file_sizes(Path(out))

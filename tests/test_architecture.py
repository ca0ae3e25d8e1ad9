"""The layout: imports go down the rows, third parties stay in their rooms, rooms stay small."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "litebert"

ROWS: tuple[frozenset[str], ...] = (
    frozenset({"common"}),
    frozenset({"text", "model", "optim", "bundled"}),
    frozenset({"data", "tasks", "dist", "interop"}),
    frozenset({"predict"}),
    frozenset({"train", "serve", "report"}),
    frozenset({"experiments", "demo"}),
    frozenset({"commands"}),
    frozenset({"cli"}),
    frozenset({"__init__", "__main__"}),
)
ROW_OF = {package: row for row, packages in enumerate(ROWS) for package in packages}

# Within a package: who may not import whom.
APART = (
    ("data.corpus", "data.batches"),
    ("tasks.forms", "tasks.benchmarks"),
    ("tasks.forms", "tasks.custom"),
    ("tasks.benchmarks", "tasks.custom"),
    ("interop.onnx", "interop.tf"),
    ("interop.tf", "interop.onnx"),
    ("train.pretraining", "train.finetuning"),
    ("train.finetuning", "train.pretraining"),
)

# Who may import what, besides the standard library. numpy is everywhere.
THIRD_PARTIES: dict[str, frozenset[str]] = {
    "numpy": frozenset({"*"}),
    "rich": frozenset({"common", "train", "demo", "commands"}),
    "cyclopts": frozenset({"commands", "cli"}),
    "filelock": frozenset({"common"}),  # one writer a folder, on every system
    "sentencepiece": frozenset({"text"}),
    "sentencex": frozenset({"text"}),
    "tokenizers": frozenset({"text"}),
    "fsspec": frozenset({"text"}),  # comes with huggingface_hub; for input by address
    "charset_normalizer": frozenset({"common"}),  # tables that are not UTF-8
    "pyarrow": frozenset({"common", "data.corpus"}),
    "torch": frozenset({"model", "optim", "dist", "interop", "predict", "train"}),
    "safetensors": frozenset({"interop", "train"}),
    "huggingface_hub": frozenset({"interop"}),
    "google_crc32c": frozenset({"interop.tf"}),
    "onnx": frozenset({"interop.onnx"}),
    "google": frozenset({"interop.onnx"}),  # protobuf's errors
    "onnxruntime": frozenset({"interop.onnx", "predict"}),
    "matplotlib": frozenset({"data.batches", "predict", "report"}),
    "scipy": frozenset({"tasks", "experiments"}),  # there: Student's t
    "sklearn": frozenset({"tasks"}),
    "bm25s": frozenset({"tasks"}),  # not in any extra: only for --baseline bm25
    "fastapi": frozenset({"serve"}),
    "pydantic": frozenset({"serve"}),
    "pydantic_core": frozenset({"serve"}),
    "tiktoken": frozenset({"serve"}),  # not in any extra: only for --token-arrays cl100k_base
    "starlette": frozenset({"serve"}),
    "uvicorn": frozenset({"serve"}),
    "prometheus_client": frozenset({"serve"}),
}
# Found by name when asked for (`importlib`), never imported by a statement: ray, transformers.

TORCH_FREE = (
    "common", "text", "data", "tasks", "commands", "cli", "report", "predict", "serve", "bundled",
    "model.config", "model.sharing", "model.head_table", "interop.names", "interop.onnx",
)  # fmt: skip
# Imported only when a torch model is opened.
TORCH_BACKENDS = frozenset({"predict.torch_backend"})

# Imported at the top of a module these make every command slow to start.
HEAVY = frozenset({"torch", "transformers", "matplotlib", "tensorboard", "scipy", "sklearn"})

LARGEST_ROOM = 12
"""Modules of a folder, `__init__` apart; `commands/` has one for each command."""
LONGEST_FILE = 400

# Public names that stand in two modules, and why.
SAME_NAME: dict[str, str] = {
    **dict.fromkeys(
        ("adapt", "demo", "embed", "evaluate", "export", "fill_mask", "finetune", "plan",
         "prepare", "pretrain", "probe", "report", "serve", "sweep"),
        "the command and the function it calls",
    ),
    "main": "the program and its command table",
    "Embedding": "a table of vectors, and a vector in OpenAI's words",
    "Status": "what OpenAPI calls an answer of the health route",
}  # fmt: skip


def package_of(module: str) -> str:
    """`litebert.data.corpus.shards` -> `data`; the bare package counts as `__init__`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imports(tree: ast.AST, *, top_level_only: bool = False) -> Iterator[tuple[int, str]]:
    """Yield (line, imported module) of a module, optionally without those inside functions."""
    nodes = ast.walk(tree)
    if top_level_only:
        inside = {
            id(child)
            for node in ast.walk(tree)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
            for child in ast.walk(node)
        }
        nodes = (node for node in ast.walk(tree) if id(node) not in inside)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "litebert":
                for alias in node.names:
                    yield node.lineno, f"litebert.{alias.name}"
            else:
                yield node.lineno, node.module


def violations(module: str, source: str) -> list[str]:
    """Return the imports of a module that go sideways or up, or bring in a stranger."""
    own, short = package_of(module), module.removeprefix("litebert.")
    problems = []
    for line, name in imports(ast.parse(source)):
        where = f"{module}:{line} imports {name}"
        if not name.startswith("litebert"):
            problems += [] if _is_welcome(name.split(".")[0], short) else [where]
            continue
        other = package_of(name)
        if other not in ROW_OF:  # `from litebert import __version__` and the like
            continue
        if other != own and ROW_OF[other] >= ROW_OF[own]:
            problems.append(where)
        target = name.removeprefix("litebert.")
        if any(_is_in(short, here) and _is_in(target, there) for here, there in APART):
            problems.append(where)
    return problems


def _is_welcome(library: str, module: str) -> bool:
    """Whether a module may import a library."""
    if library in sys.stdlib_module_names:
        return True
    rooms = THIRD_PARTIES.get(library, frozenset())
    return "*" in rooms or any(_is_in(module, room) for room in rooms)


def _is_in(module: str, room: str) -> bool:
    return module == room or module.startswith(room + ".")


def modules() -> list[tuple[str, Path]]:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        found.append((".".join(parts).removesuffix(".__init__"), path))
    return found


def crowded_rooms(paths: list[Path]) -> list[str]:
    """Return the folders with more modules than the eye takes in."""
    rooms: dict[Path, int] = defaultdict(int)
    for path in paths:
        rooms[path.parent] += path.name != "__init__.py"
    return [
        f"{folder.name}: {count} modules"
        for folder, count in rooms.items()
        if count > LARGEST_ROOM and folder.name != "commands"
    ]


def names_defined_twice(sources: dict[str, str]) -> dict[str, list[str]]:
    """Return the public functions and classes that two modules define."""
    where: dict[str, list[str]] = defaultdict(list)
    for module, source in sources.items():
        for node in ast.parse(source).body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                where[node.name].append(module)
    return {
        name: found
        for name, found in where.items()
        if len(found) > 1 and not name.startswith("_") and name not in SAME_NAME
    }


def test_imports_go_down_the_rows_and_third_parties_stay_in_their_rooms() -> None:
    problems = [p for module, path in modules() for p in violations(module, path.read_text())]
    assert not problems, "\n".join(problems)


def test_every_package_has_a_row() -> None:
    unknown = {package_of(module) for module, _ in modules()} - set(ROW_OF)
    assert not unknown


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("litebert.model.encoder", "from litebert.data.corpus.shards import ShardSet"),
        ("litebert.data.batches.loader", "def f():\n    import litebert.train.loop"),
        ("litebert.text.tokenizer", "from litebert.model import config"),
        ("litebert.common.files", "from litebert import cli"),
        ("litebert.data.corpus.shards", "from litebert.data.batches.loader import Loader"),
        ("litebert.train.finetuning.engine", "import litebert.train.pretraining.engine"),
        ("litebert.common.config", "import cyclopts"),
        ("litebert.tasks.base", "def f():\n    import torch"),
        ("litebert.serve.app", "import transformers"),
    ],
)
def test_a_broken_layout_is_noticed(module: str, source: str) -> None:
    assert violations(module, source)


def test_no_room_is_crowded() -> None:
    assert not crowded_rooms([path for _, path in modules()])
    assert crowded_rooms([Path(f"room/module{number}.py") for number in range(LARGEST_ROOM + 1)])


# What Windows lacks: imported when it is used, after a look whether it is there.
UNIX_ONLY = frozenset({"fcntl", "resource", "pwd", "grp", "termios", "pty", "tty", "syslog"})
UNIX_SIGNALS = frozenset({"SIGHUP", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGCHLD", "SIGPIPE", "SIGKILL"})


def test_nothing_at_import_that_windows_lacks() -> None:
    problems = []
    for module, path in modules():
        tree = ast.parse(path.read_text())
        found = [name for _, name in imports(tree, top_level_only=True) if name in UNIX_ONLY]
        found += [node.attr for node in ast.walk(tree)
                  if isinstance(node, ast.Attribute) and node.attr in UNIX_SIGNALS]  # fmt: skip
        problems += [f"{module}: {name}" for name in found]
    assert not problems, "\n".join(problems)


@pytest.mark.slow
def test_every_module_is_imported_where_unix_is_hidden() -> None:
    """Libraries first, which know both systems; then ours again, with everything hidden."""
    names = [module for module, _ in modules() if not module.endswith("__main__")]
    code = f"""
import importlib, os, signal, sys
names = {names}
for name in names: importlib.import_module(name)
for name in list(sys.modules):
    if name.split(".")[0] == "litebert": del sys.modules[name]
for name in {sorted(UNIX_ONLY)}: sys.modules[name] = None
for name in {sorted(UNIX_SIGNALS | {"pthread_sigmask"})}: delattr(signal, name)
for name in ("fork", "sched_getaffinity", "getuid", "geteuid", "uname"): delattr(os, name)
for name in names: importlib.import_module(name)
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr


def test_no_file_is_long() -> None:
    sizes = {module: len(path.read_text().splitlines()) for module, path in modules()}
    assert not {module: size for module, size in sizes.items() if size > LONGEST_FILE}


def test_a_name_is_defined_once() -> None:
    assert not names_defined_twice({module: path.read_text() for module, path in modules()})
    assert names_defined_twice({"a": "class Same: ...", "b": "def Same(): ..."}) == {"Same": ["a", "b"]}


def test_torch_is_not_imported_by_torch_free_modules() -> None:
    problems = []
    for module, path in modules():
        short = module.removeprefix("litebert.")
        if short not in TORCH_BACKENDS and any(_is_in(short, free) for free in TORCH_FREE):
            for line, name in imports(ast.parse(path.read_text()), top_level_only=True):
                if name.split(".")[0] in HEAVY:
                    problems.append(f"{module}:{line} imports {name}")
    assert not problems, "\n".join(problems)


def test_help_does_not_import_torch() -> None:
    code = "import sys; from litebert.cli import main; main(['--help']); print('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip().endswith("False")


@pytest.mark.parametrize(
    "module", ["text.tokenizer", "data.batches.loader", "tasks.base", "predict.predictor", "serve.app"]
)
def test_torch_free_modules_really_run_without_torch(module: str) -> None:
    """What a module imports indirectly counts too: hide torch and import it."""
    code = f"import sys; sys.modules['torch'] = None; import litebert.{module}"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr


def test_only_dist_names_torch_distributed() -> None:
    problems = [
        f"{module}:{line}"
        for module, path in modules()
        if package_of(module) != "dist"
        for line, name in imports(ast.parse(path.read_text()))
        if name.startswith("torch.distributed")
    ]
    assert not problems, "\n".join(problems)


def test_every_module_says_its_job() -> None:
    missing = [module for module, path in modules() if not ast.get_docstring(ast.parse(path.read_text()))]
    assert not missing

"""The layout's law: imports go down the rows only, and torch stays where it belongs."""

from __future__ import annotations

import ast
import subprocess
import sys
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
    frozenset({"demo"}),
    frozenset({"commands"}),
    frozenset({"cli"}),
    frozenset({"__init__", "__main__"}),
)
ROW_OF = {package: row for row, packages in enumerate(ROWS) for package in packages}

TORCH_FREE = (
    "common", "text", "data", "tasks", "commands", "cli", "report", "predict", "serve", "bundled",
    "model.config", "model.head_table", "model.sharing", "interop.names", "interop.onnx",
)  # fmt: skip
# Imported only when a torch model is opened.
TORCH_BACKENDS = frozenset({"predict.torch_backend", "predict.layers"})

# Imported at the top of a module these make every command slow to start.
HEAVY = frozenset({"torch", "transformers", "matplotlib", "tensorboard"})


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
    """Return the imports of a module that go sideways or up."""
    own = package_of(module)
    problems = []
    for line, name in imports(ast.parse(source)):
        if not name.startswith("litebert"):
            continue
        other = package_of(name)
        if other not in ROW_OF:  # `from litebert import __version__` and the like
            continue
        if other != own and ROW_OF[other] >= ROW_OF[own]:
            problems.append(f"{module}:{line} imports {name}")
    return problems


def modules() -> list[tuple[str, Path]]:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        found.append((".".join(parts).removesuffix(".__init__"), path))
    return found


def test_imports_go_down_the_rows() -> None:
    problems = [p for module, path in modules() for p in violations(module, path.read_text())]
    assert not problems, "\n".join(problems)


def test_every_package_has_a_row() -> None:
    unknown = {package_of(module) for module, _ in modules()} - set(ROW_OF)
    assert not unknown


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("litebert.model.encoder", "from litebert.data.corpus.shards import ShardSet"),
        ("litebert.data.batches.loader", "def f():\n    import litebert.train.step"),
        ("litebert.text.tokenizer", "from litebert.model import config"),
        ("litebert.common.files", "from litebert import cli"),
    ],
)
def test_a_broken_layout_is_noticed(module: str, source: str) -> None:
    assert violations(module, source)


def test_torch_is_not_imported_by_torch_free_modules() -> None:
    problems = []
    for module, path in modules():
        short = module.removeprefix("litebert.")
        if short in TORCH_BACKENDS:
            continue
        if any(short == free or short.startswith(free + ".") for free in TORCH_FREE):
            for line, name in imports(ast.parse(path.read_text()), top_level_only=True):
                if name.split(".")[0] in HEAVY:
                    problems.append(f"{module}:{line} imports {name}")
    assert not problems, "\n".join(problems)


def test_help_does_not_import_torch() -> None:
    code = (
        "import sys; from litebert.cli import main; main(['--help']); print('torch' in sys.modules)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip().endswith("False")


@pytest.mark.parametrize(
    "package",
    ["text.tokenizer", "data.batches.loader", "tasks.base", "predict.predictor", "serve.app"],
)
def test_torch_free_modules_really_run_without_torch(package: str) -> None:
    """What a module imports indirectly counts too: hide torch and import it."""
    if not (SOURCE / (package.replace(".", "/") + ".py")).exists():
        pytest.skip(f"{package} does not exist")
    code = f"import sys; sys.modules['torch'] = None; import litebert.{package}"
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
    missing = [
        module for module, path in modules() if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert not missing

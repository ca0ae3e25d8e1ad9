"""The command line: a table of commands, loaded only when they are called."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from cyclopts import App, CycloptsError
from cyclopts.config import Dict

from litebert import __version__
from litebert.common.config import read_toml, recipe_path
from litebert.common.errors import ConfigError, LitebertError, extra_of, install_command

EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130

# command -> (function, one line of help). A dotted command is a sub-command.
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo:demo", "The whole way, small, on text that every Python carries."),
    "params": ("params:params", "Count parameters of presets and of any shape."),
    "tokenizer.train": ("tokenizer:train", "Train a SentencePiece vocabulary."),
    "tokenizer.encode": ("tokenizer:encode", "Turn lines into piece ids."),
    "prepare": ("prepare:prepare", "Turn raw text into token shards."),
    "inspect": ("inspect_:inspect", "Show what is in token shards and what examples look like."),
    "pretrain": ("pretrain:pretrain", "Pretrain a model on token shards."),
    "finetune": ("finetune:finetune", "Fine-tune on GLUE, SQuAD, RACE or your own task."),
    "sweep": ("sweep:sweep", "Fine-tune over tasks, seeds and a grid of settings."),
    "report": ("report:report", "Write the page of a run, and one table of many."),
    "runs": ("runs:runs", "List the runs below a folder, the best first."),
    "evaluate": ("evaluate:evaluate", "Score a model, or a file of predictions."),
    "probe": ("probe:probe", "What a model's frozen states say about a task, without training."),
    "predict": ("predict:predict", "Answer JSON lines with a model."),
    "fill-mask": ("fill_mask:fill_mask", "Fill the [MASK] of a sentence."),
    "analyze.layers": ("analyze:layers", "How far each layer moves the embeddings (Figure 1)."),
    "import.tf": ("import_:tf", "Convert an official TensorFlow checkpoint."),
    "import.hf": ("import_:hf", "Copy a Hugging Face model, with known-wrong settings corrected."),
    "export.checkpoint": (
        "export:checkpoint",
        "Turn a checkpoint of a pretraining run into a model folder.",
    ),
    "export.onnx": ("export:onnx", "Export to ONNX, weights stored once."),
    "serve": ("serve:serve", "Serve a model over HTTP."),
    "plan": ("plan:plan", "Estimate time, memory and traffic before launch."),
}

RUN_LENGTHS = ("steps", "tokens", "budget", "epochs")

GROUPS = {
    "tokenizer": "Train and use vocabularies.",
    "analyze": "Look inside a model.",
    "import": "Bring in checkpoints of other tools.",
    "export": "Write models for other runtimes.",
}


def build_app(arguments: Sequence[str] = ()) -> App:
    """Return the command line; only the command that ``arguments`` call is ever imported.

    That command's help comes from its docstring; the others are listed with their one line.
    """
    app = App(
        name="litebert",
        help="ALBERT from raw text to a served model.",
        version=__version__,
        result_action="return_value",
        help_format="plaintext",
        help_on_error=False,
    )
    groups = {name: App(name=name, help=text) for name, text in GROUPS.items()}
    for group in groups.values():
        app.command(group)
    for command, (function, text) in COMMANDS.items():
        parent, _, leaf = command.rpartition(".")
        owner = groups[parent] if parent else app
        if command.split(".") == _command_words(arguments):
            module, _, name = function.partition(":")
            called = getattr(import_module(f"litebert.commands.{module}"), name)
            owner.command(called, name=leaf, help_epilogue=_examples(called))
        else:
            owner.command(f"litebert.commands.{function}", name=leaf, help=text)
    return app


def run(arguments: Sequence[str]) -> None:
    """Run one command; errors come out as exceptions."""
    app = build_app(arguments)
    config_file = _config_file(arguments)
    if config_file is not None:
        # Keyed by the command's words: cyclopts drops a top-level key that is a command's name.
        values = _without_overridden_lengths(read_toml(config_file), arguments)
        for word in reversed(_command_words(arguments)):
            values = {word: values}
        app.config = (Dict(values, source=str(config_file)),)
    app(list(arguments), exit_on_error=False, print_error=False)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: one line and exit status 2 for what the user can fix."""
    # Threads that wait by spinning take the cores from those they wait for when the machine is
    # shared. OpenMP reads this when torch is loaded (decision 0012).
    if "GOMP_SPINCOUNT" not in os.environ:
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except (LitebertError, CycloptsError) as error:
        _refuse(str(error))
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("litebert"):
            raise
        _refuse(
            f"this command needs the package '{error.name}'; "
            f"install it with {install_command(extra_of(error.name.partition('.')[0]))}"
        )
    except KeyboardInterrupt:
        print("litebert: interrupted", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output went away (`litebert ... | head`): nothing is wrong.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        if error.strerror is None:
            raise
        where = f"{error.filename}: " if error.filename is not None else ""
        _refuse(f"{where}{error.strerror}")


def _refuse(message: str) -> NoReturn:
    print(f"litebert: error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(EXIT_BAD_INPUT)


def _command_words(arguments: Sequence[str]) -> list[str]:
    """Return the words at the beginning of the arguments that name a command."""
    for command in COMMANDS:
        words = command.split(".")
        if list(arguments[: len(words)]) == words:
            return words
    return []


def _without_overridden_lengths(
    values: dict[str, object], arguments: Sequence[str]
) -> dict[str, object]:
    """Drop the file's run lengths if a flag gives another: `--budget 5m` is not cut by `steps`.

    A warm-up counted in steps belongs to that length and goes with it: the default share holds.
    """
    flags = {argument.partition("=")[0] for argument in arguments}
    if flags.isdisjoint(f"--{key}" for key in RUN_LENGTHS):
        return values
    tied = (*RUN_LENGTHS, "warmup_steps")
    kept = {key: value for key, value in values.items() if key not in tied}
    schedule = kept.get("schedule")
    if isinstance(schedule, dict):
        kept["schedule"] = {k: v for k, v in schedule.items() if k != "warmup_steps"}
    return kept


def _config_file(arguments: Sequence[str]) -> Path | None:
    """Find ``--config FILE``: it must be read before the flags, which override it.

    A bare word names a recipe that comes with the package: ``pretrain --config tiny``.
    """
    for index, argument in enumerate(arguments):
        if argument == "--config" and index + 1 == len(arguments):
            raise ConfigError("--config needs a file name")
        if argument == "--config" or argument.startswith("--config="):
            value = arguments[index + 1] if argument == "--config" else argument[len("--config=") :]
            is_word = "/" not in value and "." not in value
            return recipe_path(arguments[0], value) if is_word else Path(value)
    return None


def _examples(command: Callable[..., object]) -> str:
    """Return the docstring's section of examples, which would otherwise not be shown."""
    _, found, rest = (inspect.getdoc(command) or "").partition("Examples:\n")
    section, _, _ = rest.partition("\n\n")
    return f"{found}{section}" if found else ""

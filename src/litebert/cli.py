"""The command line: a table of commands, loaded only when they are called."""

from __future__ import annotations

import inspect
import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import is_dataclass
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import NoReturn, get_type_hints

from cyclopts import App, CycloptsError, MissingArgumentError, Parameter, UnknownOptionError
from cyclopts.config import Dict

from litebert import __version__
from litebert.common.config import check_values, flat_settings, near_setting, read_toml, recipe_path
from litebert.common.errors import ConfigError, LitebertError, extra_of, install_command

EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130
LONGEST_MESSAGE = 1500
_WAITING = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000"}
"""A waiting thread spins for microseconds, then sleeps; other OpenMP libraries read the first.

Threads that only spin take the cores from those they wait for when the machine is shared; those
that sleep at once wake up too late. OpenMP reads this when torch is loaded (decision 0012)."""
_NO_MEMORY = re.compile(r"can't allocate memory|out of memory", re.IGNORECASE)

# command -> (function, one line of help). A dotted command is a sub-command.
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo:demo", "The whole way, small, on text that every Python carries."),
    "params": ("params:params", "Count parameters of presets and of any shape."),
    "tokenizer.train": ("tokenizer:train", "Train a SentencePiece vocabulary."),
    "tokenizer.numbers": ("tokenizer:numbers", "Make a vocabulary of numbers for streams of ids."),
    "tokenizer.encode": ("tokenizer:encode", "Turn lines into piece ids."),
    "prepare": ("prepare:prepare", "Turn raw text into token shards."),
    "inspect": ("prepare:inspect", "Show what is in token shards and what examples look like."),
    "pretrain": ("pretrain:pretrain", "Pretrain a model on token shards."),
    "adapt": ("pretrain:adapt", "Adapt a model to your text, with a vocabulary of its own."),
    "finetune": ("finetune:finetune", "Fine-tune on GLUE, SQuAD, RACE or your own task."),
    "sweep": ("finetune:sweep", "Fine-tune over tasks, seeds and a grid of settings."),
    "reproduce": ("reproduce:reproduce", "Run the paper's tables and figures, with a verdict."),
    "report": ("report:report", "Write the page of a run, and one table of many."),
    "runs": ("report:runs", "List the runs below a folder, the best first."),
    "evaluate": ("evaluate:evaluate", "Score a model, or a file of predictions."),
    "probe": ("analyze:probe", "What a model's frozen states say about a task, without training."),
    "predict": ("predict:predict", "Answer the rows of a table, or JSON lines."),
    "embed": ("predict:embed", "Turn texts into vectors, for search and comparison."),
    "fill-mask": ("predict:fill_mask", "Fill the [MASK] of a sentence."),
    "analyze.layers": ("analyze:layers", "How far each layer moves the embeddings (Figure 1)."),
    "import.tf": ("import_:tf", "Convert an official TensorFlow checkpoint."),
    "import.hf": ("import_:hf", "Copy a Hugging Face model, with known-wrong settings corrected."),
    "export.checkpoint": ("export:checkpoint", "Turn a checkpoint of a pretraining run into a model folder."),
    "export.onnx": ("export:onnx", "Export to ONNX, weights stored once."),
    "export.hub": ("export:hub", "Export one folder that every runtime loads, with a card."),
    "export.page": ("export:web_page", "Export a page that runs a model in the browser."),
    "push": ("export:push", "Upload a folder of export hub to the Hugging Face hub."),
    "serve": ("serve:serve", "Serve a model over HTTP."),
    "plan": ("params:plan", "Estimate time, memory and traffic before launch."),
}

_FRACTION = re.compile(r"-?\d*\.\d+")
RUN_LENGTHS = ("steps", "tokens", "budget", "epochs")

GROUPS = {
    "tokenizer": "Train and use vocabularies.",
    "analyze": "Look inside a model.",
    "import": "Bring in checkpoints of other tools.",
    "export": "Write models for other runtimes.",
}


def build_app(arguments: Sequence[str] = ()) -> App:
    """Return the command line; only the command that ``arguments`` call is ever imported."""
    app = App(
        name="litebert",
        help="ALBERT from raw text to a served model.",
        version=__version__,
        result_action="return_value",
        help_format="plaintext",
        help_on_error=False,
        default_parameter=Parameter(show_default=shown_default, negative_bool=(), negative_iterable=()),
    )
    for name, text in GROUPS.items():
        app.command(App(name=name, help=text))
    for command, (function, text) in COMMANDS.items():
        parent, _, leaf = command.rpartition(".")
        owner = app[parent] if parent else app
        if command.split(".") == _command_words(arguments):
            called = _function(command)
            documented = inspect.getdoc(called) or ""
            called.__doc__ = unwrapped(documented)
            # The section of examples would otherwise not be shown.
            _, title, rest = documented.partition("Examples:\n")
            owner.command(called, name=leaf, help_epilogue=title + rest.partition("\n\n")[0])
        else:
            owner.command(f"litebert.commands.{function}", name=leaf, help=text)
    app.register_install_completion_command(add_to_startup=False)
    return app


def _function(command: str) -> Callable[..., object]:
    """Import the function of a command."""
    module, _, name = COMMANDS[command][0].partition(":")
    function: Callable[..., object] = getattr(import_module(f"litebert.commands.{module}"), name)
    return function


def run(arguments: Sequence[str]) -> None:
    """Run one command; errors come out as exceptions."""
    app, config_file = build_app(arguments), _config_file(arguments)
    if config_file is not None:
        values = read_toml(config_file)
        _check_file(values, config_file, arguments)
        values = _without_overridden_lengths(values, arguments)
        # Keyed by the command's words: cyclopts drops a top-level key that is a command's name.
        for word in reversed(_command_words(arguments)):
            values = {word: values}
        app.config = (Dict(values, source=str(config_file)),)
    _check_whole_numbers(app, arguments)
    try:
        app(list(arguments), exit_on_error=False, print_error=False)
    except ConfigError as error:
        message, own_file = str(error), config_file and not config_file.is_relative_to(Path(__file__).parent)
        names = flat_settings(read_toml(config_file)) if config_file and own_file else ()
        if str(config_file) not in message and any("." in name and name in message for name in names):
            raise ConfigError(f"{config_file}: {error}") from None
        raise


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: one line and exit status 2 for what the user can fix."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if os.environ.keys().isdisjoint(_WAITING):
        os.environ.update(_WAITING)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A file name that is not UTF-8 and half a character of JSON are written as escapes.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        run(arguments)
        sys.stdout.flush()
    except UnknownOptionError as error:
        _refuse(_explain(error))
    except MissingArgumentError as error:
        argument, command = error.argument, " ".join(error.command_chain or ())
        if argument and "Only got" in str(error) and ", ...]" in str(argument.hint):
            _refuse(f"{argument.name} takes pairs: a share of the run and a value")
        _refuse(f"{str(error).rstrip('.')}: `litebert {command} --help` has examples")
    except CycloptsError as error:
        _refuse(str(error))
    except LitebertError as error:
        _refuse(_with_flags(str(error), arguments))
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("litebert"):
            raise
        needed = install_command(extra_of(error.name.partition(".")[0]))
        _refuse(f"this command needs the package '{error.name}'; install it with {needed}")
    except KeyboardInterrupt:
        print("litebert: interrupted", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output went away (`litebert ... | head`): nothing is wrong.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        # A full or failing disk, a missing right. Folders appear whole or not at all.
        where = f"{error.filename}: " if error.filename is not None else ""
        _refuse(f"{where}{error.strerror or error or type(error).__name__}")
    except (MemoryError, RuntimeError) as error:
        # torch has no type of its own for a processor without room.
        if not isinstance(error, MemoryError) and not _NO_MEMORY.search(str(error)):
            raise
        _refuse(f"out of memory ({str(error).partition(chr(10))[0]}): use smaller batches or files")


def _refuse(message: str) -> NoReturn:
    line = " ".join(message.split())
    if len(line) > LONGEST_MESSAGE:  # it repeats a value that a file holds
        line = f"{line[:LONGEST_MESSAGE]} ... ({len(line):,} characters)"
    print(f"litebert: error: {line}", file=sys.stderr)
    sys.exit(EXIT_BAD_INPUT)


def _explain(error: UnknownOptionError) -> str:
    """The message with a suggestion: by a like name, or by what other tools call the setting."""
    message, word = str(error), error.token.keyword or error.token.value
    known = [name[2:] for argument in error.argument_collection for name in argument.names]
    near = near_setting(word.partition("=")[0].removeprefix("--"), known)
    if near and word.startswith("--"):
        return message.partition(" Did you mean")[0] + re.sub(r"'([^']+)'", r"--\1", near)
    return message


def _check_file(values: dict[str, object], path: Path, arguments: Sequence[str]) -> None:
    """Refuse unknown keys and wrong types in a file of settings, by file and key: cyclopts would run 5.5 steps as 6."""
    command = _function(".".join(_command_words(arguments)))
    others = [name.rstrip("_") for name in inspect.signature(command).parameters]
    kinds = (hint for hint in get_type_hints(command).values() if isinstance(hint, type) and is_dataclass(hint))
    for kind in kinds:
        check_values(kind, values, str(path), others)


def _with_flags(message: str, arguments: Sequence[str]) -> str:
    """A message with settings as the flags that people type: --model.max-positions.

    Single words are left: they may be words. So are the settings of a file, where they are called so.
    """
    words = _command_words(arguments)
    if not words or re.search(r"\.(toml|json): ", message):
        return message
    names = [name for name in _flags(build_app(arguments), words) if re.search(r"[a-z][.-][a-z]", name)]
    flags = {name[2:].replace("-", "_"): name for name in names}
    known = "|".join(re.escape(name) for name in sorted(flags, key=len, reverse=True))
    pattern = rf"(?<![\w./'\"`-])({known})(?![\w/'\"`]|\.\w)"
    return re.sub(pattern, lambda found: flags[found[1]], message) if flags else message


def _flags(app: App, words: Sequence[str]) -> dict[str, object]:
    """The flags of a command with the types of their values."""
    default = app.default_parameter
    for word in words:
        app = app[word]
    arguments = app.assemble_argument_collection(default_parameter=default)
    named = ((name, argument.hint) for argument in arguments for name in argument.names)
    return {name: hint for name, hint in named if name.startswith("--")}


def _check_whole_numbers(app: App, arguments: Sequence[str]) -> None:
    """Refuse `--steps 5.5`, which cyclopts would round."""
    given = [(flag, value) for flag, value in _flag_values(arguments) if _FRACTION.fullmatch(value)]
    words = _command_words(arguments)
    kinds = _flags(app, words) if words and given else {}
    for flag, value in given:
        if kinds.get(flag) in (int, int | None) and not float(value).is_integer():
            raise ConfigError(f"{flag} is {value}: use a whole number")


def _flag_values(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each flag with what stands after its = sign, or else with the next argument."""
    for argument, following in zip_longest(arguments, arguments[1:], fillvalue=""):
        flag, has_value, value = argument.partition("=")
        yield flag, value if has_value else following


def _command_words(arguments: Sequence[str]) -> list[str]:
    """The words at the beginning of the arguments that name a command."""
    for command in COMMANDS:
        words = command.split(".")
        if list(arguments[: len(words)]) == words:
            return words
    return []


def _without_overridden_lengths(values: dict[str, object], arguments: Sequence[str]) -> dict[str, object]:
    """Drop the file's run lengths if a flag gives another: `--budget 5m` is not cut by `steps`.

    A warm-up counted in steps belongs to that length and goes with it: the default share holds.
    """
    flags = {flag for flag, _ in _flag_values(arguments)}
    if flags.isdisjoint(f"--{key}" for key in RUN_LENGTHS):
        return values
    kept = {key: value for key, value in values.items() if key not in (*RUN_LENGTHS, "warmup_steps")}
    if isinstance(schedule := kept.get("schedule"), dict):
        kept["schedule"] = {k: v for k, v in schedule.items() if k != "warmup_steps"}
    return kept


def _config_file(arguments: Sequence[str]) -> Path | None:
    """Find ``--config FILE``, to be read before the flags, which override it; a bare word names a recipe of ours."""
    for flag, value in _flag_values(arguments):
        if flag == "--config":
            if not value:
                raise ConfigError("--config needs a file name")
            is_word = "/" not in value and "." not in value
            return recipe_path(arguments[0], value) if is_word else Path(value)
    return None


def shown_default(value: object) -> str | None:
    """A default as it would be typed; None where there is nothing to type.

    >>> shown_default(("words", "random")), shown_default(()), shown_default(False)
    ('words random', None, None)
    """
    if isinstance(value, tuple):
        return " ".join(filter(None, map(shown_default, value))) or None
    return None if value is None or value is False else str(value)


def unwrapped(text: str) -> str:
    """A docstring with each paragraph and each argument on one line, for a terminal to wrap.

    >>> unwrapped("At once\\nor later.\\n\\nArgs:\\n    how: well\\n        done").splitlines()
    ['At once or later.', '', 'Args:', '    how: well done']
    """
    lines: list[str] = []
    begun = 0
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        in_paragraph = indent == begun == 0 and lines[-1:] != ["Examples:"]
        if lines and line and lines[-1] and (indent > begun > 0 or in_paragraph):
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line)
            begun = indent
    return "\n".join(lines)

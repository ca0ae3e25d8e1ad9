"""The models of the server: which one answers what, and what they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import Path

from litebert.bundled import BUNDLED
from litebert.common.errors import ConfigError, LitebertError, suggestion
from litebert.interop.folder import load_config, resolve
from litebert.model.config import ModelConfig
from litebert.model.head_table import HEADS
from litebert.predict.predictor import Predictor
from litebert.serve.config import ServeConfig
from litebert.serve.page import NEEDED_OUTPUTS, shape_of
from litebert.serve.schemas import ModelEntry, ModelInfo

OPENAI_ENCODING = "cl100k_base"


class UnknownModelError(LitebertError):
    """No model of that name is loaded."""


class CannotAnswerError(LitebertError):
    """No loaded model has the head for this kind of question."""


@dataclass(frozen=True)
class ServedModel:
    """A loaded model with its name."""

    name: str
    predictor: Predictor
    config: ModelConfig
    path: Path
    loaded_at: int = field(default_factory=lambda: int(time.time()))

    @classmethod
    def load(cls, folder: Path | str, config: ServeConfig) -> ServedModel:
        """Load a folder; it is called after itself, or after its run if it is called ``model``."""
        predictor = Predictor.load(
            folder, config.runtime, config.threads, config.max_tokens, config.depth, config.force_depth, config.device
        )
        path = resolve(folder).absolute()
        name = path.parent.name if path.name == "model" else path.name
        return cls(name or "model", predictor, load_config(folder), path)

    @property
    def abilities(self) -> list[str]:
        """What it can be asked, as the names of the endpoints."""
        info = self.predictor.backend.info
        able = [name for name, output in NEEDED_OUTPUTS.items() if output in info.outputs]
        able += [name for name in HEADS[info.head].answers if name not in NEEDED_OUTPUTS]
        if info.head == "regression":
            able.append("rerank")
        return [*able, "tokenize"]

    def entry(self) -> ModelEntry:
        """Return what ``/v1/models`` says about it."""
        return ModelEntry(id=self.name, created=self.loaded_at)

    def describe(self) -> ModelInfo:
        """Return what ``/info`` says about it."""
        info = self.predictor.backend.info
        form = None if HEADS[info.head].pretrained else self.predictor.form()
        own = {"name": self.name, "head": info.head, "runtime": info.runtime, "max_length": info.max_length}
        said = {
            "labels": list(form.labels) if form else [],
            "may_be_unanswerable": form is not None and form.may_be_unanswerable,
            "can": self.abilities,
        }
        return ModelInfo.model_validate(own | said | shape_of(self.config, self.predictor.depth or info.num_layers))


@dataclass(frozen=True)
class Service:
    """All loaded models."""

    models: tuple[ServedModel, ...]

    @classmethod
    def load(cls, config: ServeConfig) -> Service:
        """Load every folder of the settings, and run each model once to warm it up."""
        models: list[ServedModel] = []
        for folder in config.model or (BUNDLED,):
            loaded = ServedModel.load(folder, config)
            taken = [model.name for model in models]
            names = chain([loaded.name], (f"{loaded.name}#{number}" for number in count(2)))
            loaded.predictor.warm_up()
            models.append(replace(loaded, name=next(name for name in names if name not in taken)))
        return cls(tuple(models))

    def find(self, ability: str, name: str | None, any_name: bool = False) -> ServedModel:
        """Return the model of that name, or else the first that is able; both must hold.

        With ``any_name`` the only model goes by every name: OpenAI's clients send one of theirs.
        """
        candidates: Sequence[ServedModel] = self.models
        if name is not None and not (any_name and len(self.models) == 1):
            candidates = [model for model in self.models if model.name == name]
            if not candidates:
                names = [model.name for model in self.models]
                near = suggestion(name, names) or f" Loaded: {', '.join(names)}."
                raise UnknownModelError(f"no model '{name}' is loaded.{near}")
        for model in candidates:
            if ability in model.abilities:
                return model
        heads = ", ".join(f"{model.name} ({model.predictor.backend.info.head})" for model in candidates)
        remedy = "Start the server with a second --model that has it."
        raise CannotAnswerError(f"'{ability}' needs a model with another head; loaded: {heads}. {remedy}")


def openai_decoder() -> Callable[[list[int]], str]:
    """Return what makes text of token ids of OpenAI's embedding models, as tiktoken has it."""
    try:
        import tiktoken

        decode: Callable[[list[int]], str] = tiktoken.get_encoding(OPENAI_ENCODING).decode
    except ModuleNotFoundError:
        raise ConfigError(f"--token-arrays {OPENAI_ENCODING} needs `pip install tiktoken`") from None
    except OSError as error:  # it is fetched when it is first used
        remedy = "load it once where there is a network, and set TIKTOKEN_CACHE_DIR to where it was kept"
        raise ConfigError(f"tiktoken cannot load {OPENAI_ENCODING} ({type(error).__name__}); {remedy}") from None
    return decode

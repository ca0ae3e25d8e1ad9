"""OpenAI's vocabulary, for clients that send its token ids in place of texts."""

from __future__ import annotations

from typing import Protocol

from litebert.common.errors import ConfigError

OPENAI_ENCODING = "cl100k_base"


class Vocabulary(Protocol):
    """What token ids can be turned back into text with."""

    def decode(self, tokens: list[int], /) -> str: ...  # noqa: D102


def openai_encoding() -> Vocabulary:
    """Load the vocabulary of OpenAI's embedding models, as tiktoken has it."""
    try:
        import tiktoken

        encoding: Vocabulary = tiktoken.get_encoding(OPENAI_ENCODING)
    except ModuleNotFoundError:
        raise ConfigError(
            f"--token-arrays {OPENAI_ENCODING} needs `pip install tiktoken`"
        ) from None
    except OSError as error:  # it is fetched when it is first used
        raise ConfigError(
            f"tiktoken cannot load {OPENAI_ENCODING} ({type(error).__name__}); load it once where "
            "there is a network, and set TIKTOKEN_CACHE_DIR to where it was kept"
        ) from None
    return encoding

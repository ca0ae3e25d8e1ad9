"""Settings of the server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from litebert.common.config import check_range
from litebert.common.errors import ConfigError
from litebert.predict.backend import Device, Runtime, Threads, num_threads
from litebert.predict.batches import DEFAULT_MAX_TOKENS

LIMITS = (
    "max_body_bytes", "max_inputs", "max_documents", "max_characters", "max_masks",
    "max_queue_tokens", "max_connections",
)  # fmt: skip
"""Settings that bound what clients may ask for."""


@dataclass(frozen=True)
class ServeConfig:
    """What the server loads and how much it accepts."""

    model: tuple[str | Path, ...] = ()
    """a model folder, ONNX folder, run folder or hub name; several may be given, each question \
goes to the first that has the head for it; default: the small model that comes with litebert"""
    host: str = "127.0.0.1"
    """address to listen on; the default is reachable from this machine alone"""
    port: int = 8000
    """port to listen on; 0 takes a free one"""
    runtime: Runtime = "auto"
    """what runs the models; auto takes an ONNX file if there is one"""
    device: Device = "cpu"
    """where they run: cuda needs torch's CUDA build, or onnxruntime-gpu; auto takes it if it is there"""
    threads: Threads | None = None
    """processor threads for one batch; auto, or left out: all"""
    depth: int | None = None
    """layers to run, for models fine-tuned with train_exits; all if left out"""
    force_depth: bool = False
    """run at that depth even if a model was not trained for it"""
    max_tokens: int = DEFAULT_MAX_TOKENS
    """padded tokens of one batch"""
    max_delay_ms: float = 3.0
    """how long a batch waits for company while several clients are active"""
    max_queue_tokens: int = 16_384
    """tokens that may wait; once that many do, a request gets status 429; requests of more than \
one batch and smaller ones are counted apart"""
    max_connections: int = 2048
    """open connections, fewer if the process may open fewer files; beyond that the one that has \
been idle longest is closed, or if none is, a request gets status 503"""
    timeout_s: float = 30.0
    """seconds after which a request is given up with status 503, or with 408 if its body has not \
arrived by then; a connection whose headers have not is closed; 0: never"""
    drain_s: float = 30.0
    """seconds that running requests get when the server is asked to stop"""
    max_body_bytes: int = 4_000_000
    """largest request body; beyond that status 413"""
    max_inputs: int = 64
    """most texts in one request; beyond that status 422"""
    max_documents: int = 2048
    """most texts to embed or to rerank in one request; beyond that status 422"""
    max_characters: int = 50_000
    """longest text, and four times that once its ligatures are taken apart; beyond that 422"""
    max_masks: int = 128
    """most [MASK] in one request; beyond that status 422"""
    token_arrays: Literal["refuse", "model", "cl100k_base"] = "refuse"
    """what numbers in place of texts to embed are: ids of the model's own vocabulary, of OpenAI's \
cl100k_base (needs `pip install tiktoken`; what LangChain sends by default), or refused"""
    api_key: str | None = None
    """key that requests must carry as `Authorization: Bearer KEY`; also read from the environment \
variable LITEBERT_API_KEY, where other users of the machine cannot see it"""

    def __post_init__(self) -> None:
        check_range(self, "1 or more", "max_tokens", *LIMITS)
        num_threads(self.threads)
        check_range(self, "0 or more", "timeout_s", "drain_s", "max_delay_ms")
        if self.api_key is not None and not self.api_key.strip():
            raise ConfigError("the API key is blank; give --api-key or LITEBERT_API_KEY a value, or leave it out")
        if not 0 <= self.port <= 65_535:
            raise ConfigError(f"port is {self.port}; choose one between 1 and 65535, or 0")

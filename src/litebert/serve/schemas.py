"""Requests and responses of the HTTP interface, with examples: what the OpenAPI document shows."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from litebert.predict.questions import FilledText

Text = Annotated[str, Field(min_length=1)]
# Fail fast: half a million wrong entries are not worth half a million errors.
_SOME = Field(min_length=1, fail_fast=True)
Texts = Annotated[list[Text], _SOME]
Tokens = Annotated[list[Annotated[int, Field(ge=0)]], _SOME]


class Request(BaseModel):
    """What all requests share: unknown fields are refused, since they are usually typing errors."""

    # Strict: 0.0 is not a boolean and "5" not a number, as the OpenAPI document says.
    model_config = ConfigDict(extra="forbid", strict=True)

    model: str | None = Field(None, description="Name of a loaded model; see `/info`.")


class FillMaskRequest(Request):
    """Texts with `[MASK]` where a word is missing."""

    text: Text | Texts = Field(examples=["The capital of France is [MASK]."])
    top_k: int = Field(5, ge=1, le=100, description="Candidates for each mask.")


class FillMaskResponse(BaseModel):
    """One result per text."""

    results: list[FilledText]


class OrderRequest(Request):
    """Two sentences."""

    first: Text = Field(examples=["She opened the door."])
    second: Text = Field(examples=["Then she walked into the room."])


class ClassifyRequest(Request):
    """Texts, or pairs of texts, for a fine-tuned classifier or regressor."""

    text: Text | Texts = Field(examples=["A fine film with a big heart."])
    text_pair: Text | Texts | None = Field(None, description="The second text of a pair; as many as in `text`.")


class Classified(BaseModel):
    """A class, several labels, or a number, depending on what the model was trained for."""

    label: str | None = Field(None, description="The most probable class.")
    labels: list[str] | None = Field(None, description="The labels that apply (multi-label).")
    scores: dict[str, float] | None = Field(None, description="Probability of each class.")
    value: float | None = Field(None, description="The predicted number (regression).")


class ClassifyResponse(BaseModel):
    """One result per text."""

    results: list[Classified]


class AnswerRequest(Request):
    """A question about a passage of any length."""

    question: Text = Field(examples=["When was the tower finished?"])
    context: Text = Field(examples=["The tower was finished in 1889 after two years of work."])
    may_be_unanswerable: bool | None = Field(
        None, description="Whether no answer is a possible answer; by default what the model is for."
    )


class AnswerSpan(BaseModel):
    """A stretch of the passage."""

    text: str
    start: int = Field(description="First character in the passage.")
    end: int = Field(description="One past the last character.")
    score: float = Field(description="Probability among the candidates.")


class AnswerResponse(BaseModel):
    """The answer, empty if there is none, and the candidates."""

    answer: str
    best: list[AnswerSpan]
    no_answer: float | None = Field(None, description="Probability that there is no answer.")


class ChoiceRequest(Request):
    """A passage, a question about it, and options to choose from."""

    text: Text = Field(examples=["Ann gave the red book to Bo."])
    question: Text | None = Field(None, examples=["Who has the book now?"])
    options: Annotated[list[Text], Field(min_length=2, max_length=16)] = Field(examples=[["Ann", "Bo", "nobody"]])


class ChoiceResponse(BaseModel):
    """The option that fits best."""

    choice: int = Field(description="Index of the option, from 0.")
    option: str
    scores: list[float] = Field(description="Probability of each option.")


class TagRequest(Request):
    """A text to tag word by word, cut as in training; or the words themselves."""

    text: Text | None = Field(None, examples=["Ann Lee lives in Oslo."])
    words: Texts | None = None


class TaggedEntity(BaseModel):
    """A run of words with one tag."""

    type: str
    text: str
    first_word: int
    start: int = Field(description="First character in the text (words are joined by spaces).")
    end: int = Field(description="One past the last character.")
    score: float = Field(description="Mean probability of its tags.")


class TagResponse(BaseModel):
    """One tag per word, and the entities that they mark."""

    words: list[str] = Field(description="What the text was cut into.")
    tags: list[str]
    scores: list[float]
    entities: list[TaggedEntity]


class TokenizeRequest(Request):
    """A text to cut into pieces."""

    text: Text = Field(examples=["The state of the art"])


class TokenizeResponse(BaseModel):
    """Pieces and ids, without `[CLS]` and `[SEP]`."""

    pieces: list[str]
    ids: list[int]


class LayersRequest(Request):
    """A text whose way through the layers is measured."""

    text: Text = Field(examples=["The quick brown fox jumps over the lazy dog."])


class EmbeddingsRequest(Request):
    """Texts to embed, in the shape of OpenAI's interface."""

    model: str | None = Field(None, description="Name of a loaded model; if only one is, any name will do.")
    input: str | Annotated[list[str], _SOME] | Tokens | Annotated[list[Tokens], _SOME] = Field(
        examples=[["A first text.", "A second one."]],
        description="Texts; or token ids, if the server was told what vocabulary they are of.",
    )
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(None, ge=1, description="Numbers to keep of each vector; at most the hidden size.")
    normalize: bool = Field(True, description="Scale vectors to length 1, as OpenAI does.")
    pooling: Literal["mean", "cls"] | None = Field(
        None, description="How a vector is made; default: as the model's folder says, else mean."
    )
    user: str | None = Field(None, description="Ignored; accepted for compatibility.")


class Embedding(BaseModel):
    """One vector, as numbers or as base64 of little-endian float32."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class Usage(BaseModel):
    """Tokens that were read."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsResponse(BaseModel):
    """One vector per text, in the order of the request."""

    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: Usage


class ModelEntry(BaseModel):
    """A loaded model, in the shape of OpenAI's interface."""

    id: str
    object: Literal["model"] = "model"
    created: int = Field(description="When it was loaded, in seconds since 1970.")
    owned_by: Literal["litebert"] = "litebert"


class ModelList(BaseModel):
    """The loaded models."""

    object: Literal["list"] = "list"
    data: list[ModelEntry]


class RerankRequest(Request):
    """A query and texts to put in order, in the shape of text-embeddings-inference (TEI)."""

    query: Text = Field(examples=["What is a shared layer?"])
    texts: Texts = Field(examples=[["One block serves all layers.", "It rained."]])
    raw_scores: bool = Field(False, description="The model's own values, not their sigmoid.")
    return_text: bool = Field(False, description="Repeat each text in the answer.")
    truncate: bool = Field(True, description="Ignored: a pair that is too long is always cut.")


class Rank(BaseModel):
    """One text with its score."""

    index: int = Field(description="Where it stands in the request, from 0.")
    score: float
    text: str | None = None


class ModelInfo(BaseModel):
    """A loaded model."""

    name: str
    head: str
    runtime: str
    labels: list[str]
    max_length: int
    vocab_size: int
    embedding_size: int
    hidden_size: int
    num_layers: int = Field(description="Layers that run.")
    sharing: str
    num_parameters: int
    num_parameters_bert: int = Field(description="The same shape without sharing, E = H.")
    may_be_unanswerable: bool = Field(description="Whether its questions may have no answer.")
    can: list[str] = Field(description="What it can be asked.")


class InfoResponse(BaseModel):
    """The server and its models."""

    version: str
    models: list[ModelInfo]
    limits: dict[str, int]


class Status(BaseModel):
    """A state in one word."""

    status: str


class ErrorDetail(BaseModel):
    """What went wrong and what to do."""

    type: str
    message: str


class ErrorResponse(BaseModel):
    """Every error has this shape."""

    error: ErrorDetail

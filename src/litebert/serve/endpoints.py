"""What the HTTP interface can be asked: request -> question -> batcher -> response."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal, TypeVar

from starlette.requests import Request

from litebert.common.errors import InputError
from litebert.predict import questions
from litebert.predict.predictor import Predictor
from litebert.predict.questions import FilledText, LayerPath, Question, SentenceOrder
from litebert.serve import schemas as s
from litebert.serve.batcher import Batcher
from litebert.serve.config import ServeConfig
from litebert.serve.guards import ClientLeftError
from litebert.serve.service import Service
from litebert.tasks.base import FloatArray, Form

Result = TypeVar("Result")

_LONG_TEXT_CHARACTERS = 4000
"""Longer texts are cut into pieces on another thread, so that other requests do not wait."""


class Endpoints:
    """The questions of the interface; each method is one path."""

    def __init__(self, service: Service, batcher: Batcher, config: ServeConfig) -> None:
        self._service, self._batcher, self._config = service, batcher, config

    async def fill_mask(self, body: s.FillMaskRequest, request: Request) -> s.FillMaskResponse:
        """Return the likeliest words at each `[MASK]` of each text."""
        predictor = self._predictor("fill-mask", body.model)
        texts = self._checked(body.text)

        def build() -> list[Question[FilledText]]:
            asked = [questions.fill_mask(text, predictor, body.top_k) for text in texts]
            # At each mask the model gives a number for every word.
            num_masks = sum(len(feature.masked) for one in asked for feature in one.features)
            limit = self._config.max_masks
            if num_masks > limit:
                raise InputError(f"the request has {num_masks:,} [MASK], the limit is {limit:,}")
            return asked

        return s.FillMaskResponse(results=await self._ask(request, predictor, build, texts))

    async def order(self, body: s.OrderRequest, request: Request) -> SentenceOrder:
        """Return the probability that two sentences stand in their original order."""
        predictor = self._predictor("order", body.model)
        texts = self._check_lengths([body.first, body.second])
        question = partial(questions.order, body.first, body.second, predictor)
        return await self._ask_one(request, predictor, question, texts)

    async def classify(self, body: s.ClassifyRequest, request: Request) -> s.ClassifyResponse:
        """Return a class, labels or a number for each text or pair of texts."""
        predictor = self._predictor("classify", body.model)
        texts = self._checked(body.text)
        pairs: Sequence[str | None] = [None] * len(texts)
        if body.text_pair is not None:
            pairs = self._checked(body.text_pair)
            if len(pairs) != len(texts):
                raise InputError(
                    f"text has {len(texts)} entries and text_pair {len(pairs)}; give as many"
                )
        form = predictor.form()

        def build() -> list[Question[dict[str, object]]]:
            rows = zip(texts, pairs, strict=True)
            records = [{"text": text, "text_pair": pair} for text, pair in rows]
            return [predictor.question(record, form) for record in records]

        read = [*texts, *(pair or "" for pair in pairs)]
        results = await self._ask(request, predictor, build, read)
        return s.ClassifyResponse(results=[s.Classified.model_validate(r) for r in results])

    async def answer(self, body: s.AnswerRequest, request: Request) -> s.AnswerResponse:
        """Return the stretch of the passage that answers the question, or no answer."""
        predictor = self._predictor("answer", body.model)
        question, context = self._check_lengths([body.question, body.context])
        form = predictor.form().changed(may_be_unanswerable=body.may_be_unanswerable)
        record = {"question": question, "context": context}
        answer = await self._ask_record(request, predictor, record, form)
        return s.AnswerResponse.model_validate(answer)

    async def multiple_choice(self, body: s.ChoiceRequest, request: Request) -> s.ChoiceResponse:
        """Return the option that fits a passage and a question best."""
        predictor = self._predictor("multiple-choice", body.model)
        self._check_lengths([body.text, body.question or "", *body.options])
        record = {"text": body.text, "question": body.question, "options": body.options}
        answer = await self._ask_record(request, predictor, record, predictor.form())
        return s.ChoiceResponse.model_validate(answer)

    async def tag(self, body: s.TagRequest, request: Request) -> s.TagResponse:
        """Return a tag for each word, and the entities they mark."""
        predictor = self._predictor("tag", body.model)
        if (body.text is None) == (body.words is None):
            raise InputError("give either text or words")
        record = {"words": body.words} if body.text is None else {"text": body.text}
        self._check_lengths([body.text or " ".join(body.words or ())])
        answer = await self._ask_record(request, predictor, record, predictor.form())
        return s.TagResponse.model_validate(answer)

    async def embeddings(self, body: s.EmbeddingsRequest, request: Request) -> s.EmbeddingsResponse:
        """Return one vector per text, in OpenAI's shape."""
        model = self._service.find("embeddings", body.model)
        predictor = model.predictor
        texts = self._checked(body.input)
        num_tokens = 0

        def build() -> list[Question[FloatArray]]:
            nonlocal num_tokens
            asked = [questions.embed(text, predictor, body.pooling) for text in texts]
            num_tokens = sum(question.num_tokens for question in asked)
            return asked

        vectors = await self._ask(request, predictor, build, texts)
        data = await _worked(lambda: _embeddings(vectors, body.encoding_format), texts)
        usage = s.Usage(prompt_tokens=num_tokens, total_tokens=num_tokens)
        return s.EmbeddingsResponse(data=data, model=model.name, usage=usage)

    async def tokenize(self, body: s.TokenizeRequest) -> s.TokenizeResponse:
        """Return the pieces and ids of a text."""
        tokenizer = self._predictor("tokenize", body.model).tokenizer
        (text,) = self._checked(body.text)

        def work() -> s.TokenizeResponse:
            return s.TokenizeResponse(pieces=tokenizer.pieces(text), ids=tokenizer.encode(text))

        return await _worked(work, [text])

    async def layers(self, body: s.LayersRequest, request: Request) -> LayerPath:
        """Return how far each block moves the tokens of a text: Figure 1, for one input."""
        predictor = self._predictor("layers", body.model)
        texts = self._checked(body.text)
        question = partial(questions.layer_path, body.text, predictor)
        return await self._ask_one(request, predictor, question, texts)

    def _predictor(self, ability: str, name: str | None) -> Predictor:
        return self._service.find(ability, name).predictor

    def _checked(self, texts: str | Sequence[str]) -> list[str]:
        """Return the texts of a request as a list, or say which limit they pass."""
        listed = [texts] if isinstance(texts, str) else list(texts)
        limit = self._config.max_inputs
        if len(listed) > limit:
            raise InputError(f"the request has {len(listed)} texts, the limit is {limit}")
        return self._check_lengths(listed)

    def _check_lengths(self, texts: list[str]) -> list[str]:
        """Return the texts, or say that one of them is too long."""
        longest, limit = max(map(len, texts)), self._config.max_characters
        if longest > limit:
            raise InputError(f"a text has {longest:,} characters, the limit is {limit:,}")
        return texts

    async def _ask_record(
        self, request: Request, predictor: Predictor, record: Mapping[str, object], form: Form
    ) -> dict[str, object]:
        """Ask a fine-tuned model about one record."""
        texts = [str(value) for value in record.values()]
        question = partial(predictor.question, record, form)
        return await self._ask_one(request, predictor, question, texts)

    async def _ask_one(
        self,
        request: Request,
        predictor: Predictor,
        question: Callable[[], Question[Result]],
        texts: Sequence[str],
    ) -> Result:
        return (await self._ask(request, predictor, lambda: [question()], texts))[0]

    async def _ask(
        self,
        request: Request,
        predictor: Predictor,
        build: Callable[[], list[Question[Result]]],
        texts: Sequence[str],
    ) -> list[Result]:
        """Build questions and wait for their answers, at most as long as the settings allow.

        Raises:
            QueueFullError: too much is waiting.
            TimeoutError: it took too long.
            ClientLeftError: nobody waits any more; what is queued of it is dropped.
        """
        self._batcher.refuse_if_full()
        async with asyncio.timeout(self._config.timeout_s or None):
            asked = await _worked(build, texts)
            answering = asyncio.ensure_future(self._batcher.ask(predictor, asked))
            leaving = asyncio.ensure_future(_disconnected(request))
            try:
                await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
                if not answering.done():
                    raise ClientLeftError
                return answering.result()
            finally:
                answering.cancel()
                leaving.cancel()


def _embeddings(
    vectors: Sequence[FloatArray], encoding: Literal["float", "base64"]
) -> list[s.Embedding]:
    """Return vectors as numbers, or as the base64 of little-endian float32."""
    return [
        s.Embedding(
            index=index,
            embedding=vector.tolist()
            if encoding == "float"
            else base64.b64encode(vector.astype("<f4").tobytes()).decode(),
        )
        for index, vector in enumerate(vectors)
    ]


async def _worked(work: Callable[[], Result], texts: Sequence[str]) -> Result:
    """Return what the work on these texts gives, done on another thread if they are long."""
    if sum(map(len, texts)) > _LONG_TEXT_CHARACTERS:
        return await asyncio.to_thread(work)
    return work()


async def _disconnected(request: Request) -> None:
    """Return when the client closes the connection; the body has been read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass

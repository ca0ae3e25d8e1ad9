"""What the HTTP interface can be asked: request -> question -> batcher -> response."""

from __future__ import annotations

import asyncio
import base64
import math
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar, cast

from starlette.requests import Request
from starlette.responses import Response

from litebert.common.errors import InputError
from litebert.predict import questions
from litebert.predict.predictor import Predictor
from litebert.predict.questions import FilledText, LayerPath, Question, SentenceOrder
from litebert.serve import schemas as s
from litebert.serve.batcher import Batcher
from litebert.serve.config import ServeConfig
from litebert.serve.guards import ClientLeftError
from litebert.serve.service import OPENAI_ENCODING, Service, openai_decoder
from litebert.tasks.base import FloatArray, Form

Result = TypeVar("Result")

# Longer texts are cut into pieces on another thread, so that other requests do not wait; still
# longer ones on a thread of their own, so that long ones of usual length do not either.
_LONG_TEXT_CHARACTERS, _BULK_CHARACTERS = 4000, 65_536
_TEXT_CHARACTERS = 16  # what a text counts beside its characters: a call is work too
_LIGATURE_CHARACTERS = 18  # what one becomes at most when it is normalised (U+FDFA)
_SLICE_CHARACTERS = 2000  # normalised at a time: the event loop gets its turn in between
_CHARACTERS_PER_TOKEN = 4


class Endpoints:
    """The questions of the interface; each method is one path."""

    def __init__(self, service: Service, batcher: Batcher, config: ServeConfig) -> None:
        self._service, self._batcher, self._config = service, batcher, config
        self._bulk = ThreadPoolExecutor(1, "bulk-text")
        self._decode = openai_decoder() if config.token_arrays == OPENAI_ENCODING else None

    async def fill_mask(self, body: s.FillMaskRequest, request: Request) -> s.FillMaskResponse:
        """Return the likeliest words at each `[MASK]` of each text."""
        predictor = self._predictor("fill-mask", body.model)
        texts = self._checked(body.text)

        def build() -> list[Question[FilledText]]:
            asked = [questions.fill_mask(text, predictor, body.top_k) for text in texts]
            # At each mask the model gives a number for every word.
            num_masks = sum(len(feature.masked) for one in asked for feature in one.features)
            if num_masks > self._config.max_masks:
                raise InputError(f"the request has {num_masks:,} [MASK], the limit is {self._config.max_masks:,}")
            return asked

        return s.FillMaskResponse(results=await self._ask(request, predictor, texts, build))

    async def order(self, body: s.OrderRequest, request: Request) -> SentenceOrder:
        """Return the probability that two sentences stand in their original order."""
        predictor = self._predictor("order", body.model)
        first, second = texts = self._check_lengths([body.first, body.second])
        (answer,) = await self._ask(request, predictor, texts, lambda: [questions.order(first, second, predictor)])
        return answer

    async def classify(self, body: s.ClassifyRequest, request: Request) -> s.ClassifyResponse:
        """Return a class, labels or a number for each text or pair of texts."""
        predictor = self._predictor("classify", body.model)
        texts = self._checked(body.text)
        pairs = [None] * len(texts) if body.text_pair is None else self._checked(body.text_pair)
        if len(pairs) != len(texts):
            raise InputError(f"text has {len(texts)} entries and text_pair {len(pairs)}; give as many")
        records = [{"text": text, "text_pair": pair} for text, pair in zip(texts, pairs, strict=True)]
        results = await self._ask_records(request, predictor, records)
        return s.ClassifyResponse(results=[s.Classified.model_validate(r) for r in results])

    async def answer(self, body: s.AnswerRequest, request: Request) -> s.AnswerResponse:
        """Return the stretch of the passage that answers the question, or no answer."""
        predictor = self._predictor("answer", body.model)
        question, context = self._check_lengths([body.question, body.context])
        form = predictor.form().changed(may_be_unanswerable=body.may_be_unanswerable)
        records = [{"question": question, "context": context}]
        (answer,) = await self._ask_records(request, predictor, records, form)
        return s.AnswerResponse.model_validate(answer)

    async def multiple_choice(self, body: s.ChoiceRequest, request: Request) -> s.ChoiceResponse:
        """Return the option that fits a passage and a question best."""
        predictor = self._predictor("multiple-choice", body.model)
        self._check_lengths([body.text, body.question or "", *body.options])
        record = {"text": body.text, "question": body.question, "options": body.options}
        (answer,) = await self._ask_records(request, predictor, [record])
        return s.ChoiceResponse.model_validate(answer)

    async def tag(self, body: s.TagRequest, request: Request) -> s.TagResponse:
        """Return a tag for each word, and the entities they mark."""
        predictor = self._predictor("tag", body.model)
        if (body.text is None) == (body.words is None):
            raise InputError("give either text or words")
        self._check_lengths([body.text or " ".join(body.words or ())])
        record = {"words": body.words} if body.text is None else {"text": body.text}
        (answer,) = await self._ask_records(request, predictor, [record])
        return s.TagResponse.model_validate(answer)

    async def embeddings(self, body: s.EmbeddingsRequest, request: Request) -> Response:
        """Return one vector per text, in OpenAI's shape."""
        model = self._service.find("embeddings", body.model, any_name=True)
        predictor, size = model.predictor, model.config.hidden_size
        if body.dimensions is not None and body.dimensions > size:
            raise InputError(f"dimensions is {body.dimensions}, and the vectors of {model.name} have {size}")
        texts = self._checked(self._texts(body.input, predictor), self._config.max_documents)
        rule = predictor.purpose.vector_rule(body.pooling)
        rule = replace(rule, normalize=body.normalize, dimensions=body.dimensions)
        asked: list[Question[FloatArray]] = []

        def build() -> list[Question[FloatArray]]:
            asked.extend(questions.embed(text, predictor, rule, may_be_empty=True) for text in texts)
            return asked

        def shown(vector: FloatArray) -> list[float] | str:
            if body.encoding_format == "float":
                return cast("list[float]", vector.tolist())
            return base64.b64encode(vector.astype("<f4").tobytes()).decode()

        vectors = await self._ask(request, predictor, texts, build)

        def write() -> str:
            # Vector by vector, not as one object: other requests get their turn in between.
            data = ",".join(
                s.Embedding(index=index, embedding=shown(vector)).model_dump_json()
                for index, vector in enumerate(vectors)
            )
            num_tokens = sum(question.num_tokens for question in asked)
            usage = s.Usage(prompt_tokens=num_tokens, total_tokens=num_tokens)
            rest = s.EmbeddingsResponse(data=[], model=model.name, usage=usage).model_dump_json()
            return rest.replace('"data":[]', f'"data":[{data}]', 1)

        return Response(await self._worked(write, texts), media_type="application/json")

    async def models(self) -> s.ModelList:
        """Return the loaded models, in OpenAI's shape."""
        return s.ModelList(data=[model.entry() for model in self._service.models])

    async def one_model(self, name: str) -> s.ModelEntry:
        """Return one of the loaded models, in OpenAI's shape."""
        return self._service.find("tokenize", name).entry()

    async def rerank(self, body: s.RerankRequest, request: Request) -> list[s.Rank]:
        """Return texts in the order of their scores beside the query, in TEI's shape."""
        predictor = self._predictor("rerank", body.model)
        self._check_lengths([body.query])
        texts = self._checked(body.texts, self._config.max_documents)
        records = [{"text": body.query, "text_pair": text} for text in texts]
        answers = await self._ask_records(request, predictor, records)
        values = [float(str(answer["value"])) for answer in answers]
        ranks = []
        for index in sorted(range(len(values)), key=lambda index: -values[index]):
            sigmoid = 0.5 + 0.5 * math.tanh(values[index] / 2)
            score, text = values[index] if body.raw_scores else sigmoid, texts[index]
            ranks.append(s.Rank(index=index, score=score, text=text if body.return_text else None))
        return ranks

    async def tokenize(self, body: s.TokenizeRequest) -> s.TokenizeResponse:
        """Return the pieces and ids of a text."""
        tokenizer = self._predictor("tokenize", body.model).tokenizer
        (text,) = self._checked(body.text)

        def work() -> s.TokenizeResponse:
            return s.TokenizeResponse(pieces=tokenizer.pieces(text), ids=tokenizer.encode(text))

        return await self._worked(work, [text])

    async def layers(self, body: s.LayersRequest, request: Request) -> LayerPath:
        """Return how far each block moves the tokens of a text: Figure 1, for one input."""
        predictor = self._predictor("layers", body.model)
        (text,) = texts = self._checked(body.text)
        (path,) = await self._ask(request, predictor, texts, lambda: [questions.layer_path(text, predictor)])
        return path

    def _predictor(self, ability: str, name: str | None) -> Predictor:
        return self._service.find(ability, name).predictor

    def _texts(self, given: str | list[str] | list[int] | list[list[int]], reader: Predictor) -> str | list[str]:
        """Return what is to be embedded as texts; token ids are of the vocabulary in the settings.

        LangChain sends those of OpenAI's whatever the model; read as ours they give another text.
        """
        if isinstance(given, str) or isinstance(given[0], str):
            return given
        rows = cast("list[list[int]]", [given] if isinstance(given[0], int) else given)
        setting = self._config.token_arrays
        if setting == "refuse":
            problem = "input holds token ids, and nothing says of which vocabulary"
            remedy = "send texts (LangChain: check_embedding_ctx_length=False), or start the server with --token-arrays"
            raise InputError(f"{problem}; {remedy}")
        decode = self._decode or reader.tokenizer.decode
        try:
            return [decode(row) for row in rows]
        except (KeyError, IndexError, OverflowError, TypeError, ValueError):
            raise InputError(f"input holds a token id that the vocabulary ({setting}) does not have") from None

    def _checked(self, texts: str | Sequence[str], limit: int | None = None) -> list[str]:
        """Return the texts of a request as a list, or say which limit they pass."""
        listed = [texts] if isinstance(texts, str) else list(texts)
        limit = limit or self._config.max_inputs
        if len(listed) > limit:
            raise InputError(f"the request has {len(listed):,} texts, the limit is {limit:,}")
        return self._check_lengths(listed)

    def _check_lengths(self, texts: list[str]) -> list[str]:
        """Return the texts, or say that one of them is too long."""
        longest, limit = max(map(len, texts)), self._config.max_characters
        if longest > limit:
            raise InputError(f"a text has {longest:,} characters, the limit is {limit:,}")
        return texts

    def _check_normalized(self, texts: Sequence[str]) -> None:
        """Refuse ligatures without end: one character may be 18 once it is taken apart (NFKD).

        No script comes near either limit: Korean becomes 3 times as long, and has 3 bytes for each.
        """
        limit, left = 4 * self._config.max_characters, self._config.max_body_bytes
        if sum(map(len, texts)) * _LIGATURE_CHARACTERS <= limit:
            return
        for text in texts:
            length = 0
            for start in range(0, len(text), _SLICE_CHARACTERS):
                part = text[start : start + _SLICE_CHARACTERS]
                length += len(unicodedata.normalize("NFKD", part))
                if length > min(limit, left):
                    raise InputError(
                        f"the texts are too long once their ligatures are taken apart (NFKD); the limit is {limit:,} "
                        f"characters for one, {self._config.max_body_bytes:,} for all"
                    )
            left -= length

    async def _worked(self, work: Callable[[], Result], texts: Sequence[str]) -> Result:
        """Return what the work on these texts gives, done on another thread if they are long."""

        def checked() -> Result:
            self._check_normalized(texts)
            return work()

        size = _size(texts)
        if size <= _LONG_TEXT_CHARACTERS:
            return checked()
        if size <= _BULK_CHARACTERS:
            return await asyncio.to_thread(checked)
        return await asyncio.get_running_loop().run_in_executor(self._bulk, checked)

    async def _ask_records(
        self, request: Request, predictor: Predictor, records: Sequence[Mapping[str, object]], form: Form | None = None
    ) -> list[dict[str, object]]:
        """Ask a fine-tuned model about records."""
        asked_as = form or predictor.form()
        texts = [str(value or "") for record in records for value in record.values()]
        return await self._ask(request, predictor, texts, lambda: [predictor.question(r, asked_as) for r in records])

    async def _ask(
        self, request: Request, predictor: Predictor, texts: Sequence[str], build: Callable[[], list[Question[Result]]]
    ) -> list[Result]:
        """Build questions and wait for answers, not too long; if the client left (ClientLeftError) they are dropped."""
        async with asyncio.timeout(self._config.timeout_s or None):
            with self._batcher.admission(_size(texts) // _CHARACTERS_PER_TOKEN):
                asked = await self._worked(build, texts)
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


def _size(texts: Sequence[str]) -> int:
    """Return about how much work texts are, in characters of English."""
    longer = _LIGATURE_CHARACTERS // 4  # and a text is some work even if it is empty
    return sum(len(t) * (1 if t.isascii() else longer) + _TEXT_CHARACTERS for t in texts)


async def _disconnected(request: Request) -> None:
    """Return when the client closes the connection; the body has been read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass

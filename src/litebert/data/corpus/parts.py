"""Parts: raw text parsed, split into sentences, tokenised and hashed by one worker."""

from __future__ import annotations

import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, field
from functools import lru_cache
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple, cast
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from litebert.common.errors import DataError, blame
from litebert.common.limits import check_regular, parse_json
from litebert.data.corpus.build import SOURCES
from litebert.data.corpus.ingest import Excerpt, Position, Problem, ProblemKind, RawPart, read_raw_parts
from litebert.data.corpus.layouts import documents_between_blank_lines, paragraphs_of
from litebert.data.corpus.manifest import Manifest
from litebert.data.corpus.shards import Documents, Tokens, token_dtype
from litebert.data.corpus.sources import Source, read_sources
from litebert.text.coverage import Coverage
from litebert.text.sentences import split_sentences
from litebert.text.tokenizer import Tokenizer, TokenizerSettings, open_tokenizer

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SENTENCES_AT_ONCE = 20_000
_NAMED_PROBLEMS = 100

_tokenizer = lru_cache(maxsize=1)(open_tokenizer)  # loaded once in each process


@dataclass(frozen=True)
class PartSettings:
    """What turns raw text into a part; it travels to the workers with the text."""

    model: bytes  # the vocabulary itself: a worker on another machine has no folder to load
    tokenizer: TokenizerSettings
    language: str
    column: str
    held_out: HeldOut
    ids: bool  # documents are piece ids already


@dataclass(frozen=True)
class PartSummary:
    """What is to be known of a part beside its documents."""

    end: Position
    text_bytes: int
    empty_documents: int
    problem_counts: dict[str, int]
    problems: tuple[Problem, ...]  # the first hundred, with file and line
    coverage: tuple[int, int] = (0, 0)  # tokens that count, and those that the vocabulary lacks


@contextmanager
def _arrays(file: Path | io.BytesIO) -> Iterator[Mapping[str, NDArray[Any]]]:
    source = f"{file}: `litebert prepare --restart` builds anew; the part"
    try:
        if isinstance(file, Path):
            check_regular(file)
        with blame(source), np.load(file, allow_pickle=False) as arrays:
            yield arrays
    except (BadZipFile, EOFError) as error:
        raise DataError(f"{source} is damaged: {error}") from None


def read_part(path: Path) -> tuple[Documents, NDArray[np.bool_], PartSummary]:
    """Read the documents of a part, which of them belong to the dev split (bool [D]), and more."""
    with _arrays(path) as arrays:
        lengths = (arrays[f"{kind}_lengths"].astype(np.int64) for kind in ("sentence", "document"))
        documents = Documents(arrays["tokens"], *lengths)
        return documents, arrays["is_dev"], _summary(arrays["summary"])


def read_hashes(path: Path) -> NDArray[np.uint64]:
    """Read only the 128-bit hash of each document's text, uint64 [D, 2]."""
    with _arrays(path) as arrays:
        return cast(NDArray[np.uint64], arrays["hashes"])


def read_summary(file: Path | io.BytesIO) -> PartSummary:
    """Read only the summary of a part."""
    with _arrays(file) as arrays:
        return _summary(arrays["summary"])


def _summary(data: NDArray[np.uint8]) -> PartSummary:
    values = json.loads(data.tobytes())
    values["end"] = Position(*values["end"])
    values["problems"] = tuple(Problem(**problem) for problem in values["problems"])
    return PartSummary(**values)


def build_part(raw: RawPart, settings: PartSettings) -> bytes:
    """Turn raw text into its part's file: the function that runs on every worker."""
    tokenizer = _tokenizer(settings.model, settings.tokenizer)
    parser = _Parser(settings.column, settings.held_out, tokenizer if settings.ids else None)
    sentences, lengths, keys, is_dev, text_bytes = list[str](), list[int](), list[bytes](), list[bool](), 0
    for document in parser.documents(raw):
        text_bytes += len(document.text)
        keys.append(document.key)
        is_dev.append(document.is_dev)
        found = document.paragraphs
        if document.source.layout != "sentences" and not settings.ids:
            found = [s for part in found for s in split_sentences(part, settings.language)]
        sentences.extend(found)
        lengths.append(len(found))
    packed, keep = _encode(tokenizer, sentences, lengths, ids=settings.ids)
    summary = PartSummary(
        end=raw.end,
        text_bytes=text_bytes,
        empty_documents=int((~keep).sum()),
        problem_counts=dict(Counter[str](problem.kind for problem in parser.problems)),
        problems=tuple(parser.problems[:_NAMED_PROBLEMS]),
        coverage=astuple(Coverage.of([packed.tokens], tokenizer)),
    )
    file = io.BytesIO()
    np.savez(
        file,
        tokens=packed.tokens,
        sentence_lengths=packed.sentence_lengths.astype(np.uint32),
        document_lengths=packed.document_lengths.astype(np.uint32),
        hashes=np.frombuffer(b"".join(keys), "<u8").reshape(-1, 2)[keep],
        is_dev=np.array(is_dev, np.bool_)[keep],
        summary=np.frombuffer(json.dumps(asdict(summary)).encode(), np.uint8),
    )
    return file.getvalue()


@dataclass(frozen=True)
class HeldOut:
    """Which documents of the input belong to the dev split: a share of them, by a hash."""

    share: float = 1.0
    group: str | None = None  # what is hashed: the text, the file (``file``), or a column's value

    @property
    def column(self) -> str | None:
        """The column that groups are read from, if it is one."""
        return None if self.group == "file" else self.group

    def has(self, source: Source, key: bytes, group: object) -> bool:
        """Say whether a document is held out, given its hash and its column's value."""
        if self.group is not None:
            whole = source.sha256 if self.group == "file" else str(group)
            key = _hash(whole.encode(errors="replace"))
        limit = int(self.share * (1 << 53)) << 11
        return source.split == "dev" or int.from_bytes(key[:8], "little") < limit


def held_out_texts(shards: Path) -> Iterator[str]:
    """Yield the documents of the dev split as raw text, read again from the sources of shards."""
    settings = Manifest.read(shards).settings
    held_out = HeldOut(float(settings["dev_share"]), settings.get("dev_group"))
    return raw_texts(list(read_sources(shards / SOURCES)), settings["column"], held_out)


def raw_texts(sources: Sequence[Source], column: str = "text", held_out: HeldOut | None = None) -> Iterator[str]:
    """Yield the documents of sources that belong to the dev split, by default all; each once."""
    held_out, seen = held_out or HeldOut(), set[bytes]()
    for raw in read_raw_parts(sources, column, group=held_out.column):
        for document in _Parser(column, held_out).documents(raw):
            if document.is_dev and document.key not in seen:
                seen.add(document.key)
                yield document.text.decode()


def _hash(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).digest()


def _id_lines(record: object, tokenizer: Tokenizer) -> list[str]:
    """Return the sentences of a document of ids as numbers; a ValueError says what is wrong."""
    if not isinstance(record, list):
        raise ValueError(f"expected a list of ids, found {type(record).__name__}")
    if not any(isinstance(part, list) for part in record):
        ends = [at for at, number in enumerate([*record, -1]) if number == -1]
        record = [record[a + 1 : b] for a, b in pairwise([-1, *ends])]
    size, special = tokenizer.vocab_size, set(tokenizer.special_ids) - {tokenizer.unk_id}
    for part in record:
        wrong = part
        if isinstance(part, list):
            wrong = [n for n in part if type(n) is not int or not 0 <= n < size or n in special]
        if wrong != []:
            raise ValueError(f"{str(wrong)[:40]}: ids are 0 to {size - 1}, not special ones")
    return [" ".join(map(str, part)) for part in record]


def _encode(
    tokenizer: Tokenizer, sentences: Sequence[str], lengths: Sequence[int], *, ids: bool
) -> tuple[Documents, NDArray[np.bool_]]:
    """Tokenise; returns what is not empty, and which of the documents (``lengths``) are not."""
    dtype = token_dtype(tokenizer.vocab_size)
    arrays, sentence_lengths = [np.empty(0, dtype)], np.zeros(len(sentences), np.int64)
    for start in range(0, len(sentences), _SENTENCES_AT_ONCE):
        some = sentences[start : start + _SENTENCES_AT_ONCE]
        batch = [list(map(int, line.split())) for line in some] if ids else tokenizer.encode_batch(some)
        sentence_lengths[start : start + len(batch)] = [len(row) for row in batch]
        arrays.append(np.fromiter(chain.from_iterable(batch), dtype))
    document_of = np.repeat(np.arange(len(lengths)), lengths)
    is_full = sentence_lengths > 0
    document_lengths = np.bincount(document_of[is_full], minlength=len(lengths))
    keep = document_lengths > 0
    tokens = cast(Tokens, np.concatenate(arrays))
    return Documents(tokens, sentence_lengths[is_full], document_lengths[keep]), keep


class _Document(NamedTuple):
    source: Source
    paragraphs: list[str]  # in the layout ``sentences`` and of ids: sentences
    text: bytes
    key: bytes  # 128-bit hash of the text
    is_dev: bool


_Paragraphs = Iterator[tuple[list[str], object]]  # paragraphs of each document, and its group


@dataclass
class _Parser:
    """Takes the documents out of raw parts, and notes what is wrong with them."""

    column: str
    held_out: HeldOut
    ids_of: Tokenizer | None = None  # the vocabulary, where documents are piece ids
    problems: list[Problem] = field(default_factory=list)

    def documents(self, raw: RawPart) -> Iterator[_Document]:
        """Yield every document of a part."""
        for excerpt in raw.excerpts:
            self.problems.extend(excerpt.problems)
            for paragraphs, group in self._paragraphs(excerpt):
                text = "\n".join(paragraphs).encode()
                is_dev = self.held_out.has(excerpt.source, key := _hash(text), group)
                yield _Document(excerpt.source, paragraphs, text, key, is_dev)

    def _paragraphs(self, excerpt: Excerpt) -> _Paragraphs:
        source = excerpt.source
        if isinstance(excerpt.data, tuple):
            for number, row in enumerate(excerpt.data, start=excerpt.line):
                yield from self._of_record(row, source.path, number)
            return
        lines = self._decode(excerpt, excerpt.data)
        if source.format == "jsonl":
            for number, line in enumerate(lines, start=excerpt.line):
                if line is not None and line.strip():
                    yield from self._of_json(line, source.path, number)
        elif source.layout == "files":
            yield paragraphs_of("\n".join(line for line in lines if line is not None)), None
        else:
            stripped = (line.strip() for line in lines if line is not None)
            yield from ((paragraphs, None) for paragraphs in documents_between_blank_lines(stripped))

    def _of_json(self, line: str, path: str, number: int) -> _Paragraphs:
        try:
            record = parse_json(line)
            if self.ids_of is not None:
                yield _id_lines(record, self.ids_of), None
                return
        except ValueError as error:
            self._note("broken_json" if self.ids_of is None else "broken_row", path, number, str(error))
            return
        if isinstance(record, dict) and record.get(self.column) is None and "questions" in record:
            record[self.column] = record.get("article")  # a passage of RACE
        yield from self._of_record(record, path, number)

    def _of_record(self, record: object, path: str, line: int) -> _Paragraphs:
        """Yield the document of a row, or note what is wrong with it."""
        fields, group = record if isinstance(record, dict) else {}, self.held_out.column
        value, whole = fields.get(self.column), fields.get(group)
        if isinstance(value, DataError):
            self._note("broken_row", path, line, f"{value}; row left out")
        elif not isinstance(value, str):
            found = "nothing" if value is None else type(value).__name__
            self._note("missing_column", path, line, f"'{self.column}' holds {found}, expected text")
        elif group is not None and whole is None:
            self._note("missing_column", path, line, f"no '{group}' to tell its group by; row left out")
        else:
            yield paragraphs_of(value.encode(errors="replace").decode()), whole

    def _decode(self, excerpt: Excerpt, data: bytes) -> list[str | None]:
        """Return the lines of an excerpt; None stands for one that is binary or not UTF-8."""
        if excerpt.line == 1:
            data = data.removeprefix(_BYTE_ORDER_MARK)
        if b"\0" not in data:
            try:
                return list(data.decode().split("\n"))
            except UnicodeDecodeError:
                pass  # find the lines, one by one
        lines: list[str | None] = []
        for number, line in enumerate(data.split(b"\n"), start=excerpt.line):
            kind: ProblemKind = "binary_line"
            detail = "NUL bytes" if b"\0" in line else ""
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                kind, detail = "broken_utf8", f"{error.reason} at byte {error.start}"
            if detail:
                self._note(kind, excerpt.source.path, number, f"{detail}; line left out")
            lines.append(None if detail else text)
        return lines

    def _note(self, kind: ProblemKind, path: str, line: int, detail: str) -> None:
        self.problems.append(Problem(kind, path, line, detail))

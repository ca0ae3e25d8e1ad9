"""Corpus preparation: raw text to token shards, in bounded memory, resumable, reproducible."""

from __future__ import annotations

import errno
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import get_args

from litebert.common.errors import DataError
from litebert.common.files import atomic_folder, file_sizes, sha256_file
from litebert.common.ownership import keep_inputs
from litebert.common.progress import progress, say
from litebert.data.corpus.assemble import begin_assembly, write_train_shards
from litebert.data.corpus.build import PROBLEMS, SOURCES, BuildFolder, BuildRequest
from litebert.data.corpus.config import PrepareConfig
from litebert.data.corpus.engines import build_parts, num_cores
from litebert.data.corpus.ingest import BEGINNING, Problem, RawPart, read_raw_parts
from litebert.data.corpus.manifest import Manifest, SourceCounts, Split
from litebert.data.corpus.parts import HeldOut, PartSettings, read_summary
from litebert.data.corpus.shards import TOKENIZER_FOLDER, seal_split, token_dtype
from litebert.data.corpus.sources import Input, Source, find_inputs, fingerprint_sources, format_of, write_sources
from litebert.text.coverage import Coverage
from litebert.text.folder import copy_tokenizer
from litebert.text.sentences import splitting_note
from litebert.text.tokenizer import Tokenizer

_SHOWN_PROBLEMS = 10
_ENOUGH_TOKENS = 100_000


@dataclass(frozen=True)
class PrepareReport:
    """What a build made, and how fast."""

    out: Path
    manifest: Manifest
    was_complete: bool  # the shards were there already; nothing was done
    resumed_parts: int  # parts of text that an earlier, interrupted run had finished
    workers: int
    seconds: float
    processed_bytes: int  # bytes of text read and tokenised by this run
    disk_bytes: int
    peak_memory_bytes: int  # upper bound of this process and its workers together

    @property
    def mb_per_s(self) -> float:
        """Megabytes of text per second, all stages included."""
        return self.processed_bytes / 1e6 / max(self.seconds, 1e-9)


def prepare(config: PrepareConfig) -> PrepareReport:
    """Turn raw text into token shards in ``config.out``.

    The output is a function of the text, the tokenizer and the settings: worker count, engine, interruptions and
    resumption change no byte of it. Progress goes to standard error.
    """
    started = time.monotonic()
    named = [("--input", path) for path in (*config.input, *config.dev_input)]
    keep_inputs(config.out, [*named, ("--tokenizer", config.tokenizer)])
    tokenizer = Tokenizer.load(config.tokenizer)
    if not config.language:
        language = tokenizer.settings.language
        config = replace(config, language=language or "en")
        if language and config.layout != "sentences":
            say(f"sentences are split by the rules of {language}, the tokenizer's language")
    how = (config.layout, config.language, config.out.absolute())
    inputs = find_inputs(config.dev_input, "dev", *how) + find_inputs(config.input, "train", *how)
    group = HeldOut(group=config.dev_group).column
    for found in inputs:
        say(found.describe())
        formats = {format_of(path): path for path in found.files}
        if config.ids and (others := formats.keys() - {"jsonl"}):
            raise DataError(f"{formats[min(others)]} is not JSON lines: --ids reads files named .jsonl")
        if group and (others := formats.keys() - {"jsonl", "parquet"}):
            raise DataError(f"{formats[min(others)]} has no columns: --dev-group {group} needs one; use file")
    if config.layout != "sentences" and (note := splitting_note(config.language)):
        say(note)
    workers = config.workers or num_cores()
    with _keeping_what_is_done(config.out), BuildFolder.open(config.out) as build:
        sources = _hashed_sources(inputs, build)
        # The settings that change the output; layouts are kept with the sources.
        keys = ["column", "language", "dev_share", "dedup", "shard_tokens", "part_bytes"]
        keys += [key for key in ("dev_group", "ids") if getattr(config, key)]  # older folders hold
        settings = {key: str(getattr(config, key)) for key in keys}
        request = BuildRequest(tokenizer.fingerprint, settings, sources)
        build.begin(request, config.restart)
        was_complete = build.is_finished
        num_parts = num_resumed = num_bytes = 0
        if not was_complete:
            if not build.assembly.is_file():
                num_parts, num_resumed, num_bytes = _tokenise(config, build, sources, tokenizer)
            _assemble(config, build, request, tokenizer.vocab_size, num_parts)
        return PrepareReport(
            out=config.out,
            manifest=Manifest.read(config.out),
            was_complete=was_complete,
            resumed_parts=num_resumed,
            workers=workers,
            seconds=time.monotonic() - started,
            processed_bytes=num_bytes,
            disk_bytes=sum(file_sizes(config.out).values()),
            peak_memory_bytes=_peak_memory_bytes(workers),
        )


def _hashed_sources(inputs: Sequence[Input], build: BuildFolder) -> tuple[Source, ...]:
    size = sum(path.stat().st_size for found in inputs for path in found.files)
    sources: list[Source] = []
    with progress("hashing sources", total=size / 1e6, unit="MB") as bar:
        for source in fingerprint_sources(inputs, build.known_sources()):
            sources.append(source)
            bar.advance(source.bytes / 1e6)
    return tuple(sources)


def _tokenise(
    config: PrepareConfig, build: BuildFolder, sources: Sequence[Source], tokenizer: Tokenizer
) -> tuple[int, int, int]:
    """Make the parts that are not there yet; returns parts, those that were, and bytes of text."""
    column, held_out = config.column, HeldOut(config.dev_share, config.dev_group)
    settings = PartSettings(tokenizer.model, tokenizer.settings, config.language, column, held_out, config.ids)
    leading = next(index for index in count() if not build.part(index).is_file())
    start = read_summary(build.part(leading - 1)).end if leading else BEGINNING
    num_parts, num_resumed, num_bytes, num_problems, coverage = leading, leading, 0, 0, Coverage()
    if any(build.parts.glob("*.npz")):
        say(f"{config.out}: going on with an unfinished build")
    # How much text a compressed file holds is known only when it has been read.
    left_mb = sum(source.text_bytes_estimate for source in sources[start.source :]) / 1e6
    with progress("tokenising", total=left_mb, unit="MB") as bar:

        def missing_parts() -> Iterator[RawPart]:
            nonlocal num_parts, num_resumed
            for raw in read_raw_parts(sources, column, leading, start, config.part_bytes, held_out.column):
                num_parts += 1
                if build.part(raw.index).is_file():
                    num_resumed += 1
                else:
                    yield raw

        results = build_parts(missing_parts(), settings, config.engine, config.workers)
        with closing(results):  # at once if something fails: workers end before the lock does
            for raw, data in results:
                summary = read_summary(BytesIO(data))
                _show_problems(summary.problems, num_problems, config.strict)
                num_problems += len(summary.problems)
                coverage += Coverage(*summary.coverage)
                if coverage.tokens > _ENOUGH_TOKENS:  # wrong from the start: stop now
                    coverage.check(str(config.input[0]), config.allow_unknown)
                build.write_part(raw.index, data)
                num_bytes += summary.text_bytes
                done_mb = min(left_mb, raw.num_bytes / 1e6)
                left_mb -= done_mb
                bar.advance(done_mb)
    return num_parts, num_resumed, num_bytes


def _show_problems(problems: Sequence[Problem], num_before: int, strict: bool) -> None:
    """Print the first problems as they are met; stop at one if asked to."""
    for number, problem in enumerate(problems, start=num_before):
        if strict:
            raise DataError(f"{problem.describe()}; fix it, or run without --strict")
        if number < _SHOWN_PROBLEMS:
            say(problem.describe())
        elif number == _SHOWN_PROBLEMS:
            say(f"more problems: counted, and listed in {PROBLEMS} of the output")


def _assemble(config: PrepareConfig, build: BuildFolder, request: BuildRequest, vocab_size: int, parts: int) -> None:
    """Make shards of the parts, and the manifest last."""
    sources = request.sources
    assembly = begin_assembly(build, parts, config.dedup, config.shard_tokens)
    if config.strict and assembly.problems:
        raise DataError(f"--strict: an earlier run met problems: {_list(assembly.problems)}")
    if not assembly.train_documents:
        found = _list(assembly.problems) or "no text"
        raise DataError(f"nothing to train on in {len(sources)} files ({found}); check --input")
    if warning := Coverage(*assembly.coverage).check(str(config.input[0]), config.allow_unknown):
        say(warning)
    with progress("writing shards", total=len(assembly.groups), unit="shard") as bar:
        for _ in write_train_shards(build, assembly):
            bar.advance()
    if not (build.out / TOKENIZER_FOLDER).is_dir():
        with atomic_folder(build.out / TOKENIZER_FOLDER) as folder:
            copy_tokenizer(config.tokenizer, folder)
    write_sources(build.out / SOURCES, sources, times=False)
    Manifest(
        vocab_size=vocab_size,
        dtype=token_dtype(vocab_size).name,
        tokenizer=request.tokenizer,
        splits={split: seal_split(build.out, split, vocab_size) for split in get_args(Split)},
        sources=SourceCounts(
            files=len(sources),
            file_bytes=sum(source.bytes for source in sources),
            text_bytes=assembly.text_bytes,
            documents=assembly.first_documents[-1] + assembly.empty_documents,
            duplicate_documents=assembly.duplicate_documents,
            empty_documents=assembly.empty_documents,
            fingerprint=sha256_file(build.out / SOURCES),
        ),
        problems=assembly.problems,
        settings=request.settings,
    ).write(build.out)
    shutil.rmtree(build.work)


@contextmanager
def _keeping_what_is_done(out: Path) -> Iterator[None]:
    """Say after an interruption or on a full disk that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"{out}: finished parts are kept; run the same command again to go on")
        raise
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        remedy = "free some and run the same command again: finished parts are kept"
        raise DataError(f"no space left on the disk of {out}; {remedy}") from None


def _peak_memory_bytes(workers: int) -> int:
    """Return an upper bound: this process, and each worker as large as the largest; 0 unknown."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return 0
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    kilobytes = own + (workers * child if workers > 1 else 0)
    return kilobytes * (1 if sys.platform == "darwin" else 1024)


def _list(counts: dict[str, int]) -> str:
    return ", ".join(f"{number:,} {kind.replace('_', ' ')}" for kind, number in counts.items())

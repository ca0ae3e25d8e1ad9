"""Bad rows: reported with file and row, counted, and fatal when strict."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from litebert.common.errors import DataError
from litebert.common.files import write_json_lines

MAX_WORDS = 20_000  # more mean a broken row: no task has passages a tenth as long
BAD_ROWS_FILE = "bad_rows.jsonl"  # every bad row, in a run folder and beside predictions


@dataclass(frozen=True)
class RowProblem:
    """One bad row and what became of it."""

    file: str
    row: int
    reason: str
    detail: str
    kept: bool

    def line(self) -> str:
        """Return the problem as one line for people."""
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.file}:{self.row}: {self.reason}{detail} ({'kept' if self.kept else 'skipped'})"


class RowProblems:
    """Collects bad rows while files are read."""

    def __init__(self, strict: bool = False) -> None:
        self.strict = strict
        self.problems: list[RowProblem] = []
        self._seen: set[tuple[Path, int, str]] = set()  # a file of two splits is read twice

    def __len__(self) -> int:
        return len(self.problems)

    def add(self, path: Path, row: int, reason: str, detail: str = "", kept: bool = False) -> None:
        """Note a bad row (a line or question, from 1), or stop at it when strict; a ``kept`` one is used anyhow."""
        if self.strict:
            what = f"{reason}: {detail}" if detail else reason
            raise DataError(f"{path}:{row}: {what}; fix the row or run without --strict")
        if (path, row, reason) not in self._seen:
            self._seen.add((path, row, reason))
            self.problems.append(RowProblem(str(path), row, reason, detail, kept))

    def check_text(self, path: Path, row: int, text: str, what: str, training: bool) -> bool:
        """Check that a text is neither empty nor absurdly long; return whether to use the row."""
        # In evaluation every row is kept: the official scripts count it. Only a long text is worth splitting.
        num_words = len(text.split()) if len(text) > 2 * MAX_WORDS else 0
        if num_words > MAX_WORDS:
            detail = f"{num_words:,} words, more than {MAX_WORDS:,}"
            self.add(path, row, f"overlong {what}", detail, kept=not training)
        elif not text.strip():
            self.add(path, row, f"empty {what}", kept=not training)
        else:
            return True
        return not training

    @property
    def num_skipped(self) -> int:
        """How many bad rows gave no example."""
        return sum(not problem.kept for problem in self.problems)

    def counts(self) -> dict[str, int]:
        """Return how often each reason occurred."""
        return dict(Counter(problem.reason for problem in self.problems))

    def write(self, path: Path) -> None:
        """Write every bad row as a JSON line; nothing if there is none."""
        if self.problems:
            write_json_lines(path, map(asdict, self.problems))

    def report(self) -> list[str]:
        """Return lines for people: the first rows of each reason, then the counts."""
        if not self.problems:
            return []
        shown, lines = Counter[str](), []
        for problem in self.problems:
            shown[problem.reason] += 1
            if shown[problem.reason] <= 3:
                lines.append(problem.line())
        rows = "bad row" if len(self.problems) == 1 else "bad rows"
        counts = ", ".join(f"{count:,} {reason}" for reason, count in self.counts().items())
        unknown = (p.detail for p in self.problems if p.reason == "unknown label")
        if wrong := Counter(detail.partition(" is not ")[0] for detail in unknown):
            named = ", ".join(f"{label} {count:,}" for label, count in wrong.most_common(10))
            lines.append(f"unknown labels by their number: {named}")
        return [*lines, f"{len(self.problems):,} {rows}: {counts}"]

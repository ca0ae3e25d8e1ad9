"""The report is one self-contained page made from the run folder alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litebert.common.errors import DataError
from litebert.common.runs import RunFolder
from litebert.report.page import Series, chart, ticks
from litebert.report.write import write_report


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder.create(tmp_path / "run", {"model": {"preset": "albert-<tiny>"}}, {"run": 1})
    for step in range(1, 31):
        folder.log(
            step,
            {
                "mlm_loss": 9.0 - step / 10,
                "lr": 1e-3,
                "tokens": 100 * step,
                "elapsed_s": step,
                "tokens_per_s": 1234.0,
                "gemm_share": 0.5,
                "wait_share": 0.01,
                "layers": 2 if step < 15 else 4,
            },
        )
    folder.event("left_plateau", 20, message="left <it>")
    folder.log(
        30,
        {
            "dev_mlm_loss": 6.1,
            "dev_mlm_accuracy": 0.2,
            "dev_masked_loss": 6.2,
            "dev_unigram_loss": 6.9,
            "dev_predictions": 1000,
            "dev_sop_accuracy": 0.61,
            "dev_sop_pairs": 400,
            "dev_sop_length_rule": 0.542,
            "dev_nsp_accuracy": None,
            "dev_nsp_pairs": 0,
        },
    )
    samples = [{"text": "a [MASK] <b>", "answer": "x", "candidates": [["y", 0.5]]}]
    (folder.path / "samples.json").write_text(json.dumps({"fill_mask": samples}))
    return folder


def test_one_page_without_outside_resources(run: RunFolder) -> None:
    page = write_report(run.path).read_text()
    assert (run.path / "report.html").is_file()
    assert not re.search(r"(src|href)\s*=|@import|url\(", page)
    assert page.count("<svg") >= 5
    # Wilson's interval, as on the screen
    order = "sentence order (SOP) (length rule 54.2%); 95 % interval 56.1% to 65.7%, of 400"
    assert order in page
    for text in ("61.0%", "6.100", "left the plateau (step 20)", "Layers that run"):
        assert text in page
    assert "a <mark>[MASK]</mark> &lt;b&gt;" in page
    assert "albert-&lt;tiny&gt;" in page
    assert "NaN" not in page


def test_a_run_without_metrics_has_a_report_too(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", {}, {})
    assert "Settings" in write_report(tmp_path / "run", tmp_path / "page.html").read_text()


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not a run folder"):
        write_report(tmp_path)


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6), st.integers(2, 10))
def test_ticks_cover_the_range(low: float, span: float, count: int) -> None:
    found = ticks(low, low + span, count)
    assert found == sorted(found)
    assert 2 <= len(found) <= 3 * count + 2
    assert found[0] <= low + 1e-6 * (1 + abs(low))
    assert found[-1] >= low + span - 1e-6 * (1 + abs(low) + span)


def test_points_stay_inside_the_drawing() -> None:
    figure = chart("t", [Series("a", ((0, -3.0), (10, 250.0))), Series("empty", ())])
    points = re.findall(r'points="([^"]+)"', figure)
    assert len(points) == 1
    for pair in points[0].split():
        x, y = (float(part) for part in pair.split(","))
        assert 0 <= x <= 560
        assert 0 <= y <= 260
    assert chart("t", [Series("empty", ())]) == ""
    assert "<circle" in chart("t", [Series("one", ((5, 1.0),))])

"""Models that run in the page: as the server answers, from any file server, and what is missing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from browsing import Server, screenshot
from litebert.interop.hub import export_hub
from litebert.interop.onnx.export import export_onnx
from litebert.predict.predictor import Predictor
from litebert.serve.page import RUNTIME, export_page
from node_scripts import PACKAGES, package_version
from tiny_models import random_model_folder

if TYPE_CHECKING:
    from playwright.sync_api import Page

playwright = pytest.importorskip("playwright.sync_api", reason="needs `make browser`")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (RUNTIME / "ort.wasm.gz").is_file(), reason="needs `make web`"),
]

expect = playwright.expect
MASKED = "the [MASK] of a (name), or [mask]"
TEXTS = ["a name [CLS]", "the value of an Expression", "it is evaluated 1998, at run time"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer_dir: Path) -> dict[str, Path]:
    made = {}
    for head in ("pretraining", "classification"):
        work = tmp_path_factory.mktemp(head)
        export_onnx(random_model_folder(work / "m", head, tiny_tokenizer_dir), work / head)
        made[head] = work / head
    return made


@pytest.fixture(scope="module")
def server(folders: dict[str, Path]) -> Iterator[Server]:
    models = [argument for folder in folders.values() for argument in ("--model", str(folder))]
    server = Server(*models, "--api-key", "secret")
    yield server
    server.stop()


class Files:
    """A folder served by Python's file server, below a path."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]
        self.process = subprocess.Popen(
            [*command, "--directory", str(folder)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split("(")[1].split("/)")[0]

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


@pytest.fixture(scope="module")
def bundled_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the bundled model, in a folder below the one that is served."""
    place = tmp_path_factory.mktemp("files")
    export_page("bundled", place / "below" / "page")
    return place


@pytest.fixture(scope="module")
def files(bundled_page: Path) -> Iterator[Files]:
    files = Files(bundled_page)
    yield files
    files.stop()


@pytest.fixture
def page(browser: Any) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1200, "height": 820})
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    yield page
    context.close()
    assert not problems, problems


def opened(page: Page, server: Server) -> None:
    page.goto(server.address)
    page.locator("#key-value").fill("secret")
    page.get_by_role("button", name="Use it").click()
    expect(page.locator("#mask .bar")).to_have_count(5)


def answers_here(page: Page, panel: str) -> None:
    page.locator(f"#{panel} .where").get_by_text("in this page").click()
    expect(page.locator(f"#{panel} .result")).to_contain_text("Answered in this page")


def ask_here(page: Page, model: str, path: str, body: dict[str, Any]) -> Any:
    """What the page's own model says, as the panels get it."""
    return page.evaluate(
        """async ([model, path, body]) => {
             const { ask } = await import(new URL("static/local.js", document.baseURI));
             const panel = document.createElement("div");
             panel.dataset.model = model;
             panel.innerHTML = '<p class="where"><input type="radio" value="here" checked></p>';
             return ask(panel, path, body);
           }""",
        [model, path, body],
    )


def test_the_switch_on_three_panels(page: Page, server: Server) -> None:
    """With a key: the files of the model are asked for like everything else."""
    opened(page, server)
    expect(page.locator("#mask .result")).to_contain_text("Answered by the server")
    page.locator("#mask-text").fill("the [MASK] of a name")
    page.get_by_role("button", name="Fill in").click()
    first = page.locator("#mask .bar b").first
    expect(page.locator("#mask .sentence")).to_contain_text("of a name")
    said = first.inner_text()
    answers_here(page, "mask")
    expect(first).to_have_text(said)
    screenshot(page, "here-mask")
    for tab, panel in (("Classify", "classify"), ("Compare texts", "embed")):
        page.get_by_role("tab", name=tab).click()
        expect(page.locator(f"#{panel} .result")).to_contain_text("Answered by the server")
        before = page.locator(f"#{panel} .bar").all_inner_texts()
        answers_here(page, panel)
        assert page.locator(f"#{panel} .bar").all_inner_texts() == before
        screenshot(page, f"here-{panel}")


def test_the_page_answers_as_python_does(page: Page, server: Server, folders: dict[str, Path]) -> None:
    opened(page, server)
    ours = Predictor.load(folders["pretraining"])
    found = ask_here(page, "pretraining", "/fill-mask", {"text": MASKED, "top_k": 7})
    expected = ours.fill_mask([MASKED], 7)[0].masks
    for theirs, own in zip(found["results"][0]["masks"], expected, strict=True):
        assert [row["token_id"] for row in theirs] == [best.token_id for best in own]
        assert [row["token"] for row in theirs] == [best.token for best in own]
        assert [row["is_continuation"] for row in theirs] == [b.is_continuation for b in own]
        assert [row["score"] for row in theirs] == pytest.approx([b.score for b in own], abs=1e-5)
    body = {"first": TEXTS[0], "second": TEXTS[1]}
    order = ask_here(page, "pretraining", "/order", body)
    assert order["in_order"] == pytest.approx(ours.order([(TEXTS[0], TEXTS[1])])[0].in_order, abs=1e-5)
    texts = [*TEXTS, "a long one " * 100]
    data = ask_here(page, "pretraining", "/v1/embeddings", {"input": texts})["data"]
    vectors = ours.embed(texts)
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    assert np.abs(np.array([row["embedding"] for row in data]) - vectors).max() < 1e-5
    classifier = Predictor.load(folders["classification"])
    for pair in (None, TEXTS[1], "a second text " * 60):
        record = {"text": TEXTS[0] * 10} | ({} if pair is None else {"text_pair": pair})
        (answer,) = ask_here(page, "classification", "/classify", record)["results"]
        (classified,) = classifier.predict([record])
        assert answer["label"] == classified["label"]
        assert answer["scores"] == pytest.approx(classified["scores"], abs=1e-5)


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/fill-mask", {"text": "no mask", "top_k": 5}, "has no [MASK]"),
        ("/fill-mask", {"text": "[MASK] " * 70, "top_k": 5}, "the model reads 64; shorten it"),
        ("/order", {"first": "", "second": "a name"}, "one of them is empty"),
    ],
)
def test_bad_input_is_explained_here_too(
    page: Page, server: Server, path: str, body: dict[str, Any], words: str
) -> None:
    opened(page, server)
    with pytest.raises(playwright.Error, match=words.replace("[", r"\[")):
        ask_here(page, "pretraining", path, body)


def test_without_the_runtime_the_switch_says_what_to_do(page: Page, server: Server) -> None:
    page.route("**/vendor/**", lambda route: route.fulfill(status=404))
    opened(page, server)
    expect(page.locator("#mask .where input[value=here]")).to_be_disabled()
    expect(page.locator("#mask .where small")).to_contain_text("make web")
    screenshot(page, "here-without-runtime")


def test_the_page_of_the_bundled_model(
    page: Page, bundled_page: Path, files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a plain file server: right answers, nothing from elsewhere; how large and how fast."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{files.address}/below/page/")
    expect(page.locator("#mask .bar")).to_have_count(5)
    first_ms = int(page.locator("#mask").get_attribute("data-first") or 0)
    since_start = page.evaluate("Math.round(performance.now())")
    assert all(url.startswith((files.address, "blob:", "data:")) for url in asked), asked
    expect(page.locator(".where").first).to_be_hidden()
    tabs = [tab.inner_text() for tab in page.get_by_role("tab").all() if tab.is_visible()]
    assert tabs == ["Fill a mask", "Sentence order", "Compare texts", "What ALBERT is"]
    text = "The king and the [MASK] lived in a castle."
    page.locator("#mask-text").fill(text)
    page.get_by_role("button", name="Fill in").click()
    expect(page.locator("#mask .sentence")).to_contain_text("castle")
    words = page.locator("#mask .bar b").all_inner_texts()
    best = Predictor.load("bundled").fill_mask([text], 10)[0].masks[0]
    assert words[0] == best[0].token
    assert set(words) <= {candidate.token for candidate in best}
    took = page.locator("#mask .result .hint").last.inner_text()
    screenshot(page, "page-mask")
    for tab in ("Compare texts", "What ALBERT is"):
        page.get_by_role("tab", name=tab).click()
        screenshot(page, f"page-{tab.split()[0].lower()}")
    folder = bundled_page / "below" / "page"
    sizes = {
        part: sum(file.stat().st_size for file in (folder / part).rglob("*") if file.is_file())
        for part in ("", "model", "static/vendor")
    }
    whole, model, runtime = (size / 1e6 for size in sizes.values())
    browser = page.context.browser
    assert browser is not None
    with capsys.disabled():
        print(
            f"\n[onnxruntime-web {package_version('onnxruntime-web')}, Chromium "
            f"{browser.version}: page {whole:.2f} MB (model {model:.2f}, runtime "
            f"{runtime:.2f}), first answer after {first_ms} ms, {since_start} ms after the "
            f"page was opened; the next: {took}]"
        )
    assert whole < 8


def test_a_phone_shows_the_page_without_sideways_scrolling(browser: Any, files: Files) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 740}, color_scheme="dark")
    page = context.new_page()
    page.goto(f"{files.address}/below/page/")
    expect(page.locator("#mask .bar")).to_have_count(5)
    for tab in page.get_by_role("tab").all():
        if tab.is_visible():
            tab.click()
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
            screenshot(page, f"page-phone-{tab.get_attribute('id')}")
    context.close()


@pytest.mark.parametrize(
    ("missing", "place", "words"),
    [
        ("model", "#models", "model.json is missing (404); copy the whole folder"),
        ("model/model.onnx", "#mask .result", "model.onnx is missing (404); copy the whole folder"),
        ("static/vendor/ort.wasm.gz", "#mask .result", "ort.wasm.gz is missing (404)"),
        ("static/vendor", "#mask .result", "The runtime is not whole"),
        ("static/panels.js", "#broken", "A file of this page is missing or damaged"),
        ("static/playground.js", "#broken", "playground.js"),
    ],
)
def test_a_page_without_its_files_says_which(
    page: Page, bundled_page: Path, tmp_path: Path, missing: str, place: str, words: str
) -> None:
    folder = tmp_path / "page"
    shutil.copytree(bundled_page / "below" / "page", folder)
    found = folder / missing
    shutil.rmtree(found) if found.is_dir() else found.unlink()
    files = Files(folder)
    page.goto(files.address)
    expect(page.locator(place)).to_contain_text(words)
    screenshot(page, f"page-without-{found.name}")
    files.stop()


def test_a_page_opened_from_the_disk_says_what_it_needs(page: Page, bundled_page: Path) -> None:
    page.goto((bundled_page / "below" / "page" / "index.html").as_uri())
    expect(page.locator("#broken")).to_contain_text("python -m http.server")
    screenshot(page, "page-from-disk")


def test_the_tokenizer_in_chromium_gives_the_official_ids(page: Page, files: Files, shared: Path) -> None:
    from litebert.bundled import bundled_model
    from litebert.common.files import open_binary
    from litebert.text.tokenizer import Tokenizer

    lines: list[str] = []
    with open_binary(shared / "data" / "corpus" / "wiki.txt.xz") as stream:
        while len(lines) < 500:
            if line := stream.readline().decode().strip():
                lines.append(line)
    page.goto(f"{files.address}/below/page/")
    found = page.evaluate(
        """async (lines) => {
             const at = (path) => new URL(path, document.baseURI);
             const { Tokenizer } = await import(at("static/vendor/tokenizers.mjs"));
             const json = async (name) => (await fetch(at(`model/${name}`))).json();
             const files = [await json("tokenizer.json"), await json("tokenizer_config.json")];
             const tokenizer = new Tokenizer(...files);
             return lines.map((line) => tokenizer.encode(line, { add_special_tokens: false }).ids);
           }""",
        lines,
    )
    assert found == Tokenizer.load(bundled_model()).encode_batch(lines)


def test_transformers_js_in_the_browser(page: Page, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The folder of `export hub` by the published package, in Chromium."""
    version = package_version("@huggingface/transformers")
    export_hub("bundled", tmp_path / "models" / "bundled")
    (tmp_path / "npm").symlink_to(PACKAGES)
    library = "npm/@huggingface/transformers"
    runtime = f"/{library}/node_modules/onnxruntime-web/dist/"
    imports = {
        "@huggingface/tokenizers": "/npm/@huggingface/tokenizers/dist/tokenizers.mjs",
        "@huggingface/jinja": "/npm/@huggingface/jinja/dist/index.js",
        "onnxruntime-common": f"/{library}/node_modules/onnxruntime-common/dist/esm/index.js",
        "onnxruntime-web/webgpu": f"{runtime}ort.webgpu.bundle.min.mjs",
    }
    script = f"""
      import {{ env, pipeline }} from "/{library}/dist/transformers.web.js";
      env.allowRemoteModels = false;
      env.allowLocalModels = true;
      env.localModelPath = "/models/";
      env.backends.onnx.wasm.wasmPaths = "{runtime}";
      const fill = await pipeline("fill-mask", "bundled", {{ dtype: "q8", device: "wasm" }});
      window.said = await fill("the book was [MASK] in 1950.");
    """
    mapped = json.dumps({"imports": imports})
    (tmp_path / "index.html").write_text(
        f'<script type="importmap">{mapped}</script><script type="module">{script}</script>'
    )
    files = Files(tmp_path)
    page.goto(files.address)
    page.wait_for_function("window.said", timeout=60_000)
    said = page.evaluate("window.said")
    with capsys.disabled():
        print(f" [transformers.js {version} in Chromium]", end="")
    best = Predictor.load("bundled").fill_mask(["the book was [MASK] in 1950."])[0].masks[0]
    assert said[0]["token"] == best[0].token_id
    files.stop()

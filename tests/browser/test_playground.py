"""The playground in a real browser: each panel used, wrong input, a stopped server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browsing import Server, screenshot
from tiny_models import random_model_folder

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

playwright = pytest.importorskip("playwright.sync_api", reason="needs `make browser`")
pytestmark = pytest.mark.browser

expect = playwright.expect


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer_dir: Path) -> dict[str, Path]:
    from litebert.interop.onnx.export import export_onnx

    made = {}
    for head in ("pretraining", "classification", "span", "token_classification"):
        work = tmp_path_factory.mktemp(head)
        export_onnx(random_model_folder(work / "m", head, tiny_tokenizer_dir), work / head)
        made[head] = work / head
    return made


@pytest.fixture(scope="module")
def address(folders: dict[str, Path]) -> Iterator[str]:
    models = [argument for folder in folders.values() for argument in ("--model", str(folder))]
    server = Server(*models)
    yield server.address
    server.stop()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1200, "height": 820})
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(address)
    expect(page.locator("#status")).to_have_attribute("data-state", "ok")
    yield page
    context.close()
    assert not problems, problems


def test_fill_a_mask(page: Page) -> None:
    result = page.locator("#mask .result")
    expect(result.locator(".bar")).to_have_count(5)
    page.locator("#mask-text").fill("the [MASK] of a [MASK]")
    page.get_by_role("button", name="Fill in").click()
    expect(result.locator(".group")).to_have_count(2)
    widths = result.locator(".bar").first.evaluate("e => e.style.getPropertyValue('--share')")
    assert 0 < float(widths.rstrip("%")) <= 100
    word = result.locator(".bar b").first.inner_text()
    result.locator(".bar").first.click()
    filled = f"the{word[1:]}" if word.startswith("+") else f"the {word}"
    expect(page.locator("#mask-text")).to_have_value(f"{filled} of a [MASK]")
    expect(result.locator(".group")).to_have_count(1)
    screenshot(page, "mask")


def test_insert_a_mask_and_ask_by_keyboard(page: Page) -> None:
    text = page.locator("#mask-text")
    text.fill("a name")
    text.evaluate("e => e.setSelectionRange(2, 6)")
    page.get_by_role("button", name="Insert [MASK]").click()
    expect(text).to_have_value("a [MASK]")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#mask .sentence")).to_contain_text("a ")


def test_a_wrong_input_is_explained(page: Page) -> None:
    page.locator("#mask-text").fill("nothing is hidden here")
    page.get_by_role("button", name="Fill in").click()
    alert = page.locator("#mask .problem")
    expect(alert).to_contain_text("no [MASK]")
    screenshot(page, "mask-wrong")
    page.locator("#mask-text").fill("the [MASK]")
    page.get_by_role("button", name="Fill in").click()
    expect(alert).to_have_count(0)


def test_names_are_marked_where_they_stand(page: Page) -> None:
    page.get_by_role("tab", name="Find names").click()
    text = "😀 a name, the value of a name."
    page.locator("#tag-text").fill(text)
    page.get_by_role("button", name="Mark them").click()
    shown = page.locator("#tag .passage")
    expect(shown).to_contain_text("😀")
    without_types = shown.evaluate(
        "e => { const c = e.cloneNode(true); c.querySelectorAll('sub').forEach(s => s.remove());"
        " return c.textContent; }"
    )
    assert without_types == text
    expect(page.locator("#tag .bar")).to_have_count(shown.locator("mark").count())
    screenshot(page, "names")


@pytest.mark.parametrize(("head", "tab"), [("classification", "Classify"), ("token_classification", "Find names")])
def test_the_page_opens_on_what_the_model_can_do(
    browser: Browser, folders: dict[str, Path], head: str, tab: str
) -> None:
    server = Server("--model", str(folders[head]))
    try:
        page = browser.new_page()
        page.goto(server.address)
        expect(page.get_by_role("tab", name=tab)).to_have_attribute("aria-selected", "true")
        expect(page.locator(".panel:not([hidden]) .result")).not_to_be_empty()
        page.close()
    finally:
        server.stop()


def test_sentence_order_by_dragging_and_by_button(page: Page) -> None:
    page.get_by_role("tab", name="Sentence order").click()
    expect(page.locator("#order .big")).to_be_visible()
    areas = page.locator("#cards textarea")
    first, second = areas.nth(0).input_value(), areas.nth(1).input_value()
    before = page.locator("#order .verdict small").inner_text()
    grip = page.locator("#cards .grip").first.bounding_box()
    target = page.locator("#cards .card").nth(1).bounding_box()
    assert grip is not None
    assert target is not None
    page.mouse.move(grip["x"] + 8, grip["y"] + 8)
    page.mouse.down()
    page.mouse.move(grip["x"] + 8, target["y"] + target["height"] - 5, steps=8)
    page.mouse.up()
    expect(areas.nth(0)).to_have_value(second)
    expect(page.locator("#order .verdict small")).not_to_have_text(before)
    page.locator("#cards .swap").first.focus()
    page.keyboard.press("Enter")
    expect(areas.nth(0)).to_have_value(first)
    expect(page.locator("#order .verdict small")).to_have_text(before)
    screenshot(page, "order")


def test_classify(page: Page) -> None:
    page.get_by_role("tab", name="Classify").click()
    expect(page.locator("#classify .bar")).to_have_count(3)
    page.locator("#classify .examples button").first.click()
    expect(page.locator("#classify .big")).to_be_visible()
    screenshot(page, "classify")


def test_ask_a_passage_with_the_answer_marked(page: Page) -> None:
    page.get_by_role("tab", name="Ask a passage").click()
    sentences = [f"Ann gave the value {number} to Bo." for number in range(30)]
    page.locator("#ask-passage").fill(" ".join(["🙂"] * 5 + sentences))
    page.locator("#ask-question").fill("who?")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator("#ask .passage")).to_contain_text("value 29")
    expect(page.locator("#ask .passage mark")).to_have_text(page.locator("#ask .big").inner_text())
    candidate = page.locator("#ask .bar").nth(2)
    candidate.click()
    expect(page.locator("#ask .passage mark")).to_have_text(candidate.locator("b").inner_text())
    screenshot(page, "ask")


def test_the_picture_counts_exactly(page: Page) -> None:
    from litebert.model.config import preset
    from litebert.model.counts import count_parameters

    page.get_by_role("tab", name="What ALBERT is").click()
    caption = page.locator("#bars-caption")
    for size in ("base", "large", "xxlarge"):
        for sharing, label in (("all", "everything"), ("ffn", "feed-forward"), ("none", "nothing")):
            page.locator("#knobs").get_by_text(size, exact=True).click()
            page.locator("#knobs").get_by_text(label, exact=True).click()
            expected = count_parameters(preset(f"albert-{size}", sharing=sharing)).encoder
            expect(caption).to_contain_text(f"{expected:,}")
    page.locator("#knobs").get_by_text("E = H", exact=True).click()
    page.locator("#knobs").get_by_text("base", exact=True).click()
    expect(page.locator(".stat")).to_contain_text("as large as BERT-base")
    screenshot(page, "picture")


def test_the_way_through_the_layers_is_that_of_the_text(page: Page, folders: dict[str, Path]) -> None:
    from litebert.predict.predictor import Predictor

    page.get_by_role("tab", name="What ALBERT is").click()
    expect(page.locator(".chart .dot")).to_have_count(2 * 3 * len(folders))
    page.locator("#layers-text").fill("the value of a name")
    page.get_by_role("button", name="Send it through").click()
    expected = Predictor.load(folders["pretraining"]).layer_path("the value of a name")
    charts = page.locator(".chart")
    for chart, values, unit in ((charts.nth(0), expected.distance, ""), (charts.nth(1), expected.angle_degrees, "°")):
        for layer, value in enumerate(values, start=1):
            words = f"pretraining, layer {layer}: {value:.2f}{unit}"
            expect(chart.locator("circle title").nth(layer - 1)).to_have_text(words)


def test_tabs_answer_to_the_arrow_keys(page: Page) -> None:
    page.get_by_role("tab", name="Fill a mask").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Sentence order")).to_be_focused()
    expect(page.locator("#order")).to_be_visible()
    page.keyboard.press("End")
    expect(page.locator("#picture")).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#mask")).to_be_visible()


def test_dark_and_light(page: Page) -> None:
    def background() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    before = background()
    page.locator("#theme").click()
    changed = background()
    assert changed != before
    expect(page.locator("#mask .bar")).to_have_count(5)
    screenshot(page, "dark")
    page.reload()
    assert background() == changed, "the choice was forgotten"


def test_a_phone_shows_everything_without_sideways_scrolling(browser: Browser, address: str) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 740}, color_scheme="dark")
    page = context.new_page()
    page.goto(address)
    expect(page.locator("#mask .bar")).to_have_count(5)
    for tab in page.get_by_role("tab").all():
        tab.click()
        overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert overflow <= 0, tab.inner_text()
        screenshot(page, f"phone-{tab.get_attribute('id')}")
    page.goto(f"{address}/docs")
    expect(page.locator("article").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, "/docs"
    screenshot(page, "phone-docs")
    context.close()


def test_a_model_without_the_head_is_explained(browser: Browser, folders: dict[str, Path]) -> None:
    server = Server("--model", str(folders["pretraining"]))
    page = browser.new_page()
    page.goto(server.address)
    page.get_by_role("tab", name="Classify").click()
    expect(page.locator("#classify .note")).to_contain_text("litebert finetune")
    expect(page.locator("#classify .go")).to_be_disabled()
    page.close()
    server.stop()


@pytest.fixture
def without_layers(folders: dict[str, Path], tmp_path: Path) -> Path:
    """A classifier as Optimum exports it: logits and nothing else."""
    import onnx

    from litebert.interop.onnx.file import OnnxFile

    folder = tmp_path / "logits-only"
    shutil.copytree(folders["classification"], folder)
    model = onnx.load_from_string(OnnxFile(folder / "model.onnx").with_outputs(["logits"]))
    del model.metadata_props[:]
    onnx.save_model(model, folder / "model.onnx")
    return folder


def test_models_without_layers_are_explained(browser: Browser, without_layers: Path) -> None:
    server = Server("--model", str(without_layers))
    page = browser.new_page()
    page.goto(server.address)
    page.get_by_role("tab", name="What ALBERT is").click()
    expect(page.locator(".figure-one .note")).to_contain_text("litebert export onnx")
    expect(page.locator(".figure-one .go")).to_be_disabled()
    page.locator("#layers-text").press("Enter")
    expect(page.locator(".chart")).to_have_count(0)
    assert "NaN" not in page.locator("#picture").inner_html()
    screenshot(page, "no-layers")
    page.close()
    server.stop()


def test_layers_are_asked_for_when_they_are_first_seen(
    browser: Browser, address: str, folders: dict[str, Path]
) -> None:
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    expect(page.locator("#mask .bar")).to_have_count(5)
    expect(page.locator("#classify .bar")).to_have_count(3)
    assert not [url for url in asked if url.endswith("/layers")]
    picture = page.get_by_role("tab", name="What ALBERT is")
    for _ in range(2):
        picture.click()
        expect(page.locator(".chart .dot")).to_have_count(2 * 3 * len(folders))
        page.get_by_role("tab", name="Classify").click()
    assert len([url for url in asked if url.endswith("/layers")]) == len(folders)
    page.goto("about:blank")
    page.goto(f"{address}/#picture")
    expect(page.locator(".chart .dot")).to_have_count(2 * 3 * len(folders))
    page.close()


def test_a_stopped_server_is_noticed_and_its_return_too(browser: Browser, folders: dict[str, Path]) -> None:
    server = Server("--model", str(folders["pretraining"]))
    page = browser.new_page()
    page.goto(server.address)
    expect(page.locator("#mask .bar")).to_have_count(5)
    server.stop()
    page.get_by_role("button", name="Fill in").click()
    expect(page.locator("#mask .problem")).to_contain_text("does not answer")
    expect(page.locator("#offline")).to_be_visible()
    screenshot(page, "stopped")
    again = Server(*server.arguments, port=int(server.address.rsplit(":", 1)[1]))
    expect(page.locator("#offline")).to_be_hidden(timeout=15_000)
    page.get_by_role("button", name="Fill in").click()
    expect(page.locator("#mask .bar")).to_have_count(5)
    page.close()
    again.stop()


def test_a_key_is_asked_for(browser: Browser, folders: dict[str, Path]) -> None:
    server = Server("--model", str(folders["pretraining"]), "--api-key", "secret")
    page = browser.new_page()
    page.goto(server.address)
    dialog = page.locator("#key")
    expect(dialog).to_be_visible()
    screenshot(page, "key")
    page.locator("#key-value").fill("secret")
    page.get_by_role("button", name="Use it").click()
    expect(page.locator("#mask .bar")).to_have_count(5)
    page.close()
    server.stop()


def test_the_interface_page_sends_its_examples(page: Page, address: str) -> None:
    page.goto(f"{address}/docs")
    expect(page.locator("article").first).to_contain_text("/fill-mask")
    page.get_by_role("button", name="Send").first.click()
    expect(page.locator("article pre").first).to_contain_text("token_id")
    screenshot(page, "docs")

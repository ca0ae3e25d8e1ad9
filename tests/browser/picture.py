"""Take the picture of the playground for the docs: ``python tests/browser/picture.py MODEL TEXT``.

Above, the text's mask filled in by the model; below, what ALBERT is. Needs `make browser`.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

OUT = Path(__file__).parents[2] / "docs" / "images" / "playground.png"
COLOURS = 256  # keeps the file small, and nobody sees it


def take(address: str, text: str) -> list[Image.Image]:
    """Return the two panels as pictures of one width."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1160, "height": 820})
        page.emulate_media(reduced_motion="reduce")
        page.goto(address)
        page.locator("#mask-text").fill(text)
        page.get_by_role("button", name="Fill in").click()
        page.locator("#mask .sentence").get_by_text(text.split("[MASK]")[0]).wait_for()
        page.locator("#mask-text").blur()
        pictures = [_down_to(page, "#mask .side")]
        page.get_by_role("tab", name="What ALBERT is").click()
        pictures.append(_only(page, "#picture .wide"))
        browser.close()
    return pictures


def _down_to(page, selector: str) -> Image.Image:  # type: ignore[no-untyped-def]
    box = page.locator(selector).bounding_box()
    clip = {"x": 0, "y": 0, "width": 1160, "height": box["y"] + box["height"] + 24}
    return _image(page.screenshot(clip=clip, full_page=True))


def _only(page, selector: str) -> Image.Image:  # type: ignore[no-untyped-def]
    box = page.locator(selector).first.bounding_box()
    clip = {"x": 0, "y": box["y"] - 6, "width": 1160, "height": box["height"] + 30}
    return _image(page.screenshot(clip=clip, full_page=True))


def _image(png: bytes) -> Image.Image:
    return Image.open(io.BytesIO(png)).convert("RGB")


def main() -> None:
    model, text = sys.argv[1:]
    command = [sys.executable, "-m", "litebert", "serve", "--model", model, "--port", "0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        pictures = take(server.stderr.readline().rsplit(" ", 1)[1].strip(), text)
    finally:
        server.terminate()
        server.wait()
    both = Image.new("RGB", (pictures[0].width, sum(p.height for p in pictures)))
    top = 0
    for picture in pictures:
        both.paste(picture, (0, top))
        top += picture.height
    OUT.parent.mkdir(exist_ok=True)
    both.quantize(COLOURS, dither=Image.Dither.NONE).save(OUT, optimize=True)
    print(f"{OUT}: {OUT.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()

"""Put the page's runtime beside the playground: onnxruntime-web and a tokenizer, from build/npm.

    python tools/web.py [TARGET]    # after `make npm`; default: src/litebert/serve/static/vendor

The WebAssembly is packed (14 MB become 4): the page unpacks it, whatever server it comes from.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGES = REPOSITORY / "build" / "npm" / "node_modules"
TARGET = REPOSITORY / "src" / "litebert" / "serve" / "static" / "vendor"

FILES = {
    "ort.mjs": ("onnxruntime-web", "dist/ort.wasm.bundle.min.mjs"),
    "ort.wasm.gz": ("onnxruntime-web", "dist/ort-wasm-simd-threaded.wasm"),
    "tokenizers.mjs": ("@huggingface/tokenizers", "dist/tokenizers.min.mjs"),
}
LICENCES = {"onnxruntime-web": "MIT, Microsoft", "@huggingface/tokenizers": "Apache-2.0"}


def vendor(target: Path) -> dict[str, str]:
    """Write the files and what they are; the version of each package."""
    versions: dict[str, str] = {}
    target.mkdir(parents=True, exist_ok=True)
    for name, (package, file) in FILES.items():
        described = json.loads((PACKAGES / package / "package.json").read_text(encoding="utf-8"))
        versions[package] = str(described["version"])
        content = (PACKAGES / package / file).read_bytes()
        if name.endswith(".gz"):
            content = gzip.compress(content, 9, mtime=0)
        (target / name).write_bytes(content)
    lines = [f"{package} {version} (npm): {LICENCES[package]}\n" for package, version in versions.items()]
    (target / "LICENCES.txt").write_text("".join(lines), encoding="utf-8")
    (target / "versions.json").write_text(json.dumps(versions) + "\n", encoding="utf-8")
    return versions


def main() -> None:
    """Write them and say what was written."""
    if not PACKAGES.is_dir():
        sys.exit("build/npm has no packages; run `make npm` (it needs Node)")
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET
    for package, version in vendor(target).items():
        print(f"{target}: {package} {version}")


if __name__ == "__main__":
    main()

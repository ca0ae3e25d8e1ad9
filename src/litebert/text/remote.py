"""Input from elsewhere (hf://, s3://, gs://, https://): copied once through fsspec, then local."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any

from litebert.common.errors import DataError, InputError
from litebert.common.files import atomic_path, write_text
from litebert.common.progress import progress

CACHE_VARIABLE = "LITEBERT_CACHE"
_URL = re.compile(r"^(?P<protocol>[a-z][a-z0-9+.-]+):/{1,2}(?P<path>[^/].*)$")
"""A path has lost one of the two slashes; a drive of Windows has one letter."""
_MARKS = ("size", "ETag", "etag", "blob_id", "md5Hash", "LastModified", "mtime", "created")
"""What tells one version of a file from another, by kind of file system."""


def remote_url(given: Path) -> str | None:
    """Return the address that was given in place of a path, or None.

    >>> remote_url(Path("s3://bucket/wiki/*.txt.xz"))
    's3://bucket/wiki/*.txt.xz'
    >>> remote_url(Path("corpus/wiki.txt"))
    """
    found = _URL.match(str(given))
    if found is None or given.exists():
        return None
    slash = "/" if found["protocol"] == "file" else ""
    return f"{found['protocol']}://{slash}{found['path']}"


def fetch(url: str) -> list[Path]:
    """Return local copies of the file, the files of the folder or those of the glob, in order.

    A copy is made again only where the file over there has changed, so that an interrupted build
    goes on where it was; fingerprints are of the contents, as of any other file.
    """
    try:
        from fsspec.core import url_to_fs
    except ModuleNotFoundError:
        raise InputError(f"{url} needs a package: `pip install fsspec`") from None
    try:
        system, root = url_to_fs(url)
        found = [root] if system.isfile(root) else system.glob(root) if "*" in root else None
        names = sorted(system.find(root) if found is None else filter(system.isfile, found))
        if not names:
            raise DataError(f"input {url} matches no file; check the address, or quote the glob")
        with progress(f"copying {url}", len(names), "file") as bar:
            copies = []
            for name in names:
                copies.append(_copy(system, str(name)))
                bar.advance()
        return copies
    except ImportError as error:  # the package of this protocol
        raise InputError(f"{url}: {error}") from None
    except (OSError, ValueError) as error:
        raise DataError(f"input {url} cannot be read: {error or type(error).__name__}") from None


def _copy(system: Any, name: str) -> Path:
    """Return the local copy of one file. Its place is a hash, for names may hold anything."""
    known = os.environ.get(CACHE_VARIABLE)
    cache = Path(known) if known else Path.home() / ".cache" / "litebert"
    place = hashlib.sha256(system.unstrip_protocol(name).encode()).hexdigest()[:24]
    copy = cache / "inputs" / place / Path(name).name
    info = system.info(name)
    version = "\n".join([name, *(f"{mark} {info[mark]}" for mark in _MARKS if mark in info)])
    note = copy.parent / ".version"
    if not (copy.is_file() and note.is_file() and note.read_text(encoding="utf-8") == version):
        copy.parent.mkdir(parents=True, exist_ok=True)
        note.unlink(missing_ok=True)
        with atomic_path(copy) as partial:
            system.get_file(name, str(partial))
        write_text(note, version)
    return copy

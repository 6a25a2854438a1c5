"""The site is built without a warning, and a reader's browser is sent nowhere else for what it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT

_LOADS = re.compile(
    r"<(?:script|img|iframe|source)[^>]*\ssrc=\"([^\"]*)\"|<link[^>]*\shref=\"([^\"]*)\""
    r"|url\(([^)]*)\)|@import \"([^\"]*)\""
)


@pytest.mark.slow
def test_it_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    assert {page.relative_to(DOCS).with_suffix(".html") for page in DOCS.rglob("*.md")} <= {
        page.relative_to(site) for page in site.rglob("*.html")
    }
    for file in (*site.rglob("*.html"), *site.rglob("*.css")):
        loaded = ["".join(found) for found in _LOADS.findall(file.read_text())]
        assert not [address for address in loaded if re.match(r"['\"]?(https?:)?//", address)], file
    for page in site.rglob("*.html"):
        assert "from code:" not in page.read_text()
        assert 'class="mermaid"' not in page.read_text(), "its script would be fetched"
    assert "restored" in (site / "search" / "search_index.json").read_text()

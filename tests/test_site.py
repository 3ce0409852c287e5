"""The site of the documentation: what it is made of is complete, and it builds without a warning."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import margrave as mg

ROOT = Path(__file__).parents[1]
REFERENCES = ROOT / "docs" / "references.bib"
NUMBER = re.compile(r"arXiv[: ](\d{4}\.\d{4,5})")


def test_every_paper_that_is_cited_is_in_the_references() -> None:
    known = set(re.findall(r"eprint = \{(\S+)\}", REFERENCES.read_text(encoding="utf-8")))
    pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py"), ROOT / "README.md"]
    cited = {number for page in pages for number in NUMBER.findall(page.read_text(encoding="utf-8"))}
    assert cited
    assert cited <= known


def test_references_have_unique_keys_and_what_a_reader_needs() -> None:
    text = REFERENCES.read_text(encoding="utf-8")
    entries = re.findall(r"^@\w+\{(\w+),\n(.*?)^\}", text, flags=re.MULTILINE | re.DOTALL)
    assert len(entries) == text.count("\n@") + 1 == len({key for key, _ in entries})
    for key, body in entries:
        assert {"author", "title", "year"} <= set(re.findall(r"^  (\w+) = ", body, flags=re.MULTILINE)), key


@pytest.mark.needs_extra("docs")
def test_the_site_builds_without_a_warning_and_has_every_public_name(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    page = (tmp_path / "reference" / "margrave.html").read_text(encoding="utf-8")
    headings = " ".join(re.findall(r"<h2[^>]*>(.*?)</h2>", page, flags=re.DOTALL))
    words = set(re.findall(r"\w+", re.sub(r"<[^>]+>", " ", headings)))
    assert set(mg.__all__) <= words
    commands = (tmp_path / "commands.html").read_text(encoding="utf-8")
    assert all(name in commands for name in ("margrave synthesize", "margrave ledger init", "--max-rows"))
    _assert_links_lead_somewhere(tmp_path)


def _assert_links_lead_somewhere(site: Path) -> None:
    """Independently of MkDocs: each relative link of each page is a file, each anchor an element of it."""
    pages = {
        page: page.read_text(encoding="utf-8") for page in site.rglob("*.html") if page.name != "404.html"
    }
    anchors = {page.resolve(): set(re.findall(r'\bid="([^"]+)"', text)) for page, text in pages.items()}
    for page, text in pages.items():
        for link in re.findall(r'<a [^>]*href="([^"]+)"', text):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page.resolve()
            assert target.exists(), f"{page.name}: {link}"
            assert not anchor or target not in anchors or anchor in anchors[target], f"{page.name}: {link}"

"""The pages in a browser: nothing is fetched, colours follow the choice, axe-core finds nothing.

Wants Chromium, and for the last test axe-core: the Python package axe-core-python, or a path in MARGRAVE_AXE.
"""

from __future__ import annotations

import html
import importlib.util
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from adult_like import Mixture
from reviewed import review

from margrave.release import Release
from margrave.report import render, render_comparison
from margrave.schema.encoded import Encoded

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "headless_shell")
Made = tuple[Release, Mixture, Encoded, Encoded]


def _browser() -> str | None:
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def _axe() -> str | None:
    """The source of axe-core, where there is one."""
    path = os.environ.get("MARGRAVE_AXE")
    if path is None and (spec := importlib.util.find_spec("axe_core_python")) and spec.origin:
        path = str(Path(spec.origin).with_name("axe.min.js"))
    return Path(path).read_text(encoding="utf-8") if path and Path(path).exists() else None


pytestmark = pytest.mark.skipif(_browser() is None, reason="this machine has no Chromium")


def _run(folder: Path, page: str, *options: str) -> str:
    """What headless Chromium prints about a page."""
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    command = [
        *(str(_browser()), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
        *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
        *("--disable-sync", "--disable-quic"),
        *(f"--user-data-dir={folder / 'profile'}", *options, path.as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.decode(errors="replace")


def _asked(folder: Path, page: str, script: str, *options: str) -> object:
    """What a script finds in a page, as JSON; the page's own rule against strange scripts is lifted."""
    page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    # The answer is written into the page, which Chromium prints once it has come to rest.
    wrapped = (
        "<script>addEventListener('load', async () => { const found = await (async () => {"
        f"{script}"
        "})(); const p = document.createElement('pre'); p.id = 'answer';"
        "p.textContent = JSON.stringify(found); document.body.appendChild(p); });</script>"
    )
    shown = _run(
        folder,
        page.replace("</body>", f"{wrapped}</body>"),
        "--virtual-time-budget=60000",
        "--dump-dom",
        *options,
    )
    answer = re.search(r'<pre id="answer">(.*?)</pre>', shown, re.S)
    assert answer, shown[-500:]
    return json.loads(html.unescape(answer[1]))


@pytest.fixture(scope="module")
def pages(made: Made) -> dict[str, str]:
    release, model, synthetic, _ = made
    return {"comparison": render_comparison(review()), "release": render(release, model, synthetic=synthetic)}


@pytest.mark.parametrize("name", [pytest.param("comparison", marks=pytest.mark.slow), "release"])
def test_the_choice_of_colours_works_without_a_script(
    name: str, pages: dict[str, str], tmp_path: Path
) -> None:
    script = """
        const colour = () => getComputedStyle(document.body).backgroundColor, found = {};
        for (const key of ["system", "light", "dark"]) {
            document.getElementById("theme-" + key).checked = true;
            found[key] = colour();
        }
        return found;"""
    found = _asked(tmp_path, pages[name], script)
    assert found == {
        "system": "rgb(252, 252, 250)",
        "light": "rgb(252, 252, 250)",
        "dark": "rgb(20, 24, 29)",
    }


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("name", ["comparison", "release"])
def test_nothing_sticks_out_and_nothing_is_fetched(
    name: str, width: int, pages: dict[str, str], tmp_path: Path
) -> None:
    # Headless Chromium has no window narrower than 500 pixels: a frame has.
    script = f"""
        const text = "<!DOCTYPE html>" + document.documentElement.outerHTML;
        const frame = document.createElement("iframe");
        frame.style.width = "{width}px";
        document.body.appendChild(frame);
        frame.srcdoc = text.replace(/<script>addEvent[^]*?<.script>/, "");
        await new Promise(done => frame.onload = done);
        const root = frame.contentDocument.documentElement;
        return [root.scrollWidth, root.clientWidth, performance.getEntriesByType("resource").length];"""
    wide, shown, fetched = _asked(tmp_path, pages[name], script)  # type: ignore[misc]
    assert wide <= shown
    assert fetched == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_each_answer_is_one_click_from_the_first_screen(
    theme: str, pages: dict[str, str], tmp_path: Path
) -> None:
    """All links stand in the first 800 pixels of a window 1,280 wide, and each leads to its answer."""
    script = (
        f'document.getElementById("theme-{theme}").checked = true;'
        """
        const links = [...document.querySelectorAll('.asked a')];
        const low = Math.max(...links.map(link => link.getBoundingClientRect().bottom)), missed = [];
        for (const link of links) {
            link.click();
            await new Promise(done => setTimeout(done, 50));
            const place = document.querySelector(link.hash).getBoundingClientRect();
            if (location.hash !== link.hash || place.top < -1 || place.bottom > innerHeight)
                missed.push([link.hash, place.top, place.bottom, innerHeight]);
        }
        return [links.length, innerWidth, low, missed];"""
    )
    number, wide, low, missed = _asked(tmp_path, pages["release"], script, "--window-size=1280,900")  # type: ignore[misc]
    assert (number, missed) == (20, [])
    assert 1200 <= wide <= 1280
    assert low <= 800


def test_on_a_phone_one_click_leads_to_all_answers_in_their_order(
    pages: dict[str, str], tmp_path: Path
) -> None:
    """Twenty links do not fit beside the verdict there: one link of the first screen leads to the answers."""
    script = """
        const text = "<!DOCTYPE html>" + document.documentElement.outerHTML;
        const frame = document.createElement("iframe");
        frame.style.width = "390px";
        frame.style.height = "844px";
        document.body.appendChild(frame);
        frame.srcdoc = text.replace(/<script>addEvent[^]*?<.script>/, "");
        await new Promise(done => frame.onload = done);
        const page = frame.contentDocument, link = page.querySelector('nav a[href="#questions"]');
        const low = link.getBoundingClientRect().bottom;
        link.click();
        await new Promise(done => setTimeout(done, 50));
        const top = page.querySelector("#questions").getBoundingClientRect().top;
        const places = [...page.querySelectorAll('#questions [id^="q-"]')].map(one => one.offsetTop);
        return [low, top, places];"""
    low, top, places = _asked(tmp_path, pages["release"], script)  # type: ignore[misc]
    assert low < 844
    assert -1 <= top < 100
    assert len(places) == 20
    assert places == sorted(places)


def test_a_definition_opens_and_all_are_open_on_paper(pages: dict[str, str], tmp_path: Path) -> None:
    script = """
        const part = document.querySelector("details.definition"), shut = part.open;
        part.querySelector("summary").click();
        const one = part.open;
        dispatchEvent(new Event("beforeprint"));
        const all = [...document.querySelectorAll("details")].every(part => part.open);
        return [shut, one, all];"""
    assert _asked(tmp_path, pages["comparison"], script) == [False, True, True]


def test_it_prints(pages: dict[str, str], tmp_path: Path) -> None:
    _run(tmp_path, pages["comparison"], f"--print-to-pdf={tmp_path / 'page.pdf'}", "--no-pdf-header-footer")
    content = (tmp_path / "page.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert len(content) > 50_000


def test_on_paper_each_question_is_a_link_to_its_answer(pages: dict[str, str], tmp_path: Path) -> None:
    _run(tmp_path, pages["release"], f"--print-to-pdf={tmp_path / 'page.pdf'}", "--no-pdf-header-footer")
    places = set(re.findall(rb"/Dest /(q-[a-z_-]+)", (tmp_path / "page.pdf").read_bytes()))
    assert len(places) == 20


@pytest.mark.skipif(_axe() is None, reason="this machine has no axe-core")
@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["comparison", "release"])
def test_axe_finds_nothing(name: str, theme: str, pages: dict[str, str], tmp_path: Path) -> None:
    script = f"""
        document.getElementById("theme-{theme}").checked = true;
        document.querySelectorAll("details").forEach(part => part.open = true);
        const found = await axe.run(document);
        return [found.passes.length, found.violations.map(
            one => [one.id, one.impact, one.nodes.length, one.nodes[0].html.slice(0, 300)])];"""
    page = pages[name].replace("</body>", f"<script>{_axe()}</script></body>")
    passed, violations = _asked(tmp_path, page, script)  # type: ignore[misc]
    assert passed > 20
    assert violations == []

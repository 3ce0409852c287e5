"""The distribution: a wheel that builds, holds the package and nothing else, installs and runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(command: list[str], folder: Path, **environment: str) -> str:
    env = {**os.environ, **environment}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_wheel_builds_installs_and_runs(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    name = run([sys.executable, "-c", build, str(tmp_path)], source).splitlines()[-1]
    with zipfile.ZipFile(tmp_path / name) as wheel:
        held = set(wheel.namelist())
    packaged = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "margrave").rglob("*")
        if path.is_file()
    }
    assert {path for path in packaged if "__pycache__" not in path} == {
        path for path in held if ".dist-info/" not in path
    }
    assert any(path.endswith("licenses/LICENSE") for path in held)
    place = tmp_path / "installed"
    run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--no-index",
            "--target",
            str(place),
            name,
        ],
        tmp_path,
    )
    outside = tmp_path / "outside"
    outside.mkdir()
    paths = os.pathsep.join([str(place), os.environ.get("PYTHONPATH", "")])
    found = run(
        [sys.executable, "-c", "import margrave; print(margrave.__file__)"], outside, PYTHONPATH=paths
    )
    assert Path(found.strip()).is_relative_to(place)
    command = next((place / "bin").glob("margrave*"))
    run([str(command), "example", "hospital", "--rows", "200", "--out", "v.csv"], outside, PYTHONPATH=paths)
    words = [
        "synthesize",
        "v.csv",
        "-e",
        "1",
        "--method",
        "independent",
        "--out",
        "s.csv",
        "--report",
        "r.html",
    ]
    run([str(command), *words], outside, PYTHONPATH=paths)
    assert "<style" in (outside / "r.html").read_text(encoding="utf-8")


def test_what_is_published_is_named_alike_everywhere() -> None:
    """The workflows try every Python that the metadata names, and run lines that there are."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    named = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
    for name in ("tests.yml", "publish.yml"):
        workflow = (ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8")
        tried = re.search(r"python: \[(.*)\]", workflow)
        assert tried is not None
        assert re.findall(r'"(3\.\d+)"', tried[1]) == named
    assert 'margrave = "margrave.cli:main"' in project
    assert "id-token: write" in workflow
    assert not re.search(r"password:|secrets\.", workflow)


def test_the_image_takes_the_extras_that_there_are_and_runs_as_nobody() -> None:
    image = (ROOT / "Containerfile").read_text(encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for extras in re.findall(r"\[([a-z,]+)\]'", image):
        assert all(re.search(rf"^{extra} = \[", project, flags=re.MULTILINE) for extra in extras.split(","))
    last = image.rpartition("FROM ")[2]
    assert last.index("USER steward") < last.index('ENTRYPOINT ["margrave"]')
    for copied in re.findall(r"^COPY (.+) \./", image, flags=re.MULTILINE):
        assert all((ROOT / name).exists() for name in copied.split())

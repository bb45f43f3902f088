"""What strangers get with the package: a description without links that lead nowhere, and a source distribution with all it names."""

import re
import shutil
import subprocess
import sys
from fnmatch import fnmatchcase

from tests.pages import ROOT


def test_the_description_of_a_package_has_no_link_that_leads_nowhere(tmp_path):
    (tmp_path / "src" / "sordino").mkdir(parents=True)
    for file in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "src/sordino/__init__.py"):
        shutil.copy(ROOT / file, tmp_path / file)
    made = "from setuptools import build_meta; print(build_meta.prepare_metadata_for_build_wheel('.'))"
    subprocess.run([sys.executable, "-c", made], cwd=tmp_path, check=True, capture_output=True)
    said = next(tmp_path.glob("*.dist-info/METADATA")).read_text(encoding="utf-8")
    assert "Description-Content-Type: text/markdown" in said and "# Sordino" in said
    links = re.findall(r"\]\(([^)]+)\)", said)
    assert links and all(link.startswith("https://") for link in links)
    assert "study (docs/studies/fedceo.md)" in said and "(docs/library.md)" in said


def test_files_that_the_readme_names_are_in_the_source_distribution():
    taken = (ROOT / "MANIFEST.in").read_text().splitlines()
    whole = {name for line in taken if line.startswith("include ") for name in line.split()[1:]}
    below = [line.split()[1:] for line in taken if line.startswith("recursive-include ")]
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / "README.md").read_text()):
        found = any(
            link.startswith(f"{folder}/") and any(fnmatchcase(link, kind) for kind in kinds) for folder, *kinds in below
        )
        assert link in whole or found, link

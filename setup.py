"""What pyproject.toml cannot say: SORDINO_PURE=1 makes a wheel without compiled kernels, for any platform, and the package's
description is README.md with the names of files in place of links, which lead nowhere outside the repository."""

import os
import re
from pathlib import Path

from setuptools import Distribution, setup


class Pure(Distribution):
    """The package without its optional kernels; torch's own operations do their work."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.ext_modules = []

    def has_ext_modules(self) -> bool:
        return False


def description() -> str:
    """README.md for readers who have the package alone."""
    text = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    named = re.sub(r"\[([^\]]+)\]\((?!https?:)([^)#]+)[^)]*\)", _named, text)
    return f"{named}\nThe files named here, such as docs/index.md, are in the source distribution.\n"


def _named(link: re.Match[str]) -> str:
    called, file = link[1], link[2]
    return file if file.startswith(called) else f"{called} ({file})"


setup(
    distclass=Pure if os.environ.get("SORDINO_PURE") == "1" else Distribution,
    long_description=description(),
    long_description_content_type="text/markdown",
)

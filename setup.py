"""Everything is in pyproject.toml but one switch: SORDINO_PURE=1 makes a wheel without compiled kernels, for any platform."""

import os

from setuptools import Distribution, setup


class Pure(Distribution):
    """The package without its optional kernels; torch's own operations do their work."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.ext_modules = []

    def has_ext_modules(self) -> bool:
        return False


setup(distclass=Pure if os.environ.get("SORDINO_PURE") == "1" else Distribution)

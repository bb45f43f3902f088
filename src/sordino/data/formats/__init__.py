"""The ways of keeping data on disk, one file each; the first that accepts a path reads it."""

from sordino.core import Registry
from sordino.data.raw import Format

FORMATS: Registry[type[Format]] = Registry("data format", "sordino.data.formats")

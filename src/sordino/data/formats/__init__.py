"""The ways of keeping data on disk, one file each; the first that accepts a path reads it."""

from sordino.data.raw import Format
from sordino.registry import Registry

FORMATS: Registry[type[Format]] = Registry("data format", "sordino.data.formats", Format)

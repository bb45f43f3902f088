"""Methods: what a client computes, and what the server makes of it."""

from sordino.methods.method import METHODS, Method

__all__ = ["METHODS", "Method"]

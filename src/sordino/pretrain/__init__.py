"""Starts: where the weights come from before any private data are touched."""

from sordino.pretrain.start import STARTS, Start

__all__ = ["STARTS", "Start"]

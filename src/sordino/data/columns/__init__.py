"""Columns of a table: what a person declares of them, and how their cells become the numbers that a model is fed."""

from sordino.data.columns.category import Category
from sordino.data.columns.declared import Column, columns_of, tables_of
from sordino.data.columns.number import Number

__all__ = ["Category", "Column", "Number", "columns_of", "tables_of"]

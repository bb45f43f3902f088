"""Logistic regression."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from sordino.models.inputs import Inputs
from sordino.models.parts import Net
from sordino.models.registry import MODELS


@MODELS.register("logistic")
@dataclass(frozen=True, kw_only=True)
class Logistic:
    """One dense layer on flattened inputs: multinomial logistic regression."""

    bias: bool = True

    def build(self, inputs: Inputs, classes: int) -> Net:
        return Net(body=nn.Flatten(), head=nn.Linear(inputs.numbers("logistic"), classes, bias=self.bias))

"""Models whose weights and statistics come from elsewhere: the keys of their files, and normalisation that stays fixed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm

from sordino.core import SordinoError
from sordino.gradients.layers import RULES
from sordino.gradients.layers.norm import book_fixed_norm
from sordino.models.inputs import Inputs, RefusedInputs
from sordino.models.parts import Net

M = TypeVar("M", bound=nn.Module)

NORM_GROUPS = 32
SAME_MODEL = "use a plain state dict of the same model"
NEW_HEAD = f"{SAME_MODEL}, or keep_head = false for a new head"


class SourceNet(Net):
    """A net whose files know no parts: in them the body's keys stand alone, and the head has a name of its own."""

    def __init__(self, *, body: nn.Module, head: nn.Module, head_in_file: str) -> None:
        super().__init__(body=body, head=head)
        self.head_in_file = head_in_file

    @property
    def head_prefix(self) -> str:
        """What the head's keys begin with in files; nothing where the head is all there is."""
        return f"{self.head_in_file}." if self.head_in_file else ""

    def file_keys(self) -> dict[str, str]:
        """Each key of our state dict with its key in the model's files, in the files' order."""
        return {
            key: key.removeprefix("body.") if key.startswith("body.") else self.head_prefix + key.removeprefix("head.")
            for key in self.state_dict()
        }


def user_state_dict(net: Net) -> dict[str, Tensor]:
    """A copy of the net's state under the keys of its own files: torchvision's, or those of the person who wrote the model.

    Tensors that the model shares are copied apart, since files keep none that overlap.
    """
    values = net.state_dict()
    keys = net.file_keys() if isinstance(net, SourceNet) else {key: key for key in values}
    return {theirs: values[ours].detach().clone() for ours, theirs in keys.items()}


class FrozenBatchNorm(nn.modules.batchnorm._NormBase):
    """Batch normalisation by stored statistics, whatever the mode: a fixed scale and shift of each channel.

    **Formal guarantee.** An example's output depends on no other example, and nothing of the data is stored, so the layer
    may be in a trained part, and its own scale and shift may be trained.
    """

    def forward(self, inputs: Tensor) -> Tensor:
        return batch_norm(
            inputs, self.running_mean, self.running_var, self.weight, self.bias, training=False, eps=self.eps
        )


RULES[FrozenBatchNorm] = book_fixed_norm


def frozen_batchnorm(model: M) -> M:
    """Put a FrozenBatchNorm with the same weights and statistics in the place of every batch normalisation."""
    fixed: dict[nn.Module, FrozenBatchNorm] = {}
    for name, layer in list(model.named_modules(remove_duplicate=False)):
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            if layer not in fixed:
                fixed[layer] = _fixed(name, layer)
            model.set_submodule(name, fixed[layer])
    return model


def normalised_by_groups(model: M) -> M:
    """Put GroupNorm with the same scale and shift in the place of every FrozenBatchNorm: without stored statistics to go by,
    each example is normalised by its own."""
    for name, layer in list(model.named_modules()):
        if isinstance(layer, FrozenBatchNorm):
            norm = nn.GroupNorm(math.gcd(NORM_GROUPS, layer.num_features), layer.num_features, eps=layer.eps)
            norm.load_state_dict(dict(layer.named_parameters()))
            model.set_submodule(name, norm)
    return model


def _fixed(name: str, layer: nn.modules.batchnorm._BatchNorm) -> FrozenBatchNorm:
    if layer.running_mean is None:
        raise SordinoError(
            f"{type(layer).__name__} at {name!r} has no stored statistics to normalise by; use torch.nn.GroupNorm, or "
            "build it with track_running_stats=True and load its weights."
        )
    frozen = FrozenBatchNorm(layer.num_features, layer.eps, layer.momentum, layer.affine)
    for own, value in (*layer.named_parameters(), *layer.named_buffers()):
        setattr(frozen, own, value)
    return frozen.train(layer.training)


def colour_images(inputs: Inputs, model: str) -> None:
    """Refuse what a model of colour images with a total stride of 32 cannot take."""
    channels, _, _ = inputs.images(model, least=32)
    if channels != 3:
        raise RefusedInputs(
            f"Model {model!r} needs colour images with 3 channels, but the data are {inputs}; "
            "set channels = 3 for the data or choose 'cnn'."
        )


def convolution(
    before: int, after: int, kernel_size: int, *, stride: int = 1, groups: int = 1, padding: int | None = None
) -> nn.Conv2d:
    """A convolution without bias that keeps the sides but for its stride, drawn once, with He's variance."""
    margin = kernel_size // 2 if padding is None else padding
    layer = nn.Conv2d(
        before, after, kernel_size, stride=stride, padding=margin, groups=groups, bias=False, device="meta"
    )
    layer.weight = nn.Parameter(torch.empty(layer.weight.shape))
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    return layer


def load_weights(net: Net, weights: Mapping[str, Tensor], *, origin: str, keep_head: bool = True) -> None:
    """Copy a state dict into the net, under the net's own keys or those of its files; the first wrong one is named.

    With `keep_head=False` the head stays as it was built, and the file's is passed over.
    """
    wanted = net.state_dict()
    head, keys = "head.", {key: key for key in wanted}
    if isinstance(net, SourceNet) and _shared(net.file_keys(), weights) >= _shared(keys, weights):
        head, keys = net.head_prefix, net.file_keys()
    if not keep_head:
        if not net.parts()["head"]:
            raise SordinoError(
                "[start] keep_head = false needs a model with a head of its own, but this one is trained as a whole; give it attributes "
                "'body' and 'head', or leave keep_head out."
            )
        keys = {ours: theirs for ours, theirs in keys.items() if not ours.startswith("head.")}
        weights = {key: value for key, value in weights.items() if not key.startswith(head)}
    for ours, theirs in keys.items():
        _check(origin, theirs, wanted[ours], weights, remedy=NEW_HEAD if ours.startswith("head.") else SAME_MODEL)
    stranger = next((key for key in weights if key not in keys.values()), None)
    if stranger is not None:
        raise SordinoError(
            f"{origin} has {stranger!r} of shape {_shape(weights[stranger])}, which this model has not; {SAME_MODEL}."
        )
    net.load_state_dict({**wanted, **{ours: weights[key] for ours, key in keys.items() if key in weights}})


def _shared(keys: Mapping[str, str], weights: Mapping[str, Tensor]) -> int:
    return sum(key in weights for key in keys.values())


def _check(origin: str, key: str, expected: Tensor, weights: Mapping[str, Tensor], *, remedy: str) -> None:
    if key not in weights and key.endswith(".num_batches_tracked"):
        return  # older files lack it, and fixed normalisation does not use it
    if key not in weights:
        first = next(iter(weights), None)
        got = "is empty" if first is None else f"begins with {first!r} of shape {_shape(weights[first])}"
        raise SordinoError(
            f"{origin} has no {key!r} of shape {_shape(expected)}, which this model needs, and {got}; {remedy}."
        )
    if _shape(weights[key]) != _shape(expected):
        raise SordinoError(
            f"{origin} has {key!r} of shape {_shape(weights[key])}, but this model needs {_shape(expected)}; {remedy}."
        )
    if not weights[key].isfinite().all():
        raise SordinoError(
            f"{origin} must hold finite numbers, but got a NaN or an infinity in {key!r}; use weights of a training that went well."
        )


def _shape(value: object) -> str:
    return str(tuple(value.shape)) if isinstance(value, Tensor) else f"none ({type(value).__name__})"

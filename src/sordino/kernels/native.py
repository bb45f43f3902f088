"""The compiled kernels, where they were built and this processor can run them; everything else then uses torch alone."""

from __future__ import annotations

import ctypes
import os
import platform
import warnings
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import torch  # its libgomp must be loaded first, so that kernels and torch share one pool of threads
from torch import Tensor

from sordino.core import SordinoError

SWITCH = "SORDINO_KERNELS"
"""Unset or `trial`, this environment variable leaves to torch what a trial showed torch to do faster; `on` uses the best form wherever
kernels suit, a form's name that form or none, and `off` torch alone."""

TRIAL, ON, OFF = "trial", "on", "off"
FORMS = ("avx512", "avx2", "portable")
"""The same sources, compiled for processors with these instructions or for any."""

NUMBERS_PER_THREAD = 32_768

_ADDRESS, _COUNT, _REAL, _FLAG, _THREADS = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double, ctypes.c_int, ctypes.c_int
_SIGNATURES = {
    "group_norm_forward": [*[_ADDRESS] * 7, *[_COUNT] * 4, _REAL, _FLAG, _THREADS],
    "group_norm_backward": [*[_ADDRESS] * 10, *[_COUNT] * 4, _THREADS],
    "channel_sums": [*[_ADDRESS] * 4, *[_COUNT] * 3, _THREADS],
    "max_pool_forward": [*[_ADDRESS] * 2, *[_COUNT] * 3, _THREADS],
    "max_pool_backward": [*[_ADDRESS] * 4, *[_COUNT] * 3, _THREADS],
    "gaussian_pairs": [*[_ADDRESS] * 4, *[_COUNT] * 2, _REAL, _THREADS],
    "conv3x3_weights": [*[_ADDRESS] * 2, *[_COUNT] * 6],
    "conv3x3": [*[_ADDRESS] * 4, *[_COUNT] * 5, _THREADS],
    "conv_weight_rows": [*[_ADDRESS] * 3, *[_COUNT] * 11, _THREADS],
    "conv_weight_sum": [*[_ADDRESS] * 3, *[_COUNT] * 11, _THREADS],
    "dense_clients": [*[_ADDRESS] * 2, *[_COUNT] * 4, *[_REAL] * 2, _THREADS],
    "dense_private": [_ADDRESS, _COUNT, *[_ADDRESS] * 2, _COUNT, *[_REAL] * 2, *[_ADDRESS] * 2, _THREADS],
    "sums_of_squares": [*[_ADDRESS] * 2, *[_COUNT] * 2, _THREADS],
    "add_products": [*[_ADDRESS] * 3, *[_COUNT] * 2, _THREADS],
}


@cache
def library() -> ctypes.CDLL | None:
    """The library in the form that is used here, or None where there is none; asked for at every call, so it must answer at once."""
    wished = form_wished()
    if wished == OFF:
        return None
    for form in _by_themselves() if wished is None else [wished]:
        if (loaded := _load(form)) is not None:
            loaded.form = form  # type: ignore[attr-defined]
            return loaded
    if wished is not None:
        raise SordinoError(
            f"{SWITCH}={wished} asks for kernels that this processor cannot run or that were not built; unset it, or install sordino "
            "where a C compiler is."
        )
    return None


def _by_themselves() -> Sequence[str]:
    """The forms that are used unasked, the first that runs. On x86-64 the portable one is not: torch is many times faster."""
    return FORMS[:-1] if platform.machine().lower() in ("x86_64", "amd64") else FORMS


def form_wished() -> str | None:
    """The form that the environment asks for by name, or `off`; None where the best is to be taken."""
    wished = _switch()
    return None if wished in (TRIAL, ON) else wished


def by_trial() -> bool:
    """Whether kernels have to show that they are faster than torch before a run uses them."""
    return _switch() == TRIAL and library() is not None


def _switch() -> str:
    wished = os.environ.get(SWITCH) or TRIAL
    if wished not in (TRIAL, ON, OFF, *FORMS):
        raise SordinoError(
            f"{SWITCH} must be one of {', '.join((TRIAL, ON, OFF, *FORMS))}, but got {wished!r}; correct it or unset it."
        )
    return wished


def form() -> str | None:
    """The form that is used here, such as `avx2`; None where torch is used alone."""
    found = library()
    return None if found is None else str(found.form)


def about_missing() -> list[str]:
    """A sentence for whoever plans a run where kernels should be and are not."""
    if library() is not None or form_wished() == OFF:
        return []
    return [
        "No compiled kernels for this processor were found, so torch is used alone, which is slower on small and convolutional "
        f"models; install sordino where a C compiler is, or set {SWITCH}={OFF} if that is as it should be."
    ]


def _load(form: str) -> ctypes.CDLL | None:
    """None where this form was not built, is older than its sources, or is not for this processor."""
    spec = find_spec(f"sordino.kernels._{form}")
    if spec is None or spec.origin is None or _is_stale(Path(spec.origin)):
        return None
    try:
        loaded = ctypes.CDLL(spec.origin)
    except OSError:
        return None
    if not loaded.kernels_supported():
        return None
    for name, arguments in _SIGNATURES.items():
        getattr(loaded, name).argtypes = arguments
    return loaded


def _is_stale(built: Path) -> bool:
    """Whether sources lie here that changed after they were built, so that calls and functions may no longer agree."""
    sources = (Path(__file__).parent / "source").glob("*.[ch]")
    stale = any(source.stat().st_mtime > built.stat().st_mtime for source in sources)
    if stale:
        warnings.warn(
            "The compiled kernels are older than their sources, so torch is used alone; install sordino again to build them.",
            stacklevel=2,
        )
    return stale


def addresses(*tensors: Tensor | None) -> list[int | None]:
    """Where the tensors' values begin; the caller must keep the tensors until the kernel is done."""
    return [None if tensor is None else tensor.data_ptr() for tensor in tensors]


def threads(numbers: int) -> int:
    """As many threads as torch would use for so many numbers: waking one up must be worth it."""
    return max(1, min(torch.get_num_threads(), numbers // NUMBERS_PER_THREAD))


def reachable(tensor: Tensor) -> bool:
    """Whether this tensor is what kernels know: single precision, in this memory, and not a stand-in for others."""
    return (
        library() is not None
        and tensor.dtype == torch.float32
        and tensor.device.type == "cpu"
        and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
        and not torch.compiler.is_compiling()
    )


def readable(tensor: Tensor) -> bool:
    """Whether kernels can read this tensor as a batch of channels-last images."""
    return tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last) and reachable(tensor)


def channels_last(tensor: Tensor) -> Tensor:
    return tensor.contiguous(memory_format=torch.channels_last)

"""Clients' work as data: the method's own job by name, others by their settings and tensors.

A client decodes only kinds of work that its own copy of the method names, so a request cannot make it run anything else.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from torch import Tensor

from sordino.core import SordinoError
from sordino.methods.jobs import Job
from sordino.methods.method import Method

OWN, METHOD, TENSOR, BY_NUMBER = "own", "$method", "$tensor", "$by-number"


def encode_job(job: object, method: Method, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """The job as JSON; its tensors are put into `tensors`."""
    if job == method.job:
        return {"kind": OWN}
    if type(job) not in method.job_kinds or not dataclasses.is_dataclass(job):
        raise SordinoError(
            f"{type(method).__name__} handed clients a {type(job).__name__}, which it does not name; hand over its own job, or put "
            "that frozen dataclass into job_kinds."
        )
    fields = {
        field.name: _encode(getattr(job, field.name), f"job.{field.name}", method, tensors)
        for field in dataclasses.fields(job)
    }
    return {"kind": type(job).__name__, "fields": fields}


def decode_job(data: dict[str, Any], method: Method, tensors: dict[str, Tensor]) -> Job:
    """The same job again, of a kind that this method names."""
    if data["kind"] == OWN:
        return method.job
    for kind in method.job_kinds:
        if kind.__name__ == data["kind"]:
            job: Job = kind(**{name: _decode(value, method, tensors) for name, value in data["fields"].items()})
            return job
    raise SordinoError(
        f"A request asks for work of kind {data['kind']!r}, which {type(method).__name__} does not name."
    )


def _encode(value: Any, name: str, method: Method, tensors: dict[str, Tensor]) -> Any:
    if value == method if not isinstance(value, Tensor) else False:
        return {METHOD: True}
    if isinstance(value, Tensor):
        tensors[name] = value
        return {TENSOR: name}
    if isinstance(value, dict):
        return {BY_NUMBER: {str(key): _encode(one, f"{name}.{key}", method, tensors) for key, one in value.items()}}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_encode(one, f"{name}.{number}", method, tensors) for number, one in enumerate(value)]
    raise SordinoError(
        f"{name} is a {type(value).__name__}, which cannot be sent to a client; use numbers and tensors."
    )


def _decode(value: Any, method: Method, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, list):
        return tuple(_decode(one, method, tensors) for one in value)
    if not isinstance(value, dict):
        return value
    if METHOD in value:
        return method
    if TENSOR in value:
        return tensors[value[TENSOR]]
    return {int(key): _decode(one, method, tensors) for key, one in value[BY_NUMBER].items()}

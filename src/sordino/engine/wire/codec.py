"""Requests and answers to messages and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from sordino.core import Released
from sordino.engine.messages import Answer, Request
from sordino.engine.wire.jobs import decode_job, encode_job
from sordino.engine.wire.message import Garbled, Message
from sordino.methods.method import Method
from sordino.privacy.clipping import Clip, read_bounded, received_bounded
from sordino.privacy.grant import Grant
from sordino.privacy.mechanisms import UPDATE
from sordino.tuning.survey import Survey

MODEL = "model"


def encode_request(request: Request, method: Method) -> Message:
    tensors: dict[str, Tensor] = {MODEL: request.model}
    has_job = request.job is not None and request.kind != "survey"
    content = {
        "what": "ask",
        "kind": request.kind,
        "client": request.client,
        "round": request.round,
        "repeat": request.repeat,
        "upload_shape": list(request.upload_shape),
        "clip": {
            "bound": request.clip.bound if math.isfinite(request.clip.bound) else "inf",
            "norm": request.clip.norm,
            "groups": {name: list(own) for name, own in request.clip.groups.items()},
        },
        "grants": {name: grant.to_json() for name, grant in request.grants.items()},
        "server_noises": request.server_noises,
        "job": encode_job(request.job, method, tensors) if has_job else None,
    }
    return Message(content=content, tensors=tensors)


def decode_request(message: Message, method: Method, survey: Callable[[], Survey | None]) -> Request:
    """`survey` gives what the tuning asks clients before the first round; a client makes it itself."""
    content, tensors = message.content, dict(message.tensors)
    try:
        clip = content["clip"]
        job: Any = decode_job(content["job"], method, tensors) if content["job"] else None
        return Request(
            kind=content["kind"],
            client=content["client"],
            round=content["round"],
            repeat=content["repeat"],
            model=tensors[MODEL],
            upload_shape=tuple(content["upload_shape"]),
            job=survey() if content["kind"] == "survey" else job,
            clip=Clip(bound=float(clip["bound"]), norm=clip["norm"], groups=clip["groups"]),
            grants={name: Grant.from_json(grant) for name, grant in content["grants"].items()},
            server_noises=content["server_noises"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Garbled(f"A request lacks something or holds something else ({error!r}).") from error


def encode_answer(answer: Answer, nonce: str) -> Message:
    """`nonce` names the request. Bounded values are sent as they are, for a server that adds the noise."""
    released = {f"released.{name}": value.value for name, value in answer.released.items()}
    bounded = {f"bounded.{name}": read_bounded(value) for name, value in answer.bounded.items()}
    content = {"what": "answer", "client": answer.client, "nonce": nonce, "clip_bound": answer.clip_bound}
    return Message(content=content, tensors={**released, **bounded})


def decode_answer(message: Message, request: Request) -> Answer:
    """An answer that is as it was asked for; raises `Garbled` with the first thing that is not."""
    content, values = message.content, message.tensors
    if content.get("client") != request.client:
        raise Garbled(f"the answer names client {content.get('client')!r}")
    kind = "bounded" if request.server_noises else "released"
    parts = set(request.grants) if request.kind == "survey" else {part.name for part in request.grant.parts}
    if request.kind in ("steps", "support", "score"):
        parts = {UPDATE}
    if set(values) != {f"{kind}.{name}" for name in parts}:
        raise Garbled(f"{', '.join(sorted(values)) or 'nothing'} was sent, not {kind} {' and '.join(sorted(parts))}")
    for name, value in values.items():
        _check(name, value, request)
    if not request.server_noises:
        released = {name: Released.public(values[f"{kind}.{name}"]) for name in parts}
        return Answer(client=request.client, released=released, clip_bound=_clip_bound(content, request))
    bounded = {}
    for part in request.grant.parts:
        bound = request.clip.bound if part.name == UPDATE else part.clip_bound
        found = received_bounded(values[f"bounded.{part.name}"], Clip(bound=bound, norm=request.clip.norm))
        if found is None:
            raise Garbled(f"the {part.name} is longer than its bound of {bound:g}")
        bounded[part.name] = found
    return Answer(client=request.client, bounded=bounded)


def _check(name: str, value: Tensor, request: Request) -> None:
    number = request.kind in ("survey", "score") or not name.endswith(f".{UPDATE}")
    shape = (1,) if number else request.upload_shape
    if tuple(value.shape) != shape:
        raise Garbled(f"{name} has shape {tuple(value.shape)}, not {shape}")
    if value.dtype not in (request.model.dtype, torch.float64):
        raise Garbled(f"{name} has numbers of type {value.dtype}, not {request.model.dtype}")
    if not bool(torch.isfinite(value).all()):
        raise Garbled(f"{name} holds numbers that are not finite")


def _clip_bound(content: Any, request: Request) -> float | None:
    """Where the clip moves inside the client: a number above zero."""
    bound = content.get("clip_bound")
    if bound is None or request.kind != "steps":
        return None
    if not isinstance(bound, float) or not math.isfinite(bound) or bound <= 0:
        raise Garbled(f"its next clip bound is {bound!r}")
    return bound

"""Clients of Flower's Runtime interface that try again while the other side is away, and never end our process."""

from __future__ import annotations

from pathlib import Path

import httpx
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.protobuf.client import ProtobufClientInterceptor
from flwr.supercore.retry import RetryInvoker
from flwr.supercore.retry.retry_invoker import constant
from flwr.supercore.runtime import RuntimeHttpClient

_AGAIN_SECONDS = 0.5
_PROTECTED = frozenset({"/flwr.proto.Runtime/AcquireTask"})


def runtime_client(
    address: str,
    *,
    component: str,
    seconds: float,
    authority: Path | None = None,
    token: str = "",
    secret: bytes = b"",
) -> RuntimeHttpClient:
    """A client that waits up to so many seconds for a server that is away.

    Args:
        address: host and port.
        component: what it calls itself; Flower compares versions by it.
        seconds: how long a call is tried again.
        authority: the certificate that the server's must be signed by; without one the connection is plain, for loopback alone.
        token: of the task that it works on.
        secret: of the processes that may take tasks.
    """
    interceptors: list[ProtobufClientInterceptor] = [RuntimeVersionHttpInterceptor(component_name=component)]
    if secret:
        interceptors.append(SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods=_PROTECTED))
    if token:
        interceptors.append(RuntimeTokenHttpInterceptor(token))
    return RuntimeHttpClient.from_server_address(
        server_address=address,
        insecure=authority is None,
        root_certificates=None if authority is None else authority.read_bytes(),
        interceptors=interceptors,
        retry_invoker=_patient(seconds),
    )


def _patient(seconds: float) -> RetryInvoker:
    return RetryInvoker(
        wait_gen_factory=lambda: constant(_AGAIN_SECONDS),
        recoverable_exceptions=httpx.TransportError,
        max_tries=None,
        max_time=seconds,
    )

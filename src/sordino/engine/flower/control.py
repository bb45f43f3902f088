"""The SuperLink's list of nodes: who may connect, by key, and who is there."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from cryptography.hazmat.primitives import serialization
from flwr.proto.control_pb2 import ListNodesRequest, RegisterNodeRequest, UnregisterNodeRequest
from flwr.supercore.control.control_http_client import ControlHttpClient
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

from sordino.core import SordinoError
from sordino.sentences import first_line

ONLINE, GONE = "online", "unregistered"
_LOOK_SECONDS = 0.3
_SHOWN = 200
_CLOCK_SECONDS = 1.0
"""How finely Flower tells the time."""


@dataclass(frozen=True, kw_only=True)
class RegisteredNode:
    """A node as the SuperLink knows it."""

    number: int
    """Flower's own number for it."""
    name: str
    public: bytes
    """Its public key, one line of OpenSSH."""
    status: str
    """`registered`, `online`, `offline` or `unregistered`."""
    online_until: float
    """When it counts as gone if nothing more is heard of it, in seconds since 1970; 0 where it never was there."""
    came: float
    """When it last connected, in seconds since 1970; 0 where it never did."""


@dataclass(frozen=True, kw_only=True)
class Control:
    """The operator's side of a SuperLink.

    Example:
        >>> control = Control(address="127.0.0.1:9092", authority=Path("server/ca.crt"))
        >>> control.agree_with({"north": b"ecdsa-sha2-nistp384 ..."})
        >>> [node.status for node in control.nodes()]
        ['registered']
    """

    address: str
    authority: Path

    def nodes(self) -> list[RegisteredNode]:
        """Everybody who is registered now."""
        with self.client() as client:
            found = client.ListNodes(ListNodesRequest()).nodes_info
        return [
            RegisteredNode(
                number=node.node_id,
                name=node.name,
                public=_openssh(node.public_key),
                status=node.status,
                online_until=node.online_until,
                came=dt.datetime.fromisoformat(node.last_activated_at).timestamp() if node.last_activated_at else 0.0,
            )
            for node in found
            if node.status != GONE
        ]

    def agree_with(self, roster: Mapping[str, bytes]) -> None:
        """Have exactly these nodes registered, by name and public key: others are struck off, which ends their sessions."""
        wanted = {_without_comment(public): name for name, public in roster.items()}
        known = {node.public: node for node in self.nodes()}
        with self.client() as client:
            for public, node in known.items():
                if public not in wanted:
                    client.UnregisterNode(UnregisterNodeRequest(node_id=node.number))
            for public, name in wanted.items():
                if public not in known:
                    client.RegisterNode(RegisterNodeRequest(public_key=_pem(public), name=name))

    def wait_for(self, since: Mapping[str, float], seconds: float) -> None:
        """Until all of them are there, or raise with who is not.

        Args:
            since: by name, when its process began: one that was killed counts as there for a while.
            seconds: how long to wait.
        """
        end = time.monotonic() + seconds
        while missing := set(since) - {node.name for node in self.nodes() if _there(node, since)}:
            if time.monotonic() > end:
                raise SordinoError(
                    f"{len(missing)} of {len(since)} nodes did not connect to {self.address} within {seconds:g} s: "
                    f"{', '.join(sorted(missing))}; ask their operators, or see their logs."
                )
            time.sleep(_LOOK_SECONDS)

    @contextmanager
    def client(self) -> Iterator[ControlHttpClient]:
        with speaking_to(self.address):
            client = ControlHttpClient.from_server_address(
                server_address=self.address,
                insecure=False,
                root_certificates=self.authority.read_bytes(),
                interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr CLI")],
            )
            try:
                yield client
            finally:
                client.close()


def _there(node: RegisteredNode, since: Mapping[str, float]) -> bool:
    return node.status == ONLINE and node.came >= since.get(node.name, 0.0) - _CLOCK_SECONDS


def _without_comment(public: bytes) -> bytes:
    return b" ".join(public.split()[:2])


def _pem(public: bytes) -> bytes:
    """A public key as Flower's servers exchange it."""
    key = serialization.load_ssh_public_key(public)
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def _openssh(public: bytes) -> bytes:
    """The same as one line of OpenSSH, as people and kits have it."""
    key = serialization.load_pem_public_key(public)
    return key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)


@contextmanager
def speaking_to(address: str) -> Iterator[None]:
    """What goes wrong on the way to a SuperLink, as one sentence."""
    try:
        yield
    except httpx.HTTPStatusError as error:
        raise SordinoError(
            f"The SuperLink at {address} refused a request ({error.response.status_code}: {error.response.text[:_SHOWN]})."
        ) from error
    except httpx.HTTPError as error:
        raise SordinoError(
            f"The SuperLink at {address} cannot be reached ({first_line(error)}); start it with `sordino serve`, or check the address."
        ) from error

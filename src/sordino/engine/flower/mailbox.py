"""The server's end of one run of Flower: parcels to nodes, and what came back, by our own loop.

The process that trains is itself what Flower calls the ServerApp: it submits a run, takes the run's task, and uses its token. Nothing
of a run is installed or started by the SuperLink, here or at a node.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from flwr.app import Message
from flwr.app.message import remove_content_from_message
from flwr.cli.build import build_fab_from_files
from flwr.common.constant import SUPERLINK_NODE_ID, SubStatus
from flwr.common.serde import fab_to_proto, message_to_proto
from flwr.proto.control_pb2 import StartRunRequest
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest
from flwr.proto.node_pb2 import Node
from flwr.proto.runtime_pb2 import (
    AcquireTaskRequest,
    PullAppMessagesRequest,
    PullTaskInputRequest,
    PushAppMessagesRequest,
    PushTaskOutputRequest,
)
from flwr.supercore.constant import TaskType
from flwr.supercore.fab import Fab
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_protobuf_utils import (
    make_pull_object_fn_protobuf,
    make_push_object_fn_protobuf,
)
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    inflate_object_from_contents,
    pull_objects,
    push_objects,
)
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity

from sordino.core import SordinoError
from sordino.engine.flower.control import Control, speaking_to
from sordino.engine.flower.heartbeat import Heartbeat
from sordino.engine.flower.parcel import Sealer, unpacked
from sordino.engine.flower.patience import runtime_client
from sordino.nodes.authority import CA_CERTIFICATE
from sordino.nodes.provision import SECRET

LINK_SECONDS = 120.0
"""How long a SuperLink may be away before a run gives up: a restart takes a few seconds."""
UPLOAD_SECONDS = 30.0
"""How long the pieces of one upload may take to arrive after the first."""
_LOOK_SECONDS = 0.1
_PIECE_SECONDS = 0.1
"""Until a piece of an upload that has not arrived is asked for again, at first."""
_TASK_SECONDS = 30.0

_FAB = {
    "pyproject.toml": b"""[project]
name = "sordino"
version = "1.0.0"
description = "An empty bundle: servers and nodes run the sordino that their operators installed."
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "sordino"

[tool.flwr.app.components]
serverapp = "nothing:server"
clientapp = "nothing:client"
""",
    "README.md": b"Nothing of this bundle is run.\n",
}


@dataclass(frozen=True, kw_only=True)
class Outgoing:
    """One parcel, and how much may come back for it."""

    node: int
    """Flower's number for the node."""
    name: str
    letters: list[bytes]
    largest: int
    """Bytes of the answer; a longer one is not read to its end."""


@dataclass(kw_only=True)
class Mailbox:
    """Parcels out, parcels in."""

    address: str
    client: RuntimeHttpClient
    sealer: Sealer
    run: int
    heartbeat: Heartbeat
    sent_bytes: int = 0
    received_bytes: int = 0
    _node: Node = field(default_factory=lambda: Node(node_id=SUPERLINK_NODE_ID), init=False)

    @staticmethod
    def open(address: str, server: Path) -> Mailbox:
        """Submit a run to the SuperLink and take its task; `server` is the folder with the server's keys."""
        sealer, authority = Sealer.read(server), server / CA_CERTIFICATE
        with speaking_to(address):
            _submit(Control(address=address, authority=authority))
            token = _take_task(address, server)
            client = runtime_client(
                address, component="flwr-serverapp", seconds=LINK_SECONDS, authority=authority, token=token
            )
            given = client.PullTaskInput(PullTaskInputRequest())
        TaskIdentity.task_id, TaskIdentity.run_id = given.task_id, given.run.run_id
        TaskIdentity.node_id = given.context.node_id
        heartbeat = Heartbeat(client)
        return Mailbox(address=address, client=client, sealer=sealer, run=given.run.run_id, heartbeat=heartbeat)

    def exchange(self, parcels: list[Outgoing], *, seconds: float) -> dict[int, list[bytes] | str]:
        """By node, the letters that it answered with, or why there are none; after so many seconds whoever is silent is left out."""
        with speaking_to(self.address):
            waiting = self._push(parcels, seconds)
            found: dict[int, list[bytes] | str] = {}
            end = time.monotonic() + seconds
            while waiting and time.monotonic() < end and not self.heartbeat.refused:
                for reply_to, said in self._pull(waiting).items():
                    found[waiting.pop(reply_to).node] = said
                if waiting:
                    time.sleep(_LOOK_SECONDS)
        if self.heartbeat.refused:
            raise SordinoError("The SuperLink ended this run, because it heard nothing of it; go on with --resume.")
        silent = f"it did not answer within {seconds:g} s ([engine] client_seconds)"
        return {**{parcel.node: silent for parcel in waiting.values()}, **found}

    def close(self) -> None:
        """Tell the SuperLink that the run is over, where it still listens."""
        self.heartbeat.stop()
        try:
            with speaking_to(self.address):
                self.client.PushTaskOutput(PushTaskOutputRequest(sub_status=SubStatus.COMPLETED, details=""))
        except SordinoError:
            pass
        self.client.close()

    def _push(self, parcels: list[Outgoing], seconds: float) -> dict[str, Outgoing]:
        """Send everything at once; returns what is waited for, by the number of its message."""
        messages = [
            Message(
                content=self.sealer.sealed(parcel.letters, to=parcel.name, seconds=seconds),
                dst_node_id=parcel.node,
                message_type="train",
                ttl=seconds,
            )
            for parcel in parcels
        ]
        with no_object_id_recompute():
            for message in messages:
                message.metadata.__dict__["_message_id"] = message.object_id
            pushed = self.client.PushMessages(
                PushAppMessagesRequest(
                    messages_list=[message_to_proto(remove_content_from_message(message)) for message in messages],
                    message_object_trees=[get_object_tree(message) for message in messages],
                )
            )
            objects = {name: part for message in messages for name, part in get_all_nested_objects(message).items()}
            send = make_push_object_fn_protobuf(
                self.client.PushObject, self._node, run_id=self.run, session_id=pushed.session_id
            )
            push_objects(objects, send, object_ids_to_push=set(pushed.objects_to_push))
        self.sent_bytes += sum(len(letter) for parcel in parcels for letter in parcel.letters)
        return {message.metadata.message_id: parcel for message, parcel in zip(messages, parcels, strict=True)}

    def _pull(self, waiting: Mapping[str, Outgoing]) -> dict[str, list[bytes] | str]:
        """What has come back by now, by the message that it is said to."""
        found: dict[str, list[bytes] | str] = {}
        pulled = self.client.PullMessages(PullAppMessagesRequest(message_ids=list(waiting)))
        for proto, tree in zip(pulled.messages_list, pulled.message_object_trees, strict=True):
            reply_to, number = proto.metadata.reply_to_message_id, proto.metadata.message_id
            if reply_to not in waiting:
                continue
            names = [part.object_id for part in iterate_object_tree(tree)]
            found[reply_to] = self._read(number, names, waiting[reply_to].largest)
        return found

    def _read(self, number: str, names: list[str], largest: int) -> list[bytes] | str:
        """One upload, piece by piece, up to so many bytes."""
        count = 0
        pull = make_pull_object_fn_protobuf(self.client.PullObject, self._node, self.run)

        def counted(name: str) -> bytes:
            nonlocal count
            piece = pull(name)
            count += len(piece)
            if count > largest:
                raise _TooLong
            return piece

        try:
            pieces = pull_objects(
                names, counted, max_time=UPLOAD_SECONDS, initial_backoff=_PIECE_SECONDS, backoff_cap=1.0
            )
        except _TooLong:
            return f"An answer of at most {largest} bytes was expected, but got a longer one; it was not read."
        except ObjectPullError as error:
            return f"its answer did not arrive whole ({error})"
        finally:
            self.received_bytes += count
        self.client.ConfirmMessageReceived(
            ConfirmMessageReceivedRequest(node=self._node, run_id=self.run, message_object_id=number)
        )
        try:
            message = cast("Message", inflate_object_from_contents(number, pieces))
            if message.has_error():
                return _said_by_flower(message.error.code, message.error.reason)
            return unpacked(message.content)
        except (SordinoError, ValueError, TypeError, KeyError) as error:
            return f"its answer is no parcel of ours ({error})"


class _TooLong(Exception):
    """More bytes came than were asked for."""


_CODES = {
    3: "its answer did not arrive whole",
    5: "it is not connected",
    8: "its process that works on requests has ended",
}


def _said_by_flower(code: int, reason: str | None) -> str:
    return f"{_CODES.get(code, 'it failed')} (Flower: {code}, {reason})"


def _submit(control: Control) -> None:
    content, _ = build_fab_from_files(_FAB)
    fab = Fab(hashlib.sha256(content).hexdigest(), content, {})
    with control.client() as client:
        started = client.StartRun(StartRunRequest(fab=fab_to_proto(fab)))
    if not started.HasField("run_id"):
        raise SordinoError(f"The SuperLink at {control.address} did not take the run ({started.note}).")


def _take_task(address: str, server: Path) -> str:
    """The token of a run's task: ours, or that of another process which then takes ours. All runs are alike to Flower."""
    secret = (server / SECRET).read_bytes()
    client = runtime_client(
        address, component="SuperExec", seconds=LINK_SECONDS, authority=server / CA_CERTIFICATE, secret=secret
    )
    end = time.monotonic() + _TASK_SECONDS
    try:
        while time.monotonic() < end:
            found = client.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP]))
            if found.HasField("task") and found.token:
                return str(found.token)
            time.sleep(_LOOK_SECONDS)
    finally:
        client.close()
    raise SordinoError(
        f"The SuperLink at {address} gave out no task within {_TASK_SECONDS:g} s; see whether another process takes its tasks."
    )

"""The roster of a federation: which nodes belong to it, with which key, and who was there before, and when."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from sordino.core import SordinoError
from sordino.nodes.chained import ChainedFile, Entry
from sordino.nodes.keys import fingerprint
from sordino.sentences import listed, shown

What = Literal["added", "rotated", "removed"]
LONGEST_NAME = 64


@dataclass(frozen=True, kw_only=True)
class Member:
    """One node, now or formerly of the federation."""

    name: str
    public: bytes
    """Its public key, one line of OpenSSH."""
    since: str
    """When it was added, in UTC."""
    key_since: str
    removed: str = ""
    """When it was removed; nothing while it belongs to the federation."""

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.public)


class RosterFile:
    """Rows say who was added, got another key, or was removed, and when. The order of joining is the order of clients.

    Example:
        >>> roster = RosterFile(Path("federation/roster.jsonl"))
        >>> roster.add("north", NodeKey.new().public)
        >>> [member.name for member in roster.active]
        ['north']
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._members: dict[str, Member] = {}
        self._past: list[Member] = []
        self._file = ChainedFile(path, self._take)

    @property
    def active(self) -> list[Member]:
        """The nodes of the federation, in the order in which they joined."""
        return list(self._members.values())

    @property
    def everybody(self) -> list[Member]:
        """Former nodes too, and former keys of those that are still there."""
        return [*self._past, *self.active]

    def member(self, name: str) -> Member:
        if name not in self._members:
            known = listed(self._members) or "nobody"
            raise SordinoError(
                f"No node {shown(name)} is on the roster {self.path}, which has {known}; check the name."
            )
        return self._members[name]

    def add(self, name: str, public: bytes) -> None:
        check_name(name)
        if name in self._members:
            raise SordinoError(
                f"A node {shown(name)} is on the roster already; give its kit a new key with --rotate {name}, or choose another name."
            )
        self._write("added", name, public)

    def rotate(self, name: str, public: bytes) -> None:
        self.member(name)
        self._write("rotated", name, public)

    def remove(self, name: str) -> None:
        self._write("removed", name, self.member(name).public)

    def _write(self, what: What, name: str, public: bytes) -> None:
        self._file.add({"time": _now(), "what": what, "name": name, "public_key": public.decode().strip()})

    def _take(self, entry: Entry) -> None:
        name, time, public = entry["name"], entry["time"], entry["public_key"].encode() + b"\n"
        before = self._members.get(name)
        if entry["what"] == "added":
            self._members[name] = Member(name=name, public=public, since=time, key_since=time)
        elif before is None:
            raise SordinoError(
                f"{self.path} speaks of {shown(name)} before it was added; restore the file from a copy."
            )
        else:
            self._past.append(replace(before, removed=time))
            if entry["what"] == "removed":
                del self._members[name]
            else:
                self._members[name] = replace(before, public=public, key_since=time)


def check_name(name: str) -> str:
    """A node's name is also that of its folder: letters, digits, `-` and `_`."""
    plain = name.isascii() and name.replace("-", "").replace("_", "").isalnum() and name[0].isalnum()
    if not plain or len(name) > LONGEST_NAME:
        raise SordinoError(
            f"A node's name should have letters, digits, - and _, at most {LONGEST_NAME} of them, but got {shown(name)}; write for "
            "instance north."
        )
    return name


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")

"""Wire messages inside a message of Flower: bytes that it does not look into, sealed by the server for one node.

Flower lets whoever reaches the SuperLink submit runs, so a node must know by itself who speaks. The server signs every parcel with
the key of its certificate; a node checks the signature, and the certificate against the authority in its kit.
"""

from __future__ import annotations

import datetime as dt
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from sordino.core import SordinoError
from sordino.nodes.authority import CA_CERTIFICATE, SERVER_CERTIFICATE, SERVER_KEY, read_certificate
from sordino.sentences import first_line

PARCEL, LETTERS = "parcel", "letters"
_LETTER = "letter "
ONE_PIECE_BYTES = 1 << 20
CLOCKS_APART_SECONDS = 300.0
_SIGNED_WITH = ec.ECDSA(hashes.SHA384())


class Unsealed(SordinoError):
    """A parcel that the federation's server did not send, not to this node, or not lately."""


def packed(letters: Sequence[bytes]) -> RecordDict:
    """Wire messages as a content of Flower: in one piece, as every piece is a request of its own, or cut up by it where they are large."""
    if sum(map(len, letters)) <= ONE_PIECE_BYTES:
        return RecordDict({PARCEL: ConfigRecord({_name(number): letter for number, letter in enumerate(letters)})})
    arrays = {_name(number): _array(letter) for number, letter in enumerate(letters)}
    return RecordDict({PARCEL: ConfigRecord({}), LETTERS: ArrayRecord(arrays)})


def unpacked(content: RecordDict) -> list[bytes]:
    """The wire messages of a content; raises `SordinoError` where it is none of ours."""
    try:
        facts = content.config_records[PARCEL]
        arrays = content.array_records[LETTERS] if LETTERS in content else {}
        letters = {name: array.data for name, array in arrays.items()}
        letters |= {name: facts[name] for name in facts if name.startswith(_LETTER)}  # type: ignore[misc]
        return [memoryview(letters[name]).tobytes() for name in sorted(letters)]
    except (KeyError, TypeError, AttributeError) as error:
        raise SordinoError(f"A parcel of wire messages was expected, but got something else ({error!r}).") from error


def _name(number: int) -> str:
    return f"{_LETTER}{number:03d}"


def _array(letter: bytes) -> Array:
    return Array(dtype="uint8", shape=(len(letter),), stype="sordino.wire", data=letter)


@dataclass(frozen=True, kw_only=True)
class Sealer:
    """The server's hand: signs parcels with the key of its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: bytes

    @staticmethod
    def read(server: Path) -> Sealer:
        """From the folder of the server."""
        try:
            key = serialization.load_pem_private_key((server / SERVER_KEY).read_bytes(), password=None)
        except (OSError, ValueError, TypeError) as error:
            raise SordinoError(
                f"The server's key was expected at {server / SERVER_KEY}, but it cannot be read ({first_line(error)}); run this where the "
                "server's folder is, or name it with [engine] federation."
            ) from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise SordinoError(
                f"{server / SERVER_KEY} should be a key on an elliptic curve; provision the server again."
            )
        return Sealer(key=key, certificate=(server / SERVER_CERTIFICATE).read_bytes())

    def sealed(self, letters: Sequence[bytes], *, to: str, seconds: float) -> RecordDict:
        """A parcel for the node of this name, which is worth something for so many seconds."""
        content, now = packed(letters), time.time()
        signature = self.key.sign(_signed(letters, to=to, made=now, seconds=seconds), _SIGNED_WITH)
        content.config_records[PARCEL].update(
            made=now, seconds=seconds, signature=signature, certificate=self.certificate
        )
        return content


@dataclass(frozen=True, kw_only=True)
class SealReader:
    """A node's eye: knows the authority in its kit, and its own name."""

    authority: x509.Certificate
    name: str

    @staticmethod
    def of(kit: Path, name: str) -> SealReader:
        return SealReader(authority=read_certificate(kit / CA_CERTIFICATE), name=name)

    def opened(self, content: RecordDict) -> list[bytes]:
        """The letters of a parcel that the server sealed for this node; raises `Unsealed` for any other."""
        letters = unpacked(content)
        try:
            seal = content.config_records[PARCEL]
            made, seconds = float(seal["made"]), float(seal["seconds"])  # type: ignore[arg-type]
            signature, certificate = bytes(seal["signature"]), bytes(seal["certificate"])  # type: ignore[arg-type]
            server = x509.load_pem_x509_certificate(certificate)
            self._check_certificate(server)
            key = server.public_key()
            assert isinstance(key, ec.EllipticCurvePublicKey)
            key.verify(signature, _signed(letters, to=self.name, made=made, seconds=seconds), _SIGNED_WITH)
        except (KeyError, TypeError, ValueError, AssertionError, InvalidSignature) as error:
            raise Unsealed(
                f"A request was not sealed by the federation's server for node {self.name} ({type(error).__name__}); nothing is done."
            ) from error
        age = time.time() - made
        if not -CLOCKS_APART_SECONDS < age < seconds + CLOCKS_APART_SECONDS:
            raise Unsealed(
                f"A request is out of date: it was made {age:.0f} s ago, for {seconds:.0f} s; nothing is done for it. If it is new, set "
                "the clocks."
            )
        return letters

    def _check_certificate(self, server: x509.Certificate) -> None:
        server.verify_directly_issued_by(self.authority)
        now = dt.datetime.now(dt.UTC)
        if not server.not_valid_before_utc <= now <= server.not_valid_after_utc:
            raise ValueError("the certificate of the server has run out")


def _signed(letters: Sequence[bytes], *, to: str, made: float, seconds: float) -> bytes:
    """Everything that the signature is about, without any two parcels looking alike."""
    digest = hashes.Hash(hashes.SHA384())
    for part in (b"sordino parcel 1", to.encode(), struct.pack("<dd", made, seconds), *letters):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.finalize()

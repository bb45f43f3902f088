"""Keys of nodes: elliptic curves in OpenSSH's format, as Flower wants them. Private ones are readable by their owner alone."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from sordino.core import SordinoError
from sordino.files import SECRET_FILE, write_whole
from sordino.sentences import first_line

PrivateKey = ec.EllipticCurvePrivateKey


def new_key() -> PrivateKey:
    """A private key on the curve P-384."""
    return ec.generate_private_key(ec.SECP384R1())


@dataclass(frozen=True, kw_only=True)
class NodeKey:
    """The pair of keys that a node shows itself by, as the bytes of their files.

    Example:
        >>> key = NodeKey.new()
        >>> key.public.startswith(b"ecdsa-sha2-nistp384 ")
        True
    """

    private: bytes
    """OpenSSH, without a password."""
    public: bytes
    """One line of OpenSSH."""

    @staticmethod
    def new() -> NodeKey:
        return NodeKey._of(new_key())

    @staticmethod
    def read(path: Path) -> NodeKey:
        """The pair of a private key file; a file that others can read is refused."""
        _refuse_readable_by_others(path)
        try:
            found = serialization.load_ssh_private_key(path.read_bytes(), password=None)
        except OSError as error:
            raise SordinoError(
                f"A node's private key was expected at {path}, but it cannot be read ({first_line(error)}); copy the kit again."
            ) from error
        except (ValueError, UnsupportedAlgorithm) as error:
            raise SordinoError(
                f"{path} should be an OpenSSH private key without a password, but is not ({first_line(error)}); copy the kit again."
            ) from error
        if not isinstance(found, ec.EllipticCurvePrivateKey):
            raise SordinoError(
                f"{path} should be a key on an elliptic curve, but got {type(found).__name__}; make one with `sordino provision`."
            )
        return NodeKey._of(found)

    def write(self, private: Path, public: Path) -> None:
        """Both files; the private one with mode 0600."""
        write_whole(private, self.private, mode=SECRET_FILE)
        write_whole(public, self.public)

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.public)

    @staticmethod
    def _of(key: PrivateKey) -> NodeKey:
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        )
        public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        return NodeKey(private=private, public=public + b"\n")


def checked_public(line: bytes, *, where: Path) -> bytes:
    """One line of OpenSSH with a public key of a node, without the comment; anything else is refused."""
    try:
        found = serialization.load_ssh_public_key(line)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise SordinoError(
            f"{where} should be one line with a public key in OpenSSH's format, but is not ({first_line(error)})."
        ) from error
    if not isinstance(found, ec.EllipticCurvePublicKey) or not found.curve.name.startswith("secp"):
        raise SordinoError(
            f"{where} should hold a key on a NIST curve, but got {type(found).__name__}; make one with `ssh-keygen -t ecdsa -b 384`."
        )
    return found.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH) + b"\n"


def fingerprint(public: bytes) -> str:
    """The name by which people compare keys, as `ssh-keygen -l` prints it."""
    body = base64.b64decode(public.split()[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(body).digest()).decode().rstrip("=")


def _refuse_readable_by_others(path: Path) -> None:
    if path.exists() and path.stat().st_mode & 0o077:
        raise SordinoError(
            f"{path} is a private key, but others can read it (mode {path.stat().st_mode & 0o777:o}); use `chmod 600`, and rotate the key "
            "if anybody may have copied it."
        )

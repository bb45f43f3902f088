"""The certificate authority of one federation, and the server's certificate that nodes check."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sordino.core import SordinoError
from sordino.files import SECRET_FILE, make_folder, write_whole
from sordino.nodes.keys import PrivateKey, new_key
from sordino.sentences import first_line

CA_CERTIFICATE, CA_KEY = "ca.crt", "ca.key"
SERVER_CERTIFICATE, SERVER_KEY = "server.crt", "server.key"
AUTHORITY_DAYS, SERVER_DAYS = 3650, 397
CLOCKS_APART = dt.timedelta(minutes=5)
"""Certificates are valid from a little before they are made: clocks differ."""
LONGEST_COMMON_NAME = 64


@dataclass(frozen=True, kw_only=True)
class Authority:
    """Signs the certificates of one federation.

    Example:
        >>> authority = Authority.new("stroke study")
        >>> authority.write(Path("authority"))
        >>> authority.write_server(["fed.example.org", "192.0.2.7"], Path("server"))
    """

    certificate: x509.Certificate
    key: PrivateKey

    @staticmethod
    def new(name: str, *, days: float = AUTHORITY_DAYS) -> Authority:
        """An authority that signs itself."""
        key = new_key()
        subject = _called(f"{name} CA")
        usage = x509.KeyUsage(
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        built = (
            _dated(subject, subject, key, days=days)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        return Authority(certificate=built.sign(key, hashes.SHA384()), key=key)

    @staticmethod
    def read(folder: Path) -> Authority:
        try:
            found = serialization.load_pem_private_key((folder / CA_KEY).read_bytes(), password=None)
        except (OSError, ValueError, TypeError) as error:
            raise SordinoError(
                f"The key of the federation's authority, {folder / CA_KEY}, cannot be read ({first_line(error)}); restore it from a copy: "
                "without it no server certificate can be renewed."
            ) from error
        assert isinstance(found, ec.EllipticCurvePrivateKey)
        return Authority(certificate=read_certificate(folder / CA_CERTIFICATE), key=found)

    def write(self, folder: Path) -> None:
        """The authority's key, with mode 0600, and its certificate, which everybody may have."""
        make_folder(folder)
        write_whole(folder / CA_KEY, _private_pem(self.key), mode=SECRET_FILE)
        write_whole(folder / CA_CERTIFICATE, self.pem)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def write_server(self, addresses: Sequence[str], folder: Path, *, days: float = SERVER_DAYS) -> None:
        """A new key and certificate for a server that is reached at these host names and IP addresses, and the authority's."""
        key = new_key()
        names = x509.SubjectAlternativeName([_general_name(address) for address in addresses])
        built = (
            _dated(_called(addresses[0]), self.certificate.subject, key, days=days)
            .add_extension(names, critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
                critical=False,
            )
        )
        certificate = built.sign(self.key, hashes.SHA384())
        make_folder(folder)
        write_whole(folder / SERVER_KEY, _private_pem(key), mode=SECRET_FILE)
        write_whole(folder / SERVER_CERTIFICATE, certificate.public_bytes(serialization.Encoding.PEM))
        write_whole(folder / CA_CERTIFICATE, self.pem)


def read_certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise SordinoError(
            f"A certificate was expected at {path}, but it cannot be read ({first_line(error)}); copy it again from the server's "
            "operator."
        ) from error


def check_address(address: str) -> str:
    """A host name or an IP address, as it stands in a certificate; anything else is refused."""
    _general_name(address)
    return address


def _general_name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        parts = address.rstrip(".").split(".")
        plain = address.isascii() and all(part and part.replace("-", "").isalnum() for part in parts)
        if not plain or parts[-1].isdigit():
            raise SordinoError(
                f"A host name or an IP address was expected, but got {address!r}; write fed.example.org or 192.0.2.7, without a port."
            ) from None
        return x509.DNSName(address)


def _called(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:LONGEST_COMMON_NAME])])


def _dated(subject: x509.Name, issuer: x509.Name, key: PrivateKey, *, days: float) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    begin = min(now, now + dt.timedelta(days=days)) - CLOCKS_APART
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(now + dt.timedelta(days=days))
    )


def _private_pem(key: PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )

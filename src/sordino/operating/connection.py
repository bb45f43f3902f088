"""Whether a node can reach its server: name, port, certificate, and how far the clocks are apart."""

from __future__ import annotations

import datetime as dt
import email.utils
import http.client
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sordino.core import SordinoError
from sordino.nodes.authority import read_certificate
from sordino.nodes.kit import Kit
from sordino.operating.finding import Finding, checked
from sordino.sentences import first_line

SECONDS = 10.0
"""How long a server may take to answer."""
SOON_DAYS = 30
CLOCK_SECONDS = 30.0
"""Requests are sealed with the time: clocks that are further apart may make them look out of date."""
EXPIRED, UNKNOWN_ISSUER, NOT_YET, SELF_SIGNED, SELF_SIGNED_CHAIN = 10, 20, 9, 18, 19
"""OpenSSL's numbers for what is wrong with a certificate."""


@dataclass(frozen=True, kw_only=True)
class Met:
    """What the server showed of itself."""

    until: dt.datetime
    """When its certificate runs out."""
    clock: dt.datetime | None
    """The time there, if it told."""


def connection_findings(kit: Kit) -> Iterator[Finding]:
    """Name, port, TLS and clock, as far as each can be looked at."""
    yield checked("authority", lambda: _authority(kit.ca_certificate))
    reached = checked("address", lambda: _reach(kit))
    yield reached
    if reached.level == "wrong":
        return
    try:
        met = meet(kit)
    except SordinoError as error:
        yield Finding(what="TLS", level="wrong", sentence=str(error))
        return
    yield _expiry(met.until)
    yield _clock(met.clock)


def meet(kit: Kit) -> Met:
    """Shake hands with the server over TLS, as a node does, and ask it for its health and the time."""
    facts = kit.facts
    trusted = ssl.create_default_context(cafile=str(kit.ca_certificate))
    connection = http.client.HTTPSConnection(facts.server, facts.port, timeout=SECONDS, context=trusted)
    try:
        connection.connect()
        certificate = connection.sock.getpeercert()
        connection.request("GET", "/health")
        told = connection.getresponse().getheader("Date")
    except ssl.SSLCertVerificationError as error:
        raise SordinoError(_about_certificate(kit, error)) from error
    except ssl.SSLError as error:
        raise SordinoError(
            f"{facts.address} does not speak TLS as expected ({first_line(error)}); ask whether `sordino serve` runs there, or something "
            "else."
        ) from error
    except (OSError, http.client.HTTPException) as error:
        raise SordinoError(
            f"{facts.address} took the connection but did not answer ({first_line(error)}); ask whether `sordino serve` runs there."
        ) from error
    finally:
        connection.close()
    seconds = ssl.cert_time_to_seconds(certificate["notAfter"])  # type: ignore[arg-type,index]
    clock = email.utils.parsedate_to_datetime(told) if told else None
    return Met(until=dt.datetime.fromtimestamp(seconds, dt.UTC), clock=clock)


def _authority(path: Path) -> str:
    until = read_certificate(path).not_valid_after_utc
    if until < dt.datetime.now(dt.UTC):
        raise SordinoError(
            f"The federation's authority in {path} ran out on {until:%Y-%m-%d}; ask the server's operator for a new kit."
        )
    return f"The federation's authority holds until {until:%Y-%m-%d}."


def _reach(kit: Kit) -> str:
    facts = kit.facts
    try:
        socket.getaddrinfo(facts.server, facts.port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise SordinoError(
            f"The server's name {facts.server} is not known here ({error.strerror}); check node.toml, and the name service."
        ) from error
    try:
        with socket.create_connection((facts.server, facts.port), timeout=SECONDS):
            return f"{facts.address} takes connections."
    except TimeoutError as error:
        raise SordinoError(
            f"{facts.address} did not answer within {SECONDS:g} s: a firewall between may drop it; open outgoing port {facts.port}."
        ) from error
    except OSError as error:
        raise SordinoError(
            f"{facts.address} cannot be reached ({first_line(error)}); ask whether `sordino serve` runs there, and on this port."
        ) from error


def _about_certificate(kit: Kit, error: ssl.SSLCertVerificationError) -> str:
    address = kit.facts.address
    if error.verify_code == EXPIRED:
        return f"The certificate of {address} has run out; its operator renews it with `sordino provision DIR --renew`, and kits stay good."
    if error.verify_code == NOT_YET:
        return f"The certificate of {address} is not valid yet; set the clock of this machine, or that of the server."
    if error.verify_code in (UNKNOWN_ISSUER, SELF_SIGNED, SELF_SIGNED_CHAIN):
        return (
            f"The certificate of {address} was not signed by the authority in {kit.ca_certificate}: another server answers there, or this "
            "kit is of another federation; do not go on before you know which."
        )
    return (
        f"The certificate of {address} is not accepted ({error.verify_message}); it must be made for {kit.facts.server!r}: ask its "
        "operator to add that name with --server."
    )


def _expiry(until: dt.datetime) -> Finding:
    days = (until - dt.datetime.now(dt.UTC)).days
    sentence = f"The server's certificate is signed by this federation's authority and holds until {until:%Y-%m-%d} ({days} days)."
    if days < SOON_DAYS:
        sentence += " Its operator should renew it with `sordino provision DIR --renew`."
    return Finding(what="TLS", level="note" if days < SOON_DAYS else "ok", sentence=sentence)


def _clock(there: dt.datetime | None) -> Finding:
    if there is None:
        return Finding(
            what="clock", level="note", sentence="The server does not tell its time; compare clocks by hand."
        )
    apart = (dt.datetime.now(dt.UTC) - there).total_seconds()
    if abs(apart) > CLOCK_SECONDS:
        way = "ahead of" if apart > 0 else "behind"
        sentence = f"This machine's clock is {abs(apart):.0f} s {way} the server's; set both by NTP, else requests look out of date."
        return Finding(what="clock", level="wrong", sentence=sentence)
    return Finding(
        what="clock", level="ok", sentence=f"The clocks are within {max(1.0, abs(apart)):.0f} s of each other."
    )

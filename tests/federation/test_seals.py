"""Parcels: a node does nothing for a request that the federation's server did not seal for it, and lately."""

import time

import pytest

from sordino.core import SordinoError
from sordino.engine.flower.parcel import (
    CLOCKS_APART_SECONDS,
    ONE_PIECE_BYTES,
    Sealer,
    SealReader,
    Unsealed,
    packed,
    unpacked,
)
from sordino.nodes.authority import Authority
from sordino.nodes.provision import FederationFacts, Provision

LETTERS = [b"one", b"", b"three" * 1000]
LARGE = [b"one", b"", b"three" * ONE_PIECE_BYTES]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    found = Provision.new(tmp_path_factory.mktemp("seals") / "made", FederationFacts(addresses=("127.0.0.1",)))
    return found, found.add("north")


@pytest.mark.parametrize("letters", [LETTERS, LARGE], ids=["in one piece", "in many"])
def test_what_the_server_seals_its_node_opens(made, letters):
    provision, kit = made
    sealed = Sealer.read(provision.server).sealed(letters, to="north", seconds=60)
    assert SealReader.of(kit.folder, "north").opened(sealed) == letters


def changed(sealed):
    other = packed([b"one", b"", b"four"])
    other["parcel"].update({name: sealed["parcel"][name] for name in ("made", "seconds", "signature", "certificate")})
    return other


def unsealed(sealed):
    return packed(unpacked(sealed))


@pytest.mark.parametrize("spoil", [changed, unsealed])
def test_a_parcel_that_was_changed_or_has_no_seal_is_not_opened(made, spoil):
    provision, kit = made
    sealed = Sealer.read(provision.server).sealed(LETTERS, to="north", seconds=60)
    with pytest.raises(Unsealed, match="not sealed by the federation's server for node north"):
        SealReader.of(kit.folder, "north").opened(spoil(sealed))


def test_a_parcel_for_another_node_or_of_another_authority_is_not_opened(made, tmp_path):
    provision, kit = made
    reader = SealReader.of(kit.folder, "north")
    with pytest.raises(Unsealed):
        reader.opened(Sealer.read(provision.server).sealed(LETTERS, to="south", seconds=60))
    Authority.new("somebody else").write_server(["127.0.0.1"], tmp_path)
    with pytest.raises(Unsealed):
        reader.opened(Sealer.read(tmp_path).sealed(LETTERS, to="north", seconds=60))


def test_a_certificate_that_has_run_out_seals_nothing(made, tmp_path):
    provision, kit = made
    Authority.read(provision.folder / "authority").write_server(["127.0.0.1"], tmp_path, days=-1)
    with pytest.raises(Unsealed):
        SealReader.of(kit.folder, "north").opened(Sealer.read(tmp_path).sealed(LETTERS, to="north", seconds=60))


def test_a_parcel_of_yesterday_is_not_opened(made, monkeypatch):
    provision, kit = made
    sealed = Sealer.read(provision.server).sealed(LETTERS, to="north", seconds=60)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 61 + CLOCKS_APART_SECONDS)
    with pytest.raises(Unsealed, match="out of date"):
        SealReader.of(kit.folder, "north").opened(sealed)


def test_what_is_no_parcel_is_refused_with_a_sentence():
    from flwr.app import RecordDict

    with pytest.raises(SordinoError, match="parcel of wire messages was expected"):
        unpacked(RecordDict())

"""A federation's folder: authority, certificates, roster and kits, and what happens to them over time."""

import ipaddress
import json
import stat

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from sordino.core import SordinoError
from sordino.engine.client.limits import read_limits
from sordino.nodes.authority import SERVER_CERTIFICATE, read_certificate
from sordino.nodes.keys import NodeKey
from sordino.nodes.kit import Kit, NodeFacts
from sordino.nodes.provision import FederationFacts, Provision
from sordino.nodes.roster import RosterFile


@pytest.fixture
def made(tmp_path):
    facts = FederationFacts(name="study", addresses=("fed.example.org", "127.0.0.1"), port=18443)
    made = Provision.new(tmp_path / "study", facts)
    for name in ("north", "south"):
        made.add(name)
    return made


def test_the_server_certificate_is_signed_for_every_address(made):
    certificate = read_certificate(made.server / SERVER_CERTIFICATE)
    certificate.verify_directly_issued_by(read_certificate(made.server / "ca.crt"))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["fed.example.org"]
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("127.0.0.1")]


def test_private_files_are_their_owners_alone(made):
    secret = [path for path in made.folder.rglob("*") if path.name.endswith((".key", ".secret"))]
    assert len(secret) == 5
    assert {stat.S_IMODE(path.stat().st_mode) for path in secret} == {0o600}


def test_no_two_kits_ever_get_one_port_and_a_rotated_one_keeps_its_own(made):
    made.remove(made.roster.active[0].name)
    made.rotate("south")
    made.add("later")
    kits = [Kit.read(folder).facts for folder in (made.folder / "kits").iterdir()]
    assert len({facts.local_port for facts in kits}) == len(kits) == 3
    assert Kit.read(made.kit("south")).facts.local_port == 9095


def test_a_kit_holds_what_a_node_needs(made):
    kit = Kit.read(made.kit("south"))
    assert kit.facts == NodeFacts(name="south", server="fed.example.org", port=18443, local_port=9095)
    assert kit.facts.address == "fed.example.org:18443"
    loaded = serialization.load_ssh_private_key(kit.private_key.read_bytes(), password=None)
    assert loaded.curve.name == "secp384r1"
    assert kit.node_key().public == kit.public_key.read_bytes() == made.roster.member("south").public
    assert {path.name for path in kit.folder.iterdir()} == {
        "node.toml",
        "node.key",
        "node.pub",
        "ca.crt",
        "limits.toml",
        "README.md",
    }
    assert not read_limits(kit.limits).central


def test_the_roster_says_who_was_there_and_when(made):
    before = made.roster.member("north").fingerprint
    limits = made.kit("north") / "limits.toml"
    limits.write_text("least_noise = 3.0\n")
    made.rotate("north")
    made.remove("south")
    made.add("west")
    again = RosterFile(made.folder / "roster.jsonl")
    assert [member.name for member in again.active] == ["north", "west"]
    assert again.member("north").fingerprint != before
    assert [(member.name, member.fingerprint == before) for member in again.everybody if member.removed] == [
        ("north", True),
        ("south", False),
    ]
    assert read_limits(limits).least_noise == 3.0, "limits are the operator's"
    with pytest.raises(SordinoError, match="No node 'south' is on the roster"):
        again.rotate("south", b"")


def test_an_edited_roster_is_refused(made):
    path = made.folder / "roster.jsonl"
    rows = path.read_text().splitlines()
    path.write_text("\n".join([rows[1], rows[0]]) + "\n")
    with pytest.raises(SordinoError, match="does not follow from the one before"):
        Provision(made.folder)


def test_a_node_may_make_its_own_key(made, tmp_path):
    own = NodeKey.new()
    own.write(tmp_path / "own", tmp_path / "own.pub")
    kit = made.add("east", public=tmp_path / "own.pub")
    assert made.roster.member("east").public == own.public
    assert not kit.private_key.exists()
    with pytest.raises(SordinoError, match=r"node\.key is missing"):
        Kit.read(kit.folder)
    own.write(kit.private_key, kit.public_key)
    assert Kit.read(kit.folder).node_key().fingerprint == own.fingerprint


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda kit: kit.private_key.chmod(0o644), "others can read it"),
        (lambda kit: kit.private_key.write_text("nothing"), "should be an OpenSSH private key"),
        (lambda kit: kit.ca_certificate.unlink(), "ca.crt is missing"),
        (lambda kit: (kit.folder / "node.toml").write_text('name = "n"\nserver = "a b"\n'), "host name or an IP"),
        (lambda kit: (kit.folder / "node.toml").write_text('name = "n"\nsever = "a"\n'), "did you mean"),
        (lambda kit: (kit.folder / "node.toml").write_text('name = "n"\n'), "needs server, which is missing"),
        (lambda kit: (kit.folder / "node.toml").write_text("name = "), "is not valid TOML"),
    ],
)
def test_a_damaged_kit_gets_a_sentence(made, damage, told):
    kit = Kit.read(made.kit("north"))
    damage(kit)
    with pytest.raises(SordinoError, match=told):
        Kit.read(kit.folder)


@pytest.mark.parametrize(
    ("page", "told"),
    [
        ("central = 1", "In .limits.toml., central should be a valid boolean, but got 1"),
        ("[run_epsilon]\npublic = -1.0", "greater than 0, but got -1.0"),
        ("[run_epsilon]\nworld = 1.0", "'public', 'server' or 'client'"),
        ("leats_noise = 1.0", "least_noise"),
        ('placements = ["nowhere"]', "'central', 'distributed' or 'local'"),
    ],
)
def test_wrong_limits_get_a_sentence(tmp_path, page, told):
    path = tmp_path / "limits.toml"
    path.write_text(page)
    with pytest.raises(SordinoError, match=told):
        read_limits(path)


def test_what_is_in_the_folder_is_not_overwritten(made):
    with pytest.raises(SordinoError, match="holds a federation already"):
        Provision.new(made.folder, made.facts)
    with pytest.raises(SordinoError, match="on the roster already"):
        made.add("north")
    with pytest.raises(SordinoError, match="letters, digits"):
        made.add("../north")


def test_the_certificate_can_be_renewed_without_new_kits(made):
    before = (made.server / SERVER_CERTIFICATE).read_bytes()
    made.renew_server()
    after = read_certificate(made.server / SERVER_CERTIFICATE)
    assert before != (made.server / SERVER_CERTIFICATE).read_bytes()
    after.verify_directly_issued_by(read_certificate(made.kit("north") / "ca.crt"))


def test_rows_of_the_roster_are_plain_json(made):
    rows = [json.loads(row)["entry"] for row in (made.folder / "roster.jsonl").read_text().splitlines()]
    assert [(row["what"], row["name"]) for row in rows] == [("added", "north"), ("added", "south")]

"""A node looks at its server over real TLS: each thing that can be wrong gets its own sentence."""

import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sordino.nodes.authority import SERVER_CERTIFICATE, SERVER_KEY, Authority
from sordino.nodes.kit import Kit
from sordino.nodes.provision import FederationFacts, Provision
from sordino.operating.connection import connection_findings
from sordino.operating.health import HealthPoint

CLOCK = {"late": "Sun, 06 Nov 1994 08:49:37 GMT"}


class Quiet(BaseHTTPRequestHandler):
    clock = None

    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def date_time_string(self, timestamp=None):
        return self.clock or super().date_time_string(timestamp)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    """`server(folder)` answers with the certificate in that folder; returns its port."""
    running = []

    def start(folder, clock=None):
        made = ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (Quiet,), {"clock": clock}))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / SERVER_CERTIFICATE, folder / SERVER_KEY)
        made.socket = context.wrap_socket(made.socket, server_side=True)
        threading.Thread(target=made.serve_forever, daemon=True).start()
        running.append(made)
        return made.server_address[1]

    yield start
    for made in running:
        made.shutdown()
        made.server_close()


@pytest.fixture
def federation(tmp_path):
    """`federation(port, host)` is the kit of a node whose server is there."""
    made = Provision.new(tmp_path / "study", FederationFacts(addresses=("127.0.0.1",), port=1))
    made.add("north")

    def kit(port, host="127.0.0.1"):
        page = made.kit("north") / "node.toml"
        page.write_text(f'name = "north"\nserver = "{host}"\nport = {port}\n')
        return made, Kit.read(made.kit("north"))

    return kit


def told(kit):
    return {one.what: (one.level, one.sentence) for one in connection_findings(kit)}


def test_a_good_server_is_found_good(federation, server):
    made, _ = federation(1)
    found = told(federation(server(made.server))[1])
    assert {level for level, _ in found.values()} == {"ok"}
    assert set(found) == {"authority", "address", "TLS", "clock"}


def test_a_certificate_that_ran_out_is_named(federation, server):
    made, _ = federation(1)
    made.renew_server(days=-1)
    level, sentence = told(federation(server(made.server))[1])["TLS"]
    assert level == "wrong"
    assert "has run out" in sentence and "--renew" in sentence


def test_a_certificate_that_runs_out_soon_is_a_note(federation, server):
    made, _ = federation(1)
    made.renew_server(days=5)
    assert told(federation(server(made.server))[1])["TLS"][0] == "note"


def test_another_authority_is_named(federation, server, tmp_path):
    Authority.new("other").write_server(["127.0.0.1"], tmp_path / "other")
    level, sentence = told(federation(server(tmp_path / "other"))[1])["TLS"]
    assert level == "wrong"
    assert "was not signed by the authority" in sentence


def test_a_certificate_for_another_name_is_named(federation, server):
    made, _ = federation(1)
    made.renew_server(["fed.example.org"])
    level, sentence = told(federation(server(made.server))[1])["TLS"]
    assert level == "wrong"
    assert "must be made for '127.0.0.1'" in sentence


def test_clocks_apart_are_named(federation, server):
    made, _ = federation(1)
    level, sentence = told(federation(server(made.server, CLOCK["late"]))[1])["clock"]
    assert level == "wrong"
    assert "ahead of the server's" in sentence


def test_what_cannot_be_reached_is_named(federation):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    found = told(federation(port)[1])
    assert found["address"] == ("wrong", found["address"][1])
    assert "Connection refused" in found["address"][1]
    assert "TLS" not in found
    assert "is not known here" in told(federation(port, "nowhere.invalid")[1])["address"][1]


def test_a_server_without_tls_is_named(federation):
    with HealthPoint(0, lambda: {"healthy": True}) as point:
        level, sentence = told(federation(point.port)[1])["TLS"]
    assert level == "wrong"
    assert "does not speak TLS" in sentence

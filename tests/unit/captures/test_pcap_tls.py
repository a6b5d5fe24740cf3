"""Real TLS sessions between two ends in memory, looked at from the middle."""

import datetime
import random
import ssl
import sys

import pytest

from specsonar.errors import InputError
from specsonar.wire.recordsizes import RecordSizes
from specsonar.wire.tcp import CLIENT, SERVER
from specsonar.wire.tlsdecrypt import KeyLog, Session, _expand
from specsonar.wire.tlsrecords import Records

TALK = [(CLIENT, b"POST / HTTP/1.1\r\n\r\n"), (SERVER, b"HTTP/1.1 200 OK\r\n\r\n"), (SERVER, b"a" * 40_000),
        (SERVER, b"data: 1\n\n"), (CLIENT, b"more"), (SERVER, b"data: 2\n\n")]  # fmt: skip


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    begin = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, begin, begin + datetime.timedelta(days=20000))
    path = tmp_path_factory.mktemp("tls") / "pair.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ) + made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    )  # fmt: skip
    return path


class Ends:
    """A client and a server that talk through memory; `wire` is what an onlooker sees."""

    def __init__(self, certificate, keylog, *, version, ciphers=None, curve=None):
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
        client.minimum_version = client.maximum_version = version
        client.keylog_filename = str(keylog)
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(certificate)
        if ciphers:
            client.set_ciphers(ciphers)
        if curve:
            server.set_ecdh_curve(curve)
        self.wire = []
        self.bios = [(ssl.MemoryBIO(), ssl.MemoryBIO()) for _ in range(2)]
        self.ends = [client.wrap_bio(*self.bios[CLIENT]), server.wrap_bio(*self.bios[SERVER], server_side=True)]
        for _ in range(4):
            for side in (CLIENT, SERVER):
                self._try(self.ends[side].do_handshake)
                self._carry(side)

    def _try(self, what, *arguments):
        try:
            return what(*arguments)
        except ssl.SSLWantReadError:
            return None

    def _carry(self, side):
        if data := self.bios[side][1].read():
            self.wire.append((side, data))
            self.bios[1 - side][0].write(data)

    def say(self, side, data):
        while data:
            data = data[self.ends[side].write(data) :]
            self._carry(side)
        while self._try(self.ends[1 - side].read, 1 << 16):
            pass


def spoken(certificate, tmp_path, **options):
    log = tmp_path / "keys.log"
    ends = Ends(certificate, log, **options)
    for side, data in TALK:
        ends.say(side, data)
    keys = KeyLog()
    keys.add(log.read_bytes())
    return ends.wire, keys, ends.ends[CLIENT].cipher()[0]


def looked_at(wire, keys, *, pieces_of=lambda data: [data], lose=()):
    """What an onlooker reads of both sides; the server's pieces with a number in `lose` never reach him."""
    records, session = (Records(), Records()), Session(keys)
    text = {CLIENT: b"", SERVER: b""}
    number = missing = 0
    for side, data in wire:
        for piece in pieces_of(data):
            lost = 0
            if side == SERVER:
                number += 1
                if number in lose:
                    missing += len(piece)
                    continue
                lost, missing = missing, 0
            for record in records[side].feed(piece, lost):
                text[side] += session.record(side, record)
    return text, session


VERSIONS = [
    ("1.3", {"version": ssl.TLSVersion.TLSv1_3}),
    ("1.3 after a retry", {"version": ssl.TLSVersion.TLSv1_3, "curve": "secp384r1"}),
    ("1.2 aes128", {"version": ssl.TLSVersion.TLSv1_2, "ciphers": "ECDHE-ECDSA-AES128-GCM-SHA256"}),
    ("1.2 aes256", {"version": ssl.TLSVersion.TLSv1_2, "ciphers": "ECDHE-ECDSA-AES256-GCM-SHA384"}),
    ("1.2 chacha", {"version": ssl.TLSVersion.TLSv1_2, "ciphers": "ECDHE-ECDSA-CHACHA20-POLY1305"}),
]


def said(side):
    return b"".join(data for who, data in TALK if who == side)


@pytest.mark.parametrize("options", [o for _, o in VERSIONS], ids=[n for n, _ in VERSIONS])
def test_a_session_with_its_key_log_is_read_however_it_was_cut(certificate, tmp_path, options):
    wire, keys, cipher = spoken(certificate, tmp_path, **options)
    chance = random.Random(7)

    def cut(data):
        places = sorted(chance.sample(range(1, len(data)), min(6, len(data) - 1)))
        return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]

    for pieces_of in (lambda data: [data], cut, lambda data: [data[i : i + 1] for i in range(len(data))]):
        text, session = looked_at(wire, keys, pieces_of=pieces_of)
        assert text == {CLIENT: said(CLIENT), SERVER: said(SERVER)}, cipher
        assert session.keyed and session.tls13 == cipher.startswith("TLS_")


@pytest.mark.parametrize("options", [VERSIONS[0][1], VERSIONS[2][1], VERSIONS[4][1]])
def test_a_lost_record_costs_itself_and_nothing_after_it(certificate, tmp_path, options):
    wire, keys, _ = spoken(certificate, tmp_path, **options)
    servers = [number for number, (side, _) in enumerate(wire) if side == SERVER]
    lost = len(servers) - 1  # the last but one: the first event
    text, _ = looked_at(wire, keys, lose={lost})
    assert text[SERVER] == said(SERVER).replace(b"data: 1\n\n", b"")


def test_a_session_that_the_log_does_not_know_stays_closed(certificate, tmp_path):
    wire, _, _ = spoken(certificate, tmp_path, version=ssl.TLSVersion.TLSv1_3)
    text, session = looked_at(wire, KeyLog())
    assert text == {CLIENT: b"", SERVER: b""} and not session.keyed


def test_wrong_secrets_open_nothing(certificate, tmp_path):
    wire, _, _ = spoken(certificate, tmp_path, version=ssl.TLSVersion.TLSv1_3)
    wrong = KeyLog()
    log = (tmp_path / "keys.log").read_text().splitlines()
    wrong.add("\n".join(line[:-4] + "beef" for line in log if not line.startswith("#")).encode())
    text, session = looked_at(wire, wrong)
    assert text == {CLIENT: b"", SERVER: b""} and session.keyed


def test_keys_that_are_changed_under_way_are_followed(certificate, tmp_path):
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    log = tmp_path / "keys.log"
    wire, keys, cipher = spoken(certificate, tmp_path, version=ssl.TLSVersion.TLSv1_3)
    assert cipher == "TLS_AES_256_GCM_SHA384"
    secret = next(bytes.fromhex(x.split()[2]) for x in log.read_text().splitlines() if x.startswith("SERVER_TRAFFIC"))
    _, session = looked_at(wire, keys)

    def sealed(secret, seq, text, kind):
        key, iv = _expand("sha384", secret, b"key", 32), _expand("sha384", secret, b"iv", 12)
        header = b"\x17\x03\x03" + (len(text) + 17).to_bytes(2, "big")
        nonce = (int.from_bytes(iv, "big") ^ seq).to_bytes(12, "big")
        return header + AESGCM(key).encrypt(nonce, text + bytes([kind]), header)

    after = _expand("sha384", secret, b"traffic upd", 48)
    update = sealed(secret, session._sides[SERVER].cipher.seq, b"\x18\0\0\1\0", 22)
    text, _ = looked_at([*wire, (SERVER, update), (SERVER, sealed(after, 0, b"new", 23))], keys)
    assert text[SERVER] == said(SERVER) + b"new"


def test_without_the_package_the_extra_is_named(certificate, tmp_path, monkeypatch):
    wire, keys, _ = spoken(certificate, tmp_path, version=ssl.TLSVersion.TLSv1_3)
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(InputError) as refused:
        looked_at(wire, keys)
    assert "specsonar[tls]" in refused.value.hint
    assert looked_at(wire, KeyLog())[0][SERVER] == b""  # without keys nobody needs it


def test_lines_that_are_no_secret_are_passed_over():
    keys = KeyLog()
    keys.add(b"# comment\n\nCLIENT_RANDOM zz 11\nCLIENT_RANDOM " + b"ab" * 32 + b" " + b"cd" * 48 + b"\r\n\xff\xfe")
    assert len(keys) == 1 and keys.of(b"\xab" * 32) == {"CLIENT_RANDOM": b"\xcd" * 48}


def test_records_go_on_behind_a_hole_at_the_next_one_that_begins_a_segment():
    def record(size):
        return b"\x17\x03\x03" + size.to_bytes(2, "big") + bytes(size)

    records = Records()
    assert [r.size for r in records.feed(record(10) + record(20)[:9])] == [10]
    (inside,) = records.feed(record(20)[15:], lost=6)  # the hole lies within the record
    assert inside.size == 20 and inside.body is None and not inside.after_loss
    assert records.feed(record(30)[:7]) == []
    assert records.feed(b"\1" * 9, lost=100) == []  # the middle of something
    (after,) = records.feed(record(40))
    assert after.size == 40 and after.body is not None and after.after_loss
    assert records.feed(b"\x99" * 5) == [] and [r.size for r in records.feed(record(5))] == [5]


def test_sizes_leave_out_what_cannot_be_an_event():
    sizes = RecordSizes()
    sizes.answer(0, 0, [250, 250])  # tickets before anything was asked
    sizes.request(1, 40)  # housekeeping
    sizes.request(2, 300)
    sizes.answer(3, 1, [250, 250])
    sizes.answer(4, 2, [214])  # the response head
    for number in range(5):
        sizes.answer(10 + number, 3 + number, [220 + number])
    sizes.answer(20, 9, [22])  # the last chunk
    sizes.request(30, 300)
    sizes.answer(31, 10, [68, 26, 113])  # HTTP/2: settings, an acknowledgement, a head
    sizes.answer(40, 11, [220, 221])
    sizes.answer(50, 12, [222, 223])
    sizes.request(60, 300)
    sizes.answer(61, 13, [16401] * 50)  # a download
    first, second = sizes.streams()
    assert first.size.tolist() == [220, 221, 222, 223, 224] and first.start_ns == 2
    assert second.size.tolist() == [220, 221, 222, 223] and second.read.tolist() == [11, 11, 12, 12]
    assert first.tokens.tolist() == [-1] * 5 and first.total_tokens is None


@pytest.mark.parametrize("through_proxy", [False, True])
def test_http2_inside_tls_is_read_with_the_times_of_its_records(certificate, tmp_path, through_proxy):
    import capture_build as build
    import h2.config
    import h2.connection

    from specsonar.wire.flow import Flow
    from specsonar.wire.tcp import Piece

    log = tmp_path / "keys.log"
    ends = Ends(certificate, log, version=ssl.TLSVersion.TLSv1_3)
    client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    clock = 0
    times = [clock] * len(ends.wire)

    def talk(side, speaker, listener):
        data = speaker.data_to_send()
        ends.say(side, data)
        listener.receive_data(data)
        times.extend([clock] * (len(ends.wire) - len(times)))

    client.initiate_connection()
    server.initiate_connection()
    names = [(":method", "POST"), (":path", "/v1/chat/completions"), (":scheme", "https"), (":authority", "h")]
    client.send_headers(1, names)
    client.send_data(1, b'{"model":"mm"}', end_stream=True)
    talk(CLIENT, client, server)
    server.send_headers(1, [(":status", "200"), ("content-type", "text/event-stream")])
    talk(SERVER, server, client)
    for number in range(9):
        clock += 20_000_000
        server.send_data(1, build.event(number, 1 + number % 2), end_stream=number == 8)
        talk(SERVER, server, client)

    keys, got = KeyLog(), []
    keys.add(log.read_bytes())
    flow = Flow(keys, lambda answers, found, headless: got.extend(answers), lambda flow: None)
    if through_proxy:
        flow.data(CLIENT, [Piece(0, b"CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n", 0)])
        flow.data(SERVER, [Piece(0, b"HTTP/1.1 200 Connection established\r\n\r\n", 0)])
    for (side, data), t_ns in zip(ends.wire, times, strict=True):
        flow.data(side, [Piece(t_ns, data, 0)])
    flow.close(clock)
    told = [answer.streams() for answer in got]  # one of them may be that of the proxy
    (stream,) = [one for streams, _ in told for one in streams if len(one)]
    noticed = [one for _, found in told for one in found]
    assert stream.t_ns.tolist() == [20_000_000 * (n + 1) for n in range(9)] and not noticed
    assert stream.tokens.tolist() == [1, 2, 1, 2, 1, 2, 1, 2, 1] and stream.meta["model"] == "mm"
    assert flow.is_http and flow.is_tls and flow.sizes() == []

"""Servers and certificates for the tests of the live source."""

import datetime
import ipaddress
import socket
import ssl
import threading

import pytest
from live_servers import PATIENCE_S, Host, Keeper


@pytest.fixture
def keeper():
    return Keeper()


@pytest.fixture
def host():
    """host(handle, context=None): a running Host."""
    hosts = []

    def make(handle, context=None):
        made = Host(handle, context)
        runner = threading.Thread(target=made.run)
        runner.start()
        hosts.append((made, runner))
        return made

    yield make
    for made, runner in hosts:
        made.listener.shutdown(socket.SHUT_RDWR)
        made.listener.close()
        runner.join(PATIENCE_S)
        for thread in made.threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """(file of a CA made for this run, server context with a certificate for 127.0.0.1 and localhost)."""
    pytest.importorskip("cryptography")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    now = datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a CA for one test run")])
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())

    def certificate(subject, public):
        return (
            x509.CertificateBuilder().subject_name(subject).issuer_name(name).public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=1))
        )  # fmt: skip

    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    usage = dict.fromkeys(
        ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
         "encipher_only", "decipher_only"), False,
    )  # fmt: skip
    ca = (
        certificate(name, ca_key.public_key())
        .add_extension(x509.BasicConstraints(True, None), critical=True)
        .add_extension(x509.KeyUsage(key_cert_sign=True, crl_sign=True, **usage), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    leaf = (
        certificate(x509.Name([]), key.public_key())
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]),
            critical=True,
        )
        .add_extension(authority, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    pem = serialization.Encoding.PEM
    (folder / "ca.pem").write_bytes(ca.public_bytes(pem))
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "server.pem").write_bytes(private + leaf.public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    return folder / "ca.pem", context


@pytest.fixture
def trusting(certificates):
    """A client context that trusts the CA of this run only."""
    return ssl.create_default_context(cafile=str(certificates[0]))

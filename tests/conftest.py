"""A Fingerprint built by hand, for everything that only reads one; and certificates for servers of a test run."""

import datetime
import ipaddress
import ssl
from dataclasses import replace

import pytest

from specsonar.fingerprint import Alternative, Estimate, Finding, Fingerprint
from specsonar.pictures import Arrivals, Histogram, Profile

SENTENCE = "Speculative decoding is on: up to 4 tokens a step, 2.95 on average."


def estimate(value, low, high, method="profile likelihood"):
    return Estimate(value, low, high, 0.95, method)


def build():
    return Fingerprint(
        verdict="speculative",
        sentence=SENTENCE,
        max_burst=estimate(4.0, 4.0, 4.0, "penalised likelihood"),
        acceptance_rate=estimate(0.8, 0.77, 0.83),
        acceptance_by_position=tuple(estimate(a, a - 0.05, a + 0.05) for a in (0.79, 0.81, 0.8)),
        acceptance_length=estimate(2.952, 2.81, 3.1),
        step_ms=estimate(20.0, 19.9, 20.1),
        jitter_ms=estimate(6.0, 5.6, 6.4),
        tokens_per_s=estimate(147.6, 140.0, 155.0),
        efficiency=estimate(0.738, 0.7, 0.77),
        gap_tokens=estimate(1.05, 0.9, 1.2),
        alternatives=(
            Alternative("speculative", 0.99995, 0.0, "in-order", "the likeliest, by 9.9 nats"),
            Alternative("autoregressive", 0.00005, 9.9, "in-order", "9.9 nats behind"),
        ),
        layer="in-order",
        count_source="one event per token",
        streams=1,
        tokens=600,
        events=600,
        steps=203,
        findings=(Finding("I002", "info", "taken as milliseconds", "say --unit"),),
        burst_sizes=Histogram((1.0, 2.0, 3.0, 4.0, 5.0), (41.0, 30.0, 21.0, 109.0), (40.6, 32.5, 26.0, 103.9)),
        gaps=Histogram(tuple(10 ** (k / 4 - 1) for k in range(13)), tuple(float(k) for k in range(12))),
        phases=Histogram((-10.0, -5.0, 0.0, 5.0, 10.0), (20.0, 280.0, 270.0, 30.0), (25.0, 275.0, 275.0, 25.0)),
        burst_profile=Profile((3, 4, 5), (-210.5, 0.0, -8.1)),
        arrivals=(Arrivals((0.0, 20.0, 20.1, 40.2, 60.1), None, (1, 1, 2, 1, 1), (20.0, 40.2, 60.1)),),
        provenance={"version": "0.1.0", "inputs": [{"name": "a.txt", "sha256": "0" * 64}], "seed": 0},
    )


@pytest.fixture
def sample():
    return build()


@pytest.fixture
def bare(sample):
    """Nothing could be estimated."""
    empty = dict.fromkeys(
        ("max_burst", "acceptance_rate", "acceptance_by_position", "acceptance_length", "step_ms", "jitter_ms",
         "tokens_per_s", "efficiency", "gap_tokens", "layer", "tokens", "steps", "burst_sizes", "gaps", "phases",
         "burst_profile")
    )  # fmt: skip
    return replace(
        sample, verdict="undetermined", alternatives=(), findings=(), arrivals=(), needed_tokens=600, **empty
    )


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

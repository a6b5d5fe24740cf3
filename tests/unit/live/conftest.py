"""Servers and certificates for the tests of the live source."""

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


@pytest.fixture
def trusting(certificates):
    """A client context that trusts the CA of this run only."""
    return ssl.create_default_context(cafile=str(certificates[0]))

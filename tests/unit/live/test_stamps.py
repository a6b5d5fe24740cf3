"""Wall-clock stamps on the monotonic axis, and the histogram of delays."""

import socket
import struct
import sys

import numpy as np
import pytest

from specsonar.sources.live import stamps
from specsonar.sources.live.lag import Lag
from specsonar.sources.live.stamps import Axis

SECOND = 1_000_000_000
OFFSET = 1_700_000_000 * SECOND


class Machine:
    """Two clocks of which one can be set, and a reader that is interrupted at random between readings."""

    def __init__(self, seed=5):
        self.rng = np.random.default_rng(seed)
        self.now = 50 * SECOND
        self.offset = OFFSET
        self.axis = Axis()

    def arrive(self):
        """What the kernel notes."""
        return self.now, self.now + self.offset

    def pass_time(self, ns):
        self.now += ns

    def read(self, stamp):
        before = self.now
        self.now += 40 + (self.rng.integers(5_000_000) if self.rng.random() < 0.3 else 0)
        wall = self.now + self.offset
        self.now += 40 + (self.rng.integers(5_000_000) if self.rng.random() < 0.3 else 0)
        return self.axis.place(stamp, before, wall, self.now)


def test_the_mapping_is_exact_however_often_the_reader_is_interrupted():
    machine, errors = Machine(), []
    for _ in range(500):
        truth, stamp = machine.arrive()
        machine.pass_time(30_000)
        errors.append(machine.read(stamp) - truth)
        machine.pass_time(2_000_000)
    assert max(map(abs, errors[20:])) <= 80
    assert machine.axis.steps == 0


@pytest.mark.parametrize("step", [30 * SECOND, -30 * SECOND, SECOND // 500, -SECOND // 500])
def test_a_wall_clock_that_is_set_moves_no_time(step):
    """Before, behind, and for what came before the step and is read behind it."""
    machine, errors = Machine(), []
    for number in range(200):
        truth, stamp = machine.arrive()
        machine.pass_time(30_000)
        if number == 100:
            machine.offset += step
        errors.append(machine.read(stamp) - truth)
        machine.pass_time(3_000_000)
    assert machine.axis.steps == 1
    assert machine.axis.largest_step_ns == pytest.approx(abs(step), abs=10_000_000)
    # within the step itself the uncertainty is one interruption; afterwards it is small again
    assert max(map(abs, errors[20:100])) <= 80
    assert max(map(abs, errors[130:])) <= 80
    assert max(map(abs, errors[100:130])) <= 5_100_000


def test_stamps_that_waited_through_a_step():
    """Several sockets wait while the clock is set; all of them are read behind the step."""
    machine = Machine()
    for _ in range(50):
        machine.read(machine.arrive()[1])
        machine.pass_time(1_000_000)
    waiting = []
    for _ in range(5):
        waiting.append(machine.arrive())
        machine.pass_time(100_000)
    machine.offset -= 3600 * SECOND
    assert all(abs(machine.read(stamp) - truth) <= 5_100_000 for truth, stamp in waiting)


def test_clocks_that_wander_are_followed_without_a_finding():
    machine, errors = Machine(), []
    for _ in range(500):
        truth, stamp = machine.arrive()
        machine.pass_time(30_000)
        errors.append(machine.read(stamp) - truth)
        machine.pass_time(2_000_000)
        machine.offset += 30
    assert machine.axis.steps == 0
    assert max(map(abs, errors)) <= 5_100_000


def test_a_stamp_is_never_later_than_its_read():
    axis = Axis()
    assert axis.place(OFFSET + 2_000, 1_000, OFFSET + 1_050, 1_100) == 1_000


def test_control_messages():
    stamp = (socket.SOL_SOCKET, stamps.OPTION, struct.pack("@ll", 12, 34))
    assert stamps.stamp_of([stamp]) == 12 * SECOND + 34
    assert stamps.stamp_of([(socket.SOL_SOCKET, stamps.OPTION + 1, b""), stamp]) == 12 * SECOND + 34
    assert stamps.stamp_of([]) is None
    assert stamps.stamp_of([(socket.SOL_SOCKET, stamps.OPTION, b"short")]) is None


def test_systems_without_kernel_stamps_are_told_apart(monkeypatch):
    with socket.socket() as sock:
        assert stamps.ask(sock) == sys.platform.startswith("linux")
        monkeypatch.setattr(sys, "platform", "darwin")
        assert not stamps.ask(sock)


def test_lag_quantiles():
    lag, rng = Lag(), np.random.default_rng(3)
    values = np.exp(rng.normal(11, 2, 20_000)).astype(np.int64)
    for value in values:
        lag.add(int(value))
    for q in (0.01, 0.5, 0.99):
        assert lag.quantile_ns(q) == pytest.approx(np.quantile(values, q), rel=0.07)
    assert lag.quantile_ns(1.0) == lag.max_ns == values.max()
    assert lag.above(100_000) == pytest.approx((values > 100_000).mean(), abs=0.02)
    assert lag.count == 20_000


def test_lag_takes_any_delay():
    lag = Lag()
    assert (lag.quantile_ns(0.5), lag.above(0), lag.to_dict()["reads"]) == (0, 0.0, 0)
    for value in (-5, 0, 1, 2**62, 2**70):
        lag.add(value)
    assert (lag.count, lag.max_ns) == (5, 2**70)
    assert lag.quantile_ns(0.0) == 0

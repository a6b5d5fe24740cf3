"""Waiting for absolute times, and the ledger of what was sent."""

import asyncio
import math
import time

import numpy as np

from specsonar.sources.serve import ledger
from specsonar.sources.serve.pacing import new_loop, until


def run(work):
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(work)


def test_never_early_and_in_the_order_of_the_times():
    """How late is for the benchmark; a timer that fires early would break the order of events."""
    start = time.monotonic_ns()
    order = []

    async def one(after_ns):
        await until(start + after_ns)
        assert time.monotonic_ns() >= start + after_ns
        order.append(after_ns)

    async def several():
        await asyncio.gather(*(one(after) for after in (30_000_000, 1_000_000, 2_300_000, 20_000_001)))

    run(several())
    assert order == sorted(order)


def test_a_time_that_has_passed_takes_no_turn():
    async def several():
        seen = []
        other = asyncio.ensure_future(asyncio.sleep(0))
        other.add_done_callback(lambda _: seen.append("other"))
        await until(time.monotonic_ns() - 1)
        seen.append("this")
        await other
        await asyncio.sleep(0)
        return seen

    assert run(several()) == ["this", "other"]


def test_a_wait_can_be_broken_off():
    async def broken():
        waiting = asyncio.ensure_future(until(time.monotonic_ns() + 10**15))
        await asyncio.sleep(0)
        waiting.cancel()
        return await asyncio.gather(waiting, return_exceptions=True)

    assert isinstance(run(broken())[0], asyncio.CancelledError)


def test_the_loop_still_hears_sockets_and_other_threads():
    async def pipe():
        server = await asyncio.start_server(lambda r, w: w.write(b"hello") or w.close(), "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            text = await reader.read()
            writer.close()
            await writer.wait_closed()
        return text, await asyncio.to_thread(lambda: "there")

    assert run(pipe()) == (b"hello", "there")


def test_summary_of_delays():
    late = [np.arange(0, 1000, dtype=np.int64) * 1000, np.empty(0, np.int64)]
    assert ledger.summary(late) == (1000, 499.5, 989.01, 999.0)
    nothing = ledger.summary([])
    assert nothing.events == 0 and math.isnan(nothing.median_us)

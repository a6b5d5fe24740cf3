"""Fleets of simulated services: three days, and on the third one a draft that is accepted less often."""

import datetime
from dataclasses import replace

import numpy as np

from specsonar.sources.simulate import simulate
from specsonar.sources.worlds import WORLDS

NOON_NS = int(datetime.datetime(2026, 11, 1, 12, tzinfo=datetime.UTC).timestamp()) * 10**9
DAY_NS = 86_400 * 10**9
DAYS = ("2026-11-01", "2026-11-02", "2026-11-03")


def streams_of(world, count, *, seed, day=0, tokens=300, **knobs):
    """Streams that were asked for a second apart, on the clock of the wall."""
    trace = simulate(replace(WORLDS[world].service, **knobs), tokens=tokens, streams=count, seed=seed)
    moved = []
    for k, one in enumerate(trace.without_truth().streams):
        by = NOON_NS + day * DAY_NS + k * 10**9 - one.start_ns
        moved.append(replace(one, name=f"{seed}-{k}", t_ns=one.t_ns + by, start_ns=one.start_ns + by))
    return moved


def table(streams, *, model="a", mixed=False, **extra):
    """The rows of an Arrow table; `mixed` in the order in which the events came."""
    import pyarrow as pa

    sizes = [len(one) for one in streams]
    columns = {
        "stream": pa.array(np.repeat([one.name for one in streams], sizes)),
        "t_ns": np.concatenate([one.t_ns for one in streams]),
        "tokens": np.concatenate([one.tokens for one in streams]),
        "start_ns": np.repeat([one.start_ns for one in streams], sizes),
        "model": pa.array([model] * sum(sizes)),
        **{name: pa.array([value] * sum(sizes)) for name, value in extra.items()},
    }
    made = pa.table(columns)
    return made.take(np.argsort(columns["t_ns"], kind="stable")) if mixed else made


def write(path, streams, *, rows=1 << 20, **options):
    """A Parquet file of `rows` rows a row group."""
    import pyarrow.parquet as pq

    pq.write_table(table(streams, **options), path, row_group_size=rows)

"""What leaks at two strengths of a random delay, with bounds from an error rate; and the same on every executor.

With n trials and a true share p, fewer than `least(n, p)` or more than `most(n, p)` happen once in 10,000 runs.
"""

from scipy.stats import binom

from specsonar.defend import defend
from specsonar.defended import BASELINE, INFORMED, OURS

RARE = 1e-4
N = 24


def least(n, rate):
    return int(binom.ppf(RARE, n, rate))


def most(n, rate):
    return int(binom.isf(RARE, n, rate))


def test_a_tenth_of_a_step_hides_nothing_and_a_whole_step_the_drafts():
    found = defend(policies=["scatter=uniform:4ms", "scatter=uniform:40ms"], tokens=[600], reps=N, seed=11)
    weak, strong = found.rows
    assert weak.failed == strong.failed == 0
    assert weak.by(OURS).speculative.count >= least(N, 0.97)
    assert weak.by(OURS).max_burst.count >= least(N, 0.95)
    assert weak.by(OURS).falsely.count <= most(N, 0.02)
    assert strong.by(OURS).speculative.count <= most(N, 0.05)
    assert strong.by(OURS).max_burst.count <= most(N, 0.05)
    assert strong.by(BASELINE).max_burst.count <= most(N, 0.05)
    # the bounds tell the two apart: what hides at a whole step would be noticed if a fifth of it leaked
    assert binom.cdf(most(N, 0.05), N, 0.5) < 0.05


def test_a_queue_hides_less_than_places_of_the_same_mean():
    """Both delay by .4 steps; events that wait for each other keep their bursts together."""
    found = defend(policies=["delay=uniform:16ms", "scatter=uniform:16ms"], tokens=[600], reps=12, seed=12)
    queue, places = found.rows
    assert queue.by(OURS).max_burst.count >= least(12, 0.9)
    assert queue.price.mean_ms > 1.2 * places.price.mean_ms


def test_one_who_knows_the_policy_learns_what_the_others_do_not():
    found = defend(policies=["split", "batch=100ms"], tokens=[600], reps=12, seed=13)
    split, batch = found.rows
    assert split.by(OURS).speculative.count <= most(12, 0.05)
    assert split.by(INFORMED).max_burst.count >= least(12, 0.95)
    assert batch.by(INFORMED).speculative.count >= least(12, 0.97)
    assert batch.by(INFORMED).falsely.count <= most(12, 0.02)


def test_rows_do_not_depend_on_where_they_were_computed():
    asked = {"policies": ["none", "scatter=uniform:10ms"], "tokens": [200], "reps": 3, "seed": 1}
    assert defend(**asked, jobs=2).to_dict() == defend(**asked, executor="serial").to_dict()

#!/usr/bin/env python3
"""Forecasts by TBATS of series with a daily and a weekly season, for the test that holds Levee's forecasts against them.

Makes series of hourly counts (fixed seeds), gives TBATS all but the last two days of each, and writes both the series and the
forecasts of those two days. Levee's test reads what this wrote and needs no Python.

    python3 -m venv venv && venv/bin/pip install tbats==1.2.0 numpy==2.4.6
    venv/bin/python bench/tbats/compare.py crates/levee-anycast/tests/data/tbats.csv.gz

Columns: series, hour (from the start, a Monday), truth (the mean without noise and outliers), count (what was seen), tbats (its forecast; empty in the history). Takes about half a minute a series on one core.
"""

import csv
import gzip
import io
import multiprocessing
import sys
import time

import numpy as np
from tbats import TBATS

HELD_OUT = 48
DAY = 24
WEEK = 168


def daily(t, phase=0.0):
    """A day with a long high and a short low, as of a resolver's queries."""
    x = 2 * np.pi * (t + phase) / DAY
    return np.sin(x) + 0.3 * np.sin(2 * x + 0.7) + 0.1 * np.cos(3 * x)


def office(t):
    """High from 8 to 18 on working days, with edges of two hours."""
    hour = t % DAY
    day = (t // DAY) % 7
    edge = np.clip((hour - 7) / 2, 0, 1) * np.clip((19 - hour) / 2, 0, 1)
    return np.where(day < 5, edge, 0.25 * edge)


def weekly(t):
    """Weekends are low, with an edge of six hours."""
    into = (t % WEEK) / DAY
    return -np.clip((into - 5) * 4, 0, 1) * np.clip((7 - into) * 4, 0, 1)


def poisson(rng, mean, extra):
    """Counts with gamma noise of relative deviation `extra` under the Poisson's."""
    if extra > 0:
        mean = mean * rng.gamma(1 / extra**2, extra**2, len(mean))
    return rng.poisson(mean).astype(float)


def series():
    """Name, mean, counts, of each."""
    def make(name, weeks, mean, extra, seed, spoil=None):
        t = np.arange(weeks * WEEK + HELD_OUT, dtype=float)
        truth = mean(t)
        rng = np.random.default_rng(seed)
        counts = poisson(rng, truth, extra)
        if spoil:
            spoil(rng, counts)
        return name, truth, counts

    def outliers(rng, counts):
        places = rng.choice(len(counts) - HELD_OUT, 12, replace=False)
        counts[places] *= rng.choice([0.1, 4.0], 12)

    base = 150_000
    yield make("smooth", 3, lambda t: base * (1 + 0.3 * daily(t) + 0.12 * weekly(t)), 0.02, 1)
    yield make("noisy", 3, lambda t: base * (1 + 0.3 * daily(t) + 0.12 * weekly(t)), 0.10, 2)
    yield make("trend", 4, lambda t: base * (1 + 0.0004 * t) * (1 + 0.25 * daily(t) + 0.1 * weekly(t)), 0.03, 3)
    yield make("outliers", 3, lambda t: base * (1 + 0.3 * daily(t) + 0.12 * weekly(t)), 0.03, 4, outliers)
    yield make("office", 3, lambda t: base * (0.4 + office(t)), 0.03, 5)
    yield make("few", 3, lambda t: 60 * (1 + 0.4 * daily(t) + 0.2 * weekly(t)), 0.0, 6)
    yield make("daily", 2, lambda t: base * (1 + 0.4 * daily(t, 5.0)), 0.03, 7)
    yield make("level", 3, lambda t: base * np.where(t < 400, 1.0, 1.4) * (1 + 0.3 * daily(t) + 0.1 * weekly(t)), 0.03, 8)


def fit(item):
    name, truth, counts = item
    began = time.process_time()
    # No Box-Cox and no ARMA errors: they take ten times as long to search, and the noise here is white. TBATS still searches
    # over trend, damping and the harmonics of both seasons, which is what is compared.
    model = TBATS(seasonal_periods=[DAY, WEEK], use_box_cox=False, use_arma_errors=False, n_jobs=1).fit(counts[:-HELD_OUT])
    forecast = model.forecast(steps=HELD_OUT)
    print(f"{name}: {time.process_time() - began:.1f} s of processor time", file=sys.stderr, flush=True)
    return name, truth, counts, forecast


def main():
    with multiprocessing.Pool(1) as pool:
        done = pool.map(fit, series(), chunksize=1)
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(["series", "hour", "truth", "count", "tbats"])
    for name, truth, counts, forecast in done:
        start = len(counts) - HELD_OUT
        for hour, count in enumerate(counts):
            tbats = f"{forecast[hour - start]:.2f}" if hour >= start else ""
            out.writerow([name, hour, f"{truth[hour]:.2f}", int(count), tbats])
    with open(sys.argv[1], "wb") as file:
        # No time in the header: the same input gives the same bytes.
        with gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename="") as zipped:
            zipped.write(text.getvalue().encode())


if __name__ == "__main__":
    main()

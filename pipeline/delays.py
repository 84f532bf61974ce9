"""Forwarding delays as a histogram: each bucket is 5% wider than the one before, so that a percentile is right to 5%.

Histograms of two steps add up, which percentiles do not: that is why they are what is stored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

GROWTH = math.log(1.05)


def bucket(delay_ms: int) -> int:
    """The bucket of a delay. Clocks of several machines differ a little: nothing came before it was sent."""
    return int(math.log(max(delay_ms, 0) + 1) / GROWTH)


def bucket_column(name: str) -> Column:
    """bucket() of a column, on executors."""
    from pyspark.sql import functions as f

    return f.floor(f.log(f.greatest(f.col(name), f.lit(0)) + 1) / GROWTH).cast("int")


def delay_ms(number: int) -> float:
    """The middle of a bucket."""
    return math.exp((number + 0.5) * GROWTH) - 1


def percentile(histogram: Mapping[int, int], part: float) -> float | None:
    """The delay in ms that this part (0 to 1) of the records did not exceed; None where there are no records."""
    left = math.ceil(sum(histogram.values()) * part)
    for number in sorted(histogram):
        left -= histogram[number]
        if left <= 0:
            return delay_ms(number)
    return None

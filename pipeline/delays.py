"""Histograms of forwarding delays. Each bucket is 5 % wider than the bucket before, so percentiles are accurate to 5 %.

The tables store histograms because histograms of two steps can be added. Percentiles cannot.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

GROWTH = math.log(1.05)


def bucket(delay_ms: int) -> int:
    """Returns the bucket of a delay. A negative delay counts as 0, because the clocks of machines differ a little."""
    return int(math.log(max(delay_ms, 0) + 1) / GROWTH)


def bucket_column(name: str) -> Column:
    """Returns bucket() of a column as a Spark expression, which executors evaluate."""
    from pyspark.sql import functions as f

    return f.floor(f.log(f.greatest(f.col(name), f.lit(0)) + 1) / GROWTH).cast("int")


def delay_ms(number: int) -> float:
    """Returns the delay in ms at the middle of a bucket."""
    return math.exp((number + 0.5) * GROWTH) - 1


def percentile(histogram: Mapping[int, int], part: float) -> float | None:
    """Returns the delay in ms that the share `part` (0 to 1) of the records did not exceed. None if the histogram is empty."""
    left = math.ceil(sum(histogram.values()) * part)
    for number in sorted(histogram):
        left -= histogram[number]
        if left <= 0:
            return delay_ms(number)
    return None

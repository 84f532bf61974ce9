import time
from typing import Any

from topics_client.django import on_job, on_topic

from shop.models import Seen

failed: set[int] = set()


@on_topic("numbers", group="tally", on_loss=lambda tombstone: Seen.objects.create(what="lost", number=tombstone.gap_to))
def tally(record: Any) -> None:
    Seen.objects.create(what="record", number=record.data)
    if record.data % 40 == 7 and record.data not in failed:
        failed.add(record.data)
        raise ValueError("once")
    time.sleep(0.002)


@on_job("jobs", concurrency=2, lease_ms=2000)
def work(job: Any) -> None:
    Seen.objects.create(what="job", number=job.data)
    if job.data == 3 and job.deliveries == 1:
        raise ValueError("once")
    time.sleep(0.002)

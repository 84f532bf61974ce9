"""A consumer that counts each order exactly once: its rows and its position in the topic are one commit."""

import time

from django.core.management.base import BaseCommand
from django.db import connection, transaction

from ...models import Day


class Command(BaseCommand):
    help = "Counts the orders of each day, until it is stopped."

    def handle(self, **options: object) -> None:
        while True:
            if not count_next():
                time.sleep(0.2)


@transaction.atomic
def count_next() -> int:
    """Counts the next records of the topic, and returns how many rows it has read.

    If this process is killed anywhere in here, PostgreSQL rolls back all of it. If two processes count the same records,
    topics.commit_cursor refuses the second one, which rolls back, too.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT topics.read_cursor('orders', 'tally')")
        (position,) = cursor.fetchone()
        cursor.execute("SELECT seq, data, reason FROM topics.read('orders', %s, 100)", [position])
        rows = cursor.fetchall()
        for order in [data for _, data, reason in rows if reason is None]:  # a reason: these records are lost
            day, _ = Day.objects.get_or_create(day=order["day"])
            day.orders += 1
            day.cents += order["cents"]
            day.save()
        if rows:
            cursor.execute("SELECT topics.commit_cursor('orders', 'tally', %s, %s)", [rows[-1][0], position])
    return len(rows)

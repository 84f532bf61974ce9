"""A worker of the queue `mails`. Any number of them share its jobs."""

import os
import socket
import time
from typing import Any

from django.core.management.base import BaseCommand
from django.db import connection, transaction

from ...models import Order

NODE = f"{socket.gethostname()}-{os.getpid()}"  # no other worker has this name
CLAIM = "SELECT seq, data FROM topics.claim('mails', %s, 10, lease_ms => 10000)"
ACK = "SELECT settled FROM topics.ack('mails', %s, seqs => %s)"


class Command(BaseCommand):
    help = "Confirms orders by mail, until it is stopped."

    def handle(self, **options: object) -> None:
        while True:
            with connection.cursor() as cursor:
                cursor.execute(CLAIM, [NODE])
                jobs = cursor.fetchall()
            for seq, job in jobs:
                confirm(seq, job)
            if not jobs:
                time.sleep(0.2)


def confirm(seq: int, job: dict[str, Any]) -> None:
    """Sends the mail, and then ends the job together with the change of the order.

    A worker that is killed in between sends the mail twice, because no transaction holds a mail. The order changes once.
    """
    print(f"To {job['to']}: thank you for order {job['order']}.", flush=True)
    with transaction.atomic(), connection.cursor() as cursor:
        Order.objects.filter(id=job["order"]).update(is_confirmed=True)
        cursor.execute(ACK, [NODE, [seq]])
        if cursor.fetchone() != (True,):
            transaction.set_rollback(True)  # the lease has ended, and another worker has the job

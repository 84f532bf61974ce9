"""A model that tells a topic of each change of its rows, and what the handlers of this project last did."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models, transaction

from topics_client.django.emitting import emit
from topics_client.django.places import database


class EmitsChanges(models.Model):
    """Emits {"op": "created" | "updated" | "deleted", "data": {…}} with the primary key as tag, in the transaction of the change.

    `bulk_create`, `QuerySet.update` and raw SQL tell nothing. If they must, let PostgreSQL capture the table (docs/sql.md).
    """

    topic: ClassVar[str]

    class Meta:
        abstract = True

    def save(self, *args: Any, **options: Any) -> None:
        op = "created" if self._state.adding else "updated"
        with transaction.atomic(using=database()):
            super().save(*args, **options)
            emit(self.topic, {"op": op, "data": self.event()}, tag=str(self.pk))

    def delete(self, *args: Any, **options: Any) -> tuple[int, dict[str, int]]:
        tag, data = str(self.pk), self.event()
        with transaction.atomic(using=database()):
            done: tuple[int, dict[str, int]] = super().delete(*args, **options)
            emit(self.topic, {"op": "deleted", "data": data}, tag=tag)
        return done

    def event(self) -> dict[str, Any]:
        """Returns the data of an event: by default all columns of the row."""
        fields = self._meta.concrete_fields
        return {field.attname: field.get_prep_value(field.value_from_object(self)) for field in fields}


class HandlerState(models.Model):
    """When `topics_consume` last ran a handler, and when and how it last failed. `name`: TOPIC:GROUP or QUEUE."""

    name = models.CharField(max_length=511, primary_key=True)
    seen_at = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(null=True)
    error = models.TextField(default="")

    class Meta:
        verbose_name = "handler"
        default_permissions = ("view",)

    def __str__(self) -> str:
        return str(self.name)

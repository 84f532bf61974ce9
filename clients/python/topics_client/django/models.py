"""A model that tells a topic of each change of its rows, and what the handlers of this project last did."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models, router, transaction

from topics_client.django.emitting import emit
from topics_client.django.places import connection


class EmitsChanges(models.Model):
    """Emits {"op": "created" | "updated" | "deleted", "data": {…}} with the primary key as tag, in the transaction of the change.

    Deletes of a QuerySet and by a cascade are told, too. `bulk_create`, `QuerySet.update` and raw SQL tell nothing. If they must,
    let PostgreSQL capture the table (docs/sql.md). A row in another database than topics is refused.
    """

    topic: ClassVar[str]

    class Meta:
        abstract = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        models.signals.post_delete.connect(emit_deleted, sender=cls)

    def save(self, *args: Any, using: str | None = None, **options: Any) -> None:
        op = "created" if self._state.adding else "updated"
        using = with_topics(using or router.db_for_write(type(self), instance=self))
        with transaction.atomic(using=using):
            super().save(*args, using=using, **options)
            emit(self.topic, {"op": op, "data": self.event()}, tag=str(self.pk))

    def event(self) -> dict[str, Any]:
        """Returns the data of an event: by default all columns of the row."""
        fields = self._meta.concrete_fields
        return {field.attname: field.get_prep_value(field.value_from_object(self)) for field in fields}


def emit_deleted(sender: Any, instance: EmitsChanges, using: str, **more: Any) -> None:
    """Runs in the transaction that deletes the row."""
    with_topics(using)
    emit(instance.topic, {"op": "deleted", "data": instance.event()}, tag=str(instance.pk))


def with_topics(using: str) -> str:
    """Returns the alias of a database that has topics. Raises RuntimeError for another one, which has transactions of its own."""
    if using != (topics := connection().alias):
        raise RuntimeError(
            f"the row is in the database {using!r}, and its event would be in {topics!r}: set TOPICS_DATABASE"
        )
    return using


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

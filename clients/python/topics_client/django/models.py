"""A model that tells a topic of each change of its rows, and what the handlers of this project last did."""

from __future__ import annotations

import copy
from collections.abc import Collection
from typing import Any, ClassVar

from django.db import models, router, transaction

from topics_client.django.emitting import emit
from topics_client.django.places import connection

DELETED = "topics_deleted"  # of an instance that is deleted: the data of its event, None without one


class EmitsChanges(models.Model):
    """Emits {"op": "created" | "updated" | "deleted", "data": {…}} with the primary key as tag, in the transaction of the change.

    Deletes of a QuerySet and by a cascade are told, too. With multi-table inheritance, a child and its rows in the tables of
    its parents are one event. Fixtures, `bulk_create`, `QuerySet.update` and raw SQL tell nothing. If they must, let PostgreSQL
    capture the table (docs/sql.md). A row in another database than topics is refused.
    """

    topic: ClassVar[str]

    class Meta:
        abstract = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        models.signals.post_save.connect(emit_saved, sender=cls)
        models.signals.pre_delete.connect(note_deleted, sender=cls)
        models.signals.post_delete.connect(emit_deleted, sender=cls)

    def save_base(self, *args: Any, using: str | None = None, **options: Any) -> None:
        """Saves the row and its event as one. Each save comes here, once Django knows the database."""
        using = with_topics(using or router.db_for_write(type(self), instance=self))
        with transaction.atomic(using=using):
            super().save_base(*args, using=using, **options)

    def event(self) -> dict[str, Any]:
        """Returns the data of an event: by default all columns of the row.

        The instance has the values of its row. It is a copy of the one that you saved or deleted, if that one can have others.
        """
        fields = self._meta.concrete_fields
        return {field.attname: field.get_prep_value(field.value_from_object(self)) for field in fields}


def emit_saved(
    sender: Any,
    instance: EmitsChanges,
    created: bool,
    update_fields: Collection[str] | None,
    raw: bool,
    using: str,
    **more: Any,
) -> None:
    """Runs in the transaction that saves the row. `raw`: the row comes from a fixture. It can refer to later rows."""
    if not raw:
        data = as_stored(instance, update_fields, using).event()
        emit(instance.topic, {"op": "created" if created else "updated", "data": data}, tag=str(instance.pk))


def note_deleted(sender: Any, instance: EmitsChanges, using: str, origin: Any = None, **more: Any) -> None:
    """Notes the event of a delete while the row can still be read. The event is emitted once the delete has the lock of the row.

    Only the instance that the application deletes itself can differ from its row, because Django has just read all others.
    """
    with_topics(using)
    try:
        stored = as_stored(instance, (), using) if origin is instance else instance
    except sender.DoesNotExist:  # deleted already
        instance.__dict__[DELETED] = None
    else:
        instance.__dict__[DELETED] = None if is_part(instance, using) else stored.event()


def emit_deleted(sender: Any, instance: EmitsChanges, **more: Any) -> None:
    """Runs in the transaction that deletes the row."""
    if (data := instance.__dict__.pop(DELETED)) is not None:
        emit(instance.topic, {"op": "deleted", "data": data}, tag=str(instance.pk))


def as_stored(instance: EmitsChanges, written: Collection[str] | None, using: str) -> EmitsChanges:
    """Returns the instance if it has the values of its row, otherwise a copy of it that has.

    `written`: the fields that were just written, by their names or columns (None: all). The others are read, and those that
    PostgreSQL computes. Raises DoesNotExist if the row to read is gone.
    """

    def can_differ(field: Any) -> bool:
        is_computed = getattr(field, "generated", False)  # since Django 5.0
        is_expression = hasattr(instance.__dict__.get(field.attname), "resolve_expression")
        is_left_out = written is not None and field.name not in written and field.attname not in written
        return is_computed or is_expression or is_left_out

    unsure = [field.attname for field in instance._meta.concrete_fields if not field.primary_key and can_differ(field)]
    if not unsure:
        return instance
    stored = copy.copy(instance)
    stored.refresh_from_db(using=using, fields=unsure)
    return stored


def is_part(instance: EmitsChanges, using: str) -> bool:
    """Returns whether the row belongs to a row of a child's table, whose model tells of both."""
    return any(
        link.related_model._base_manager.using(using).filter(**{link.field.name: instance.pk}).exists()
        for link in instance._meta.related_objects
        if link.parent_link
    )


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

from typing import Any

from django import forms
from django.db import connection, transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_GET, require_POST
from topics_client.sql import emit

from .models import Day, Order


class OrderForm(forms.ModelForm):
    class Meta:
        model = Order
        fields = ("mail", "cents")


@require_POST
def place(request: HttpRequest) -> JsonResponse:
    """Places an order. The row, its event and the job to send a mail are one commit: all of them exist, or none."""
    form = OrderForm(request.POST)
    if not form.is_valid():
        return JsonResponse(form.errors, status=400)
    with transaction.atomic():
        order = form.save()
        emit(connection, "orders", event(order), tag=f"order:{order.id}")
        emit(connection, "mails", {"order": order.id, "to": order.mail})
    return JsonResponse({"id": order.id}, status=201)


def event(order: Order) -> dict[str, Any]:
    return {"id": order.id, "day": order.placed_on.isoformat(), "cents": order.cents}


@require_GET
def totals(request: HttpRequest) -> JsonResponse:
    """Returns the figures of the orders, and the results of the consumer and the worker."""
    counts = {"placed": Order.objects.count(), "confirmed": Order.objects.filter(is_confirmed=True).count()}
    return JsonResponse(counts | {"days": list(Day.objects.order_by("day").values())})

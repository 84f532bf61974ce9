"""Serializers for the forms of the browsable API, made from the shapes of bodies.

A serializer turns a form into JSON. The endpoint then parses the JSON, so a form is checked like any other body.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec
from rest_framework import serializers

from wire.documents.openapi import REFERENCE, describe, without_null
from wire.endpoint import Endpoint


class JSONText(serializers.CharField):
    """JSON, kept as it was typed. DRF's JSONField would change the spelling of numbers and lose repeated names."""

    def to_internal_value(self, data: Any) -> msgspec.Raw:
        text = super().to_internal_value(data)
        try:
            msgspec.json.decode(text, type=msgspec.Raw)
        except msgspec.DecodeError as error:
            raise serializers.ValidationError(f"invalid JSON: {error}") from error
        return msgspec.Raw(text.encode())

    def to_representation(self, value: Any) -> str:
        return bytes(value).decode() if isinstance(value, msgspec.Raw) else str(value)


@cache
def form_of(endpoint: Endpoint) -> type[serializers.Serializer]:
    """Returns the serializer of an endpoint's body, filled with an example. A call without a body has no fields."""
    fields: dict[str, Any] = {}
    if endpoint.body is not None:
        _, schemas = msgspec.json.schema_components([endpoint.body], ref_template=REFERENCE)
        properties = describe(endpoint.body, schemas[endpoint.body.__name__])["properties"]
        for name, schema in properties.items():
            fields[name] = field_of(name, without_null(schema), example_of(endpoint).get(name))
    return type("Form", (serializers.Serializer,), fields)


def example_of(endpoint: Endpoint) -> dict[str, Any]:
    """Returns the body that a form starts with. A form that deletes or changes a config starts empty: a click does no harm."""
    return endpoint.example or {} if endpoint.scope in ("read", "write") else {}


def field_of(name: str, schema: Mapping[str, Any], example: Any) -> serializers.Field:
    """Returns the form's field for a field of a shape. An empty field is left out of the body."""
    told: dict[str, Any] = {"required": False, "label": name, "help_text": schema.get("description", "")}
    match schema:
        case {"enum": words}:
            return serializers.ChoiceField(words, allow_blank=True, initial=example, **told)
        case {"type": "boolean"}:
            words = [(True, "true"), (False, "false")]
            return serializers.ChoiceField(words, allow_blank=True, initial=example, **told)
        case {"type": "integer"}:
            bounds = {"min_value": schema.get("minimum"), "max_value": schema.get("maximum")}
            return serializers.IntegerField(allow_null=True, initial=example, **bounds, **told)
        case {"type": "string"}:
            return serializers.CharField(allow_blank=True, trim_whitespace=False, initial=example or "", **told)
    filled = "" if example is None else msgspec.json.format(msgspec.json.encode(example)).decode()
    told["help_text"] = f"JSON. {told['help_text']}"
    style = {"base_template": "textarea.html", "rows": 2 + filled.count("\n")}
    return JSONText(allow_blank=True, initial=filled, style=style, **told)


def body_of(form: serializers.Serializer) -> bytes:
    """Returns the JSON of a posted form. Raises ValidationError."""
    form.is_valid(raise_exception=True)
    return msgspec.json.encode({name: value for name, value in form.validated_data.items() if value not in (None, "")})

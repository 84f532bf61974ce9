"""Moves spans into the log's app, and adds facts about routers to the heads.

The log stores forwarded records as spans. So the model of spans moves here from the routers' app. The table keeps its name,
and permissions on the model stay. The migration routers 0004 fills the facts on the heads.
"""

import django.contrib.postgres.fields
from django.db import migrations, models

# Permissions belong to the content type. If a content type with the new name already exists, the old one has no use and stays.
RENAME = """
UPDATE django_content_type SET app_label = '{to}'
 WHERE app_label = '{of}' AND model = 'span'
   AND NOT EXISTS (SELECT FROM django_content_type WHERE app_label = '{to}' AND model = 'span')
"""

SPAN = migrations.CreateModel(
    name="Span",
    fields=[
        (
            "pk",
            models.CompositePrimaryKey(
                "topic_id", "last_seq", blank=True, editable=False, primary_key=True, serialize=False
            ),
        ),
        ("topic_id", models.BigIntegerField()),
        ("last_seq", models.BigIntegerField()),
        ("first_seq", models.BigIntegerField()),
        ("home_id", models.BigIntegerField(null=True)),
        ("home_first_seq", models.BigIntegerField()),
        ("home_last_seq", models.BigIntegerField()),
        ("ts", models.BigIntegerField()),
        ("shown", models.BooleanField(default=True)),
        ("keep_node", models.BooleanField(default=True)),
        ("keep_tag", models.BooleanField(default=True)),
        ("path", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
        ("stamp_router", models.TextField(db_collation="C", null=True)),
        ("stamp_source", models.TextField(null=True)),
        ("stamp_source_id", models.BigIntegerField(null=True)),
        ("stamp_first_seq", models.BigIntegerField(null=True)),
    ],
    options={
        "db_table": "routers_span",
        "indexes": [
            models.Index(fields=["home_id", "home_last_seq"], name="routers_span_by_home"),
            models.Index(fields=["home_id", "topic_id", "home_last_seq"], name="routers_span_by_home_in_topic"),
            models.Index(
                models.F("topic_id"),
                models.F("stamp_router"),
                models.F("stamp_source_id"),
                models.F("stamp_first_seq") + models.F("last_seq") - models.F("first_seq"),
                condition=models.Q(("stamp_router__isnull", False)),
                name="routers_span_by_stamp",
            ),
            models.Index(
                condition=models.Q(("home_id__isnull", True)),
                fields=["topic_id", "last_seq"],
                name="routers_span_lost",
            ),
        ],
    },
)


class Migration(migrations.Migration):
    dependencies = [("topics", "0006_audit"), ("contenttypes", "0002_remove_content_type_name")]

    operations = [
        *[
            migrations.AddField("topichead", name, models.BooleanField(default=False, db_default=False))
            for name in ("routed", "derived", "keeps_evidence")
        ],
        migrations.SeparateDatabaseAndState(state_operations=[SPAN]),
        migrations.RunSQL(RENAME.format(of="routers", to="topics"), RENAME.format(of="topics", to="routers")),
    ]

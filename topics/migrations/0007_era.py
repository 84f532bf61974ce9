"""The era of a head, and a primary key by which a look-up finds the newest version of a head first."""

from django.db import migrations, models

BY_TOPIC = "ALTER TABLE topics_topichead DROP CONSTRAINT topics_topichead_pkey, ADD PRIMARY KEY (topic_id)"
BY_ERA = "ALTER TABLE topics_topichead DROP CONSTRAINT topics_topichead_pkey, ADD PRIMARY KEY (topic_id, era)"


class Migration(migrations.Migration):
    dependencies = [
        ("topics", "0006_objects"),
    ]

    operations = [
        migrations.AddField(
            model_name="topichead",
            name="era",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.RunSQL(BY_ERA, BY_TOPIC),
    ]

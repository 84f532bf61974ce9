"""Creates the table of mirrors."""

from django.db import migrations

SITE = """
CREATE TABLE mirrors_site (
    topic_id   bigint  NOT NULL REFERENCES topics_topic ON DELETE CASCADE,
    site       text    COLLATE "C" NOT NULL,
    is_here    boolean NOT NULL,
    origin_seq bigint  NOT NULL,
    origin_ts  bigint,
    read_seq   bigint,
    lost       bigint  NOT NULL,
    lost_ts    bigint,
    updated_ts bigint  NOT NULL,
    PRIMARY KEY (topic_id, site)
) WITH (fillfactor = 50);
"""


class Migration(migrations.Migration):
    initial = True

    dependencies = [("topics", "0001_baseline")]

    operations = [
        migrations.RunSQL(SITE, "DROP TABLE mirrors_site"),
    ]

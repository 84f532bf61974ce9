"""The heads say what the log has to know of routers, and the log has the spans (topics 0007).

From here on whoever changes routers keeps the facts true (routers/routers.py, write_on_heads). Processes of the version before
do not: stop them before this runs, or what they make in between is forwarded by the sweep only.
"""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent.parent / "sql"

# Nobody changes routers meanwhile (7002). Heads in order of id, as everybody takes them.
FILL = """
SELECT pg_advisory_xact_lock(7002);
SELECT FROM topics_topichead
 WHERE topic_id IN (SELECT source_id FROM routers_router UNION SELECT dest_id FROM routers_router)
 ORDER BY topic_id FOR UPDATE;
UPDATE topics_topichead SET routed = true WHERE topic_id IN (SELECT source_id FROM routers_router);
UPDATE topics_topichead SET derived = true WHERE topic_id IN (SELECT dest_id FROM routers_router);
UPDATE topics_topichead SET keeps_evidence = true WHERE topic_id IN (SELECT dest_id FROM routers_router WHERE cyclic);
"""


class Migration(migrations.Migration):
    dependencies = [("routers", "0003_reserved_seqs"), ("topics", "0007_span")]

    operations = [
        migrations.SeparateDatabaseAndState(state_operations=[migrations.DeleteModel("Span")]),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),  # backwards, the columns go
        migrations.RunSQL((SQL / "routers_analyst.sql").read_text(), ""),  # the grant goes with the table
    ]

"""The heads store the facts about routers that the log needs, and the log has the spans (topics 0007).

From here on, all code that changes routers keeps these facts true (routers/routers.py, write_on_heads). Processes of the version
before do not. Stop them before this migration. Otherwise only the sweep forwards for routers that they create meanwhile.
"""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent.parent / "sql"

# Lock 7002 keeps others from changing routers meanwhile. Heads are locked in order of id, like everywhere.
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
        migrations.RunSQL(FILL, migrations.RunSQL.noop),  # nothing to undo: the columns are dropped
        migrations.RunSQL(
            (SQL / "routers_analyst.sql").read_text(), ""
        ),  # nothing to undo: the grant is dropped with the table
    ]

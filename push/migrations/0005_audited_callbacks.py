"""Removes credentials of callbacks from the audit log. Earlier versions wrote them there."""

from django.db import migrations


def hidden(column: str) -> migrations.RunSQL:
    """Replaces the text between :// and the last @ of the host by ***. The audit log is JSONB, which cannot contain NUL."""
    return migrations.RunSQL(
        f"""
        UPDATE topics_auditentry
           SET {column} = jsonb_set({column}, '{{callback}}',
                                    to_jsonb(regexp_replace({column} ->> 'callback', '://[^/]*@', '://***@')))
         WHERE kind = 'bus' AND {column} ->> 'callback' ~ '://[^/]*@'
        """,
        migrations.RunSQL.noop,
    )


class Migration(migrations.Migration):
    dependencies = [("push", "0004_token_identity"), ("topics", "0006_audit")]

    operations = [hidden("before"), hidden("after")]

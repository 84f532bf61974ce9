"""Earlier versions wrote the credentials of callbacks into the audit log. They are taken out."""

from django.db import migrations


def hidden(column: str) -> migrations.RunSQL:
    """Puts *** in place of what is between :// and the last @ of the host. The audit log is JSONB, which holds no NUL."""
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

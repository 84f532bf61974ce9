"""Every curl line of README.md, in order."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.shell import run
from tests.instances import ROOT, Instance

# An indented line that begins with curl, and what its backslashes carry on.
CURL = re.compile(r"^    (curl (?:.*\\\n)*.*)$", re.MULTILINE)


def test_every_curl_line_works_as_printed(server: Instance, tmp_path: Path) -> None:
    lines = CURL.findall((ROOT / "README.md").read_text())
    assert len(lines) >= 5
    run("curl -X DELETE $TOPICS/v0/topics/orders", server.url, tmp_path)
    script = "\n".join(lines).replace("localhost:4000", "$TOPICS").replace("http://$TOPICS", "$TOPICS")
    answers = run(script, server.url, tmp_path)
    assert [answer.status for answer in answers if answer.status >= 300] == []
    made, wrote, read, deleted, left = answers[:5]
    assert made.json["config"]["cap_records"] == 1_000_000
    assert wrote.json["seqs"] == [1, 2]
    assert [record["data"] for record in read.json["records"]] == [{"id": 1, "total": 19.90}, {"id": 2}]
    assert deleted.json["deleted"] == 1
    assert (left.json["count"], left.json["earliest_seq"], left.json["head_seq"]) == (1, 2, 2)

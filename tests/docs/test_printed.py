"""Every command that a page prints works as it is printed, in the page's order, on one running instance."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.printed import commands, is_chore, run_commands, text_of
from tests.docs.shell import free
from tests.instances import ROOT, Instance

pytestmark = pytest.mark.deep(62)


PAGES = sorted(str(page.relative_to(ROOT)) for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")))
# Pages that want a server with settings of their own, a Spark, or a PostgreSQL, and who runs what they print.
ELSEWHERE = {
    "docs/cli.md": "tests/shell/test_examples.py",
    "docs/tutorials/webhook.md": "tests/push/test_docs.py",
    "docs/webhooks.md": "tests/push/test_docs.py",
    "docs/gateway.md": "tests/gateway/test_docs.py",
    "docs/gateway-plugins.md": "tests/gateway/test_docs.py",
    "docs/pipeline.md": "tests/pipeline/test_docs.py",
    "docs/sql.md": "tests/docs/test_sql.py",
    "docs/guides/backup.md": "tests/docs/test_backup.py",
    "docs/guides/mirror.md": "tests/docs/test_mirror.py",
    "docs/guides/upgrading.md": "tests/docs/test_backup.py",
}
HERE = [page for page in PAGES if page not in ELSEWHERE and not all(map(is_chore, commands(page)))]
REFUSED = re.compile(r"# (\d{3}) (\w+)$", re.MULTILINE)  # what a command is printed to be refused with


@pytest.mark.parametrize("page", HERE)
def test_every_command_works_as_printed(page: str, server: Instance, tmp_path: Path) -> None:
    free(re.findall(r"[\w.:-]+", text_of(page)), server, tmp_path)
    answers = run_commands(page, server, tmp_path)
    refused = [(answer.status, answer.json["error"]["code"]) for answer in answers if answer.status >= 300]
    assert refused == [(int(status), code) for status, code in REFUSED.findall("\n".join(commands(page)))]
    if page == "README.md":
        made, wrote, read, deleted, left = answers[:5]
        assert made.json["config"]["cap_records"] == 1_000_000
        assert wrote.json["seqs"] == [1, 2]
        assert [record["data"] for record in read.json["records"]] == [{"id": 1, "total": 19.90}, {"id": 2}]
        assert deleted.json["deleted"] == 1
        assert (left.json["count"], left.json["earliest_seq"], left.json["head_seq"]) == (1, 2, 2)


@pytest.mark.parametrize(("page", "by"), ELSEWHERE.items())
def test_the_test_that_runs_it_is_there(page: str, by: str) -> None:
    assert (ROOT / by).exists()
    assert Path(page).name in (ROOT / by).read_text()


def test_every_chore_is_one_of_make() -> None:
    targets = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE))
    printed = {
        word for page in PAGES for word in re.findall(r"^    (?:[A-Z_]+=\S+ )*make (\S+)", text_of(page), re.MULTILINE)
    }
    assert printed - targets == set()
    assert {"run", "test"} <= printed

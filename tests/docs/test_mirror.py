"""docs/guides/mirror.md as it is printed, between two servers with keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.printed import commands, script_of
from tests.docs.shell import run
from tests.instances import start
from tests.shell.test_completion import program

pytestmark = pytest.mark.deep


__all__ = ["program"]  # a fixture
PAGE = "docs/guides/mirror.md"
SCOPES = "read+write+commit+admin"


def test_the_page_works_as_printed(program: dict[str, str], tmp_path: Path) -> None:
    with (
        start(TOPICS_API_KEYS=f"key-of-fra-0123456789:{SCOPES}") as fra,
        start(TOPICS_API_KEYS=f"key-of-iad-0123456789:{SCOPES}") as iad,
    ):
        printed = [each for each in commands(PAGE) if not each.startswith("topics: ")]
        script = script_of(printed).replace("https://fra.example", fra.url).replace("https://iad.example", iad.url)
        answers = run(script, fra.url, tmp_path, PATH=program["PATH"], TOPICS_DATA=program["TOPICS_DATA"])
    said = (tmp_path / "said").read_text()
    assert [answer.status for answer in answers] == [200] * 4
    (site,) = answers[0].json["sites"]
    assert (answers[0].json["here"], site["site"], site["origin_seq"]) == ("iad", "fra", 1)
    assert answers[2].json["head_seq"] == 120
    assert said.count('"Moin"') == said.count('"Howdy"') == 2
    assert "mirror:iad" in said

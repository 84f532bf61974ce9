"""Pages of the admin as people read them, and topics to show on them."""

import re

import msgspec

from base.clock import now_ms
from tests.scripts import append
from topics.append.records import Append, NewRecord, check_rows
from topics.models import Topic


def put(name: str, *data: str, tag: str | None = None) -> Topic:
    """Append these records; the topic."""
    wanted = Append([NewRecord(msgspec.Raw(each.encode()), tag) for each in data])
    append(name, wanted, check_rows(wanted), now_ms())
    return Topic.objects.select_related("head").get(name=name)


def rows(page: str) -> list[list[str]]:
    """The table of a list, cell by cell, without the boxes to tick."""
    table = page.partition('<table id="result_list">')[2].partition("</table>")[0]
    found = table.partition("<tbody>")[2].split("<tr>")[1:]
    cells = [[text(cell) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)] for row in found]
    return [row[1:] if row[0] == "" else row for row in cells]


def text(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def errors(page: str) -> str:
    """Returns the errors of the form."""
    return text(" ".join(re.findall(r'<ul class="errorlist[^>]*>(.*?)</ul>', page, re.DOTALL)))

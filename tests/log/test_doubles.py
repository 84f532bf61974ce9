"""Numbers beyond the range of a double: the functions in Python and in SQL find the same ones, at the same paths."""

from __future__ import annotations

import json
from math import isinf
from typing import Any

import pytest
from django.db import connection
from hypothesis import given, settings
from hypothesis import strategies as st

from base.doubles import MOST_PATH, overflow, overflows
from tests.examples import examples

# The first number that becomes infinity: half way between the largest double and 2^1024.
BOUND = 2**1024 - 2**970
ABOVE = [
    "1e309", "1E+309", "-1e309", "1.8e308", "1e400", "1e0400", "1e99999999999999999999", "0.001e+312", f"0.{'0' * 400}1e710",
    str(BOUND), f"-{BOUND}", f"{BOUND}.0", f"{BOUND}1", f"{BOUND}e0", f"{BOUND}00e-2", "9" * 309, "9" * 5000, str(2**1024),
    f"{str(BOUND)[0]}.{str(BOUND)[1:]}e308", "1.79769313486231580793728971405303415079934132710037826936173778980444968292764"
    "750946649017977587207096330286416692887910946555547851940402630657488671505820681908902000708383676273854845817711531764"
    "475730270069855571366959622842914819860834936475292719074168444365510704342711559699508093042880177904174497792e308",
]  # fmt: skip
WITHIN = [
    "0", "-0", "1", "1e308", "1.7976931348623157e308", "1e-400", "0e400", "0.0e99999999999999999999", "-0E+999", "1e00000307",
    "1e-99999999999999999999", str(BOUND - 1), f"{BOUND - 1}.9999", f"{BOUND - 1}99e-2", "9" * 308, f"{'9' * 308}.5",
    f"0.{'9' * 400}", f"{'9' * 400}e-92", "1" * 309 + "e-1", f"{'0.'}{'0' * 400}1e400",
]  # fmt: skip
OTHERS = ["true", "null", '""', '"1e400"', r'"\"1e400"', r'"\\"', '"[1e400,{"', f'"{"9" * 400}"']
KEYS = {
    '"a"': ".a", '"_b2"': "._b2", '"a key"': '["a key"]', '"2"': '["2"]', '"é"': '["é"]', r'"\""': r'["\""]', '""': '[""]',
    '"1e400"': '["1e400"]', '"]{"': '["]{"]',
}  # fmt: skip


def rendered(value: Any) -> tuple[str, list[str]]:
    """Returns a value as JSON, and the paths of its numbers beyond the range. An object is a list of pairs, in a tuple."""
    if isinstance(value, str):
        return value, [""] if value in ABOVE else []
    is_list = isinstance(value, list)
    texts, paths = [], []
    for place, each in enumerate(value):
        key, inner = ("", each) if is_list else each
        text, found = rendered(inner)
        texts.append(text if is_list else f"{key} :{text}")
        paths += [f"{f'[{place}]' if is_list else KEYS[key]}{path}" for path in found]
    return f"{'[' if is_list else '{'}{', '.join(texts)}{']' if is_list else '}'}", paths


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=4) | st.lists(st.tuples(st.sampled_from([*KEYS]), inner), max_size=4).map(tuple)


VALUES = st.recursive(st.sampled_from([*ABOVE, *WITHIN, *WITHIN, *OTHERS]), containers, max_leaves=12)


def in_sql(text: str) -> str | None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT json_overflow(%s)", [text])
        found: str | None = cursor.fetchone()[0]
        return found


@pytest.mark.parametrize("number", [*ABOVE, *WITHIN])
def test_the_lists_above_are_right(number: str) -> None:
    assert isinf(float(number)) is (number in ABOVE)


@pytest.mark.django_db
@settings(max_examples=examples(200))
@given(VALUES)
def test_the_first_such_number_is_found_with_its_path(value: Any) -> None:
    text, paths = rendered(value)
    json.loads(text, parse_int=len)  # Python limits the digits of an int
    first = paths[0] if paths else None
    assert overflows(text.encode()) is bool(paths)
    assert overflow(text.encode()) == first
    assert in_sql(text) == first


@pytest.mark.django_db
@pytest.mark.parametrize("number", [*ABOVE, *WITHIN])
def test_each_number_alone(number: str) -> None:
    found = "" if number in ABOVE else None
    assert overflow(number.encode()) == found
    assert in_sql(number) == found
    assert overflows(b"1," + number.encode() + b",null") is (number in ABOVE)


@pytest.mark.django_db
def test_a_path_of_long_keys_is_cut() -> None:
    long, longer = "x" * 250, "é" * 2000
    text = f'{{"{long}":{{"{longer}":1e400}}}}'
    path = overflow(text.encode())
    assert path == f'.{"x" * 250}["ééé…'
    assert len(path) == MOST_PATH + 1
    assert in_sql(text) == path

"""The packing of a picture's parts: nothing overlaps, and a picture of many parts has the shape of a screen."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from console.graph import layout, packing

SIZES = st.lists(st.tuples(st.floats(1, 900), st.floats(1, 900)), min_size=1, max_size=12)


@given(SIZES)
def test_no_part_overlaps_another(sizes: list[tuple[float, float]]) -> None:
    placed = [
        (x, y, x + width, y + height) for (x, y), (width, height) in zip(packing.places(sizes), sizes, strict=True)
    ]
    for place, (left, top, right, bottom) in enumerate(placed):
        assert left >= 0
        assert top >= 0
        for other_left, other_top, other_right, other_bottom in placed[:place]:
            assert right <= other_left or other_right <= left or bottom <= other_top or other_bottom <= top


def test_parts_are_what_edges_join() -> None:
    found = packing.parts("abcdef", [("a", "b"), ("c", "b"), ("e", "d")])
    assert len({found[id] for id in "abc"}) == 1
    assert found["d"] == found["e"] != found["a"]
    assert len(set(found.values())) == 3


def test_fifty_pairs_fill_a_screen_and_not_a_column() -> None:
    nodes = {str(place): (100.0, 38.0) for place in range(100)}
    edges = {str(place): (str(2 * place), str(2 * place + 1)) for place in range(50)}
    laid = layout.lay_out(layout.LayoutRequest(nodes, edges))
    assert 1 < laid.width / laid.height < 4
    for id, (tail, head) in edges.items():
        (x, y), *_, (to_x, to_y) = packing.points(laid.edges[id][0])
        # An edge begins and ends at its nodes, wherever its part was moved.
        assert abs(x - laid.nodes[tail][0] - 50) < 2
        assert abs(to_x - laid.nodes[head][0] + 50) < 2
        assert abs(y - laid.nodes[tail][1]) < 20
        assert abs(to_y - laid.nodes[head][1]) < 20
        assert 0 < x < to_x < laid.width

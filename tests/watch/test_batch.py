"""A stream leaves out records of its own nodes, and records before its seq, without a change to the text of the others."""

import json
import random

from contract.sse import identified
from shell.follower import events
from topics.read.diff import Window
from watch.batch import Batch, RecordEvents
from watch.frames import id_line

NODES = (None, "a", "b", "ä", '"')
DATA = ('{"a": 1}', "null", '"\\n, \\r"', '{"x":\n [1,\r\n2]\r}', "[ 1.50,\t2 ]", '"ö\\ud83d\\ude00"', "[]")


def written(seq: int, node: str | None, data: str) -> str:
    """Returns a record in the text of PostgreSQL."""
    of_node = "" if node is None else f'"$node":{json.dumps(node)},'
    return f'{{"$seq":{seq},"$ts":1,{of_node}"data":{data}}}'


def test_each_part_of_a_segment_is_the_text_of_its_records() -> None:
    pick = random.Random(1)
    for _ in range(300):
        parts, wanted, last = [], [], 0
        own = frozenset(node for node in NODES if node is not None and pick.random() < 0.4)
        for _ in range(pick.randint(1, 3)):
            dedupes = pick.random() < 0.8
            seqs = sorted(pick.sample(range(last + 1, last + 12), pick.randint(1, 8)))
            records = [(seq, pick.choice(NODES), pick.choice(DATA)) for seq in seqs]
            last = seqs[-1]
            segment = RecordEvents(",".join(written(*record) for record in records), dedupes)
            first = pick.choice((0, segment.after(pick.randint(seqs[0] - 1, last))))
            parts.append((segment, first))
            wanted += [record for record in records[first:] if not (dedupes and record[1] in own)]
        batch = Batch("t", Window(None, 1, last, last, 1, None, 0), 7, parts).without(own)
        assert batch.is_empty == (not wanted)
        if not wanted:
            continue
        ((_, shown),) = events(batch.record)
        text = ",".join(written(*record) for record in wanted).replace("\r\n", "\n").replace("\r", "\n")
        assert shown == f'{{"topic":"t","records":[{text}],"from_seq":7,"to_seq":{last},"head_seq":{last}}}'.encode()
        assert batch.message == identified(batch.record, id_line({"t": last}))

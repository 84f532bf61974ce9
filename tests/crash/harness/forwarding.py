"""The oracle's part about routers: what their rules make of the sources has to be in the dests, and nothing else.

A record says where it was written, so a dest's log falls apart into what each of its routers brought.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.crash.harness.evidence import Entry, Evidence, Seen
from tests.crash.harness.topology import Router, Topic, written

Contents = dict[str, dict[int, Seen]]
Fault = tuple[str, str]  # the dest, and what is wrong with it


def faults(evidence: Evidence, contents: Contents) -> Iterator[Fault]:
    for router in evidence.topology.routers:
        if router.source in evidence.logs and router.dest in evidence.logs:
            yield from wrong_copies(evidence, contents, router)
            if router.once:
                yield from wrong_stamps(evidence, contents, router)
    for name, log in evidence.logs.items():
        origins = evidence.topology.origins(name)
        for entry in log.records:
            if written(entry.data).topic not in origins:
                yield name, f"seq {entry.seq} came from {written(entry.data).topic}, and no router leads from there"


def wrong_copies(evidence: Evidence, contents: Contents, router: Router) -> Iterator[Fault]:
    """Compares the dest's records of this router with the records that it had to forward."""
    topics = evidence.topology.topics
    source, dest = topics[router.source], topics[router.dest]
    wanted = [entry.data for entry in evidence.logs[router.source].records if takes(router, entry.data)]
    came = brought(evidence, contents, router)
    if source.whole and source.durability != "ephemeral":
        yield from differences(router, dest, wanted, came)
        return
    # The source may have lost since what it had forwarded before.
    if absent := set(wanted) - set(came):
        yield dest.name, f"{router.name}: {len(absent)} records of {source.name} are not there, such as {min(absent)}"
    places = {seen.data: seq for seq, seen in contents[source.name].items()}
    order = [places.get(data, 0) for data in came]
    if order != sorted(order):
        first = next(place for place in range(1, len(order)) if order[place] < order[place - 1])
        yield dest.name, f"{router.name}: {came[first]} came after a later record of {source.name}"


def takes(router: Router, data: str) -> bool:
    """Whether the router forwards this record: it passes the filter, and does not come home."""
    record = written(data)
    return record.topic != router.dest and router.tag in ("", record.tag)


def brought(evidence: Evidence, contents: Contents, router: Router) -> list[str]:
    """What of the dest came by this router, in order; where a consumer deletes what it has read, also what it had read."""
    origins = evidence.topology.origins(router.source) - {router.dest}
    dest = evidence.topology.topics[router.dest]
    if dest.deleted:
        data = [contents[dest.name][seq].data for seq in sorted(contents[dest.name])]
        # What was read before a crash took it from the dest was forwarded again: the last time counts.
        data = list(reversed(dict.fromkeys(reversed(data))))
    else:
        data = [entry.data for entry in evidence.logs[dest.name].records]
    return [each for each in data if written(each).topic in origins]


def differences(router: Router, dest: Topic, wanted: list[str], came: list[str]) -> Iterator[Fault]:
    if dest.cap_records and dest.discard == "old":
        wanted = wanted[max(0, len(wanted) - dest.cap_records) :]
    if wanted == came:
        return
    where = f"{router.source} to {router.dest}"
    here, there = set(came), set(wanted)
    if absent := [data for data in wanted if data not in here]:
        yield dest.name, f"{where}: {len(absent)} of {len(wanted)} records did not come, such as {absent[0]}"
    if strangers := [data for data in came if data not in there]:
        yield dest.name, f"{where}: {len(strangers)} records that the source does not have, such as {strangers[0]}"
    if not absent and not strangers:
        what = "in another order" if len(wanted) == len(came) else f"{len(came) - len(wanted)} of them again"
        yield dest.name, f"{where}: the records came {what}"


def wrong_stamps(evidence: Evidence, contents: Contents, router: Router) -> Iterator[Fault]:
    """An exactly_once router says of each copy which seq of the source it is: that very record, and each once."""
    stamped = set[int]()
    for entry in evidence.logs[router.dest].records:
        stamp = stamp_of(entry)
        if stamp is None or stamp.get("router") != router.name:
            yield router.dest, f"seq {entry.seq} has no stamp of {router.name}"
            continue
        seq = stamp["source_seq"]
        original = contents[router.source].get(seq)
        if original is None or original.data != entry.data:
            yield router.dest, f"seq {entry.seq} is stamped as seq {seq} of {router.source}, which is {original}"
        if seq in stamped:
            yield router.dest, f"seq {seq} of {router.source} is there twice, again at {entry.seq}"
        stamped.add(seq)


def stamp_of(entry: Entry) -> dict[str, Any] | None:
    return (entry.meta or {}).get("_topics_router")

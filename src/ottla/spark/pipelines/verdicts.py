"""What a changed pipeline means for what its flows have written and counted so far. Pure.

A fingerprint is what a flow's checkpoint depends on: its sources in the order of the plan, what it keeps between
batches, its target and how that is written. It is kept beside the checkpoint. `kept`: the flow goes on where it was.
`needs refresh`: its checkpoint no longer fits, and `ottla pipeline refresh` begins anew. `refused`: neither will do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

NEW, KEPT, NEEDS_REFRESH, REFUSED = VERDICTS = ("new", "kept", "needs refresh", "refused")
LETTERS = "dead_letters"
"""The flow of rows that are put aside, which reads every source that has rules."""
VERSION = 1
MAX_SHOWN = 300
UNNAMED = "StreamingRelation"
"""In fingerprints of an earlier version, for a source without a name: its place gives no information."""
MERGE_FIELDS = (
    *("keys", "sequence_by", "deletes", "is_history", "is_replaced"),
    *("start_column", "end_column", "sequence_column"),
)
"""The keys that decide which row of a target a row replaces."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change, and its consequence."""

    verdict: str
    text: str


@dataclass(frozen=True, slots=True)
class FlowChanges:
    """The changes of a flow since it last ran."""

    flow: str
    changes: list[Change] = field(default_factory=list)
    is_new: bool = False

    @property
    def verdict(self) -> str:
        if self.is_new and not self.changes:
            return NEW
        return max((one.verdict for one in self.changes), key=VERDICTS.index, default=KEPT)

    @property
    def is_stopped(self) -> bool:
        """Whether the flow cannot run as it is."""
        return self.verdict in (NEEDS_REFRESH, REFUSED)

    @property
    def reasons(self) -> list[str]:
        return [one.text for one in self.changes if not self.is_stopped or one.verdict == self.verdict]


def compare(flow: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> FlowChanges:
    """The changes of one flow. `old` is the fingerprint beside its checkpoint."""
    found = [
        *_sources(old.get("sources") or [], new.get("sources") or []),
        *_state(old.get("stateful") or [], new.get("stateful") or [], old, new),
        *_target(old, new),
        *_inner(old, new),
    ]
    return FlowChanges(flow, found)


def _sources(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> list[Change]:
    """Sources have numbers in a checkpoint: their places have to be the same, in the same order."""
    if [_place(one) for one in old] == [_place(one) for one in new]:
        return [change for one, other in zip(old, new, strict=True) for change in _details(one, other)]
    if len(old) != len(new):
        gone = [one["name"] for one in old if one["name"] not in [other["name"] for other in new]]
        added = [one["name"] for one in new if one["name"] not in [other["name"] for other in old]]
        parts = [
            f"reads {', '.join(added)}, too" if added else "",
            f"no longer reads {', '.join(gone)}" if gone else "",
        ]
        said = " and ".join(filter(None, parts)) or "reads a source more often or less often than before"
        return [Change(NEEDS_REFRESH, f"it {said}: the checkpoint has places in {_names(old)}")]
    found = []
    for one, other in zip(old, new, strict=True):
        if _place(one) == _place(other) or UNNAMED in one["place"]:
            continue
        if one["kind"] == other["kind"] == "topic" and set(one["topics"]) < set(other["topics"]):
            more = ", ".join(sorted(set(other["topics"]) - set(one["topics"])))
            found.append(Change(KEPT, f"source {other['name']}: {more} is read from its beginning"))
        else:
            found.append(
                Change(
                    NEEDS_REFRESH,
                    f"source {other['name']}: {one['place']} became {other['place']}, and the checkpoint has places "
                    f"in {one['place']}",
                )
            )
    return found


def _place(source: Mapping[str, Any]) -> tuple[Any, ...]:
    return source["kind"], source["place"]


def _names(sources: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(dict.fromkeys(str(one["name"]) for one in sources)) or "nothing"


def _details(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    name, found = new["name"], []
    if old.get("starting") != new.get("starting"):
        found.append(Change(KEPT, f"source {name}: starting is for a new flow; this one goes on where it was"))
    for key in ("format", "schema", "rules"):
        if old.get(key) != new.get(key):
            found.append(Change(KEPT, f"source {name}: {key} changed; it is for records that come from now on"))
    if old.get("watermark") != new.get("watermark"):
        found.append(Change(KEPT, f"source {name}: watermark {old.get('watermark')} became {new.get('watermark')}"))
    return found


def _state(
    old: Sequence[Mapping[str, Any]],
    new: Sequence[Mapping[str, Any]],
    before: Mapping[str, Any],
    now: Mapping[str, Any],
) -> list[Change]:
    """The state that a flow keeps between batches must be of the same operators, with the same keys and values."""
    found = []
    if len(old) != len(new):
        found.append(
            Change(
                NEEDS_REFRESH,
                f"it kept {_operators(old)} and now keeps {_operators(new)}: what it has counted does not fit",
            )
        )
    else:
        for one, other in zip(old, new, strict=True):
            found += _operator(one, other)
    if (old or new) and before.get("mode") != now.get("mode"):
        found.append(Change(NEEDS_REFRESH, f"mode {before.get('mode')} became {now.get('mode')}, and it has state"))
    return found


def _operators(operators: Sequence[Mapping[str, Any]]) -> str:
    return (
        ", ".join(f"an {one['kind']}" if str(one["kind"])[0] in "aeiou" else f"a {one['kind']}" for one in operators)
        or "nothing"
    )


def _operator(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    if old["kind"] != new["kind"]:
        return [Change(NEEDS_REFRESH, f"{old['kind']} became {new['kind']}")]
    found = []
    for key, words in (("keys", _words_of(str(new["kind"]))), ("values", "keeps")):
        if list(old[key]) != list(new[key]):
            found.append(
                Change(
                    NEEDS_REFRESH,
                    f"it {words} {_list(new[key])}, and what it has counted is by {_list(old[key])}"
                    if key == "keys"
                    else f"of each group it {words} {_list(new[key])}, and has kept {_list(old[key])}",
                )
            )
    return found


def _words_of(kind: str) -> str:
    if kind == "aggregate":
        return "groups by"
    return "joins by" if kind.endswith("join") else "tells rows apart by" if kind.startswith("dedup") else "keeps"


def _list(texts: Sequence[str]) -> str:
    text = ", ".join(texts) or "nothing"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def _target(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    found = []
    if old.get("target") != new.get("target"):
        if old.get("refreshed_into"):
            found.append(
                Change(
                    REFUSED, f"it was refreshed into {old['refreshed_into']}: name that as its target in pipeline.yml"
                )
            )
        else:
            found.append(
                Change(
                    KEPT,
                    f"{old.get('target')} became {new.get('target')}, which gets rows from now on; those of before "
                    "stay where they are",
                )
            )
    elif list(map(list, old.get("columns") or [])) != list(map(list, new.get("columns") or [])):
        found.append(
            Change(KEPT, f"its columns changed: {_columns(old.get('columns') or [], new.get('columns') or [])}")
        )
    for key in ("key", "format", "partition_by"):
        if old.get(key) != new.get(key) and old.get("target") == new.get("target"):
            found.append(Change(KEPT, f"{key} changed from {old.get(key)} to {new.get(key)}, for rows from now on"))
    if not (old.get("stateful") or new.get("stateful")) and old.get("mode") != new.get("mode"):
        found.append(Change(KEPT, f"mode {old.get('mode')} became {new.get('mode')}"))
    merged = [key for key in MERGE_FIELDS if (old.get("merge") or {}).get(key) != (new.get("merge") or {}).get(key)]
    if merged:
        found.append(Change(NEEDS_REFRESH, f"{', '.join(merged)} changed: the rows of the target are by the old ones"))
    return found


def _columns(old: Sequence[Sequence[str]], new: Sequence[Sequence[str]]) -> str:
    before, now = {one[0]: one[1] for one in old}, {one[0]: one[1] for one in new}
    parts = [f"{name} is new" for name in now if name not in before]
    parts += [f"{name} is gone" for name in before if name not in now]
    parts += [
        f"{name} is {now[name]}, was {before[name]}" for name in now if name in before and before[name] != now[name]
    ]
    return _list(parts) if parts else "their order"


def _inner(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Views that changed without a trace in the above: for rows from now on."""
    before, now = old.get("views") or {}, new.get("views") or {}
    changed = [name for name in now if name in before and before[name] != now[name]]
    if not changed:
        return []
    return [Change(KEPT, f"{', '.join(changed)} changed, for rows from now on; what is written stays as it is")]


# --- for people


def refusal(pipeline: str, found: Sequence[FlowChanges]) -> str | None:
    """Why a pipeline cannot run as it is; None: it can."""
    stopped = [one for one in found if one.is_stopped]
    return None if not stopped else "; ".join(advised(pipeline, one) for one in stopped)


def advised(pipeline: str, found: FlowChanges) -> str:
    """The changes of a flow, with advice."""
    text = f"flow {found.flow}: {found.verdict}: {'; '.join(found.reasons)}"
    if found.verdict != NEEDS_REFRESH:
        return text
    if found.flow == LETTERS:
        return (
            f"{text}. Put the old sources back; or remove the folder checkpoints/{LETTERS} of its state (.state) "
            "while it does not run: rows that were put aside before then become letters once more, and none is lost"
        )
    return (
        f"{text}. 'ottla pipeline refresh {pipeline} {found.flow}' begins it anew and replaces what it has written "
        "(files, and a topic that is not compacted, cannot be replaced: '--into NEW' writes beside them); or put the "
        "old definition back, or give the flow a new name and target"
    )

"""The verb explain: who paid whom, when and why."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.strict_json import unescape
from evolvent.core.visible import visible
from evolvent.formulas.effect import estimate
from evolvent.memory import effects, events, external, keys, lift, replay
from evolvent.memory.bank import Bank
from evolvent.memory.index.index import SIM_DIGITS
from evolvent.memory.items import Explanation, Item, Recall, Recalled, memory_id, receipt_id
from evolvent.memory.listing import items
from evolvent.memory.maintenance import when
from evolvent.memory.outcome import parts_of
from evolvent.memory.rule import least_step
from evolvent.memory.store.engine import Store
from evolvent.memory.text import clean_word, counted, in_units, short

_FLAGS = {"frozen", "is_test", "explored", "selected", "omitted", "shown", "valid", "counts", "held_out"}
_OF_ITEM = (
    "id",
    "key",
    "body",
    "kind",
    "polarity",
    "source",
    "status",
    "metadata",
    "superseded_by",
    "content_version",
    "merged",
    "created_at",
    "expires_at",
)
_HISTORY = 200  # events shown per memory; all of them are in the store
_MORE_KEYS = 8  # shown in the text; all of them are in the data


def explain(bank: Bank, subject: Recall | Recalled | Item | str) -> Explanation:
    """The ledger of a memory ("m3", or an item of it) or of a receipt ("r7" or the Recall)."""
    is_text = isinstance(subject, str)
    elsewhere = is_text and external.sequences(bank.store, bank.scope_id, subject)
    if elsewhere or isinstance(subject, Item | Recalled) or (is_text and subject.startswith("m")):
        return of_memory(bank, bank.memory_seq(subject, "explain"))
    if isinstance(subject, str) and not subject.startswith("r"):
        expected = "a memory, e.g. 'm12', or a receipt, e.g. 'r12'"
        raise BadInput("not an id", got=subject, expected=expected, where="explain", code="not_an_id")
    return of_recall(bank, bank.receipt_seq(subject, "explain"))


# ---------------------------------------------------------------------------------------------------- one memory
def of_memory(bank: Bank, seq: int) -> Explanation:
    """Everything about one memory: values by objective and stage, the events that made them, relatives, showings."""
    store = bank.store
    item = items(bank, "m.seq = ?", (seq,))[0]
    texts = external.sequences(store, bank.scope_id, item.id)
    with store.session() as db, store.translated("reading"):
        versions = keys.versions(db, seq)
        keys_of = [{"id": memory_id(row), "key": key, "status": status} for row, key, status in keys.of(db, seq)]
    history = store.records(
        "SELECT e.seq AS event, e.recall_id AS receipt, e.rule, e.depth, e.weight, e.reward, e.q_before, e.q_after, "
        f"o.source, e.objective, e.stage, e.created_at AS at, t.body AS task, {events.COUNTS} AS counts "
        "FROM value_event e JOIN memory m ON m.seq = e.memory_id "
        "JOIN outcome o USING(outcome_id) JOIN recall r ON r.seq = e.recall_id "
        "JOIN text_blob t ON t.hash = r.query_hash WHERE e.memory_id = ? ORDER BY e.seq DESC LIMIT ?",
        (versions[0], _HISTORY),
    )
    for line in history:
        line["receipt"], line["counts"] = receipt_id(line["receipt"]), bool(line["counts"])
    # what was written with an event may not be what it comes to: outcomes before it were revised or rolled back since
    voided = store.row("SELECT 1 FROM void WHERE scope_id = ? LIMIT 1", (bank.scope_id,))
    now = replay.moves(store, bank.scope_id, versions[0]) if voided else {}
    for line in history:
        line["now"] = now.get(line["event"], (line["q_before"], line["q_after"])) if line["counts"] else None
    made_in = store.rows("SELECT made_in FROM memory WHERE seq = ?", (seq,))[0][0]
    owner = store.row("SELECT parent FROM provenance WHERE child = ? AND relation = 'key'", (seq,))
    data: dict[str, Any] = {
        **{name: getattr(item, name) for name in _OF_ITEM},
        "masked": item.masked,
        "keys": keys_of,
        "key_of": memory_id(owner[0]) if owner else None,
        "made_in": receipt_id(made_in) if made_in else None,
        "q_init": item.start,
        "versions": [memory_id(version) for version in versions],
        # of what is kept elsewhere: every text that was under its id, with figures of its own
        "texts": [memory_id(one) for one in texts],
        "values": _values(bank, versions[0]),
        "recalls": store.records(
            "SELECT count(*) AS considered, count(*) FILTER (WHERE selected) AS selected, "
            "count(*) FILTER (WHERE shown) AS shown, count(*) FILTER (WHERE omitted) AS omitted "
            "FROM recall_item WHERE memory_id = ?",
            (seq,),
        )[0],
        "parents": _relatives(bank, seq, "parent", "child"),
        "children": _relatives(bank, seq, "child", "parent"),
        "audit": [
            {"id": f"a{number}", "verb": verb, "at": at, **json.loads(detail)}
            for number, verb, detail, at in store.rows(
                "SELECT seq, verb, detail, created_at FROM audit WHERE scope_id = ? AND target = ? ORDER BY seq",
                (bank.scope_id, memory_id(seq)),
            )
        ],
        "history": history,
    }
    return Explanation(item.id, data, _memory_text(data, _span(bank)))


def _values(bank: Bank, seq: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    found = bank.store.rows(
        f"SELECT objective, stage, {events.COLUMNS} FROM value WHERE memory_id = ? ORDER BY objective, stage", (seq,)
    )
    measured = {
        (objective, *at): e
        for objective in dict.fromkeys(row[0] for row in found if events.Value(*row[2:]).n_omitted)
        for at, e in effects.by_stage(bank, objective, seq).items()
    }
    for objective, stage, *columns in found:
        v = events.Value(*columns)
        effect = lift.marginal(*v.arms, bank.reward_range)
        spread = events.uncertainty(v, bank.reward_range, least_step(bank.policy))
        row = {"objective": objective, "stage": stage, **v._asdict(), "uncertainty": spread}
        # from the sums that ranking goes by; what is said of it goes by its outcomes one by one
        row["effect"] = effect._asdict()
        row["adds"] = effects.adds(measured.get((objective, seq, stage), estimate([])), _span(bank))
        rows.append(row)
    return rows


def _relatives(bank: Bank, seq: int, other: str, this: str) -> list[dict[str, str]]:
    rows = bank.store.rows(
        f"SELECT p.{other}, p.relation, {external.NAME} FROM provenance p JOIN memory m ON m.seq = p.{other} "
        f"WHERE p.{this} = ? ORDER BY 1, 2",
        (seq,),
    )
    return [{"id": memory_id(row, name), "relation": relation} for row, relation, name in rows]


def _span(bank: Bank) -> float:
    return bank.reward_range[1] - bank.reward_range[0]


def _memory_text(d: dict[str, Any], span: float) -> str:
    lines = [
        f"{_short_id(d)} ({d['kind']}, {d['polarity']}, from {d['source']}, {d['status']})",
        f"  key   {short(d['key'])}",
        f"  body  {short(d['body']) or ('(kept elsewhere)' if d['texts'] else '')}",
    ]
    if len(d["texts"]) > 1:
        lines.append(f"  texts {', '.join(d['texts'])}: each with figures of its own")
    if d["key_of"]:
        return "\n".join([*lines, f"  one more key of {d['key_of']}, which has the value and is shown"])
    more = [key for key in d["keys"][1:] if key["status"] == "active"]
    lines[2:2] = [f"  and   {short(key['key'])}  ({key['id']})" for key in more[:_MORE_KEYS]]
    if len(more) > _MORE_KEYS:
        lines.insert(2 + _MORE_KEYS, f"  and   {counted(len(more) - _MORE_KEYS, 'more key')}")
    if d["masked"]:
        lines.append(f"  {counted(d['masked'], 'secret')} masked when it was written")
    if len(d["versions"]) > 1:
        lines.append(f"  versions {', '.join(d['versions'])}: one value, kept under the first")
    for v in d["values"]:
        value = f"{in_units(v['q'], span, 3)} ± {in_units(v['uncertainty'], span, 3)}"
        text = f"  value {value} after {counted(v['n'], 'outcome')} (start {d['q_init']:g})"
        if v["adds"]:
            text += f"; {v['adds']} ({counted(v['n_omitted'], 'outcome')} without it)"
        lines.append(text + f"  [{v['objective']}/{v['stage']}]")
    if not d["values"]:
        lines.append(f"  value {in_units(d['q_init'], span, 3)}: no outcome yet")
    r = d["recalls"]
    counts = f"selected {r['selected']}, shown {r['shown']}, left out {r['omitted']}"
    lines.append(f"  was a candidate {counted(r['considered'], 'time')}, {counts}")
    for name in ("parents", "children"):
        if d[name]:
            lines.append(f"  {name} " + ", ".join(f"{x['id']} ({x['relation']})" for x in d[name][:12]))
    for entry in d["audit"][-5:]:
        fields = ", ".join(f"{k} {v}" for k, v in entry.items() if k not in ("id", "verb", "at"))
        lines.append(f"  {entry['id']} {entry['verb']}: {fields}")
    for e in d["history"][:8]:
        how = {"shown": "shown", "omitted": "left out", "ancestor": f"ancestor, {e['depth']} back"}[e["rule"]]
        then, now = _move(e["q_before"], e["q_after"], span), " (voided)"
        if e["now"]:
            since = _move(e["now"][0], e["now"][1], span)
            now = "" if since == then else f", by now {since}"
        change = f"reward {e['reward']:g} ({e['source']}): {how}, {then}{now}"
        lines.append(f"  {e['receipt']:>6} {change}   {short(e['task'], 60)}")
    return "\n".join(lines)


def values_as_of(bank: Bank, recalled: Recall | str, objective: str) -> dict[str, float]:
    """Value of every memory that a receipt could see, as it was then; of what was erased since, none is left."""
    number = bank.receipt_seq(recalled, "values_as_of")
    clean_word(objective, what="an objective", where="values_as_of")
    row = bank.store.row("SELECT stage FROM recall WHERE seq = ?", (number,))
    assert row is not None
    found = replay.as_of(bank.store, bank.scope_id, when.moment(bank, receipt_id(number)), objective, row[0])
    erased = bank.store.rows("SELECT seq FROM memory WHERE scope_id = ? AND status = 'erased'", (bank.scope_id,))
    gone = {seq for (seq,) in erased}
    name = external.names(bank.store, found).get
    return {memory_id(seq, name(seq)): q for seq, q in found.items() if seq not in gone}


# ---------------------------------------------------------------------------------------------------- one receipt
def of_recall(bank: Bank, number: int) -> Explanation:
    """Everything about one receipt: the query, every candidate with its score, what was shown, what it earned."""
    store = bank.store
    data = store.records(
        "SELECT r.seq AS id, t.body AS query, r.stage, r.policy, r.params, r.rng_seed, r.frozen, r.is_test, "
        "r.explored, r.emb_id, r.store_seq, r.event_seq, r.n_scanned, r.n_pool, r.created_at, "
        "coalesce(x.held_out, false) AS held_out, coalesce(x.rate, 0.0) AS holdout FROM recall r "
        "JOIN text_blob t ON t.hash = r.query_hash LEFT JOIN exposure x ON x.recall_id = r.seq WHERE r.seq = ?",
        (number,),
    )[0]
    data["id"], data["params"] = receipt_id(number), json.loads(data["params"])
    data["pool"] = store.records(
        f"SELECT i.memory_id AS id, {external.NAME} AS name, k.body AS key, i.rank, i.sim AS relevance, i.q, i.value, "
        "i.n, i.z_sim, i.z_q, i.bonus, i.score, i.selected, i.omitted, i.propensity, i.shown, i.content_version "
        "FROM recall_item i JOIN memory m ON m.seq = i.memory_id JOIN text_blob k ON k.hash = m.key_hash "
        "WHERE i.recall_id = ? ORDER BY i.rank",
        (number,),
    )
    data["outcomes"] = store.records(
        "SELECT o.objective, o.source, o.reward, o.weight, o.parts, o.valid, o.replaced_by IS NULL AS counts, "
        "o.idempotency_key, o.created_at AS at, t.body AS action FROM outcome o "
        "LEFT JOIN text_blob t ON t.hash = o.action_hash WHERE o.recall_id = ? ORDER BY o.outcome_id",
        (number,),
    )
    for row in data["outcomes"]:
        row["parts"] = parts_of(row["action"], row["parts"])
    data["changes"] = store.records(
        f"SELECT e.memory_id AS id, {external.NAME} AS name, e.objective, e.rule, e.depth, e.weight, "
        f"e.q_before, e.q_after, {events.COUNTS} AS counts FROM value_event e JOIN memory m ON m.seq = e.memory_id "
        "WHERE e.recall_id = ? ORDER BY e.seq",
        (number,),
    )
    cosines = _cosines(store, number, data.pop("emb_id"))
    data["pool"] = [{**row, "similarity": cosines.get(row["id"])} for row in data["pool"]]
    for row in data["pool"] + data["changes"]:
        name = row.pop("name")
        if name is not None:  # an id may have had several texts
            row["memory"] = memory_id(row["id"])
        row["id"] = memory_id(row["id"], name)
    for row in (data, *data["pool"], *data["outcomes"], *data["changes"]):
        row |= {name: bool(row[name]) for name in _FLAGS & row.keys()}  # SQLite has 0 and 1
    return Explanation(data["id"], data, _recall_text(data, _span(bank)))


def _cosines(store: Store, number: int, query: int | None) -> dict[int, float]:
    """Cosine of a receipt's query and the nearest key of each of its candidates, from the vectors that are stored."""
    row = store.row("SELECT vec FROM embedding WHERE emb_id = ?", (query,)) if query is not None else None
    if row is None:
        return {}
    wide = np.frombuffer(row[0], "<f4").astype(np.float64)
    found: dict[int, float] = {}
    for seq, vec in store.rows(
        "SELECT i.memory_id, e.vec FROM recall_item i JOIN memory m ON m.seq = i.memory_id "
        "JOIN embedding e ON e.emb_id = m.emb_id WHERE i.recall_id = ? UNION ALL "
        "SELECT i.memory_id, e.vec FROM recall_item i JOIN recall r ON r.seq = i.recall_id "
        "JOIN provenance a ON a.parent = i.memory_id AND a.relation = 'key' JOIN memory m ON m.seq = a.child "
        "JOIN embedding e ON e.emb_id = m.emb_id WHERE i.recall_id = ? AND m.seq <= r.store_seq",
        (number, number),
    ):
        near = float(np.round(np.multiply(np.frombuffer(vec, "<f4"), wide).sum(), SIM_DIGITS))
        found[seq] = max(near, found.get(seq, -2.0))
    return found


def _recall_text(d: dict[str, Any], span: float) -> str:
    flags = "".join(f", {name}" for name in ("frozen", "is_test", "explored") if d[name])
    lines = [
        f"{d['id']} ({d['policy']}, stage {d['stage']}{flags})",
        f"  task  {short(d['query'])}",
        f"  looked at {counted(d['n_scanned'], 'key')}, {_candidates(d)}",
    ]
    if d["held_out"]:
        lines.append(
            f"  held out by chance ({d['holdout']:g}): nothing was handed out, to measure what the memory adds"
        )
    fates = _fates(d)
    for c in d["pool"]:
        near = "" if c["similarity"] is None else f"similar {c['similarity']:.2f}  "
        value = in_units(c["value"], span, 2)
        numbers = f"{near}relevant {c['relevance']:.2f}  value {value} (n {c['n']})  score {c['score']:+.2f}"
        lines.append(f"  {c['rank'] + 1:>3}. {_short_id(c):>5} {numbers}  {fates[c['id']]}  {short(c['key'], 50)}")
    for o in d["outcomes"]:
        reward = "no reward" if o["reward"] is None else f"reward {o['reward']:g}"
        weight = "" if o["weight"] == 1.0 else f", weight {o['weight']:g}"
        weight += "" if o["parts"] is None else f", parts {', '.join(f'{r:g}' for _, r in o['parts'])}"
        fate = "" if o["valid"] else " (invalid: no credit)"
        lines.append(f"  outcome {reward} from {o['source']}{weight}{fate if o['counts'] else ' (revised)'}")
    for c in d["changes"]:
        voided = "" if c["counts"] else " (voided)"
        lines.append(f"    {_short_id(c)} {c['rule']}: {_move(c['q_before'], c['q_after'], span)}{voided}")
    return "\n".join(lines) + ("" if d["outcomes"] else "\n  not settled")


def _candidates(d: dict[str, Any]) -> str:
    """How many memories came into question, and what bounded their number."""
    params, n = unescape(d["params"]), d["n_pool"]
    above = f" above the gate {params['gate']:g}" if params["gate"] > -1 else ""
    if n >= params["pool"] and any(c["similarity"] is not None for c in d["pool"]):
        return f"the nearest {n}{above} were candidates"
    return f"{n} passed the gate {params['gate']:g}" if above else f"{n} were candidates"


def _fates(d: dict[str, Any]) -> dict[str, str]:
    """What became of each candidate, and by which rule."""
    hide = unescape(d["params"]).get("hide", 0.0)  # of the best score
    may = unescape(d["params"]).get("outdone", 0.0) > 0.0  # one of a key gives way to another
    best = max((c["score"] for c in d["pool"]), default=0.0)
    least = min((c["score"] for c in d["pool"] if c["selected"]), default=None)
    k = sum(c["selected"] for c in d["pool"])
    found: dict[str, str] = {}
    for c in d["pool"]:
        rivals = [r["id"] for r in d["pool"] if may and r["key"] == c["key"] != "" and c["score"] < r["score"]]
        if c["selected"]:
            fate = "shown" if c["shown"] else _left_out(c["propensity"]) if c["omitted"] else "dropped"
            fate = "held out" if d["held_out"] else fate
        elif hide > 0.0 and c["score"] < hide * best:
            fate = f"hidden: promises under {hide:.0%} of the best"
        elif d["explored"]:
            fate = f"not selected: {k} of {len(d['pool'])} were drawn by chance, to explore"
        elif rivals:
            fate = f"not selected: {short(visible(rivals[0]), 60)} under its key promises more"
        elif least is not None and c["score"] <= least:
            more = "promised more" if c["score"] < least else "promised as much or more and came first"
            fate = f"not selected: k={k}, {counted(k, 'other')} {more}"
        else:
            fate = "not selected"  # by a rule of one's own
        found[c["id"]] = fate
    return found


def _left_out(propensity: float) -> str:
    """Why a memory was left out that was handed out with this probability."""
    if propensity <= 0.5:  # nothing is measured as often as not: ``recall`` has the same bound
        return f"withheld ({1.0 - propensity:.2g}): outcomes speak against it"
    return f"left out by chance ({1.0 - propensity:.2g}), to measure what it adds"


def _short_id(row: dict[str, Any]) -> str:
    return short(visible(row["id"]), 60)


def _move(before: float, after: float, span: float) -> str:
    return f"{in_units(before, span, 3)} → {in_units(after, span, 3)}"

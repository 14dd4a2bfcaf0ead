"""What is written is what is read: decode(encode(x)) == x."""

import json
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import episodes, json_values

from evolvent.core.blob import blob_name, write_blob
from evolvent.core.codec import decode_episode, encode_episode, load_episodes, save_episodes
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.strict_json import escape, unescape

quick = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def _same(a, b):
    if isinstance(a, float) and math.isnan(a):
        return isinstance(b, float) and math.isnan(b)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    return type(a) is type(b) and a == b


@quick
@given(json_values)
def test_escaping_is_strict_json_and_exact(value):
    assert _same(unescape(json.loads(json.dumps(escape(value), allow_nan=False))), value)


@quick
@given(episodes())
def test_a_line_round_trips(episode):
    line = encode_episode(episode)
    assert "\n" not in line
    again = decode_episode(line)
    assert again == episode
    assert encode_episode(again) == line
    assert list(map(repr, again.nodes)) == list(map(repr, episode.nodes))
    assert again.memory_uses == episode.memory_uses


def save_apart(path, batch, inline=512):
    """As earlier versions wrote ``batch``: the tokens of an episode with more than ``inline`` of them beside it."""
    names = sorted({name for one in batch for name in one.notes})
    columns = {key: [] for key in ("token_ids", "logp", "seen_ids", *(f"note.{name}" for name in names))}
    lines, start, seen = [], 0, 0
    for one in batch:
        record = one.to_dict()
        if one.n_tokens + len(one.seen_ids) > inline:
            record["tokens"] = {"file": "", "start": start, "seen": seen}
            start, seen = start + one.n_tokens, seen + len(one.seen_ids)
            for row in record["nodes"]:
                row.pop("logp", None)
                if (ids := row.pop("token_ids", None)) is not None:
                    row["n_tokens"] = len(ids)
            if one.notes:
                record["notes"] = dict.fromkeys(one.notes)
            notes = {f"note.{n}": one.notes.get(n, np.full(one.n_tokens, np.nan, np.float32)) for n in names}
            for key, part in {"token_ids": one.token_ids, "logp": one.logp, "seen_ids": one.seen_ids, **notes}.items():
                columns[key].append(part)
        lines.append(record)
    if columns["logp"]:
        arrays = {key: np.concatenate(parts) for key, parts in columns.items()}
        write_blob(path, arrays)
        for record in lines:
            if "tokens" in record:
                record["tokens"]["file"] = blob_name(path, arrays)
    path.write_text("".join(json.dumps(record) + "\n" for record in lines))


@quick
@given(st.lists(episodes(), max_size=4), st.sampled_from([0, 2, 512]))
def test_a_file_round_trips_with_tokens_inline_and_beside(tmp_path, batch, inline):
    path = tmp_path / "episodes.jsonl"
    save_apart(path, batch, inline)
    assert load_episodes(path) == batch
    assert bool(list(tmp_path.glob("*.npz"))) == any(ep.n_tokens + len(ep.seen_ids) > inline for ep in batch)
    save_episodes(path, batch)
    assert load_episodes(path) == batch
    assert list(tmp_path.iterdir()) == [path]  # no temporary file is left, nor what stood beside


@pytest.mark.parametrize("field", ["task_id", "meta", "text"])
def test_a_lone_surrogate_is_refused_clearly_and_the_old_file_stays(tmp_path, field):
    path = tmp_path / "episodes.jsonl"
    save_episodes(path, [Episode("before", id="0")])
    bad = "caf\ud800"
    ep = Episode(bad if field == "task_id" else "t", meta={"k": bad} if field == "meta" else None, id="e7")
    ep.observe(bad if field == "text" else "x")
    with pytest.raises(BadInput, match="lone surrogate") as caught:
        save_episodes(path, [Episode("fine"), ep])
    assert caught.value.where == "episode e7" and "caf" in caught.value.got
    assert [e.task_id for e in load_episodes(path)] == ["before"]


def test_unicode_line_separators_do_not_split_lines(tmp_path):
    ep = Episode("t", id="e")
    ep.observe("one\u2028two\u0085three\r\nfour\x00")
    save_episodes(tmp_path / "e.jsonl", [ep, ep])
    assert load_episodes(tmp_path / "e.jsonl") == [ep, ep]


def _long(seed: int) -> Episode:
    ep = Episode("t", id=str(seed))
    ep.act("x", token_ids=range(seed, seed + 600), logp=[-0.5] * 600)
    return ep


def test_broken_files_say_where(tmp_path):
    path = tmp_path / "episodes.jsonl"
    with pytest.raises(BadInput, match="no such file"):
        load_episodes(path)
    good = encode_episode(Episode("t"))
    for line, message in [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"schema": 1}', "lacks a field"),
        ('{"schema": 3}', "newer version of evolvent: schema 3, this one reads up to 2"),
    ]:
        path.write_text(good + "\n" + line + "\n")
        with pytest.raises(BadInput, match=message) as caught:
            load_episodes(path)
        assert caught.value.where in (f"{path}:2", "Episode.from_dict")
    path.write_bytes(b'{"schema": 1, "id": "\xff"}\n')
    with pytest.raises(BadInput, match="not JSON"):
        load_episodes(path)


def test_damaged_or_missing_token_files_are_refused(tmp_path):
    path = tmp_path / "episodes.jsonl"
    save_apart(path, [_long(1)])
    blob = next(tmp_path.glob("*.npz"))
    save_apart(tmp_path / "other.jsonl", [_long(2)])
    content = blob.read_bytes()
    blob.write_bytes(next(tmp_path.glob("other.*.npz")).read_bytes())
    with pytest.raises(BadInput, match="does not match its name"):
        load_episodes(path)
    blob.write_bytes(content[:50])
    with pytest.raises(BadInput, match="cannot be read"):
        load_episodes(path)
    blob.unlink()
    with pytest.raises(BadInput, match="cannot be read") as caught:
        load_episodes(path)
    assert caught.value.where == f"{path}:1"
    with pytest.raises(BadInput, match="in another file"):
        decode_episode(path.read_bytes())


@quick
@given(episodes(), st.randoms(use_true_random=False))
def test_the_context_of_a_node_is_what_stands_on_its_way_whoever_asks_first(episode, random):
    own = {node.index: [] for node in episode.nodes}
    at = seen = 0
    for node in episode.nodes:
        if node.step is not None:
            n = int(episode.tokens_per_step_T[node.step])
            own[node.index], at = episode.token_ids[at : at + n].tolist(), at + n
        elif n := episode.seen_tokens(node.index):
            own[node.index], seen = episode.seen_ids[seen : seen + n].tolist(), seen + n
    order = [*own, *own]
    random.shuffle(order)
    for node in order:
        assert episode.tokens_to(node).tolist() == [i for n in episode.branch(node) for i in own[n]]

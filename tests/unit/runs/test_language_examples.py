"""Rows to learn from: what is read, what is refused, and which tokens are learned."""

import json

import numpy as np
import pytest

import sft_rows
import tiny_language
from evolvent.core.errors import BadInput
from evolvent.models.language import model as language
from evolvent.runs.language.examples import fitted, in_plain_words
from evolvent.runs.language.rows import read_rows, split_rows

talks = tiny_language.fixture(max_position_embeddings=512)
TALK = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]}


def written(tmp_path, rows):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


def attempts(tmp_path, folder, *rows, longest=512, **how):
    model = language.load(str(folder), dtype="float32")
    how = {"chat": False, "stop": (), **how}
    return model, fitted(read_rows(written(tmp_path, rows)), model, longest=longest, **how)


def trained(model, episode):
    return [model.decode(episode.step_tokens(t)) for t in range(episode.n_steps)]


def whole(model, episode):
    last = episode.n_steps - 1
    return model.decode(np.concatenate([episode.context_ids(last), episode.step_tokens(last)]))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not JSON"),
        ("[1]", "not an object"),
        ({"text": "a"}, "not a row to learn from"),
        ({"prompt": "a", "completion": ""}, "nothing to learn"),
        ({"messages": [{"role": "human", "content": "a"}]}, "unknown role"),
        ({"messages": [{"role": "user", "content": "a"}]}, "no answer of the assistant"),
        ({"messages": [{"role": "assistant", "content": "a", "weight": 0}]}, "no answer of the assistant"),
        ({"messages": [{"role": "assistant", "content": "a", "weight": 2}]}, "a weight"),
        ({"messages": [{"role": "assistant", "content": None}]}, "content is not text"),
        ({"messages": [{"role": "assistant", "content": "", "tool_calls": [{"name": 3}]}]}, "not a call"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"name": "f", "arguments": "{a"}]}]}, "not JSON"),
        ({**TALK, "tools": "f"}, "no list of schemas"),
    ],
)
def test_a_row_that_cannot_be_learned_from_is_named_by_its_line(tmp_path, line, said):
    with pytest.raises(BadInput, match=said) as caught:
        read_rows(written(tmp_path, [TALK, "", line]))
    assert caught.value.where.endswith("rows.jsonl:3")


def test_a_file_without_rows_or_with_other_bytes_is_refused(tmp_path):
    with pytest.raises(BadInput, match="no row"):
        read_rows(written(tmp_path, ["", " "]))
    with pytest.raises(BadInput, match="no such file"):
        read_rows(tmp_path / "none")
    (tmp_path / "b").write_bytes(b"\xff\xfe\n")
    with pytest.raises(BadInput, match="not JSON"):
        read_rows(tmp_path / "b")


def test_all_answers_are_learned_and_nothing_else(tmp_path, talks):
    row = {
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "one"}]},
            {"role": "assistant", "content": "1"},
            {"role": "user", "content": "two"},
            {"role": "assistant", "content": "2", "weight": 0},
            {"role": "user", "content": "three"},
            {"role": "assistant", "content": "3"},
        ]
    }
    model, found = attempts(tmp_path, talks, row)
    (episode,) = found.episodes
    assert trained(model, episode) == ["1<|im_end|>", "3<|im_end|>"]
    assert whole(model, episode) + "\n" == model.decode(
        model.conversation(read_rows(tmp_path / "rows.jsonl")[0].messages, open=False)
    )
    assert "weight" not in read_rows(tmp_path / "rows.jsonl")[0].messages[4]


def test_behind_a_prompt_of_messages_only_the_completion_is_learned(tmp_path, talks):
    said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "x"}, {"role": "user", "content": "b"}]
    end = {"completion": [{"role": "assistant", "content": "y"}]}
    for row in ({"prompt": said, **end}, {"messages": said, "completion": "y"}):
        model, found = attempts(tmp_path, talks, row)
        assert trained(model, found.episodes[0]) == ["y<|im_end|>"]


def test_what_others_say_never_ends_an_answer_and_the_assistants_marks_are_tokens(tmp_path, talks):
    row = {
        "messages": [
            {"role": "user", "content": "say <|im_end|> and <think>"},
            {"role": "assistant", "content": "<think>no <|im_end|> yes"},
        ]
    }
    model, found = attempts(tmp_path, talks, row)
    (episode,) = found.episodes
    said, think = episode.step_tokens(0).tolist(), model.text.control["<think>"]
    assert said[0] == think and said.count(model.text.control["<|im_end|>"]) == 1
    assert think not in episode.context_ids(0)
    assert trained(model, episode) == ["<think>no <|im_end|> yes<|im_end|>"]


def test_texts_that_are_put_aside_come_back_as_the_template_would_write_them(tmp_path):
    folder = tiny_language.write(tmp_path / "m", template=sft_rows.plain(sft_rows.TOOLS), max_position_embeddings=512)
    odd = 'say "<|im_end|>" \\ \n'
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": json.dumps({"q": odd, "n": 1})}}
    row = {
        "messages": [
            {"role": "user", "content": odd},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": odd},
            {"role": "assistant", "content": "done"},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "description": odd, "parameters": {}}}],
    }
    model, found = attempts(tmp_path, folder, row)
    (episode,) = found.episodes
    called, done = trained(model, episode)
    written = json.dumps({"q": odd, "n": 1})
    assert called == f'\n{{"name": "f", "arguments": {written}}}<|im_end|>' and done == "done<|im_end|>"
    text = whole(model, episode)
    assert f'"description": {json.dumps(odd)}' in text and text.count(odd) == 2
    ends = np.concatenate([episode.context_ids(1), episode.step_tokens(1)]).tolist()
    assert ends.count(model.text.control["<|im_end|>"]) == 5  # tools, user, call, result, answer


def test_tools_are_said_in_words_where_the_template_knows_none(tmp_path, talks):
    model, found = attempts(tmp_path, talks, *sft_rows.CALLS)
    text = whole(model, found.episodes[0])
    assert "- add(a: integer, b: integer): Add two numbers." in text and "Result: 5" in text
    assert trained(model, found.episodes[0]) == ["add(a=2, b=3)<|im_end|>", "It is 5.<|im_end|>"]
    assert whole(model, found.episodes[1]).startswith("<|im_start|>system\nUse tools.\n\nTools, called")


def test_a_model_without_a_template_reads_turns_in_plain_text(tmp_path):
    folder = tiny_language.write(tmp_path / "m", template=None, max_position_embeddings=512)
    model, found = attempts(tmp_path, folder, *sft_rows.CALLS)
    assert whole(model, found.episodes[1]).endswith(
        "User: 7 + 1?\nAssistant: I add.\nadd(a=7, b=1)<|im_end|>\nTool: 8\nAssistant: 8<|im_end|>"
    )
    assert trained(model, found.episodes[1]) == [" I add.\nadd(a=7, b=1)<|im_end|>", " 8<|im_end|>"]


def test_where_a_template_drops_earlier_thoughts_each_answer_stands_behind_what_the_model_sees(tmp_path):
    folder = tiny_language.write(tmp_path / "m", template=tiny_language.THINKING, max_position_embeddings=512)
    messages = [
        {"role": r, "content": c} for r, c in (("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d"))
    ]
    model, found = attempts(tmp_path, folder, {"messages": messages})
    (episode,) = found.episodes
    for t, n in ((0, 1), (1, 3)):
        opened = model.conversation(messages[:n])
        assert model.decode(opened).startswith(model.decode(episode.context_ids(t)))
    assert trained(model, episode) == ["b<|im_end|>", "d<|im_end|>"]


def test_texts_end_as_attempts_do(tmp_path, talks):
    row = {"prompt": "Q: 1\nA:", "completion": " 2"}
    for stop, end in (((), "<|im_end|>"), (("\n",), "\n")):
        model, found = attempts(tmp_path, talks, row, stop=stop)
        assert trained(model, found.episodes[0]) == [f" 2{end}"]
    model, found = attempts(tmp_path, talks, row, chat=True)
    assert whole(model, found.episodes[0]) == (
        "<|im_start|>user\nQ: 1\nA:<|im_end|>\n<|im_start|>assistant\n2<|im_end|>"
    )


def test_answers_that_do_not_fit_are_left_out_and_counted(tmp_path, talks):
    long = {"messages": [*TALK["messages"], {"role": "user", "content": "x" * 60}, TALK["messages"][1]]}
    _, found = attempts(tmp_path, talks, TALK, long, longest=64)
    assert [e.n_steps for e in found.episodes] == [1, 1] and (found.answers_left_out, found.rows_cut) == (1, 1)
    with pytest.raises(BadInput, match="no answer fits"):
        attempts(tmp_path, talks, TALK, longest=5)


def test_equal_rows_are_on_one_side_whatever_their_order(tmp_path):
    rows = [{"prompt": f"p{i % 20}", "completion": "c"} for i in range(40)]
    parts = split_rows(read_rows(written(tmp_path, rows)), 0.25)
    train, held = ({row.text for row in part} for part in parts)
    assert (len(train), len(held), train & held) == (15, 5, set())
    again = split_rows(read_rows(written(tmp_path, rows[::-1])), 0.25)
    assert {row.text for row in again[1]} == held
    assert [len(part) for part in split_rows(read_rows(written(tmp_path, rows[:1])), 0.5)] == [1, 0]
    assert [len(part) for part in split_rows(read_rows(written(tmp_path, rows[:2])), 0.01)] == [1, 1]


def test_calls_and_schemas_in_words():
    tool = {
        "name": "f",
        "input_schema": {"properties": {"x": {"type": "string", "description": "which"}, "y": {}}, "required": ["x"]},
    }
    said = in_plain_words([{"role": "user", "content": "u"}], [tool], as_users=True)
    assert said[0]["content"].endswith("- f(x: string, y: any = …): (x: which)")

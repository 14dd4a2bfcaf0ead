"""reasoning-gym by name: its own verifier decides, worked examples are no tasks, settings reach the generator."""

import importlib.util

import pytest

from evolvent.core.errors import BadInput, EnvError, MissingExtra
from evolvent.envs import load
from evolvent.testing.env import check_env

pytestmark = pytest.mark.compiled  # it brings pycosat, which is built from source

SMALL = "reasoning_gym:basic_arithmetic,settings=max_terms=2+max_digits=1+operators=['+']+allow_parentheses=false"


@pytest.mark.parametrize(
    "spec",
    [
        SMALL,
        "reasoning_gym:letter_counting",
        "reasoning_gym:gsm_symbolic,shots=1",
        "reasoning_gym:gsm_symbolic,shots=1,work=200",
    ],
)
def test_a_generator_keeps_the_promises_of_an_environment(spec):
    assert "attempts" in check_env(load(spec))


def answer(env, task, text):
    assert env.reset(task).observation == task.text
    return env.step(text)


def test_the_generators_verifier_pays_right_and_not_wrong_answers():
    env = load(SMALL)
    for task in env.tasks("heldout", 5, seed=0):
        expected = answer(env, task, "").info["expected"]
        right, wrong, junk = (answer(env, task, text) for text in (f" {expected} ", "no idea", "<|im_end|>\x00[a,"))
        assert right.success and right.reward == 1.0 and right.terminated
        assert not wrong.success and wrong.reward == 0.0 and junk.reward == 0.0
        with pytest.raises(EnvError, match="over"):
            env.step("again")


def test_partial_pay_of_the_verifier_can_be_switched_off():
    env, exact = load(SMALL), load(SMALL + ",exact=true")
    task = env.tasks("train", 1, seed=0)[0]
    longer = answer(env, task, "").info["expected"] + " or so"
    assert 0.0 < answer(env, task, longer).reward < 1.0 and not answer(env, task, longer).success
    assert answer(exact, task, longer).reward == 0.0


def test_any_path_is_right_where_the_verifier_says_so():
    env = load("reasoning_gym:countdown,shots=0")
    task = env.tasks("train", 1, seed=0)[0]
    solved = answer(env, task, answer(env, task, "").info["expected"])
    assert solved.success and answer(env, task, "1").reward < 1.0


def test_worked_examples_are_real_and_never_asked():
    env = load(SMALL + ",shots=3")
    assert env.instructions.count("Question: ") == env.instructions.count("\nAnswer: ") == 3
    assert env.stop == ("\n",) and 4 <= env.max_tokens <= 16
    questions = {t.text for split in ("train", "heldout") for t in env.tasks(split, 15, seed=0)}
    assert len(questions) == 30 and not any(question in env.instructions for question in questions)


def test_answers_of_several_lines_end_at_an_empty_line():
    env = load("reasoning_gym:rotate_matrix,shots=1")
    assert env.stop == ("\n\n",) and env.max_tokens > 16
    assert load("reasoning_gym:rotate_matrix,max_tokens=7").max_tokens == 7


def test_a_verifier_that_fails_on_text_pays_nothing():
    env = load("reasoning_gym:prime_factorization")
    assert answer(env, env.tasks("train", 1, seed=0)[0], "no answer").reward == 0.0


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("reasoning_gym:basic_aritmetic", "basic_arithmetic"),
        ("reasoning_gym:basic_arithmetic,settings=max_term=2", "max_terms"),
        ("reasoning_gym:basic_arithmetic,settings=max_terms", "name=value"),
        ("reasoning_gym:basic_arithmetic,settings=min_terms=9+max_terms=2", "refuses"),
        ("reasoning_gym:basic_arithmetic,settings=max_terms=two", "refuses"),
        ("reasoning_gym:composite", "refuses"),
        ("reasoning_gym:graph_color", "shots=0"),
        ("reasoning_gym:basic_arithmetic,shots=-1", "negative"),
        ("reasoning_gym:basic_arithmetic,work=-1", "negative"),
        ("reasoning_gym:countdown,work=50", "gives no working"),
        ("reasoning_gym:countdown,settings=max_numbers=4+min_target=99999+max_target=99999", "makes no question"),
    ],
)
def test_bad_options_say_what_is_expected(spec, words):
    with pytest.raises(BadInput, match=words):
        load(spec)


def test_more_questions_than_there_are_is_refused():
    with pytest.raises(BadInput, match="too many tasks"):
        load(SMALL).tasks("heldout", 90, seed=0)


def test_without_the_package_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"\.\[language\]"):
        load(SMALL)


def test_tasks_carry_the_answer_that_the_generator_names():
    env = load("reasoning_gym:chain_sum,exact=true")
    for task in env.tasks("heldout", 3, seed=0):
        env.reset(task)
        assert env.step(task.meta["answer"]).reward == 1.0


def test_an_answer_that_is_worked_out_is_judged_by_its_last_line():
    env = load("reasoning_gym:gsm_symbolic,shots=2,work=200,exact=true")
    assert env.instructions.count("\nSteps: ") == env.instructions.count("\nAnswer: ") == 2
    assert env.stop == ("\n\n",) and env.max_tokens == 200
    task = env.tasks("heldout", 1, seed=0)[0]
    turn = answer(env, task, f"Answer: no\n2 + 2 = 4\nAnswer: {task.meta['answer']}\n")
    assert turn.success and turn.info["action"] == task.meta["answer"]
    assert not answer(env, task, task.meta["answer"]).success  # nobody said that this is the answer


def test_indices_at_which_a_generator_gives_up_are_left_out():
    env = load("reasoning_gym:countdown,settings=min_numbers=3+max_numbers=3+max_target=100")
    assert len(env.tasks("heldout", 12, seed=0)) == 12


def test_word_problems_are_judged_as_mathematics_where_that_is_asked_for():
    pytest.importorskip("math_verify")
    env, own = load("reasoning_gym:gsm_symbolic,shots=1,check=math_verify"), load("reasoning_gym:gsm_symbolic,shots=1")
    (task,) = env.tasks("heldout", 1, seed=0)
    right = answer(env, task, "").info["expected"]
    assert [answer(env, task, text).reward for text in (right, f"it is ${right}.0$", f"{right}1")] == [1.0, 1.0, 0.0]
    equal = f"{2 * int(right)}/2"
    assert answer(env, task, equal).reward == 1.0 and answer(own, task, equal).reward < 1.0
    with pytest.raises(BadInput, match="repeating the question would be right"):
        load("reasoning_gym:basic_arithmetic,check=math_verify")
    with pytest.raises(BadInput, match="no word problems"):  # the value of an expression that was asked for is none
        load("reasoning_gym:countdown,shots=0,check=math_verify")
    with pytest.raises(BadInput, match="no such checker"):
        load("reasoning_gym:gsm_symbolic,check=sympy")

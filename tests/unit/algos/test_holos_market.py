"""A market of real processes: who is chosen, what is paid, and what failures come to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import closing, contextmanager
from dataclasses import replace

import numpy as np
import pytest

from evolvent.algos.holos import plans, pool, profiles, worker
from evolvent.algos.holos.accounts import MINT, Accounts, cost, split
from evolvent.algos.holos.market import HAND_F, USER, Market, Ranking, fit
from evolvent.algos.holos.profiles import Profile
from evolvent.algos.holos.summary import closed_form
from evolvent.core.errors import BadInput
from evolvent.core.protocols import Task

SIX = [f"agent{i}" for i in range(6)]
RIGHT = "right"


# ------------------------------------------------------------------------------------------------ accounts
def balances(accounts):
    return dict(accounts._db.execute("SELECT name, balance FROM account"))


def test_ten_thousand_random_operations_conserve_the_money(tmp_path):
    draw = np.random.default_rng(0)
    with closing(Accounts(tmp_path / "a.db")) as accounts:
        for name in ("user:a", "user:b", *(f"stake:{one}" for one in SIX)):
            accounts.mint(name, 20_000)
        done = 0
        for _ in range(10_000):
            job, what = str(draw.integers(400)), draw.integers(5)
            try:
                if what == 0:
                    done += accounts.reserve(job, f"user:{'ab'[draw.integers(2)]}", int(draw.integers(1, 400)))
                elif what == 1:
                    done += accounts.settle(job, f"agent:{draw.integers(6)}", int(draw.integers(1, 300)), draw.random())
                elif what == 2:
                    done += accounts.release(job)
                elif what == 3:
                    done += accounts.forfeit(str(draw.integers(3000)), SIX[draw.integers(6)], "user:a", 9)
                else:
                    worth = {f"agent:{i}": float(x) for i, x in enumerate(draw.normal(size=6))}
                    accounts.share(str(draw.integers(300)), "user:b", int(draw.integers(99)), worth)
            except BadInput:  # not reserved, or not enough: nothing may have changed
                pass
        assert done > 1000
        found = accounts.audit()
        assert found["minted"] == 160_000 == sum(x for name, x in balances(accounts).items() if name != MINT)
        assert min(x for name, x in balances(accounts).items() if name != MINT) >= 0


KILLED = """
import sys
from evolvent.algos.holos.accounts import Accounts, cost
accounts = Accounts(sys.argv[1])
accounts.mint("user:a", 10**6)
print("ready", flush=True)
for i in range(10**6):
    accounts.reserve(str(i), "user:a", cost(100))
    accounts.settle(str(i), "agent:b", 100, 1.0)
"""


def test_killed_while_it_settles_it_has_paid_whole_jobs_once(tmp_path):
    path = tmp_path / "a.db"
    for n in range(2):
        child = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE)
        assert child.stdout.readline() == b"ready\n"
        with closing(Accounts(path)) as accounts:
            while accounts.balance("agent:b") <= 1000 * (n + 1):
                pass
        os.kill(child.pid, signal.SIGKILL)
        child.communicate()
        with closing(Accounts(path)) as accounts:
            found = accounts.audit()
            paid = accounts._db.execute("SELECT count(*) FROM posting WHERE id LIKE 'close:%'").fetchone()[0]
            assert found["minted"] == 10**6 and accounts.balance("agent:b") == 100 * paid
            assert found["escrow"] in (0, cost(100))  # of the job at hand, if there was one
            # the next child begins with job 0 again: nothing of what was done is paid a second time


def test_a_job_is_settled_or_released_once_and_what_it_did_not_cost_goes_back():
    with closing(Accounts(":memory:")) as accounts:
        accounts.mint("user:a", 1000)
        assert accounts.reserve("j", "user:a", cost(100)) and not accounts.reserve("j", "user:a", cost(100))
        assert accounts.settle("j", "agent:b", 100, 0.55) and not accounts.settle("j", "agent:c", 100, 1.0)
        assert not accounts.release("j")
        assert accounts.entries("close:j") == {
            "escrow:j": -107, "agent:b": 55, "planner": 2, "platform": 1, "user:a": 49
        }  # fmt: skip
        with pytest.raises(BadInput, match="nothing is reserved"):
            accounts.settle("k", "agent:b", 100, 1.0)
        with pytest.raises(BadInput, match="not that much"):
            accounts.reserve("k", "user:a", 2000)
        with pytest.raises(BadInput, match="whole amounts"):
            accounts.post("x", {"user:a": 0.5, "agent:b": -0.5})  # pyright: ignore[reportArgumentType]
        accounts.audit()


def test_a_bonus_is_split_whole_by_worth_and_nobody_pays_for_harm():
    assert split(100, {"a": 1.0, "b": 1.0, "c": 1.0, "d": -5.0}) == {"a": 34, "b": 33, "c": 33, "d": 0}
    assert split(100, {"a": 0.0, "b": -1.0}) == {"a": 0, "b": 0}


# ------------------------------------------------------------------------------------------------ profiles and plans
SIM = [[1, 0.95, 0.2, 0.1], [0.95, 1, 0.25, 0.1], [0.2, 0.25, 1, 0.3], [0.1, 0.1, 0.3, 1]]


@pytest.mark.parametrize(("lam", "picks"), [(1.0, [0, 1, 2]), (0.7, [0, 2, 1]), (0.5, [0, 2, 3])])
def test_tools_by_mmr(lam, picks):
    assert profiles.mmr([0.9, 0.85, 0.8, 0.3], SIM, 3, lam) == picks


def test_mmr_takes_the_lowest_of_equals_and_each_once():
    assert profiles.mmr([0.5, 0.5], np.ones((2, 2)), 3, 0.5) == [0, 1]


def test_profiles_fill_the_gap_and_no_more():
    found = profiles.generate(list("abcdef"), 3, 3, 100, seed=0)
    assert len(found) == 6 and len({one.skills for one in found}) > 2
    assert not profiles.gap(list("abcdef"), found, 3) and profiles.gap(list("abcdefg"), found, 3) == {"g": 3}
    assert all(sum(skill in one.skills for one in found) == 3 for skill in "abcdef")


def test_a_plan_that_waits_for_itself_is_refused_by_name(tmp_path):
    with pytest.raises(BadInput, match="cycle") as error:
        plans.ordered({"a": ["c"], "b": ["a"], "c": ["b"], "d": ["c"]})
    assert error.value.got in ("a needs c needs b needs a", "b needs a needs c needs b", "c needs b needs a needs c")
    for needs, said in (
        ({"a": ["z"]}, "what no node gives"),
        ({"a": [], "b": []}, "one end"),
        ({"a": ["a"]}, "cycle"),
    ):
        with pytest.raises(BadInput, match=said):
            plans.ordered(needs)
    (tmp_path / "plan.json").write_text('{"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}')
    assert plans.ordered(plans.shape(str(tmp_path / "plan.json"), 0))[::3] == ["a", "d"]
    assert plans.ordered(plans.shape("chain", 3)) == ["n1", "n2", "n3"]
    assert plans.shape("fan", 3)["n3"] == ["n1", "n2"]
    with pytest.raises(BadInput, match="no such plan"):
        plans.shape("star", 3)
    with pytest.raises(BadInput, match="no such capability"):
        plans.plan(plans.shape("chain", 1), [Task("q", "?", "z")], ["a"], 100, 100)
    with pytest.raises(BadInput, match="costs more"):
        plans.plan(plans.shape("chain", 2), [Task("q", "?", "a")] * 2, ["a"], 100, 100)


# ------------------------------------------------------------------------------------------------ processes
@contextmanager
def market(tmp_path, failure="", rate=0.0, arm="market", quality=None, *, agents=SIX, lease_s=5.0, k=3):
    """A market of agents that are all able, each right or not; the same answers under a name that says whose."""
    quality = quality or dict.fromkeys(agents, 1.0)
    files = {name: tmp_path / f"{name}.json" for name in agents}
    for name, file in files.items():
        file.write_text(json.dumps({"q": f"{name} says", "other": "something else"}))
    found = [Profile(name, f"owner of {name}", ("able",), 100, vector=(1.0, 0.0)) for name in agents]
    accounts, processes = Accounts(":memory:"), pool.Pool(files, failure, rate, 0, active=6, lease_s=lease_s)
    for name in (USER, *(f"stake:{name}" for name in agents), *(f"user:{one.owner}" for one in found)):
        accounts.mint(name, 10**6)

    def judge(node, said):
        return True, quality[said.agent] if said.answer == f"{said.agent} says" else 0.0

    ranking = Ranking(explore=0.1, guarded=arm != "unguarded")
    vectors = {"q": np.array([1.0, 0.0])}
    made = Market(found, accounts, processes, judge, vectors, ranking, arm, k, 1, 0, agents[-1])
    with closing(accounts), closing(processes):
        yield made
        accounts.audit()


def chain(n):
    return plans.plan(plans.shape("chain", n), [Task("q", "?", "able")] * n, ["able"], 100, 100 * n)


@pytest.mark.parametrize(("failure", "tasks", "lease_s"), [("crash", 60, 30.0), ("hang", 12, 0.5)])
def test_success_is_on_the_closed_form_with_processes_that_are_killed(tmp_path, failure, tasks, lease_s):
    r, k, n = 0.4, 3, 4
    with market(tmp_path, failure, r, lease_s=lease_s) as made:
        rows = [made.serve(f"t{i}", chain(n)) for i in range(tasks)]
    drawn = [
        all(not all(worker.fails("0", f"t{i}/n{j}/{a}", r) for a in range(k)) for j in range(1, n + 1))
        for i in range(tasks)
    ]
    assert [row["delivered"] for row in rows] == drawn
    p = closed_form(r, k, n)
    assert p == pytest.approx((1 - 0.4**3) ** 4)
    assert abs(np.mean(drawn) - p) <= 2 * np.sqrt(p * (1 - p) / tasks)
    how = [lease["how"] for row in rows for lease in row["leases"]]
    assert set(how) == {"answered", {"crash": "crashed", "hang": "hung"}[failure]}
    assert abs(how.count("answered") / len(how) - (1 - r)) < 0.25


def test_the_closed_form_is_that_of_the_table():
    assert [round(closed_form(r, 1, 4), 4) for r in (0.1, 0.3, 0.5, 0.7, 0.9)] == [
        0.6561,
        0.2401,
        0.0625,
        0.0081,
        0.0001,
    ]
    assert [round(closed_form(r, 3, 4), 4) for r in (0.1, 0.3, 0.5, 0.7, 0.9)] == [
        0.996,
        0.8963,
        0.5862,
        0.1863,
        0.0054,
    ]


def test_an_agent_that_never_answers_costs_its_lease_and_the_next_one_serves(tmp_path):
    with market(tmp_path, "hang", 1.0, lease_s=0.2, k=2) as made:
        row = made.serve("t", chain(1))
        assert not row["delivered"] and [lease["how"] for lease in row["leases"]] == ["hung", "hung"]
        assert made.accounts.balance(USER) == 10**6 + 2  # released, and two stakes
        stakes = [made.accounts.balance(f"stake:{name}") for name in SIX]
        assert sorted(stakes)[:3] == [10**6 - 1, 10**6 - 1, 10**6]


def test_a_late_duplicate_is_paid_once(tmp_path):
    with market(tmp_path, "late", 1.0, lease_s=1.0, agents=SIX[:2], k=2) as made:
        row = made.serve("t", chain(1))  # the first answer comes while the second agent has the lease
        assert row["delivered"] and [lease["how"] for lease in row["leases"]] == ["hung", "hung"]
        assert row["leases"][0]["agent"] == row["said"]["n1"][0]
        again = made.serve("u", chain(1))
        assert again["delivered"] and row["twice"] + again["twice"] >= 3
        earned = sum(made.accounts.balance(f"agent:{name}") for name in SIX[:2])
        assert earned == 200


def test_a_lie_is_paid_nothing_and_remembered(tmp_path):
    with market(tmp_path, "lie", 1.0) as made:
        row = made.serve("t", chain(2))
        assert row["delivered"] and not row["right"] and row["said"]["n1"][1] == "something else"
        assert made.accounts.balance(USER) == 10**6 and not row["leases"][0]["quality"]


def test_agents_are_dormant_until_asked_and_say_the_same_when_woken_again(tmp_path):
    files = {name: tmp_path / name for name in "abc"}
    for name, file in files.items():
        file.write_text(json.dumps({"q": f"{name} says"}))
    with closing(pool.Pool(files, "", 0.0, 0, active=2, lease_s=30.0)) as processes:
        assert processes.awake == []
        first = [processes.ask(name, f"{i}", "q").answer for i, name in enumerate("aabac")]
        assert processes.awake == ["a", "c"] and first == ["a says", "a says", "b says", "a says", "c says"]
        assert processes.ask("b", "5", "q").answer == "b says" and processes.awake == ["c", "b"]


# ------------------------------------------------------------------------------------------------ who is chosen
def shares(rows, names=SIX):
    asked = [lease["agent"] for row in rows for lease in row["leases"] if not lease["own"]]
    return {name: asked.count(name) / len(asked) for name in names}


def test_the_better_agent_is_learned_and_a_newcomer_as_good_gets_a_fair_share(tmp_path):
    with market(tmp_path, quality=dict.fromkeys(SIX, 1.0) | {"agent1": 0.0}) as made:
        five = replace(made, profiles=made.profiles[:5])
        before = shares([five.serve(f"t{i}", chain(2)) for i in range(150)])
        assert before["agent1"] < 0.12 and before["agent5"] == 0
        after = shares([made.serve(f"u{i}", chain(2)) for i in range(150)])
        assert after["agent5"] >= 0.1


def test_without_learning_the_worse_agent_gets_as_much_as_the_others(tmp_path):
    with market(tmp_path, arm="unlearned", quality=dict.fromkeys(SIX, 1.0) | {"agent1": 0.0}) as made:
        found = shares([made.serve(f"t{i}", chain(2)) for i in range(150)])
        assert found["agent1"] > 0.12 and made.ranking.weights_F.tolist() == HAND_F.tolist()


def test_what_the_owner_buys_gains_nothing_and_would_without_the_guard(tmp_path):
    sold = {}
    for arm in ("market", "unguarded"):
        with market(tmp_path, arm=arm, quality=dict.fromkeys(SIX, 0.0)) as made:
            for i in range(20):
                made.trade(f"w{i}", chain(2))
            owner = made.accounts.balance("user:owner of agent5") + made.accounts.balance("agent:agent5")
            assert owner == 10**6 - 40 * 7  # what planner and platform got
            sold[arm] = shares([made.serve(f"t{i}", chain(2)) for i in range(60)])["agent5"]
    assert sold["market"] < 0.3 < sold["unguarded"]


def test_a_market_that_goes_on_is_what_its_log_says(tmp_path):
    with market(tmp_path, "crash", 0.3) as made:
        rows = [made.serve(f"t{i}", chain(4)) for i in range(20)]
        last, weights = made.serve("last", chain(4)), made.ranking.weights_F
    with market(tmp_path, "crash", 0.3) as made:
        made.recall([lease for row in json.loads(json.dumps(rows)) for lease in row["leases"]])
        assert made.serve("last", chain(4)) == last and made.ranking.weights_F.tolist() == weights.tolist()
        assert made.serve("last", chain(4))["said"] == last["said"]  # once more: paid once
        assert sum(made.accounts.balance(f"agent:{name}") for name in SIX) == 100 * len(last["said"])


def test_weights_follow_what_tells_success_from_failure():
    draw = np.random.default_rng(0)
    log = []
    for _ in range(200):
        x = draw.random(5)
        log.append(("able", x, 0.3, float(x[3] > 0.5)))  # the price decides, and the quality says nothing
    found = fit(log)
    assert found[3] > HAND_F[3] + 0.5 and found[4] == HAND_F[4] and fit([]).tolist() == HAND_F.tolist()

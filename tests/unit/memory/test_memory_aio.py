"""AsyncMemory: same results as Memory, a free event loop, and nothing lost when a caller is cancelled."""

import asyncio
import inspect
import logging
import threading
import time

import pytest

from evolvent import AsyncMemory, Memory
from evolvent.core.errors import BadInput, StoreError
from evolvent.memory.aio import AsyncScopes
from evolvent.memory.embedders import Hashing
from evolvent.memory.items import Recall
from evolvent.memory.policies import preset
from evolvent.memory.scopes import Scopes

PATIENCE_S = 60.0  # only a test that fails waits that long


class Gate(Hashing):
    """An embedder that waits until it is let through, as a slow disk or endpoint would."""

    def __init__(self):
        super().__init__(64)
        self.entered, self.open = threading.Event(), threading.Event()
        self.open.set()

    def embed(self, texts):
        self.entered.set()
        assert self.open.wait(PATIENCE_S), "nobody opened the gate: the event loop stood still"
        return super().embed(texts)


@pytest.fixture
def gate():
    return Gate()


@pytest.fixture
def memory(gate):
    with Memory(embedder=gate, policy="memrl") as opened:
        opened.remember("count the flights of Delta", "carrier='DL'")
        opened.remember("count the flights of United", "carrier='UA'")
        yield opened


async def begun(gate, coroutine):
    """The coroutine as a task whose embedding has begun and hangs at the gate."""
    gate.entered.clear()
    gate.open.clear()
    task = asyncio.create_task(coroutine)
    await asyncio.to_thread(gate.entered.wait, PATIENCE_S)
    return task


SYNCHRONOUS = {"transaction"}  # it would hold the write lock while the loop runs other things


def test_every_verb_of_memory_has_an_async_twin():
    verbs = {name for name, _ in inspect.getmembers(Memory, inspect.isfunction) if name[0] != "_"} - SYNCHRONOUS
    assert len(verbs) > 20
    of_scopes = {name for name, _ in inspect.getmembers(Scopes, inspect.isfunction) if name[0] != "_"}
    for theirs, ours, names in ((Memory, AsyncMemory, verbs), (Scopes, AsyncScopes, of_scopes)):
        for verb in names:
            twin = getattr(ours, verb, None)
            assert inspect.iscoroutinefunction(twin), verb
            if verb != "close":
                assert inspect.signature(twin) == inspect.signature(getattr(theirs, verb)), verb
                assert twin.__doc__ == getattr(theirs, verb).__doc__


def test_scopes_are_awaited(tmp_path):
    def opened(scope):
        return Memory(tmp_path / "m.db", scope=scope, embedder="hash:64", policy=preset("memrl", gate=-1.0))

    async def main():
        async with AsyncScopes(Scopes(opened("user"), opened("team"))) as both:
            team = both.scopes.memories["team"]
            id_ = team.remember("task one", "body")
            first, second = await both.recall_many(["task one", "task two"], k=1)
            assert first.ids == second.ids == [id_]
            assert (await both.settle(first, 1.0))["team"] and team.get(id_).n == 1
            assert (await both.revise(first, 0.0, "reverted"))["team"].values and team.get(id_).value < 0.5
        with pytest.raises(StoreError, match="closed") as error:
            await both.search("task one")
        assert error.value.code == "closed"

    asyncio.run(main())


def test_a_generator_is_read_where_it_belongs(memory):
    here = threading.get_ident()

    def rows():
        assert threading.get_ident() == here, "the caller's generator ran on the memory's thread"
        yield {"key": "a task", "body": "a lesson"}

    async def main():
        async with AsyncMemory(memory) as aio:
            assert await aio.remember_many(rows()) == ["m3"]

    asyncio.run(main())


def test_200_at_once_are_200_one_by_one(tmp_path):
    tasks = [f"count the flights of carrier {i % 7} in month {i % 12}" for i in range(200)]

    def fresh(name):
        # everything is shown each time: then values depend on the outcomes and their order alone, to the last bit
        policy = preset("memrl", k=7, gate=-1.0)
        memory = Memory(tmp_path / name, embedder="hash", policy=policy, sync="normal")
        memory.remember_many([{"key": f"count the flights of carrier {i}", "body": f"lesson {i}"} for i in range(7)])
        return memory

    def found(memory):
        return {i.id: (i.value, i.n) for i in memory.items()}, memory.rebuild_values()

    with fresh("one.db") as memory:
        for i, task in enumerate(tasks):
            memory.settle(memory.recall(task), float(i % 3 == 0), source="tests")
        expected = found(memory)

    async def together():
        async with AsyncMemory(fresh("many.db")) as memory:

            async def attempt(i, task):
                receipt = await memory.recall(task)
                await memory.shown(receipt, receipt.ids)
                return receipt.id, await memory.settle(receipt, float(i % 3 == 0), source="tests")

            done = await asyncio.gather(*(attempt(i, task) for i, task in enumerate(tasks)))
            assert [receipt for receipt, _ in done] == [f"r{i}" for i in range(1, 201)], "in the order of the calls"
            return await memory.run(found)

    assert asyncio.run(together()) == expected
    assert {n for _, n in expected[0].values()} == {200} and expected[1] == 0


def test_the_loop_runs_while_a_verb_waits(memory, gate):
    async def main():
        ours = AsyncMemory(memory)
        task = await begun(gate, ours.recall("count the flights of Alaska"))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not task.done()
        gate.open.set()
        assert (await task).id == "r1"

    asyncio.run(main())


def test_gaps_of_the_loop_are_a_fraction_of_a_verb():
    class Slow(Hashing):
        def embed(self, texts):
            time.sleep(0.1)
            return super().embed(texts)

    async def longest_gap(recall):
        gaps, stop = [], False

        async def heart():
            last = time.perf_counter()
            while not stop:
                await asyncio.sleep(0.001)
                now = time.perf_counter()
                gaps.append(now - last)
                last = now

        beating = asyncio.create_task(heart())
        for i in range(5):
            await recall(f"task number {i}")
        stop = True
        await beating
        return max(gaps)

    async def main():
        blocking, ours = Memory(embedder=Slow(64)), AsyncMemory(Memory(embedder=Slow(64)))

        async def direct(task):
            await asyncio.sleep(0)
            return blocking.recall(task)

        ratio = await longest_gap(ours.recall) / await longest_gap(direct)
        await ours.close()
        blocking.close()
        return ratio

    assert asyncio.run(main()) < 0.5


def test_a_call_that_waits_for_its_turn_is_withdrawn(memory, gate):
    async def main():
        ours = AsyncMemory(memory)
        first = await begun(gate, ours.recall("count the flights of Alaska"))
        second = asyncio.create_task(ours.remember("never", "happens"))
        third = asyncio.create_task(ours.recall("count the flights of Spirit"))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.sleep(0)
        gate.open.set()
        assert ((await first).id, (await third).id) == ("r1", "r2")
        with pytest.raises(asyncio.CancelledError):
            await second
        assert not ours.abandoned

    asyncio.run(main())
    assert len(memory.items()) == 2


def test_a_call_that_has_begun_completes(memory, gate, caplog):
    async def main():
        ours = AsyncMemory(memory)
        task = await begun(gate, ours.recall("count the flights of Delta in May"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(task, 0.01)
        assert not ours.abandoned and not gate.open.is_set(), "the caller goes on at once"
        gate.open.set()
        assert await ours.run(lambda memory: len(memory.items())) == 2  # in its turn: after what was abandoned
        (left,) = ours.abandoned
        assert left.verb == "recall" and isinstance(left.result, Recall) and left.error is None
        changes = await ours.settle(left.result, 1.0)
        assert [c.id for c in changes] == left.result.ids and "m1" in left.result.ids
        await ours.close()

    with caplog.at_level(logging.WARNING, "evolvent"):
        asyncio.run(main())
    assert "recall completed after its caller was cancelled: r1" in caplog.text


def test_settling_again_after_a_cancellation_counts_once(memory):
    async def main():
        ours = AsyncMemory(memory)
        receipt = await ours.recall("count the flights of Delta in May")
        entered, go_on = threading.Event(), threading.Event()

        def settle(memory):
            entered.set()
            assert go_on.wait(PATIENCE_S)
            return memory.settle(receipt, 0.0)

        task = asyncio.create_task(ours.run(settle))
        await asyncio.to_thread(entered.wait, PATIENCE_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        again = await ours.settle(receipt, 0.0)
        assert again == ours.abandoned[0].result and all(c.q_after < c.q_before for c in again)
        assert [i.n for i in await ours.run(Memory.items)] == [1, 1]

    asyncio.run(main())


def test_what_fails_after_a_cancellation_is_reported(memory, gate, caplog):
    async def main():
        ours = AsyncMemory(memory)
        entered, go_on = threading.Event(), threading.Event()

        def fails(memory):
            entered.set()
            go_on.wait(PATIENCE_S)
            raise OSError("the disk went away")

        task = asyncio.create_task(ours.run(fails))
        await asyncio.to_thread(entered.wait, PATIENCE_S)
        task.cancel()
        go_on.set()
        await ours.run(Memory.items)
        assert task.cancelled() and str(ours.abandoned[0].error) == "the disk went away"

    asyncio.run(main())
    assert "fails failed after its caller was cancelled" in caplog.text and "the disk went away" in caplog.text


def test_errors_pass_through(memory):
    async def main():
        ours = AsyncMemory(memory)
        receipt = await ours.recall("count the flights of Delta in May")
        with pytest.raises(BadInput, match="reward is out of range"):
            await ours.settle(receipt, 7.0)
        with pytest.raises(BadInput, match="unknown receipt"):
            await ours.settle("r99", 1.0)
        both = await asyncio.gather(ours.remember("", "no key"), ours.settle(receipt, 1.0), return_exceptions=True)
        assert isinstance(both[0], BadInput) and isinstance(both[1], list), "one failure leaves its neighbour alone"

    asyncio.run(main())


def test_what_is_no_memory_is_refused(memory):
    for kind, odd in ((AsyncMemory, "agent.db"), (AsyncMemory, None), (AsyncScopes, memory)):
        with pytest.raises(BadInput) as refused:
            kind(odd)
        assert refused.value.code == "wrong_type"


def test_stop_iteration_reaches_the_caller(memory):
    """No future can hold it: the caller would wait for ever."""

    async def main():
        with pytest.raises(RuntimeError, match="StopIteration"):
            await asyncio.wait_for(AsyncMemory(memory).run(lambda _: next(iter(()))), PATIENCE_S)

    asyncio.run(main())


def test_a_group_of_verbs_is_one_commit(memory):
    def both(memory, body):
        with memory.transaction():
            memory.remember("first", body)
            memory.remember("second", "")

    async def main():
        ours = AsyncMemory(memory)
        with pytest.raises(BadInput, match="body is empty"):
            await ours.run(both, body="rolled back")

    asyncio.run(main())
    assert len(memory.items()) == 2


def test_close_lets_the_queue_finish(memory, gate):
    async def main():
        async with AsyncMemory(memory) as ours:
            task = await begun(gate, ours.remember("count the flights of Alaska", "carrier='AS'"))
            closing = asyncio.create_task(ours.close())
            await asyncio.sleep(0)
            closing.cancel()
            with pytest.raises(StoreError, match="closed"):
                await ours.recall("too late")
            gate.open.set()
            assert await task == "m3"
        with pytest.raises(StoreError, match="closed"):
            await ours.recall("too late")

    asyncio.run(main())
    with pytest.raises(StoreError, match="closed"):
        memory.items()


def test_it_belongs_to_no_event_loop(memory):
    ours = AsyncMemory(memory)
    assert [asyncio.run(ours.recall("count the flights of Delta")).id for _ in range(2)] == ["r1", "r2"]
    asyncio.run(ours.close())


def test_the_id_of_a_receipt_is_enough(memory):
    """What travels through a framework's state or queue is a string."""

    async def main():
        ours = AsyncMemory(memory)
        receipt = (await ours.recall("count the flights of Delta")).id
        await ours.shown(receipt, ["m1"])
        (change,) = await ours.settle(receipt, 1.0)
        made = await ours.remember("count the flights of Delta in May", "carrier='DL' AND month=5", parents=receipt)
        explained = (await ours.explain(made)).to_dict()
        assert change.id == "m1" and explained["made_in"] == receipt
        assert explained["parents"] == [{"id": "m1", "relation": "retrieved"}]
        with pytest.raises(BadInput, match="single text"):
            await ours.remember("a memory's id", "is no receipt", parents="m1")

    asyncio.run(main())

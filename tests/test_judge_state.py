"""What a judge keeps on disk: verdicts that are asked for once, and what a day has cost. Real files, real processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stef.errors import JudgeError, JudgeFailure, SettingError
from stef.judge.budget import Budget, BudgetSpentError
from stef.judge.cache import VerdictCache
from stef.judge.completion import Completion, Spent
from stef.judge.statefile import StateFile

ROOT = Path(__file__).parents[1]


@pytest.fixture
def file(tmp_path):
    """An empty state file."""
    opened = StateFile(str(tmp_path / "judge.db"))
    yield opened
    opened.close()


class Model:
    """Counts how often it is asked; waits until it is told to answer."""

    def __init__(self, error=None):
        self.asked, self.error = 0, error
        self.may_answer = asyncio.Event()

    async def __call__(self):
        """Answer, or fail."""
        self.asked += 1
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        return f"answer {self.asked}"


def test_a_kept_answer_is_not_asked_for_again(file):
    """The second time the answer comes from the file, also for another cache on it."""

    async def twice():
        model = Model()
        model.may_answer.set()
        return [
            await VerdictCache(file, 10).once("k", model),
            await VerdictCache(file, 10).once("k", model),
            await VerdictCache(file, 10).once("other", model),
        ]

    assert [("answer 1", False), ("answer 1", True), ("answer 2", False)] == asyncio.run(twice())


def test_of_many_who_ask_at_once_one_makes_the_call(file):
    """Twenty tasks of one process: one call, twenty answers."""

    async def together():
        model, cache = Model(), VerdictCache(file, 10)
        tasks = [asyncio.create_task(cache.once("k", model)) for _ in range(20)]
        await asyncio.sleep(0.05)
        model.may_answer.set()
        return model, await asyncio.gather(*tasks)

    model, found = asyncio.run(together())
    assert model.asked == 1
    assert {answer for answer, _ in found} == {"answer 1"}
    assert sum(not kept for _, kept in found) == 1


def test_a_failure_reaches_all_who_wait_and_is_not_kept(file):
    """Who waits for a call that fails gets its error; who comes later asks anew."""

    async def failing():
        cache = VerdictCache(file, 10)
        broken = Model(JudgeError(JudgeFailure.REPLY_INVALID, "no verdict"))
        broken.may_answer.set()
        found = await asyncio.gather(*(cache.once("k", broken) for _ in range(3)), return_exceptions=True)
        good = Model()
        good.may_answer.set()
        return broken.asked, found, await cache.once("k", good)

    asked, found, later = asyncio.run(failing())
    assert asked == 1
    assert [JudgeError] * 3 == [type(error) for error in found]
    assert later == ("answer 1", False)


async def two_waiting(file):
    """A model that has not answered, the task that asks it, and one that waits for the answer."""
    cache, model = VerdictCache(file, 10), Model()
    first = asyncio.create_task(cache.once("k", model))
    await asyncio.sleep(0.05)
    second = asyncio.create_task(cache.once("k", model))
    await asyncio.sleep(0.05)
    return model, first, second


def test_who_waits_for_a_cancelled_call_makes_it(file):
    """A record that is given back in the middle of its call costs no other its verdict."""

    async def cancelled():
        model, first, second = await two_waiting(file)
        first.cancel()
        model.may_answer.set()
        return await asyncio.gather(first, second, return_exceptions=True), model.asked

    (first, second), asked = asyncio.run(cancelled())
    assert isinstance(first, asyncio.CancelledError)
    assert (second, asked) == (("answer 2", False), 2)


def test_a_waiter_can_be_cancelled_without_harm_to_the_call(file):
    """The one who asks goes on when another one stops waiting."""

    async def cancelled():
        model, first, second = await two_waiting(file)
        second.cancel()
        await asyncio.sleep(0)
        model.may_answer.set()
        return await asyncio.gather(first, second, return_exceptions=True)

    first, second = asyncio.run(cancelled())
    assert first == ("answer 1", False)
    assert isinstance(second, asyncio.CancelledError)


def test_a_claim_of_a_process_that_died_runs_out(tmp_path, file):
    """Another process's claim holds while it lasts; after that the answer is asked for here."""
    moments = [1_000.0]

    async def behind_the_dead():
        await file.run(lambda c: c.execute("INSERT INTO claims VALUES ('k', 'dead', ?)", (moments[0] + 30,)))
        cache, model = VerdictCache(file, 10, now=lambda: moments[0]), Model()
        model.may_answer.set()
        waiting = asyncio.create_task(cache.once("k", model))
        await asyncio.sleep(0.1)
        before = model.asked
        moments[0] += 31
        return before, await asyncio.wait_for(waiting, 5)

    assert asyncio.run(behind_the_dead()) == (0, ("answer 1", False))


def test_a_clock_set_back_makes_no_claim_last_for_ever(file):
    """A claim that ends further ahead than any claim lasts is none."""

    async def set_back():
        await file.run(lambda c: c.execute("INSERT INTO claims VALUES ('k', 'dead', 999999.0)"))
        model = Model()
        model.may_answer.set()
        return await asyncio.wait_for(VerdictCache(file, 10, now=lambda: 1_000.0).once("k", model), 5)

    assert asyncio.run(set_back()) == ("answer 1", False)


_ASKING = """
import asyncio, sys
from stef.judge.cache import VerdictCache
from stef.judge.statefile import StateFile

async def main():
    file = StateFile(sys.argv[1])
    cache = VerdictCache(file, 1000)
    made = []

    async def make(key):
        made.append(key)
        await asyncio.sleep(0.02)
        return "answer to " + key

    keys = [str(number) for number in range(40)]
    found = await asyncio.gather(*(cache.once(key, lambda key=key: make(key)) for key in keys))
    assert [answer for answer, _ in found] == ["answer to " + key for key in keys]
    print(len(made))
    file.close()

asyncio.run(main())
"""


def test_processes_that_ask_for_the_same_share_the_calls(tmp_path):
    """Four processes, the same forty questions at once: forty calls in all."""
    command = [sys.executable, "-c", _ASKING, str(tmp_path / "judge.db")]
    running = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    made = [int(process.communicate(timeout=60)[0]) for process in running]
    assert sum(made) == 40


def test_the_longest_unused_go_first(file):
    """The file stays near its size, and what was used last stays."""
    moments = [0.0]

    async def fill():
        cache = VerdictCache(file, 100, now=lambda: moments[0])
        for number in range(400):
            moments[0] += 10_000.0
            model = Model()
            model.may_answer.set()
            await cache.once(f"k{number}", model)
            await cache.once("k0", model)
        return await file.run(lambda c: [row[0] for row in c.execute("SELECT key FROM verdicts")])

    kept = asyncio.run(fill())
    assert 100 <= len(kept) <= 200
    assert {"k0", "k399"} <= set(kept)


def test_a_file_that_breaks_costs_no_record(tmp_path, file):
    """Without its tables the cache asks the model and keeps nothing."""

    async def broken():
        await file.run(lambda c: c.execute("DROP TABLE verdicts"))
        model = Model()
        model.may_answer.set()
        cache = VerdictCache(file, 10)
        return [await cache.once("k", model), await cache.once("k", model)]

    assert [("answer 1", False), ("answer 2", False)] == asyncio.run(broken())


@pytest.mark.parametrize(
    "make", [lambda path: path.write_text("no database at all, but text " * 40), lambda path: path.mkdir()]
)
def test_what_is_no_state_file_is_refused_by_name(tmp_path, make):
    """A setting that names another file, or a folder, says so at the start."""
    path = tmp_path / "other"
    make(path)
    with pytest.raises(SettingError, match=r"judge_file: found .*other"):
        StateFile(str(path))


# ── budget ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class Day:
    """A calendar that a test turns."""

    def __init__(self):
        self.now = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self):
        """The moment."""
        return self.now


async def judge(budget, usd):
    """One judgement of a price."""
    spent = Spent(attempts=1)
    async with budget.judgement(spent):
        spent.add(Completion(text="", input_tokens=10, output_tokens=1, cost_usd=usd))


def test_a_day_ends_at_its_budget_and_the_next_one_begins_anew(file):
    """What is spent counts for all on the file, after a restart too; midnight UTC lifts the bound."""
    day = Day()

    async def days():
        first = Budget(file, 1.0, now=day)
        for _ in range(4):
            await judge(first, 0.25)
        with pytest.raises(BudgetSpentError, match=r"1\.00 of 1 US dollars are spent on 2026-03-01"):
            await judge(Budget(file, 1.0, now=day), 0.25)
        day.now += timedelta(hours=12)
        await judge(first, 0.25)
        return await file.run(lambda c: c.execute("SELECT * FROM spending ORDER BY day").fetchall())

    assert asyncio.run(days()) == [("2026-03-01", 1.0, 4, 40, 4), ("2026-03-02", 0.25, 1, 10, 1)]


def test_what_is_in_flight_counts(file):
    """Ten at once do not all see the same empty purse."""

    async def at_once():
        budget = Budget(file, 1.0)
        await judge(budget, 0.3)

        async def slow():
            spent = Spent(attempts=1)
            async with budget.judgement(spent):
                await asyncio.sleep(0.05)
                spent.add(Completion(text="", cost_usd=0.3))

        found = await asyncio.gather(*(slow() for _ in range(10)), return_exceptions=True)
        return sum(isinstance(item, BudgetSpentError) for item in found)

    assert asyncio.run(at_once()) == 7


def test_a_judgement_that_failed_is_paid_too(file):
    """Tokens of a reply that could not be read cost as much as others."""

    async def failing():
        budget, spent = Budget(file, 0.0), Spent(attempts=1, cost_usd=0.5)
        with pytest.raises(JudgeError):
            async with budget.judgement(spent):
                raise JudgeError(JudgeFailure.REPLY_INVALID, "no verdict")
        return await file.run(lambda c: c.execute("SELECT usd FROM spending").fetchone())

    assert asyncio.run(failing()) == (0.5,)


def test_a_budget_that_cannot_be_read_counts_as_spent(file):
    """Nobody spends what nobody counts."""

    async def blind():
        await file.run(lambda c: c.execute("DROP TABLE spending"))
        await judge(Budget(file, 1.0), 0.1)

    with pytest.raises(BudgetSpentError, match="cannot be read"):
        asyncio.run(blind())

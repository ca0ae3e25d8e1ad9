"""The queue of the server: joint batches, fairness, bounds, cancelled callers, draining."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

import numpy as np
import pytest

from litebert.predict.predictor import Predictor
from litebert.predict.questions import Question
from litebert.serve.batcher import Batcher, QueueFullError
from litebert.tasks.base import Feature, Outputs, Row

Result = TypeVar("Result")


@dataclass
class GatedModel:
    """Stands for a model: each call waits for a permit and answers with the sum of the ids."""

    permits: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    calls: list[list[int]] = field(default_factory=list)
    fail: bool = False
    pads: bool = True

    def run_batch(self, features: Sequence[Feature], outputs: Sequence[str]) -> list[Outputs]:
        self.permits.acquire()
        self.calls.append([len(feature) for feature in features])
        if self.fail:
            raise RuntimeError("broken")
        return [{"sum": np.array([feature.rows[0].ids.sum()], np.float32)} for feature in features]

    def release(self, count: int = 1000) -> None:
        self.permits.release(count)


def feature(length: int, token: int = 1) -> Feature:
    return Feature(0, (Row(np.full(length, token, np.int32), length),))


def ask_sum(*lengths: int, token: int = 1) -> Question[list[float]]:
    features = [feature(length, token) for length in lengths]
    return Question(features, ("sum",), lambda said: [float(one["sum"][0]) for one in said])


async def ask(queue: Batcher, model: object, question: Question[Result]) -> Result:
    with queue.admission(question.num_tokens):
        pass  # the questions are built
    (answer,) = await queue.ask(cast(Predictor, model), [question])
    return answer


def batcher(max_queue_tokens: int = 10_000, sizes: list[int] | None = None) -> Batcher:
    made = Batcher(
        max_tokens=256,
        max_delay_s=0.001,
        max_queue_tokens=max_queue_tokens,
        on_batch=lambda size, *_: (sizes if sizes is not None else []).append(size),
    )
    made.start()
    return made


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0.002)


def test_waiting_questions_share_a_call() -> None:
    async def scenario() -> None:
        model = GatedModel()
        sizes: list[int] = []
        queue = batcher(sizes=sizes)
        first = asyncio.create_task(ask(queue, model, ask_sum(10)))
        await settle()
        others = [asyncio.create_task(ask(queue, model, ask_sum(10, token=t))) for t in range(5)]
        await settle()
        model.release()
        assert await first == [10.0]
        assert await asyncio.gather(*others) == [[10.0 * t] for t in range(5)]
        assert model.calls == [[10], [10] * 5]
        assert sizes == [1, 5]
        await queue.drain()

    asyncio.run(scenario())


def test_different_lengths_do_not_pad_each_other_and_the_oldest_goes_first() -> None:
    async def scenario() -> None:
        model = GatedModel()
        queue = batcher()
        asked = [asyncio.create_task(ask(queue, model, ask_sum(n))) for n in (9, 100, 10, 101, 9)]
        await settle()
        model.release()
        await asyncio.gather(*asked)
        # The first call may have started before the others came.
        assert sorted(map(tuple, model.calls), key=len)[-1] in {(9, 10, 9), (10, 9), (100, 101)}
        assert sum(map(len, model.calls)) == 5
        assert all(max(call) - min(call) <= 2 for call in model.calls)
        await queue.drain()

    asyncio.run(scenario())


def test_lengths_mix_where_padding_is_not_computed() -> None:
    async def scenario() -> None:
        model = GatedModel(pads=False)
        queue = batcher()
        first = asyncio.create_task(ask(queue, model, ask_sum(5)))
        await settle()
        lengths = (9, 100, 10, 101, 9, 120)
        others = [asyncio.create_task(ask(queue, model, ask_sum(n))) for n in lengths]
        await settle()
        model.release()
        assert await first == [5.0]
        assert await asyncio.gather(*others) == [[float(n)] for n in lengths]
        assert model.calls == [[5], [9, 10, 9, 100, 101], [120]], "the budget is 256 tokens"
        await queue.drain()

    asyncio.run(scenario())


def test_questions_of_one_request_are_answered_in_order() -> None:
    async def scenario() -> None:
        model = GatedModel()
        model.release()
        queue = batcher()
        answers = await queue.ask(cast(Predictor, model), [ask_sum(50, 3), ask_sum(200), ask_sum(7, 8)])
        assert answers == [[50.0, 3.0], [200.0], [7.0, 8.0]]
        await queue.drain()

    asyncio.run(scenario())


def test_questions_of_several_inputs_are_answered_in_order() -> None:
    async def scenario() -> None:
        model = GatedModel()
        model.release()
        queue = batcher()
        assert await ask(queue, model, ask_sum(50, 3, 200, 7)) == [50.0, 3.0, 200.0, 7.0]
        await queue.drain()

    asyncio.run(scenario())


def test_a_full_queue_refuses_at_once_and_recovers() -> None:
    async def scenario() -> None:
        model = GatedModel()
        queue = batcher(max_queue_tokens=100)
        running = asyncio.create_task(ask(queue, model, ask_sum(40)))
        await settle()
        waiting = [asyncio.create_task(ask(queue, model, ask_sum(40))) for _ in range(3)]
        await settle()
        assert queue.queued_tokens == 120
        with pytest.raises(QueueFullError) as refused:
            await ask(queue, model, ask_sum(40))
        assert refused.value.retry_after_s >= 1
        model.release()
        answers = await asyncio.gather(running, *waiting)
        assert answers == [[40.0]] * 4, "an accepted question was lost"
        assert await ask(queue, model, ask_sum(40)) == [40.0]
        assert queue.queued_tokens == 0
        await queue.drain()

    asyncio.run(scenario())


def test_an_idle_server_takes_a_question_beyond_the_bound() -> None:
    async def scenario() -> None:
        model = GatedModel()
        model.release()
        queue = batcher(max_queue_tokens=100)
        assert await ask(queue, model, ask_sum(200, 200)) == [200.0, 200.0]
        await queue.drain()

    asyncio.run(scenario())


def test_a_large_question_is_taken_while_others_wait() -> None:
    async def scenario() -> None:
        model = GatedModel()
        queue = batcher(max_queue_tokens=100)
        small = [asyncio.create_task(ask(queue, model, ask_sum(40))) for _ in range(2)]
        await settle()
        large = asyncio.create_task(ask(queue, model, ask_sum(*[50] * 20)))
        await settle()
        with pytest.raises(QueueFullError):
            await ask(queue, model, ask_sum(*[50] * 20))
        small.append(asyncio.create_task(ask(queue, model, ask_sum(40))))  # not shut out by it
        await settle()
        model.release()
        assert await large == [50.0] * 20
        assert await asyncio.gather(*small) == [[40.0]] * 3
        await queue.drain()

    asyncio.run(scenario())


def test_a_small_question_does_not_wait_for_the_whole_of_large_ones() -> None:
    async def scenario() -> None:
        model = GatedModel()
        queue = batcher(max_queue_tokens=1_000_000)
        large = [asyncio.create_task(ask(queue, model, ask_sum(*[200] * 50))) for _ in range(16)]
        await settle()
        small = asyncio.create_task(ask(queue, model, ask_sum(9)))
        model.release(20)  # one running, one each of the large ones that came before, and itself
        assert await small == [9.0]
        assert not any(task.done() for task in large)
        model.release(10_000)
        assert await asyncio.gather(*large) == [[200.0] * 50] * 16
        await queue.drain()

    asyncio.run(scenario())


def test_a_large_question_is_answered_while_small_ones_keep_coming() -> None:
    async def scenario() -> None:
        model = GatedModel()
        model.release(100_000)
        queue = batcher()
        large = asyncio.create_task(ask(queue, model, ask_sum(*[200] * 20)))
        while not large.done():
            await asyncio.gather(*(ask(queue, model, ask_sum(200)) for _ in range(8)))
        assert large.result() == [200.0] * 20
        await queue.drain()

    asyncio.run(scenario())


def test_work_on_texts_counts_as_waiting() -> None:
    async def scenario() -> None:
        queue = batcher(max_queue_tokens=100)
        with queue.admission(100):
            with pytest.raises(QueueFullError), queue.admission(1):
                pass
            with queue.admission(1000):  # more than a batch: another queue
                pass
        with queue.admission(1):
            pass
        await queue.drain()

    asyncio.run(scenario())


def test_answers_are_read_beside_the_event_loop() -> None:
    async def scenario() -> None:
        model = GatedModel()
        model.release()
        queue = batcher()
        threads: list[int] = []
        asked = ask_sum(5)

        def decode(said: Sequence[Outputs]) -> list[float]:
            threads.append(threading.get_ident())
            return asked.decode(said)

        assert await ask(queue, model, replace(asked, decode=decode)) == [5.0]
        assert threads != [threading.get_ident()]
        await queue.drain()

    asyncio.run(scenario())


def test_a_row_does_not_keep_its_batch() -> None:
    class Views(GatedModel):
        def run_batch(self, features: Sequence[Feature], outputs: Sequence[str]) -> list[Outputs]:
            whole = np.zeros((len(features), 1000), np.float32)
            return [{"sum": whole[index, :1]} for index in range(len(features))]

    async def scenario() -> None:
        queue = batcher()
        owners = Question([feature(1)] * 2, ("sum",), lambda said: [s["sum"].base for s in said])
        assert await ask(queue, Views(), owners) == [None, None]
        await queue.drain()

    asyncio.run(scenario())


def test_inputs_of_callers_that_left_are_dropped() -> None:
    async def scenario() -> None:
        model = GatedModel()
        queue = batcher()
        running = asyncio.create_task(ask(queue, model, ask_sum(5)))
        await settle()
        leaving = asyncio.create_task(ask(queue, model, ask_sum(60)))
        staying = asyncio.create_task(ask(queue, model, ask_sum(70)))
        await settle()
        leaving.cancel()
        await settle()
        model.release()
        assert await running == [5.0]
        assert await staying == [70.0]
        assert [60] not in model.calls
        await queue.drain()

    asyncio.run(scenario())


def test_a_failing_call_fails_its_questions_alone() -> None:
    async def scenario() -> None:
        model = GatedModel(fail=True)
        model.release()
        queue = batcher()
        with pytest.raises(RuntimeError, match="broken"):
            await ask(queue, model, ask_sum(5))
        model.fail = False
        assert await ask(queue, model, ask_sum(6)) == [6.0]
        await queue.drain()

    asyncio.run(scenario())


def test_draining_answers_what_was_accepted_and_refuses_the_rest() -> None:
    async def scenario() -> None:
        model = GatedModel()
        queue = batcher()
        accepted = [asyncio.create_task(ask(queue, model, ask_sum(n))) for n in (5, 50, 90)]
        await settle()
        stopping = asyncio.create_task(queue.drain())
        await settle()
        assert not queue.accepting
        with pytest.raises(QueueFullError):
            await ask(queue, model, ask_sum(5))
        model.release()
        assert await asyncio.gather(*accepted) == [[5.0], [50.0], [90.0]]
        await stopping

    asyncio.run(scenario())


def test_models_and_outputs_do_not_mix() -> None:
    async def scenario() -> None:
        one, other = GatedModel(), GatedModel()
        queue = batcher()
        asked = [asyncio.create_task(ask(queue, model, ask_sum(8))) for model in (one, other, one, other)]
        await settle()
        one.release()
        other.release()
        await asyncio.gather(*asked)
        assert sum(map(len, one.calls)) == sum(map(len, other.calls)) == 2
        await queue.drain()

    asyncio.run(scenario())


def test_many_callers_that_come_and_go_are_all_served() -> None:
    async def scenario() -> None:
        model = GatedModel()
        model.release(100_000)
        queue = batcher(max_queue_tokens=10_000_000)
        generator = random.Random(0)

        async def caller(number: int) -> None:
            await asyncio.sleep(generator.random() * 0.3)
            lengths = [generator.randrange(1, 120) for _ in range(generator.randrange(1, 4))]
            asked = asyncio.create_task(ask(queue, model, ask_sum(*lengths)))
            if number % 5 == 0:
                await asyncio.sleep(generator.random() * 0.002)
                asked.cancel()
                return
            assert await asked == [float(length) for length in lengths]

        await asyncio.gather(*(caller(number) for number in range(1500)))
        await queue.drain()
        assert queue.queued_tokens == 0

    asyncio.run(scenario())

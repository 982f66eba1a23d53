"""Answers that are repeated, and the room that they take."""

import asyncio

import pytest

from toolfold.service.answer_memory import AnswerInterrupted, BoundedMemory, KeyedAnswers, KeyReused


def test_the_oldest_values_make_room_by_number_and_by_bytes() -> None:
    memory: BoundedMemory[str, int] = BoundedMemory(3, most_bytes=10)

    removed = [memory.put(key, number, 4) for number, key in enumerate("aba")]
    removed += [memory.put("c", 3, 1), memory.put("d", 4, 1)]
    too_large = memory.put("e", 5, 11)

    assert removed == [[], [], [], [], [1]]
    assert (too_large, memory.values()) == ([2, 3, 4, 5], [])


async def test_requests_with_one_key_get_one_answer_unless_it_failed() -> None:
    answers: KeyedAnswers[str, str] = KeyedAnswers(len, most_bytes=100)
    made: list[str] = []

    async def make() -> str:
        made.append("answer")
        await asyncio.sleep(0)
        if len(made) == 1:
            raise ValueError("not now")
        return made[-1]

    first = await asyncio.gather(*(answers.answer("key", "r", make) for _ in range(2)), return_exceptions=True)
    second = await asyncio.gather(*(answers.answer("key", "r", make) for _ in range(2)))
    with pytest.raises(KeyReused):
        await answers.answer("key", "other", make)

    assert [str(error) for error in first] == ["not now", "not now"]
    assert (second, await answers.answer("key", "r", make), len(made)) == (["answer", "answer"], "answer", 2)


async def test_those_who_wait_for_a_request_that_is_cut_off_are_told() -> None:
    answers: KeyedAnswers[str, str] = KeyedAnswers(len)
    never = asyncio.Event()

    async def make() -> str:
        await never.wait()
        return ""

    first = asyncio.create_task(answers.answer("key", "r", make))
    await asyncio.sleep(0)
    second = asyncio.create_task(answers.answer("key", "r", make))
    await asyncio.sleep(0)
    first.cancel()

    with pytest.raises(AnswerInterrupted):
        await second

"""What is transferred: requests and the contents that they share."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from oracle.model.buffers import Model
from oracle.model.case import Content, Request
from strategies import numbers as n
from strategies.numbers import Numbers, pick
from strategies.topologies import Grid

# Which requests a case has. A lone one comes before the pair that it ends: a pair whose second matters shrinks to it.
_PLACES = ((0,), (1,), (0, 1), (2,), (0, 2), (0, 1, 2))
_ROOT = Content()


@lru_cache(maxsize=16384)
def _request(content: int, prompt: int, context_dp: int, generation_dp: int, cuts: tuple[int, ...]) -> Request:
    return Request(content, prompt, context_dp, generation_dp, (), cuts)


@lru_cache(maxsize=1024)
def _child(parent: int, length: int) -> Content:
    return Content(parent, length)


def around(blocks: int, rows: int, tokens_per_block: int) -> int:
    """A number of tokens at a block multiple (``rows`` 0), one more (1), one fewer (2) or half a block more (3)."""
    return max(1, blocks * tokens_per_block + (0, 1, -1, tokens_per_block // 2)[rows])


def draw_places(numbers: Numbers) -> tuple[int, ...]:
    """Which of the sets of numbers of a request a case has: one to three."""
    places = _PLACES[numbers(n.REQUESTS)]
    if len(places) == 1 and numbers.must_meet(n.SHARED_PREFIX):
        return places[0], (places[0] + 1) % n.MOST_REQUESTS
    return places


def draw_requests(
    numbers: Numbers, grid: Grid, tokens_per_block: int, places: tuple[int, ...]
) -> tuple[tuple[Request, ...], tuple[Content, ...]]:
    """The requests of ``places`` and their prefix tree; what either side has of them already is still to be drawn."""
    shared = numbers(n.SHARED_PREFIX)
    context, generation = grid.context, grid.generation
    chunks = _chunks(numbers, grid)
    requests: list[Request] = []
    contents: list[Content] = []
    for place in places:
        prompt = around(1 + numbers(n.PROMPT_BLOCKS[place]), numbers(n.PROMPT_ROWS[place]), tokens_per_block)
        requests.append(
            _request(
                _content(numbers, contents, shared, prompt, tokens_per_block),
                prompt,
                numbers(n.CONTEXT_REQUEST_DP[place]) % context.tp if context.attention_dp else 0,
                numbers(n.GENERATION_REQUEST_DP[place]) % generation.tp if generation.attention_dp else 0,
                _cuts(numbers, chunks, prompt) if chunks else (),
            )
        )
    return tuple(requests), tuple(contents)


def _content(numbers: Numbers, contents: list[Content], shared: int, prompt: int, tokens_per_block: int) -> int:
    """The content of the next request: its own, one that begins like an earlier request's, or the very same.

    ``shared`` 1: later requests begin as the first does. 2: each begins as the one before. 3: all have one content.
    """
    if not shared or not contents:
        contents.append(_ROOT)
        return len(contents) - 1
    if shared == 3:
        return 0
    length = around(1 + pick((0, 1, 2), numbers(n.SHARED_BLOCKS)), numbers(n.SHARED_ROWS), tokens_per_block)
    contents.append(_child(0 if shared == 1 else len(contents) - 1, min(length, prompt)))
    return len(contents) - 1


def _chunks(numbers: Numbers, grid: Grid) -> int:
    """In how many places the prefill of a request is cut.

    None where stages or context parallelism let no legacy sender do so, but for a few cases with states.
    """
    chunks = numbers(n.CHUNKS)
    if not chunks:
        return 0
    context, generation = grid.context, grid.generation
    if context.pp == context.cp == generation.cp == 1 or (numbers.states and numbers(n.CHUNKS_ANYWHERE)):
        return chunks
    return 0


def _cuts(numbers: Numbers, chunks: int, prompt: int) -> tuple[int, ...]:
    """Where the context side cuts its prefill: one to three places anywhere in the prompt."""
    if prompt == 1:
        return ()
    places = range(1, prompt)
    return tuple(sorted({pick(places, numbers(end)) for end in n.CHUNK_ENDS[:chunks]}))


@lru_cache(maxsize=4096)
def lengths_of(model: Model) -> tuple[str, ...]:
    """The names of the lengths, besides the prompt's, that a request of ``model`` has to give."""
    return tuple(dict.fromkeys(group.length for group in model.groups if group.length != "prompt"))


def draw_lengths(
    numbers: Numbers, requests: tuple[Request, ...], names: tuple[str, ...], tokens_per_block: int
) -> tuple[Request, ...]:
    """``requests`` with the lengths called ``names``, each near a block multiple of its own."""
    return tuple(
        replace(
            request,
            lengths=tuple(
                (
                    name,
                    around(
                        1 + numbers(n.LENGTH_BLOCKS[(place + shift) % n.MOST_REQUESTS]),
                        numbers(n.LENGTH_ROWS[(place + shift) % n.MOST_REQUESTS]),
                        tokens_per_block,
                    ),
                )
                for shift, name in enumerate(names)
            ),
        )
        for place, request in enumerate(requests)
    )

"""Long columns of numbers in a temporary file, of which a few blocks at a time are in memory.

A trace grows with the time that it covers, and its summary reads every number several times, in order. So a summary in
little memory has its columns, and what it makes of them, in such a file.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left, bisect_right
from functools import partial
from itertools import chain, islice
from typing import Any, Callable, Iterable, Iterator, Sequence, Union

BLOCK_BYTES = 2**15  # 4096 numbers of 8 bytes: a system call for each takes 1 % of the time to sum them up
PIECE = 4096  # numbers
IN_MEMORY = 16  # blocks of a column that were used last: the steps of a binary search meet the same ones again

Search = Callable[[Any, Any], int]  # such as bisect_left


class Store:
    """File of blocks, as an open descriptor; what it has no room for stays in memory."""

    def __init__(self, file: int) -> None:
        self._file, self._size = file, 0

    def put(self, block: bytes) -> int | bytes:
        """Keep a block; return what get() takes for it."""
        place = self._size
        try:
            is_written = os.pwrite(self._file, block, place) == len(block)
        except OSError:
            is_written = False
        if not is_written:
            return block
        self._size += BLOCK_BYTES
        return place

    def get(self, kept: int | bytes) -> bytes:
        """Return a block."""
        return kept if isinstance(kept, bytes) else os.pread(self._file, BLOCK_BYTES, kept)


class Stored(Sequence[Any]):
    """Column of numbers of one kind, a type code of the module array, in a store: it grows at its end.

    It is fast to iterate over. A slice, of numbers in a row, is an array in memory.
    """

    def __init__(self, store: Store, numbers: Iterable[float] = (), kind: str = "d") -> None:
        self.store, self._kind = store, kind
        self._most = BLOCK_BYTES // array(kind).itemsize  # numbers of a block
        self._blocks: list[int | bytes] = []
        self._first = array(kind)  # number of each block
        self._last = array(kind)  # less than a block
        self._recent: dict[int, array[Any]] = {}
        self.extend(numbers)

    def extend(self, numbers: Iterable[Any]) -> None:
        """Add numbers."""
        left = iter(numbers)
        while True:
            self._last.extend(islice(left, self._most - len(self._last)))
            if len(self._last) < self._most:
                return
            self._blocks.append(self.store.put(self._last.tobytes()))
            self._first.append(self._last[0])
            self._last = array(self._kind)

    def __len__(self) -> int:
        return len(self._blocks) * self._most + len(self._last)

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(map(self._read, range(len(self._blocks) + 1)))

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, slice):
            if index < 0:
                index += len(self)
            return self._block(index // self._most)[index % self._most]
        start, stop, _ = index.indices(len(self))
        number, first = divmod(start, self._most)
        found = self._block(number)[first : max(first, first + stop - start)]
        for later in range(number + 1, -(-stop // self._most)):
            found.extend(self._block(later)[: stop - later * self._most])
        return found

    def found(self, search: Search, number: float) -> int:
        """Return what a function of the module bisect does for this column in ascending order: in one block of it."""
        block = search(self._first, number) - 1
        if block + 1 == len(self._blocks) and search(self._last[:1], number):
            block += 1
        block = max(0, block)
        return block * self._most + search(self._block(block), number)

    def _block(self, number: int) -> array[Any]:
        found = self._recent.get(number)
        if found is None:
            found = self._read(number)
            if number < len(self._blocks):
                if len(self._recent) >= IN_MEMORY:
                    del self._recent[next(iter(self._recent))]
                self._recent[number] = found
        return found

    def _read(self, number: int) -> array[Any]:
        if not 0 <= number < len(self._blocks):
            if number != len(self._blocks):
                raise IndexError("index out of range")
            return self._last
        found = array(self._kind)
        found.frombytes(self.store.get(self._blocks[number]))
        return found


Growing = Union["array[Any]", Stored]


def searches(values: Sequence[float]) -> tuple[Search, Search]:
    """Return bisect_left and bisect_right for such values: those of the module bisect unless they are stored."""
    if isinstance(values, Stored):
        return partial(_search, bisect_left), partial(_search, bisect_right)
    return bisect_left, bisect_right


def _search(search: Search, values: Stored, number: float) -> int:
    return values.found(search, number)


def between(values: Sequence[float], low: int, high: int) -> Iterable[Any]:
    """Return the numbers from index `low` to below `high`, without a copy of them if they are many."""
    if high - low <= PIECE:
        return values[low:high]
    return chain.from_iterable(values[at : min(at + PIECE, high)] for at in range(low, high, PIECE))


def kept_as(values: Sequence[float], numbers: Iterable[float], kind: str = "d") -> Growing:
    """Return numbers where `values` are: in the same store, otherwise in memory."""
    return Stored(values.store, numbers, kind) if isinstance(values, Stored) else array(kind, numbers)

"""Conversations that the streams of a client process play, one turn after the other, and their prompts' tokens."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmarks.llm_inference.trace import Conversation, Turn
from record.served import Piece, Place

FIRST_TURN = 0.25, 0.75  # of a conversation's length, at which a stream's first one starts: AIPerf 0.14, agentx
KEEP_S = 1.0  # idle for longer, a connection is closed: servers close it after some seconds


class Talk(NamedTuple):
    """Conversations of a load, and how they are played."""

    conversations: Sequence[Conversation]
    idle_limit_s: float
    seed: int


class Prompt(NamedTuple):
    """A turn's prompt."""

    place: Place
    text: str  # token ids, with commas between them
    turn: Turn


class _Playing:
    """A conversation that a stream plays."""

    def __init__(self, number: int, conversation: Conversation, round_: int, turn: int) -> None:
        self.number, self.conversation, self.round, self.turn = number, conversation, round_, turn
        self.pieces: list[Piece] = []
        self.texts: list[str] = []
        self.sent = 0  # pieces of the prompt that was sent last

    def append(self, key: str, tokens: int, text: str) -> None:
        self.pieces.append((key, tokens))
        self.texts.append(text)


class Player:
    """Conversations of the streams of one client process, in the order of the trace.

    When the trace has been played it starts again with other tokens, so that no cache is hit by its former round.
    `made` returns the text of a piece by its key and number of tokens, the same for the same key.
    """

    def __init__(self, talk: Talk, first: int, stride: int, made: Callable[[str, int], str]) -> None:
        self._talk, self._next, self._stride, self._made = talk, first, stride, made
        self._playing: dict[int, _Playing] = {}

    def next(self, slot: int) -> Prompt:
        """Return the next turn of a stream."""
        playing = self._playing.get(slot)
        if playing is None or playing.turn == len(playing.conversation.turns):
            playing = self._begin(slot, is_first=playing is None)
        turn = playing.conversation.turns[playing.turn]
        kept = self._put_blocks(playing, turn) if playing.conversation.block else self._put_new(playing, turn)
        place = Place(playing.number, playing.turn, 0.0, kept, playing.pieces[kept:])
        playing.turn, playing.sent = playing.turn + 1, len(playing.pieces)
        return Prompt(place, ",".join(playing.texts), turn)

    def answered(self, slot: int, ids: Sequence[int]) -> tuple[str, float]:
        """Take an answer, whose token ids are empty if unknown; return its key if it is fed back, and the idle time."""
        playing = self._playing[slot]
        output, key = playing.conversation.turns[playing.turn - 1].output, ""
        if playing.turn == len(playing.conversation.turns):
            return "", 0.0
        if not playing.conversation.block:
            self._feed(playing, ids, output)
            key = playing.pieces[-1][0] if len(ids) == output else ""
        return key, self._idle_s(playing)

    def _idle_s(self, playing: _Playing) -> float:
        return min(self._talk.idle_limit_s, playing.conversation.turns[playing.turn].idle_s)

    def _begin(self, slot: int, is_first: bool) -> _Playing:
        number, self._next = self._next, self._next + self._stride
        round_, at = divmod(number, len(self._talk.conversations))
        conversation, turn = self._talk.conversations[at], 0
        if is_first:
            share = random.Random(f"{self._talk.seed} {number}").uniform(*FIRST_TURN)
            turn = int(share * len(conversation.turns))
        self._playing[slot] = playing = _Playing(number, conversation, round_, turn)
        if not conversation.block:
            if conversation.shared:
                self._add(playing, f"{round_}", conversation.shared)
            for playing.turn, one in enumerate(conversation.turns[:turn]):  # nobody asked these: answers are made
                self._put_new(playing, one)
                self._feed(playing, (), one.output)
            playing.turn = turn
        return playing

    def _add(self, playing: _Playing, key: str, tokens: int) -> None:
        playing.append(key, tokens, self._made(key, tokens))

    def _feed(self, playing: _Playing, ids: Sequence[int], output: int) -> None:
        """Add an answer: as it came, or where its ids are unknown as many made tokens."""
        key = f"{playing.number}.{playing.turn}"
        if len(ids) == output:
            playing.append(f"{key}a", output, ",".join(map(str, ids)))
        else:
            self._add(playing, f"{key}m", output)

    def _put_new(self, playing: _Playing, turn: Turn) -> int:
        """Add a turn's new tokens; return how many pieces its prompt shares with the one that was sent before."""
        held = sum(tokens for _, tokens in playing.pieces)
        self._add(playing, f"{playing.number}.{playing.turn}", turn.input - held)
        return playing.sent

    def _put_blocks(self, playing: _Playing, turn: Turn) -> int:
        """Replace the blocks that differ from the former turn's; return how many are the same.

        A rest without a hash id is no other prompt's.
        """
        scope = f"{playing.number}." if playing.conversation.is_local else f"{playing.round}.."
        block = playing.conversation.block
        wanted = [(f"{scope}{one}", min(block, turn.input - block * at)) for at, one in enumerate(turn.ids)]
        if (rest := turn.input - block * len(turn.ids)) > 0:
            wanted.append((f"{playing.number}.{playing.turn}r", rest))
        kept = 0
        while kept < min(len(wanted), len(playing.pieces)) and wanted[kept] == playing.pieces[kept]:
            kept += 1
        del playing.pieces[kept:], playing.texts[kept:]
        for key, count in wanted[kept:]:
            self._add(playing, key, count)
        return kept

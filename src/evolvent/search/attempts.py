"""Trees over attempts: whatever plays one (an environment, memory, tools, several agents) is played in many ways.

A player (``play.attempt``) asks for decisions one by one. Here each is answered by many completions, or in pieces: a
move is a whole answer or action, a line of it, or a token. To go on from the middle, a player is brought there by the
same answers from the same seed; it has to ask the same. All that is asked for at once is one batch for the engine; an
engine that keeps prompts evaluates of a child what its parent had not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput, EnvError
from evolvent.core.protocols import Completion, Engine, Player, Prompt, Request, advance, cut
from evolvent.core.reward_kinds import reward_kinds, reward_total
from evolvent.core.seeding import seed_tree
from evolvent.formulas.selection import mean_likelihoods, softmax
from evolvent.search.budget import Meter, prompt_tokens
from evolvent.search.search import Moves, State
from evolvent.search.tree import Tree

Unit = Literal["answer", "line", "token"]
Start = Callable[..., Player]
"""``start(limit, ask="")`` begins an attempt, the same each time, and may break off the one begun before (one world is
enough for a task); ``limit`` limits its decisions, 0 = not, ``ask`` is answered before the first of them."""
Asked = dict[int, list[tuple[Request, Completion]]]
"""By node: what was asked there for its moves, and answered."""
Decode = Callable[[np.ndarray], str]
SHOWN = "shown"
"""The kind of reward by which a world says what share of the tests in its question an attempt passed."""


@dataclass
class _Place:
    """What is known of a node: the move to it, and once it was entered what is asked there, or how it ended."""

    said: Completion | None = None
    seed: int = 0
    asks: Request | None = None
    begun: int = -1
    """The node at which the present answer began."""
    episode: Episode | None = None
    tries: int = 0


class Attempts:
    """The space of attempts at some tasks, implementing ``search.search.Space``.

    Args:
        tree: its tasks are in the order of ``starts``.
        starts: of each task.
        engine: answers.
        questions: of each task, for values and reports.
        unit: what a move is.
        longest: tokens of one move, at most.
        decode: text of tokens, for actions on a list where prompts are tokens.
        comparable: equal prompts are equal states, so that what follows is searched once; not where a world hides more
            than it shows.
    """

    def __init__(
        self,
        tree: Tree,
        starts: Sequence[Start],
        engine: Engine,
        questions: Sequence[str],
        *,
        unit: Unit = "line",
        longest: int = 64,
        decode: Decode | None = None,
        comparable: bool = False,
    ) -> None:
        if longest < 1 or unit not in ("answer", "line", "token"):
            raise BadInput("unit or length of a move", got=(unit, longest), where="search.attempts")
        if not len(tree.roots) == len(starts) == len(questions):
            got = (len(tree.roots), len(starts), len(questions))
            raise BadInput("a start and a question for each task", got=got, where="search.attempts")
        self.tree, self.starts, self.engine, self.questions = tree, starts, engine, questions
        self.unit, self.longest = unit, 1 if unit == "token" else longest
        self._decode, self.comparable = decode, comparable
        self.notes: list[str] = []
        self.broken: list[tuple[int, EnvError]] = []
        """Tasks of attempts that the world broke, with its errors: nothing is known of where they would have led."""
        self._places: dict[int, _Place] = {int(root): _Place() for root in tree.roots}
        self._made: dict[int, list[tuple[Completion, int]]] = {}
        self.labels: dict[int, str] = {}
        """By root: what its attempt is, for reports, where a search says it."""
        self._asked: dict[int, str] = {}  # by root: what its attempts answer first
        self._live: dict[int, tuple[int, Player]] = {}  # by task: the newest player, and the node where it waits

    # ------------------------------------------------------------------------------------------------ the space
    def propose(self, nodes: Sequence[int], widths: Sequence[int], meter: Meter) -> list[Moves | None]:
        """See ``Space``: one batch for all nodes; before the first, which could cut all short, one move of a task."""
        width, mine = dict(zip(nodes, widths, strict=True)), Asked((node, []) for node in nodes)
        if not meter.longest and meter.budget.tokens:
            self._answer(self._requests(width, mine, meter, True), mine, meter)
        self._answer(self._requests(width, mine, meter, False), mine, meter)
        return [self._moves(node, width[node], said) for node, said in mine.items()]

    def made(self, parent: int, children: np.ndarray) -> None:
        """See ``Space``."""
        for child, (said, seed) in zip(children.tolist(), self._made.pop(parent), strict=True):
            self._places[child] = _Place(said, seed)

    def twin(self, node: int, new: int) -> None:
        """See ``Space``; it draws from another seed."""
        place = self._places[node]
        place.tries += 1
        seed = seed_tree(place.seed, "again", place.tries)
        self._places[new] = replace(place, seed=seed, tries=0)
        if place.begun == node:
            self._places[new].begun = new

    def ask(self, root: int, text: str) -> None:
        """Attempts from ``root``, a twin of a task's, begin with one decision more: the answer to ``text``."""
        self._asked[root] = text
        player = self._begin(root)
        self._went(root, player, advance(player, None))

    def enter(self, nodes: Sequence[int]) -> list[float | None]:
        """See ``Space``."""
        return [self._enter(node) for node in nodes]

    def state(self, node: int) -> State:
        """See ``Space``."""
        path = [self.said(n) for n in self.tree.path(node)[1:]]
        logps = tuple(map(_mean_logp, path))
        task, place = int(self.tree.task[node]), self._places[node]
        above = self._places[int(self.tree.parent[node])] if path else place
        context = None if above.asks is None else above.asks.prompt
        if path and context is not None:
            context = self._joined(context, self.said(node))
        texts = tuple(said.text for said in path)
        ended, reward = place.episode is not None, place.episode.total_reward if place.episode else np.nan
        shown = reward_total(place.episode, SHOWN) if place.episode and SHOWN in reward_kinds(place.episode) else np.nan
        right = place.episode.success if place.episode else None
        return State(node, task, self.questions[task], texts, logps, ended, reward, context, shown, right)

    def key(self, node: int) -> str | None:
        """See ``Space``: the prompt, where an answer begins and prompts say all."""
        place = self._places[node]
        if not self.comparable or place.asks is None or place.begun != node:
            return None
        parts = [place.asks.prompt, *place.asks.choices]
        return repr([part if isinstance(part, str) else part.tobytes() for part in parts])

    # ------------------------------------------------------------------------------------------------ of paths
    def said(self, node: int) -> Completion:
        """The move that leads to ``node``."""
        said = self._places[node].said
        if said is None:
            raise BadInput("a root was not reached by a move", got=node, where="search.attempts")
        return said

    def context(self, node: int) -> Prompt | None:
        """What the model reads at ``node``; ``None`` where nothing is asked, or it was not entered."""
        asks = self._places[node].asks
        return None if asks is None else asks.prompt

    def answers(self, node: int) -> list[list[Completion]]:
        """The moves on the way to ``node``, decision by decision; the last one may be unfinished."""
        out: list[list[Completion]] = []
        path = self.tree.path(node)
        for above, n in pairwise(path):
            if self._places[above].begun == above:
                out.append([])
            out[-1].append(self.said(n))
        return out

    def episode(self, node: int) -> Episode | None:
        """The attempt that leads to ``node``; an unfinished one is cut off there. ``None`` where nothing was said."""
        done = self._places[node].episode
        if done is not None:
            return done
        answers = [] if self.tree.dead[node] and self._places[node].asks is None else self.answers(node)
        self._live.pop(int(self.tree.task[node]), None)
        found = self._replayed(node, answers, limit=len(answers))[1] if answers else None
        return found if isinstance(found, Episode) else None

    # ------------------------------------------------------------------------------------------------ inside
    def _requests(self, width: Mapping[int, int], mine: Asked, meter: Meter, first: bool) -> list[tuple[int, Request]]:
        """What each node still asks for within its task's budget; ``first``: one move where all might be cut short."""
        wanted: dict[int, list[tuple[int, Request, int]]] = {}
        for node, count in width.items():
            ask = self._places[node].asks
            if ask is None:
                raise BadInput("nothing is asked at this node", got=node, where="search.attempts", do="enter it first")
            wanted.setdefault(int(self.tree.task[node]), []).append((node, ask, 1 if ask.choices else count))
        out: list[tuple[int, Request]] = []
        for task, some in wanted.items():
            most, total = max(self._most(ask) for _, ask, _ in some), sum(n - len(mine[node]) for node, _, n in some)
            if first and (total == 1 or meter.room(task)[0] >= total * most):
                continue
            left, room = meter.share(task, 1 if first else total, most)
            for node, ask, n in some:
                asked = len(mine[node])
                count, seed = min(n - asked, left), self._places[node].seed or ask.seed
                left -= count
                if ask.choices:
                    if count and room >= self._most(ask):
                        out.append((node, replace(ask, seed=seed_tree(seed, "move", 0))))
                    continue
                stop = ask.stop if self.unit != "line" or "\n" in ask.stop else (*ask.stop, "\n")
                limit = min(self._most(ask), room)
                seeds = [seed_tree(seed, "move", k) for k in range(asked, asked + count)]
                out += [(node, replace(ask, max_tokens=limit, stop=stop, seed=s)) for s in seeds]
        return out

    def _answer(self, asked: Sequence[tuple[int, Request]], mine: Asked, meter: Meter) -> None:
        """One batch for the engine, and what it costs."""
        if not asked:
            return
        began = meter.elapsed
        answers = self.engine([request for _, request in asked])
        meter.model_s += meter.elapsed - began
        meter.batches += 1
        for (node, request), said in zip(asked, answers, strict=True):
            mine[node].append((request, said))
            task, tokens = int(self.tree.task[node]), self._n_tokens(said)
            meter.calls[task] += 1
            meter.tokens[task] += tokens
            meter.prompt += said.prompt_tokens or len(request.prompt)
            meter.cached += said.cached_tokens
            if not request.choices:  # one that was cut short would have been longer
                meter.longest = max(meter.longest, tokens + self._short(node, request, said), 1)

    def _short(self, node: int, request: Request, said: Completion) -> bool:
        """Whether the budget alone cut a move: it is none."""
        ask = self._places[node].asks
        return said.finish == "length" and ask is not None and request.max_tokens < self._most(ask)

    def _moves(self, node: int, width: int, said: Sequence[tuple[Request, Completion]]) -> Moves | None:
        return self._listed(node, said[0][1], width) if said and said[0][0].choices else self._written(node, said)

    def _written(self, node: int, answers: Sequence[tuple[Request, Completion]]) -> Moves | None:
        """Free text: what is new and not empty, with its likelihood as prior."""
        found, short = dict[tuple[str, bool], tuple[Completion, int]](), 0
        for request, said in answers:
            if self._short(node, request, said):
                short += 1
                continue
            ends = self._ends(node, said)
            says = said.text if self.unit == "token" else said.text.strip()
            if says or (ends and self._places[node].begun != node):
                found.setdefault((said.text, ends), (said, request.seed))
        if not found and (short or not answers):
            return None
        moves = list(found.values())
        self._made[node] = moves
        if not all(_known(said) for said, _ in moves):
            self._note("the model gives no log-probabilities: priors are uniform")
            prior = np.full(len(moves), 1.0 / max(len(moves), 1))
        else:
            prior = mean_likelihoods([said.logp for said, _ in moves])
        return Moves(prior, np.array([self._n_tokens(said) for said, _ in moves], np.int64))

    def _listed(self, node: int, answer: Completion, width: int) -> Moves:
        """Actions on a list: the ``width`` most likely ones; a single one is that which was drawn."""
        place = self._places[node]
        assert place.asks is not None
        choices = place.asks.choices
        if answer.scores_N is None:
            self._note("the model gives no log-probabilities: priors are uniform")
        scores = np.zeros(len(choices)) if answer.scores_N is None else answer.scores_N
        chosen = np.sort(np.argsort(-scores, kind="stable")[:width])
        if width == 1 and answer.choice >= 0:
            chosen = np.array([answer.choice])
        moves: list[tuple[Completion, int]] = []
        for k in chosen.tolist():
            text, ids = self._text(choices[k]), choices[k]
            if k == answer.choice:
                said = replace(answer, text=text)
            else:  # it was not sampled: no log-probabilities
                tokens = np.zeros(0, np.int32) if isinstance(ids, str) else ids
                said = Completion(text, tokens, np.zeros(0, np.float32), choice=k, scores_N=answer.scores_N)
            moves.append((said, seed_tree(place.seed or place.asks.seed, "move", k)))
        self._made[node] = moves
        return Moves(softmax(scores[chosen]), np.array([self._n_tokens(said) for said, _ in moves], np.int64))

    def _text(self, choice: Prompt) -> str:
        if isinstance(choice, str):
            return choice.strip()
        return self._decode(choice).strip() if self._decode else f"action {choice.tolist()}"

    def _most(self, ask: Request) -> int:
        """Tokens that a move can have."""
        if ask.choices:
            return max(prompt_tokens(choice) for choice in ask.choices)
        return ask.max_tokens if self.unit == "answer" else min(ask.max_tokens, self.longest)

    def _n_tokens(self, said: Completion) -> int:
        if len(said.token_ids) or not said.text:
            return len(said.token_ids)
        self._note("the model does not say its tokens: one is counted for every four bytes")
        return prompt_tokens(said.text)

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _ends(self, node: int, said: Completion) -> bool:
        """Whether a piece that follows ``node`` is the last one of its answer."""
        ask = self._places[node].asks
        assert ask is not None
        if ask.choices or self.unit == "answer" or self._n_tokens(said) >= ask.max_tokens or not said.text:
            return True
        if self.unit == "token":  # a stop string may have been said token by token
            before = self.answers(node)[-1] if self._places[node].begun != node else []
            return said.finish == "stop" or bool(cut("".join(p.text for p in (*before, said)), ask.stop)[1])
        if said.finish == "length":
            return False
        return "\n" in ask.stop or said.stopped not in (None, "\n")

    def _enter(self, node: int) -> float | None:
        place, above = self._places[node], int(self.tree.parent[node])
        if place.episode is not None:
            return place.episode.total_reward
        if place.asks is not None:
            return None
        if above < 0:
            player = self._begin(node)
            return self._went(node, player, advance(player, None))
        origin, said = self._places[above], self.said(node)
        assert origin.asks is not None
        if not self._ends(above, said):
            left = origin.asks.max_tokens - self._n_tokens(said)
            place.asks = replace(origin.asks, prompt=self._joined(origin.asks.prompt, said), max_tokens=left)
            place.begun = origin.begun
            return None
        answers = self.answers(node)
        waits, player = self._live.pop(int(self.tree.task[node]), (-1, None))
        if player is None or waits != origin.begun:
            return self._went(node, *self._replayed(node, answers))
        return self._went(node, player, advance(player, self._whole(answers[-1], origin.asks.stop)))

    def _replayed(self, node: int, answers: Sequence[Sequence[Completion]], limit: int = 0) -> tuple[Player, Any]:
        """A player after these answers, and what it asks then, or its episode."""
        player = self._begin(self.tree.path(node)[0], limit)
        outcome = advance(player, None)
        for answer in answers:
            if isinstance(outcome, EnvError):
                break
            if isinstance(outcome, Episode):
                raise EnvError(
                    "the same answers led elsewhere",
                    got="an attempt that ended",
                    where="search",
                    do="search where the world depends on the task and its seed alone",
                )
            outcome = advance(player, self._whole(answer, outcome.stop))
        return player, outcome

    def _begin(self, root: int, limit: int = 0) -> Player:
        start, ask = self.starts[int(self.tree.task[root])], self._asked.get(root)
        return start(limit, ask) if ask else start(limit)

    def _went(self, node: int, player: Player, outcome: Request | Episode | EnvError) -> float | None:
        place = self._places[node]
        if isinstance(outcome, EnvError):
            self.broken.append((int(self.tree.task[node]), outcome))
            self._note(f"an attempt broke, and is left out: {outcome.what}")
            self.tree.dead[node], self.tree.value[node] = True, 0.0
            return 0.0
        if isinstance(outcome, Episode):
            place.episode = outcome
            return outcome.total_reward
        # messages cannot be answered on from the middle of an answer, which is what moves may be
        place.asks, place.begun = outcome if self.unit == "answer" else replace(outcome, chat=None), node
        self._live[int(self.tree.task[node])] = node, player
        place.seed = place.seed or outcome.seed
        return None

    def _whole(self, pieces: Sequence[Completion], stop: Sequence[str]) -> Completion:
        """One completion of its pieces."""
        if len(pieces) == 1:
            return pieces[0]
        text = "".join(piece.text + self._glue(piece) for piece in pieces[:-1]) + pieces[-1].text
        ids, logp = (np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("token_ids", "logp"))
        names = set[str].intersection(*(set(piece.notes) for piece in pieces))
        notes = {name: np.concatenate([piece.notes[name] for piece in pieces]) for name in names}
        return replace(pieces[-1], text=cut(text, stop)[0], token_ids=ids, logp=logp, notes=notes)

    def _joined(self, prompt: Prompt, said: Completion) -> Prompt:
        if isinstance(prompt, str):
            return prompt + said.text + self._glue(said)
        return np.concatenate([prompt, np.asarray(said.token_ids, np.int32)])

    def _glue(self, said: Completion) -> str:
        """What stopped a piece; where nobody says, the end of its line."""
        known = said.stopped is not None or self.unit != "line" or said.finish != "stop"
        return said.stopped or "" if known else "\n"


def _mean_logp(said: Completion) -> float:
    """Mean log-probability a token of a move; NaN where it is not known.

    An action on a list has it by the model's scores of all actions, whether it was the one that was drawn or not.
    """
    if said.choice >= 0 and said.scores_N is not None:
        return float(said.scores_N[said.choice]) / max(1, len(said.token_ids) or prompt_tokens(said.text))
    return float(np.mean(said.logp)) if _known(said) else math.nan


def _known(said: Completion) -> bool:
    return len(said.logp) > 0 and bool(np.isfinite(said.logp).all())

"""What a policy keeps: from the facts about runs and checkpoints to what goes, and why. Pure: data in, data out.

Rules, in this order:

1. A run stays when it is pinned, running or paused, the latest of its workflow, or its last successful one. Any
   other goes once `runs` newer ones of its workflow exist, or once nothing happened to it for `max_age_seconds`.
2. A checkpoint stays while a step of a run that stays refers to it: checkpoints are shared by all runs. A *spare*
   one (no such step) stays while it is among the newest `versions` of its step and not older than
   `max_age_seconds`: going back to last week's code then costs nothing. A step's identity is its workflow
   together with its cell's id or, where there is none, its name. And whatever a checkpoint that stays `needs`
   stays with it.
3. Where what is left takes more than `max_size`, spare checkpoints go, oldest first; then runs that rule 1 does
   not protect, longest untouched first, each with the checkpoints that no other run uses.

Invariants (tests/properties/test_retention.py):
- what rule 1 protects never goes, and neither does a checkpoint it refers to, nor one younger than the grace time:
  its step's record may be about to be written;
- applying a policy to what it left removes nothing more;
- a lower limit never keeps more. `max_size` comes last, so lowering *another* limit may spare something old from it.

Records of somebody else's making are counted apart from the user's own, so that a planted run cannot push the
user's latest out. A time that cannot be read is never "too old".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

from nbcheckpoint.errors import UsageError
from nbcheckpoint.model import Record, Run
from nbcheckpoint.units import parse_age, parse_size

DAY = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Limits; None means there is none."""

    runs: int | None = 10
    """Per workflow."""
    max_age_seconds: float | None = 30 * DAY
    versions: int | None = 5
    """Per step."""
    max_size: int | None = None
    """In bytes, of the whole store."""

    def __post_init__(self) -> None:
        for name in ("runs", "max_age_seconds", "versions", "max_size"):
            limit = getattr(self, name)
            if limit is not None and not limit >= 0:
                raise UsageError(f"{name} cannot be {limit}", hint="a limit is zero or more, or None for no limit")

    @classmethod
    def said(
        cls, *, older_than: str | None, keep: int | None, versions: int | None = None, max_size: str | None
    ) -> Policy:
        """As people say it: `7d`, `20GB`. What is not said is as usual. Raises UsageError."""
        usual = cls()
        return cls(
            runs=usual.runs if keep is None else keep,
            versions=usual.versions if versions is None else versions,
            max_age_seconds=parse_age(older_than) if older_than else usual.max_age_seconds,
            max_size=parse_size(max_size) if max_size else usual.max_size,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """As much of a checkpoint as decides whether it stays."""

    id: str
    workflow: str
    step: str
    """The cell's id, or the step's name. With `workflow` it identifies the step across runs."""
    created: str
    used_by: frozenset[str] = frozenset()
    """Ids of the runs with a step that refers to it."""
    needs: frozenset[str] = frozenset()
    """Ids of the checkpoints it cannot be restored without."""
    chunks: frozenset[str] = frozenset()
    """Needed only where there is a `max_size`."""
    trusted: bool = True
    held: bool = False
    """Something that cannot be read refers to it, so it stays whatever the limits say."""

    def needed(self, runs: set[str]) -> bool:
        return self.held or not self.used_by.isdisjoint(runs)


class Gone(Record, frozen=True, kw_only=True):
    """One run or checkpoint that goes. `why` is the sentence, `code` the same as a word."""

    id: str
    code: str
    """`count`, `age`, `versions`, `size`, `unused`, `deleted` or `leftover`."""
    why: str


class Verdict(Record, frozen=True, kw_only=True):
    """What goes. Everything else stays."""

    runs: tuple[Gone, ...] = ()
    checkpoints: tuple[Gone, ...] = ()
    notes: tuple[str, ...] = ()


def decide(
    runs: Sequence[Run],
    checkpoints: Sequence[Facts],
    *,
    now: datetime,
    policy: Policy,
    grace_seconds: float = 0.0,
    sizes: Mapping[str, int] | None = None,
) -> Verdict:
    """What goes under the policy, and why. `sizes`: bytes of each chunk, needed where there is a `max_size`."""
    safe = protected(runs)
    old_runs = _surplus_runs(runs, safe, now, policy)
    staying = {run.id for run in runs} - old_runs.keys()
    old_checkpoints = _surplus_checkpoints(checkpoints, staying, now, policy, grace_seconds)
    notes: list[str] = []
    if policy.max_size is not None:
        left = _Left(
            runs=[run for run in runs if run.id in staying and run.id not in safe],
            checkpoints=[facts for facts in checkpoints if facts.id not in old_checkpoints],
            fresh=lambda facts: _age(facts.created, now) < grace_seconds,
            staying=staying,
            sizes=sizes or {},
        )
        notes += left.shrink_to(policy.max_size)
        old_runs |= left.gone_runs
        old_checkpoints |= left.gone_checkpoints
    return Verdict(
        runs=tuple(old_runs[run.id] for run in runs if run.id in old_runs),
        checkpoints=tuple(old_checkpoints[facts.id] for facts in checkpoints if facts.id in old_checkpoints),
        notes=tuple(notes),
    )


def protected(runs: Iterable[Run]) -> dict[str, str]:
    """The runs that always stay, and which of the reasons it is."""
    safe: dict[str, str] = {}
    for group in _by_workflow(runs).values():
        safe[group[0].id] = "latest"
        success = next((run for run in group if run.status == "completed"), None)
        if success is not None:
            safe.setdefault(success.id, "last successful")
        for run in group:
            if run.pinned or run.status in ("running", "paused"):
                safe[run.id] = "pinned" if run.pinned else run.status
    return safe


def _by_workflow(runs: Iterable[Run]) -> dict[tuple[str, bool], list[Run]]:
    """The runs of each workflow, the one somebody worked on last first."""
    groups: dict[tuple[str, bool], list[Run]] = {}
    for run in sorted(runs, key=lambda run: (run.updated, run.id), reverse=True):
        groups.setdefault((run.workflow, run.trusted), []).append(run)
    return groups


def _surplus_runs(runs: Sequence[Run], safe: Mapping[str, str], now: datetime, policy: Policy) -> dict[str, Gone]:
    gone: dict[str, Gone] = {}
    for (workflow, _), group in _by_workflow(runs).items():
        for rank, run in enumerate(group):
            if run.id in safe:
                continue
            if policy.runs is not None and rank >= policy.runs:
                why = f"{workflow} has {rank} newer runs; {policy.runs} are kept"
                gone[run.id] = Gone(id=run.id, code="count", why=why)
            elif _too_old(run.updated, now, policy):
                gone[run.id] = Gone(id=run.id, code="age", why=_old(run.updated, now, policy))
    return gone


def _surplus_checkpoints(
    checkpoints: Sequence[Facts], staying: set[str], now: datetime, policy: Policy, grace_seconds: float
) -> dict[str, Gone]:
    gone: dict[str, Gone] = {}
    rank: Counter[tuple[str, str, bool]] = Counter()
    for facts in _newest_first(checkpoints):
        step = (facts.workflow, facts.step, facts.trusted)
        newer = rank[step]
        rank[step] += 1
        if facts.needed(staying) or _age(facts.created, now) < grace_seconds:
            continue
        if policy.versions is not None and newer >= policy.versions:
            why = (
                f"no run uses it, and {facts.step or 'its step'} has {newer} newer versions; {policy.versions} are kept"
            )
            gone[facts.id] = Gone(id=facts.id, code="versions", why=why)
        elif _too_old(facts.created, now, policy):
            why = "no run uses it, and " + _old(facts.created, now, policy)
            gone[facts.id] = Gone(id=facts.id, code="age", why=why)
    for id in needed_by_others(checkpoints, gone.keys()):
        del gone[id]
    return gone


def needed_by_others(checkpoints: Iterable[Facts], going: Collection[str]) -> set[str]:
    """Those of `going` that something staying cannot be restored without, however indirectly."""
    needs = {facts.id: facts.needs for facts in checkpoints}
    found: set[str] = set()
    ahead = [need for id, some in needs.items() if id not in going for need in some]
    while ahead:
        id = ahead.pop()
        if id in going and id not in found:
            found.add(id)
            ahead += needs.get(id, ())
    return found


def _newest_first(checkpoints: Iterable[Facts]) -> list[Facts]:
    return sorted(checkpoints, key=lambda facts: (facts.created, facts.id), reverse=True)


@dataclass(slots=True, kw_only=True)
class _Left:
    """What the other rules left, while it is being made to fit."""

    runs: list[Run]
    """Those that may go."""
    checkpoints: list[Facts]
    fresh: Callable[[Facts], bool]
    staying: set[str]
    sizes: Mapping[str, int]
    gone_runs: dict[str, Gone] = field(default_factory=dict)
    gone_checkpoints: dict[str, Gone] = field(default_factory=dict)
    users: Counter[str] = field(default_factory=Counter)
    """Chunk -> how many checkpoints contain it. Its space comes back with the last of them."""
    needers: Counter[str] = field(default_factory=Counter)
    """Checkpoint -> how many others need it. It cannot go before the last of them."""
    size: int = 0

    def shrink_to(self, limit: int) -> list[str]:
        self.users.update(name for facts in self.checkpoints for name in facts.chunks)
        self.needers.update(id for facts in self.checkpoints for id in facts.needs)
        self.size = sum(self.sizes.get(name, 0) for name in self.users)
        self.checkpoints = _newest_first(self.checkpoints)[::-1]
        self._drop_spares(limit, "no run uses it, and the store is larger than its limit")
        for run in sorted(self.runs, key=lambda run: (run.updated, run.id)):
            if self.size > limit:
                self._drop_run(run)
        if self.size > limit:
            return [f"what always stays takes {self.size:,} bytes, more than the limit of {limit:,}"]
        return []

    def _drop_run(self, run: Run) -> None:
        why = f"the store is larger than its limit, and of {run.workflow} this run was untouched for longest"
        self.gone_runs[run.id] = Gone(id=run.id, code="size", why=why)
        self.staying.discard(run.id)
        self._drop_spares(-1, f"run {run.id}, which had to go for space, was the last to use it")

    def _drop_spares(self, limit: int, why: str) -> None:
        """Oldest first. Each may set free what it needed, so until nothing more can go."""
        before = -1
        while len(self.gone_checkpoints) != before:
            before = len(self.gone_checkpoints)
            for facts in self.checkpoints:
                if self.size > limit and self._may_go(facts):
                    self._drop(facts, why)

    def _may_go(self, facts: Facts) -> bool:
        spare = not facts.needed(self.staying) and not self.needers[facts.id] and not self.fresh(facts)
        return spare and facts.id not in self.gone_checkpoints

    def _drop(self, facts: Facts, why: str) -> None:
        self.gone_checkpoints[facts.id] = Gone(id=facts.id, code="size", why=why)
        self.needers.subtract(facts.needs)
        for name in facts.chunks:
            self.users[name] -= 1
            if not self.users[name]:
                self.size -= self.sizes.get(name, 0)


def _age(moment: str, now: datetime) -> float:
    """Seconds since then; a time that cannot be read, or lies ahead, is now."""
    try:
        then = datetime.fromisoformat(moment.replace("Z", "+00:00"))
        return max(0.0, (now - then.replace(tzinfo=then.tzinfo or timezone.utc)).total_seconds())
    except (ValueError, OverflowError):
        return 0.0


def _too_old(moment: str, now: datetime, policy: Policy) -> bool:
    return policy.max_age_seconds is not None and _age(moment, now) > policy.max_age_seconds


def _old(moment: str, now: datetime, policy: Policy) -> str:
    return f"it is {_say(_age(moment, now))} old; {_say(policy.max_age_seconds or 0.0)} are kept"


def _say(seconds: float) -> str:
    for unit, size in (("days", DAY), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"

"""What retention promises, over all kinds of stores and policies."""

from __future__ import annotations

from dataclasses import replace as changed
from datetime import datetime, timedelta, timezone
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nbcheckpoint.errors import UsageError
from nbcheckpoint.model import Run, RunStatus
from nbcheckpoint.retention import DAY, Facts, Policy, Verdict, decide, protected

NOW = datetime(2026, 6, 1, tzinfo=timezone.utc)
SIZES = {f"{n:064x}": 10**n for n in range(6)}
World = tuple[list[Run], list[Facts]]


def ago(days: float) -> str:
    return (NOW - timedelta(days=days)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def a_run(id: str, **fields: object) -> Run:
    given = {"workflow": "nb.ipynb", "status": "failed", "created": ago(0), "updated": ago(0), **fields}
    return Run(id=id, **given)  # type: ignore[arg-type]


def a_checkpoint(id: str, **fields: object) -> Facts:
    given = {"workflow": "nb.ipynb", "step": "train", "created": ago(0), **fields}
    return Facts(id=id, **given)  # type: ignore[arg-type]


days = st.floats(min_value=-5, max_value=90)
runs = st.builds(
    a_run,
    st.uuids().map(str),
    workflow=st.sampled_from(["a.ipynb", "b.ipynb"]),
    status=st.sampled_from(get_args(RunStatus)),
    updated=days.map(ago) | st.just("not a time"),
    pinned=st.booleans(),
    trusted=st.booleans(),
)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    some = draw(st.lists(runs, max_size=12, unique_by=lambda run: run.id))
    ids = [run.id for run in some]
    checkpoints = st.builds(
        a_checkpoint,
        st.uuids().map(str),
        workflow=st.sampled_from(["a.ipynb", "b.ipynb"]),
        step=st.sampled_from(["load", "train"]),
        created=days.map(ago),
        used_by=st.frozensets(st.sampled_from(ids), max_size=3) if ids else st.just(frozenset()),
        chunks=st.frozensets(st.sampled_from(sorted(SIZES))),
        held=st.sampled_from([False, False, False, True]),
    )
    found = draw(st.lists(checkpoints, max_size=20, unique_by=lambda facts: facts.id))
    # A checkpoint needs only what was there before it.
    needs = [draw(st.frozensets(st.sampled_from(range(n)), max_size=2)) if n else () for n in range(len(found))]
    return some, [changed(c, needs=frozenset(found[i].id for i in n)) for c, n in zip(found, needs, strict=True)]


def limits(most: int) -> st.SearchStrategy[int | None]:
    return st.none() | st.integers(0, most)


policies = st.builds(
    Policy,
    runs=limits(6),
    max_age_seconds=limits(60).map(lambda n: None if n is None else n * DAY),
    versions=limits(6),
    max_size=limits(300_000),
)
graces = st.sampled_from([0.0, 3600.0, 7 * DAY])


def verdict(world: World, policy: Policy, grace: float = 0.0) -> Verdict:
    return decide(*world, now=NOW, policy=policy, grace_seconds=grace, sizes=SIZES)


def left(world: World, result: Verdict) -> World:
    runs, checkpoints = ({item.id for item in gone} for gone in (result.runs, result.checkpoints))
    return [run for run in world[0] if run.id not in runs], [c for c in world[1] if c.id not in checkpoints]


@given(worlds(), policies, graces)
def test_what_is_protected_never_goes(world: World, policy: Policy, grace: float) -> None:
    """001-7, C4."""
    runs, checkpoints = left(world, verdict(world, policy, grace))
    staying = {run.id for run in runs}
    for run in world[0]:
        if run.pinned or run.status in ("running", "paused"):
            assert run.id in staying
        mine = [other for other in world[0] if (other.workflow, other.trusted) == (run.workflow, run.trusted)]
        assert max(mine, key=lambda run: (run.updated, run.id)).id in staying, "the latest"
        successes = [other for other in mine if other.status == "completed"]
        if successes:
            assert max(successes, key=lambda run: (run.updated, run.id)).id in staying, "the last success"
    kept = {facts.id for facts in checkpoints}
    for facts in world[1]:
        young = facts.created > (NOW - timedelta(seconds=grace)).isoformat().replace("+00:00", "Z")
        if facts.used_by & staying or facts.held or (grace and young):
            assert facts.id in kept
        assert facts.id not in kept or facts.needs <= kept, "what it needs stays with it"


@given(worlds(), policies, graces)
def test_pruning_twice_removes_nothing_more(world: World, policy: Policy, grace: float) -> None:
    again = verdict(left(world, verdict(world, policy, grace)), policy, grace)
    assert not again.runs
    assert not again.checkpoints


def tighter(limit: float | None, other: float | None) -> float | None:
    return other if limit is None else limit if other is None else min(limit, other)


@given(worlds(), policies, policies, graces)
def test_a_stricter_policy_never_keeps_more(world: World, policy: Policy, other: Policy, grace: float) -> None:
    names = ("runs", "max_age_seconds", "versions")
    free = changed(policy, max_size=None)
    strict = changed(free, **{name: tighter(getattr(policy, name), getattr(other, name)) for name in names})
    smaller = changed(policy, max_size=tighter(policy.max_size, other.max_size))
    for one, stricter in ((free, strict), (policy, smaller)):
        runs, checkpoints = left(world, verdict(world, one, grace))
        fewer_runs, fewer_checkpoints = left(world, verdict(world, stricter, grace))
        assert {run.id for run in fewer_runs} <= {run.id for run in runs}
        assert {facts.id for facts in fewer_checkpoints} <= {facts.id for facts in checkpoints}


@given(worlds(), policies)
def test_the_size_limit_is_kept_or_said_to_be_impossible(world: World, policy: Policy) -> None:
    result = verdict(world, policy)
    runs, checkpoints = left(world, result)
    size = sum(SIZES[name] for name in set().union(*(facts.chunks for facts in checkpoints)))
    if policy.max_size is not None and size > policy.max_size:
        assert result.notes
        assert {run.id for run in runs} == set(protected(world[0])), "everything else went before giving up"
    else:
        assert not result.notes


@given(worlds(), policies)
def test_everything_that_goes_says_why(world: World, policy: Policy) -> None:
    result = verdict(world, policy)
    assert all(item.why and item.code for item in (*result.runs, *result.checkpoints))
    assert Verdict.from_json(result.to_json()) == result


def test_the_defaults_are_those_of_the_documentation() -> None:
    """000-12, 001-7, 002-5, C4."""
    assert Policy() == Policy(runs=10, max_age_seconds=30 * DAY, versions=5, max_size=None)


def test_the_eleventh_run_and_the_old_one_go() -> None:
    """001-7, C4."""
    runs = [a_run(f"{n:02}", updated=ago(n)) for n in range(12)] + [a_run("z", workflow="other", updated=ago(99))]
    gone = decide(runs, [], now=NOW, policy=Policy()).runs
    assert {item.id: item.code for item in gone} == {"10": "count", "11": "count"}
    assert gone[0].why == "nb.ipynb has 10 newer runs; 10 are kept"
    old = decide([*runs[:3], a_run("old", updated=ago(31))], [], now=NOW, policy=Policy()).runs
    assert [(item.id, item.why) for item in old] == [("old", "it is 31 days old; 30 days are kept")]


def test_a_checkpoint_of_a_run_that_went_stays_while_another_run_uses_it() -> None:
    runs = [a_run("new"), a_run("old", updated=ago(50))]
    shared = a_checkpoint("shared", created=ago(50), used_by=frozenset({"old", "new"}))
    alone = a_checkpoint("alone", created=ago(50), used_by=frozenset({"old"}))
    result = decide(runs, [shared, alone], now=NOW, policy=Policy())
    assert [item.id for item in result.runs] == ["old"]
    assert [item.id for item in result.checkpoints] == ["alone"]


def test_the_newest_versions_of_a_step_stay_without_a_run() -> None:
    """002-5, 003-17."""
    versions = [a_checkpoint(f"v{n}", created=ago(n)) for n in range(8)]
    elsewhere = a_checkpoint("elsewhere", workflow="b.ipynb", created=ago(9))
    result = decide([], [*versions, elsewhere], now=NOW, policy=Policy())
    assert [item.id for item in result.checkpoints] == ["v5", "v6", "v7"]


def test_versions_that_runs_use_count_as_versions() -> None:
    used = [a_checkpoint(f"u{n}", created=ago(n), used_by=frozenset({"run"})) for n in range(5)]
    spare = a_checkpoint("spare", created=ago(9))
    result = decide([a_run("run")], [*used, spare], now=NOW, policy=Policy())
    assert [item.id for item in result.checkpoints] == ["spare"]


def test_space_comes_from_spare_checkpoints_first_and_shared_chunks_count_once() -> None:
    big, small = sorted(SIZES)[5], sorted(SIZES)[4]
    runs = [a_run("latest"), a_run("old", updated=ago(3))]
    used = a_checkpoint("used", created=ago(3), used_by=frozenset({"old"}), chunks=frozenset({big}))
    spare = a_checkpoint("spare", step="load", created=ago(1), chunks=frozenset({big, small}))
    some = decide(runs, [used, spare], now=NOW, policy=Policy(max_size=100_000), sizes=SIZES)
    assert ([item.id for item in some.runs], [item.id for item in some.checkpoints]) == ([], ["spare"])
    more = decide(runs, [used, spare], now=NOW, policy=Policy(max_size=99_999), sizes=SIZES)
    assert [item.id for item in more.runs] == ["old"]


def test_a_planted_run_does_not_push_the_users_own_out() -> None:
    mine = [a_run("mine", updated=ago(50), status="completed")]
    planted = [a_run(f"p{n}", updated=ago(-n), status="completed", trusted=False) for n in range(20)]
    assert "mine" not in {item.id for item in decide(mine + planted, [], now=NOW, policy=Policy()).runs}


def test_a_run_is_as_old_as_its_last_change() -> None:
    run = a_run("resumed", created=ago(90), updated=ago(1))
    newer = a_run("newer", status="completed")
    assert not decide([run, newer], [], now=NOW, policy=Policy()).runs
    assert decide([replace(run, updated=ago(90)), newer], [], now=NOW, policy=Policy()).runs


@pytest.mark.parametrize("limit", [{"runs": -1}, {"max_age_seconds": float("nan")}, {"max_size": -5}])
def test_a_limit_that_makes_no_sense_is_refused(limit: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        Policy(**limit)  # type: ignore[arg-type]

"""Who may write a run: one at a time, however many try, and nobody who was taken for dead."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from msgspec.structs import replace

from nbcheckpoint.backend.base import ABSENT
from nbcheckpoint.errors import Conflict, Fenced, RunBusy, StoreFull, Untrusted
from nbcheckpoint.events import subscribe
from nbcheckpoint.model import Owner, Run, Step
from nbcheckpoint.notebook.session import Session
from nbcheckpoint.store import Store, lease, open_store
from nbcheckpoint.store.liveness import is_alive, this_process


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with open_store("memory://" if request.param == "memory" else tmp_path / "store") as made:
        yield made


def ago(seconds: float) -> str:
    then = datetime.now(timezone.utc) - timedelta(seconds=seconds)
    return then.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def owner_of(run: Run) -> Owner:
    assert run.owner is not None
    return run.owner


def elsewhere(run: Run, *, renewed: str) -> Owner:
    """Its owner, as if it were on another machine."""
    return replace(owner_of(run), host="elsewhere", boot="x", renewed=renewed)


def cut_short(store: Store) -> Run:
    run = store.begin_run("nb.ipynb")
    return store.update_run(run.id, owner=elsewhere(run, renewed=ago(3600)))


def test_a_run_elsewhere_is_alive_as_long_as_its_lease_is(store: Store) -> None:
    run = store.begin_run("nb.ipynb")
    for renewed, status in [
        (ago(1), "running"),
        (ago(lease.LEASE_SECONDS - 20), "running"),
        (ago(lease.LEASE_SECONDS + 1), "interrupted"),
        (ago(-300), "running"),  # their clock is ahead
        (ago(-10 * 365 * 86400), "interrupted"),  # their clock was ten years ahead: nobody would ever go on with it
        ("yesterday", "interrupted"),
    ]:
        store.update_run(run.id, owner=elsewhere(run, renewed=renewed))
        assert store.run(run.id).status == status, renewed
        assert [found.id for found in store.runs(status=status)] == [run.id]


def test_on_this_machine_the_process_counts_and_no_clock(store: Store) -> None:
    run = store.begin_run("nb.ipynb")
    for renewed in (ago(3600), ago(-10 * 365 * 86400), "yesterday"):
        store.update_run(run.id, owner=replace(owner_of(run), renewed=renewed))
        assert store.run(run.id).status == "running"


def test_another_machine_of_the_same_name_is_not_this_one_rebooted() -> None:
    other = lease.leased(replace(this_process(), boot="another", pid=1))
    assert is_alive(other)
    assert not is_alive(replace(other, renewed=ago(3600)))


def test_taking_a_run_makes_it_ours(store: Store) -> None:
    before = cut_short(store)
    taken = store.take(before.id)
    assert (taken.status, taken.sessions) == ("running", 2)
    assert owner_of(taken).lease not in ("", owner_of(before).lease)
    assert store.run(before.id) == taken


def test_a_run_that_is_alive_is_not_taken(store: Store) -> None:
    run = store.begin_run("nb.ipynb")
    with pytest.raises(RunBusy, match="is at work on run"):
        store.take(run.id)
    store.update_run(run.id, owner=elsewhere(run, renewed=ago(1)))
    with pytest.raises(RunBusy, match="on elsewhere"):
        store.take(run.id)


@pytest.mark.parametrize("status", ["completed", "failed", "paused", "cancelled", "interrupted"])
def test_a_run_that_was_given_back_can_be_taken(store: Store, status: str) -> None:
    run = store.begin_run("nb.ipynb")
    store.update_run(run.id, status=status, owner=None)
    assert store.take(run.id).status == "running"


def test_of_many_who_try_one_gets_it(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store, ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            run, gate = cut_short(store), threading.Barrier(8)

            def attempt(id: str = run.id, gate: threading.Barrier = gate) -> Run | None:
                gate.wait()
                try:
                    return store.take(id)
                except RunBusy:
                    return None

            got = [found for found in pool.map(lambda _: attempt(), range(8)) if found is not None]
            assert [owner_of(found).lease for found in got] == [owner_of(store.run(run.id)).lease]
            assert store.run(run.id).sessions == 2


def test_a_run_signed_by_somebody_else_is_not_taken(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run = cut_short(store)
    monkeypatch.setattr(store, "_open", lambda kind, key, sealed: replace(run, trusted=False))
    with pytest.raises(Untrusted):
        store.take(run.id)


def test_whoever_was_taken_for_dead_is_refused(store: Store) -> None:
    old = cut_short(store)
    new = store.take(old.id)
    holder = owner_of(old).lease
    with pytest.raises(Fenced, match=f"has been taken over by process {os.getpid()}"):
        store.update_run(old.id, holder=holder, status="completed")
    with pytest.raises(Fenced):
        store.renew(old.id, holder)
    assert store.run(old.id) == new, "nothing was written"
    assert store.update_run(old.id, holder=owner_of(new).lease, note="mine").note == "mine"


def test_a_note_of_somebody_elses_does_not_cost_the_lease(store: Store) -> None:
    run = store.begin_run("nb.ipynb")
    store.note(run.id, "look at this")
    assert store.renew(run.id, owner_of(run).lease).note == "look at this"


def test_a_step_is_written_over_what_was_written_before_or_not_at_all(store: Store) -> None:
    step = Step(run="r", address="000000", name="a", status="running")
    version = store.put_step(step, expect=ABSENT)
    with pytest.raises(Conflict):
        store.put_step(step, expect=ABSENT)
    other = store.put_step(replace(step, name="b"))
    with pytest.raises(Conflict):
        store.put_step(replace(step, status="completed"), expect=version)
    store.put_step(replace(step, name="c"), expect=other)
    assert [found.name for found in store.steps("r")] == ["c"]


def test_the_lease_is_shown_to_nobody(store: Store) -> None:
    run = store.begin_run("nb.ipynb")
    assert owner_of(run).lease
    assert owner_of(run).lease not in str(store.run(run.id).to_dict())


# The heartbeat


class Heard:
    """Waits for renewals, which tell nobody."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self._beat = threading.Semaphore(0)
        renew = store.renew

        def noted(run: str, holder: str) -> Run:
            try:
                return renew(run, holder)
            finally:
                self._beat.release()

        monkeypatch.setattr(store, "renew", noted)

    def wait(self, beats: int = 1) -> None:
        for _ in range(beats):
            assert self._beat.acquire(timeout=60)


def test_a_heart_beats_until_it_is_stopped(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard(store, monkeypatch)
    run = store.begin_run("nb.ipynb")
    store.update_run(run.id, owner=elsewhere(run, renewed=ago(3600)))
    assert store.run(run.id).status == "interrupted"
    heart = lease.Heartbeat(store, run, every_seconds=0.001)
    heard.wait(3)
    assert store.run(run.id).status == "running", "it says that it is there"
    heart.stop()
    store.update_run(run.id, owner=elsewhere(run, renewed=ago(3600)))
    assert store.run(run.id).status == "interrupted", "nobody says anything any more"
    assert not heart.lost


def test_a_heart_that_was_fenced_stops_and_says_so(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard(store, monkeypatch)
    old = cut_short(store)
    new = store.take(old.id)
    heart = lease.Heartbeat(store, old, every_seconds=0.001)
    heart._thread.join(60)
    heard.wait()
    assert heart.lost
    assert not heart._thread.is_alive()
    assert store.run(old.id) == new
    heart.stop()


def test_a_full_disk_does_not_stop_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run = store.begin_run("nb.ipynb")
    renew, failing, again = store.renew, [StoreFull("no space"), ZeroDivisionError()], threading.Event()

    def full(id: str, holder: str) -> Run:
        if failing:
            raise failing.pop()
        again.set()
        return renew(id, holder)

    monkeypatch.setattr(store, "renew", full)
    heart = lease.Heartbeat(store, run, every_seconds=0.001)
    assert again.wait(60)
    heart.stop()
    assert not heart.lost


def test_a_forked_child_neither_renews_nor_hangs(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard(store, monkeypatch)
    run = store.begin_run("nb.ipynb")
    heart = lease.Heartbeat(store, run, every_seconds=0.001)
    for _ in range(20):
        child = os.fork()
        if child == 0:
            heart.stop()
            os._exit(0 if threading.active_count() == 1 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    heard.wait()
    heard.wait(2)
    heart.stop()


def test_taking_over_is_told(store: Store) -> None:
    run, told = cut_short(store), []
    stop = subscribe(lambda event: told.append(event.type))
    store.take(run.id)
    stop()
    assert told == ["run_interrupted", "run_resumed"]


def test_a_kernel_of_quick_cells_only_is_told_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBCHECKPOINT_STORE", str(tmp_path / "store"))
    session = Session({})
    quick = session.begin_step("x = 1", "", after=3600)
    session.end_quick_step(quick, [], 0.001)
    assert (session.notice, session.store.steps(session.run.id)) == ("", []), "nobody looks before every quick cell"
    first = session.run
    session.store.update_run(first.id, owner=elsewhere(first, renewed=ago(3600)))
    session.store.take(first.id)
    assert session._heart is not None
    assert not session._heart.renew()
    quick = session.begin_step("x = 2", "", after=3600)
    session.end_quick_step(quick, [], 0.001)
    assert first.id in session.notice
    assert session.run.id != first.id
    session.close()

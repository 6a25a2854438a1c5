"""The embedded store survives what section "faults" of the design lists: a few rounds of each.

The long form, with its counts, is `benchmarks/torture.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.faults import (
    clocks,
    crowd,
    flips,
    forks,
    frozen,
    gone,
    kill,
    modes,
    planted,
    power,
    pruning,
    secrets,
    space,
    syscalls,
)
from tests.crash.faults.ledger import Tally


def assert_clean(tally: Tally, *, rounds: int) -> None:
    assert tally.clean, tally
    assert tally.rounds >= rounds


def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path: Path) -> None:
    assert_clean(kill.run(tmp_path, 15), rounds=15)


def test_nothing_acknowledged_is_lost_by_a_power_cut(mountable: Path) -> None:
    assert_clean(power.run(mountable, 6), rounds=6)


@pytest.mark.slow
def test_every_failed_system_call_is_told_and_loses_nothing(traceable: Path) -> None:
    assert_clean(syscalls.run(traceable, 40, stride=29), rounds=30)


def test_a_flipped_bit_in_a_pack_is_told(tmp_path: Path) -> None:
    assert_clean(flips.in_packs(tmp_path, 15), rounds=15)


def test_a_flipped_bit_in_the_index_is_never_a_miss_or_a_wrong_value(tmp_path: Path) -> None:
    assert_clean(flips.in_index(tmp_path, 30), rounds=30)


def test_a_full_disk_restores_deletes_and_recovers(mountable: Path) -> None:
    assert_clean(space.full(mountable, 3), rounds=3)


def test_a_read_only_disk_restores_everything(mountable: Path) -> None:
    assert_clean(space.read_only(mountable, 3), rounds=3)


@pytest.mark.slow
def test_a_crowd_loses_no_count_and_reads_no_wrong_byte(tmp_path: Path) -> None:
    assert_clean(crowd.run(tmp_path, 4, processes=4), rounds=100)


def test_no_child_is_stuck_when_a_writing_process_forks(tmp_path: Path) -> None:
    assert_clean(forks.during_writes(tmp_path, 25), rounds=25)


@pytest.mark.slow
def test_a_worker_that_outlives_its_kernel_loses_nothing(tmp_path: Path) -> None:
    assert_clean(forks.orphaned(tmp_path, 2), rounds=2)


def test_a_deleted_folder_is_noticed_before_anything_is_acknowledged(tmp_path: Path) -> None:
    assert_clean(gone.run(tmp_path, 8), rounds=8)


def test_a_frozen_writer_is_refused_and_told_after_others_went_on(tmp_path: Path) -> None:
    assert_clean(frozen.run(tmp_path, 6), rounds=6)


def test_a_clock_that_jumps_ten_years_prunes_nothing_that_is_being_saved(tmp_path: Path) -> None:
    assert_clean(clocks.run(tmp_path, 4), rounds=4)


def test_pruning_killed_loses_nothing_and_the_next_one_leaves_no_orphans(tmp_path: Path) -> None:
    assert_clean(pruning.run(tmp_path, 6), rounds=6)


def test_nothing_planted_by_strangers_is_unpickled(tmp_path: Path) -> None:
    assert_clean(planted.run(tmp_path, 8), rounds=8)


def test_no_umask_opens_a_store_to_others(tmp_path: Path) -> None:
    assert_clean(modes.run(tmp_path, 2), rounds=2)


@pytest.mark.slow
def test_no_secret_is_in_a_record_or_a_log(tmp_path: Path) -> None:
    assert_clean(secrets.run(tmp_path, 20), rounds=20)

"""Calls that come later, unless they are called off."""

from __future__ import annotations

import os
import threading

from nbcheckpoint.engine import alarm


def test_calls_come_in_the_order_of_their_times() -> None:
    came: list[str] = []
    over = threading.Event()
    with alarm._alarm._changed:  # all of them are asked for before the first comes, however busy the machine is
        alarm.later(-30, over.set)
        alarm.later(-60, lambda: came.append("later"))
        alarm.later(-90, lambda: came.append("sooner"))
    assert over.wait(60)
    assert came == ["sooner", "later"]


def test_a_call_that_was_called_off_does_not_come() -> None:
    came: list[str] = []
    over = threading.Event()
    with alarm._alarm._changed:
        alarm.later(-60, lambda: came.append("called off")).call_off()
        alarm.later(-30, over.set)
    assert over.wait(60)
    assert came == []


def test_one_that_fails_does_not_take_the_others_along() -> None:
    over = threading.Event()
    alarm.later(0.001, lambda: 1 / 0)
    alarm.later(0.002, over.set)
    assert over.wait(60)


def test_one_that_comes_before_all_others_wakes_the_thread() -> None:
    late = alarm.later(3600, lambda: None)
    soon = threading.Event()
    alarm.later(0.001, soon.set)
    assert soon.wait(60)
    late.call_off()


def test_there_is_one_thread_for_all_and_another_one_in_a_child() -> None:
    calls = [alarm.later(3600, lambda: None) for _ in range(100)]
    assert sum(thread.name == "nbcheckpoint-alarm" for thread in threading.enumerate()) == 1
    child = os.fork()
    if child == 0:
        rang = threading.Event()
        alarm.later(0.001, rang.set)
        os._exit(0 if rang.wait(60) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for call in calls:
        call.call_off()

"""Secrets planted in a real kernel, in all the ways notebooks have them: none of them is in a record or a log.

Looked through are every record of the store (the values themselves, in their blobs, are the user's data), everything
logged at the lowest level, every event, and the lines under the cells.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.crash.faults.children import open_store
from tests.crash.faults.ledger import Progress, Tally, no_progress
from tests.kernels import Kernel

SETUP = """
import logging, os
logging.basicConfig(filename="log.txt", level=logging.DEBUG)
%load_ext nbcheckpoint
import nbcheckpoint.events
nbcheckpoint.events.subscribe(lambda event: print(event, file=open("events.txt", "a")))
class Refusing:
    def __init__(self, why): self.why = why
    def __reduce__(self): raise TypeError(f"cannot be pickled with {self.why}")
def connect(**options): return len(options)
"""


def read_from_the_environment(number: int, secret: str) -> list[str]:
    return [f"def call_{number}(): return len(os.environ['SERVICE_{number}_TOKEN'])", f"n_{number} = call_{number}()"]


def bound_and_used(number: int, secret: str) -> list[str]:
    bound = f"password_{number} = os.environ['SERVICE_{number}_TOKEN']"
    return [bound, f"used_{number} = len(password_{number})"]


def bound_by_another_name(number: int, secret: str) -> list[str]:
    bound = f"x_{number} = os.environ['SERVICE_{number}_TOKEN']"
    return [bound, f"used_{number} = [len(x_{number}), {{'x': x_{number}}}]"]


def changed(number: int, secret: str) -> list[str]:
    use = f"used_{number} = len(api_key_{number})"
    return [f"api_key_{number} = 'x{secret}'", use, f"api_key_{number} = {secret!r}", use]


def keyword_argument(number: int, secret: str) -> list[str]:
    return [f"c_{number} = connect(user='ada', password={secret!r}, port=1)"]


def in_a_dictionary(number: int, secret: str) -> list[str]:
    return [f"settings_{number} = {{'user': 'ada', 'db': {{'client_secret': {secret!r}}}}}"]


def in_an_error(number: int, secret: str) -> list[str]:
    return [f"auth_token_{number} = {secret!r}", f"raise RuntimeError('cannot log in with ' + auth_token_{number})"]


def in_an_error_from_the_environment(number: int, secret: str) -> list[str]:
    return [f"raise RuntimeError('cannot log in with ' + os.environ['SERVICE_{number}_TOKEN'])"]


def cannot_be_saved(number: int, secret: str) -> list[str]:
    return [f"r_{number} = Refusing(os.environ['SERVICE_{number}_TOKEN'])"]


def in_a_url(number: int, secret: str) -> list[str]:
    return [f"url_{number} = 'postgresql://ada:{secret}@db/x'", f"used_{number} = url_{number}.upper()[:10]"]


def in_a_loop(number: int, secret: str) -> list[str]:
    return [
        f"for i in range(3):\n    session_token_{number} = {secret!r}\n    y_{number} = len(session_token_{number}) * i"
    ]


WAYS: tuple[Callable[[int, str], list[str]], ...] = (
    read_from_the_environment,
    bound_and_used,
    bound_by_another_name,
    changed,
    keyword_argument,
    in_a_dictionary,
    in_an_error,
    in_an_error_from_the_environment,
    cannot_be_saved,
    in_a_url,
    in_a_loop,
)


def run(place: Path, rounds: int, *, seed: int = 1, progress: Progress = no_progress) -> Tally:
    tally, chance = Tally("planted secrets"), random.Random(seed)
    secrets = {number: f"hunter{chance.randbytes(8).hex()}" for number in range(rounds)}
    folder = place / "notebook"
    folder.mkdir()
    cells = {number: WAYS[number % len(WAYS)](number, secret) for number, secret in secrets.items()}
    # Only those that are read from there: what is in the environment is hidden everywhere, by its value.
    env = {f"SERVICE_{number}_TOKEN": secrets[number] for number in cells if "os.environ" in cells[number][0]}
    lines = []
    with Kernel(folder, env={**env, "JUPYTER_DATA_DIR": str(place / "jupyter")}) as kernel:
        kernel.run(SETUP)
        for sources in cells.values():
            for source in sources:
                lines.append(kernel.run(f"%%checkpointed\n{source}", fails=source.startswith("raise")).line)
            tally.rounds += 1
            progress(1)
        kernel.shutdown()
    texts = {"a line under a cell": "\n".join(lines), **_written(folder)}
    for number, secret in secrets.items():
        way = WAYS[number % len(WAYS)].__name__
        for where in [where for where, text in texts.items() if secret in text]:
            tally.note("wrong", f"{way}: in {where}")
    tally.checked = len(texts)
    if len(texts) < rounds or not any("hidden" in text for text in texts.values()):
        tally.note("wrong", "nothing was written at all")
    shutil.rmtree(folder)
    return tally.done()


def _written(folder: Path) -> dict[str, str]:
    """Every text there is, by where it stands."""
    with open_store(folder / ".nbcheckpoint") as store:
        entries = store.backend.scan()
    texts = {entry.key: _text(entry.value) for entry in entries}
    return texts | {name: (folder / name).read_text() for name in ("log.txt", "events.txt")}


def _text(record: bytes) -> str:
    """A record without its seal, and without what JSON does to quotes. Blobs are in base64: not found in here."""
    try:
        return json.dumps(json.loads(record.rpartition(b"\n")[0]), ensure_ascii=False)
    except ValueError:
        return record.decode(errors="replace")

"""What the statements of random programs are about, beyond the common vocabulary of `program_texts.py`.

A program has some of these themes, not all: so what belongs together comes together often enough to have an effect on
each other. `{*}` stands for a whole statement, indented as it stands there; the other letters are in `programs.py`.
"""

from __future__ import annotations

from tests.properties.themes import classes, functions, kernel, language, libraries, outside, values
from tests.properties.themes.theme import Theme

THEMES: dict[str, Theme] = {
    **language.THEMES,
    **functions.THEMES,
    **classes.THEMES,
    **values.THEMES,
    **libraries.THEMES,
    **outside.THEMES,
    **kernel.THEMES,
}

__all__ = ["THEMES", "Theme"]

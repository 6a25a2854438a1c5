"""What a theme consists of."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

_ITS_OWN = re.compile(r"(?<![\w'\".{])([a-z]+[5-8])\b(?=[^=\n]*(?<![=!<>+*/-])=(?!=))|(?<= as )([a-z]+[5-8])\b")


@dataclass(frozen=True)
class Theme:
    statements: tuple[str, ...]
    definitions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What the statements need, by name; each in several forms, one of which is there at a time."""
    alone: tuple[str, ...] = ()
    """Statements that stand in no other one."""
    begin: tuple[str, ...] = ()
    """What has to be there as well before most of them make sense."""

    @cached_property
    def begins(self) -> tuple[str, ...]:
        """What binds the names of its own, those with a digit from 5 to 8: for each the first statement that does."""
        found = {}
        for text in self.statements:
            for match in _ITS_OWN.finditer(text):
                found.setdefault(match[1] or match[2], text)
        return (*self.begin, *dict.fromkeys(found.values()))

"""Findings about the environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "note", "missing"]


@dataclass(frozen=True)
class Check:
    """One finding; `missing` means something needed is not there, and makes doctor fail."""

    name: str
    level: Level
    finding: str
    remedy: str = ""

"""Find scores of one benchmark and metric that are partly fractions and partly percent."""

from __future__ import annotations

from collections.abc import Iterable


def mixed_scales(values: Iterable[tuple[str, float]]) -> tuple[str, ...]:
    """Names whose values are on the rarer of two scales, fractions and percent.

    Values above 0.1 and up to 1 are taken as fractions, values of at least 10 as percent. The
    scales are mixed if both occur and no value is above 1 and up to 5: real scores spread over this
    range if they are on one scale.

    Args:
        values: (name, value) of one benchmark and metric, where higher values are better; a name
            may have several values.

    Returns:
        The names in the order of their first value on the rarer scale; of equally many values, the
        fractions. Empty if the values are on one scale.
    """
    pairs = list(values)
    if any(1 < value <= 5 for _, value in pairs):
        return ()
    fractions = [name for name, value in pairs if 0.1 < value <= 1]
    percent = [name for name, value in pairs if value >= 10]
    if not fractions or not percent:
        return ()
    return tuple(dict.fromkeys(percent if len(percent) < len(fractions) else fractions))

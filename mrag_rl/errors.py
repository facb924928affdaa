"""The one exception that a user's mistake raises."""

from __future__ import annotations


class InputError(ValueError):
    """Bad input from the user: one line saying what is wrong, where, and how to mend it.

    The command lines print it as ``error: <line>`` and exit with status 2.
    """

"""The exception for users' mistakes."""

from __future__ import annotations


class InputError(ValueError):
    """Bad input from the user, as one line that says what is wrong, where, and how to fix it.

    The command lines print it as ``error: <line>`` and exit with status 2.
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.splitlines()))  # what it quotes of other errors may have several

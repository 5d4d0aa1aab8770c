"""What keeps a command from doing what it was asked: exit status 2, never a verdict."""

from __future__ import annotations


class CannotRun(Exception):
    """A command could not run as asked. ``reason`` says why, and what would have been accepted."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Refused(CannotRun):
    """The one deployment or file that was asked about is refused: ``code`` and the reason the subject gave.

    ``others``: what each other subject answered, as ``(name, "refuses it too: ...")``.
    """

    def __init__(self, subject: str, code: str, why: str, others: tuple[tuple[str, str], ...] = ()) -> None:
        self.subject = subject
        self.code = code
        self.why = why
        self.others = others
        beside = "".join(f"; {name} {answer}" for name, answer in others)
        super().__init__(f"{subject} refuses this transfer: {code}: {why}{beside}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.subject, self.code, self.why, self.others)

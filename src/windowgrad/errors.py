"""The errors a user sees. Each is a ValueError or a TypeError too, so ordinary handlers catch them."""


class WindowgradError(Exception):
    """The common base. Behind the message stand the nodes of a tape it happened on, and the public call that failed."""

    where: str | None = None
    call: str | None = None

    def __str__(self) -> str:
        where = f" (in {self.where})" if self.where else ""
        call = f" [{self.call}]" if self.call else ""
        return f"{super().__str__()}{where}{call}"


class WindowError(WindowgradError, ValueError):
    """A size, a shape or a window that does not fit."""


class OptionError(WindowgradError, ValueError):
    """An option with a value it cannot have."""


class KindError(WindowgradError, TypeError):
    """An argument, an array or a scalar of a kind that cannot be used there."""


class GradientError(WindowgradError, ValueError):
    """A derivative that is not what the function says."""


MOST = 12
"""How many entries of a list a message looks at; it may be an image."""


def show(value: object, width: int = 80) -> str:
    """`value` for a message: on one line, cut to `width`, and never failing (Python does not print very long integers)."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"{'-' if value < 0 else ''}2**{value.bit_length() - 1}…"
    if isinstance(value, (tuple, list)):
        inner = ", ".join(show(entry) for entry in value[:MOST]) + ("," if len(value) == 1 else "")
        inner += ", …" if len(value) > MOST else ""
        text = f"({inner})" if isinstance(value, tuple) else f"[{inner.rstrip(',')}]"
    else:
        text = " ".join(repr(value).split())
    return text if len(text) <= width else text[: width - 1] + "…"

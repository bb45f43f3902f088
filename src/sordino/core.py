"""The three kinds of data-derived values, and the names every part agrees on.

`Private` may be mapped, never read. `Bounded` has been clipped and may only be summed. `Released` has been charged and
noised; whatever is computed from it is post-processing. The boundary guards against accidents, not against adversaries:
`unwrap`, `seal` and `mint` are its only openings, and a test keeps them inside the trusted base.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from sordino.sentences import shown

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")
Value_co = TypeVar("Value_co", covariant=True)
U = TypeVar("U")

Unit = Literal["example", "client"]
View = Literal["public", "server", "client"]
Neighbours = Literal["zero-out", "add-remove", "replace-one"]
Norm = Literal["l2", "l1"]
Visibility = Literal["public", "private"]

VIEWS: tuple[View, ...] = ("public", "server", "client")


class SordinoError(Exception):
    """A mistake the user can mend: one sentence that says what was expected, what it got, and what to do."""


class Private(Generic[Value_co]):
    """A value computed from private data. It can be transformed, and nothing else."""

    __slots__ = ("__value",)

    def __init__(self, value: Value_co) -> None:
        self.__value = value

    def map(self, function: Callable[[Value_co], U]) -> Private[U]:
        """Apply `function` inside the boundary; what it returns is private too."""
        return Private(function(self.__value))

    @staticmethod
    def join(values: Iterable[Private[U]]) -> Private[list[U]]:
        """Several private values as one private list."""
        return Private([unwrap(value) for value in values])

    def pair(self, other: Private[U]) -> Private[tuple[Value_co, U]]:
        """Two private values as one."""
        return Private((self.__value, unwrap(other)))

    def __repr__(self) -> str:
        return "Private(…)"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Private value cannot be pickled or copied out; release it through the door")


class Bounded:
    """A sum of contributions, each of norm at most `bound`, of which `zeroed` were not finite; it carries its sensitivity.

    Its value is `factor` times `total`, multiplied when it is read: a sum of many long rows then touches each row once less.
    """

    __slots__ = ("__factor", "__total", "bound", "norm", "units", "zeroed")

    def __init__(
        self,
        total: Tensor,
        *,
        bound: float,
        norm: Norm,
        units: int,
        zeroed: int = 0,
        factor: float = 1.0,
        key: object,
    ) -> None:
        if key is not _KEY:
            raise TypeError("only the trusted base may call a value bounded; clip it with privacy.clipping")
        self.__total = total
        self.__factor = factor
        self.bound = bound
        self.norm: Norm = norm
        self.units = units
        self.zeroed = zeroed

    def __add__(self, other: Bounded) -> Bounded:
        if (self.bound, self.norm) != (other.bound, other.norm):
            raise TypeError(
                f"cannot add a sum bounded by {self.norm} {self.bound} to one bounded by {other.norm} {other.bound}"
            )
        total: Tensor = unwrap(self) + unwrap(other)
        units, zeroed = self.units + other.units, self.zeroed + other.zeroed
        return Bounded(total, bound=self.bound, norm=self.norm, units=units, zeroed=zeroed, key=_KEY)

    def __repr__(self) -> str:
        return f"Bounded({self.norm} ≤ {self.bound:g}, {self.units} units)"


class Released(Generic[T]):
    """A value anyone in its view may see: noised and charged, or public from the start."""

    __slots__ = ("__value",)

    def __init__(self, value: T, *, key: object) -> None:
        if key is not _KEY:
            raise TypeError("only the ledger may release a value; send it through the door")
        self.__value = value

    @property
    def value(self) -> T:
        return self.__value

    def map(self, function: Callable[[T], U]) -> Released[U]:
        """Post-processing: free of charge."""
        return Released(function(self.__value), key=_KEY)

    def plus(self: Released[Tensor], other: Released[Tensor]) -> Released[Tensor]:
        return self.map(lambda value: value + other.value)

    @staticmethod
    def public(value: U) -> Released[U]:
        """A value that is out already: initial weights, or what the server made of released values."""
        return Released(value, key=_KEY)


_KEY = object()


def unwrap(value: Private[T] | Bounded) -> T:
    """Read a guarded value. For the trusted base alone."""
    if isinstance(value, Private):
        return value._Private__value  # type: ignore[no-any-return, attr-defined]
    total, factor = unwrap_product(value)
    return total if factor == 1 else total * factor  # type: ignore[return-value]


def unwrap_product(value: Bounded) -> tuple[Tensor, float]:
    """The two factors of a bounded value. For the trusted base alone."""
    return value._Bounded__total, value._Bounded__factor  # type: ignore[attr-defined]


def seal(total: Tensor, *, bound: float, norm: Norm, units: int, zeroed: int = 0, factor: float = 1.0) -> Bounded:
    """Call a clipped sum bounded. For the trusted base alone."""
    return Bounded(total, bound=bound, norm=norm, units=units, zeroed=zeroed, factor=factor, key=_KEY)


def mint(value: T) -> Released[T]:
    """Call a charged and noised value released. For the ledger's door alone."""
    return Released(value, key=_KEY)


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The sentence for a name nobody knows, with the nearest one that is known."""
    names = sorted(known)
    small = {one.casefold(): one for one in names}
    near = difflib.get_close_matches(name.casefold(), small, n=1, cutoff=0.5)
    hint = f"did you mean {small[near[0]]!r}?" if near else f"choose one of {', '.join(names)}."
    return f"There is no {kind} called {shown(name)}; {hint}"

"""What a method is handed for one round: the verbs, public facts, and no way to what lies behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from sordino.core import Released, SordinoError
from sordino.methods.method import Broadcast, ClientJob, Federation, NoisySteps, PersonalJob, Upload
from sordino.models import FlatSpace


class OneRound:
    """A federation as its method sees it in one round.

    Formal guarantee: coins are named by their round, and sampling earns its discount because no two rounds flip the same
    ones. A verb called for another round than this would flip old coins again, so it is refused.
    """

    __slots__ = ("__federation", "__number")

    def __init__(self, federation: Federation, number: int) -> None:
        self.__federation = federation
        self.__number = number

    @property
    def expected_cohort(self) -> float:
        return self.__federation.expected_cohort

    @property
    def sizes(self) -> Sequence[int]:
        return tuple(self.__federation.sizes)

    @property
    def space(self) -> FlatSpace:
        return self.__federation.space

    @property
    def clip_norm(self) -> float:
        return self.__federation.clip_norm

    def collect_sum(self, round_number: int, broadcast: Broadcast, job: ClientJob | PersonalJob) -> Released[Tensor]:
        return self.__federation.collect_sum(self.__checked(round_number), broadcast, job)

    def collect_on_support(self, round_number: int, broadcast: Broadcast, job: PersonalJob) -> Released[Tensor]:
        return self.__federation.collect_on_support(self.__checked(round_number), broadcast, job)

    def collect_each(self, round_number: int, broadcast: Broadcast, job: ClientJob) -> list[Upload]:
        return self.__federation.collect_each(self.__checked(round_number), broadcast, job)

    def collect_models(self, round_number: int, broadcast: Broadcast, job: NoisySteps) -> list[Upload]:
        return self.__federation.collect_models(self.__checked(round_number), broadcast, job)

    def diagnose(self, round_number: int, tensors: Mapping[str, Tensor]) -> None:
        self.__federation.diagnose(self.__checked(round_number), tensors)

    def __checked(self, round_number: int) -> int:
        if round_number != self.__number:
            raise SordinoError(
                f"The method was handed round {self.__number}, but it called a verb for round {round_number}, whose cohort "
                "was or will be drawn by the same coins; pass on the number that round() got."
            )
        return self.__number

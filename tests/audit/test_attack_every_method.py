"""Membership inference on every method: the table, and that the bound stands beside what was found."""

import pytest

from sordino.audit.attacks.attacking import attack_target
from sordino.audit.attacks.every_method import (
    CLIENTS,
    DELTA,
    EPSILON,
    OTHERS,
    ROWS,
    experiments,
    rows_to_learn_by_heart,
)
from sordino.audit.target import Target
from sordino.audit.trade_off import Claim
from sordino.engine.resolved import resolve
from sordino.methods import METHODS
from sordino.privacy.event_kinds import GaussianDpEvent
from sordino.report.attack_table import every_method_markdown

ROC = {
    "auc": 0.6,
    "tpr": {"0.01": 0.02},
    "tpr_at_least": {"0.01": 0.007},
    "allowed_tpr": {"0.01": 0.05},
    "bounded": True,
}


def test_every_method_is_attacked_and_all_but_the_plain_one_promise_the_same(tmp_path):
    rows_to_learn_by_heart(tmp_path / "rows.npz")
    made = list(experiments(tmp_path / "rows.npz"))
    assert [one.name for one in made] == [member.name for member in METHODS]
    assert all(resolve(one).method.protected for one in made if one.name not in ("fedavg", "bl-pf-as-published"))
    assert {one.privacy.epsilon for one in made} == {2.0} and {one.data.clients for one in made} == {CLIENTS}


@pytest.mark.parametrize(
    ("epsilon", "promise"), [(2.0, "2.000 per client"), (float("inf"), "none")], ids=["private", "plain"]
)
def test_the_table_tells_what_was_found_and_what_is_allowed(epsilon, promise):
    few = {**ROC, "attack": "user", "auc": 0.9, "tpr": {"0.01": None}}
    attacks = [{**ROC, "attack": "loss", "epsilon": epsilon, "bounded": promise != "none"}, few]
    table = every_method_markdown([{"method": "m", "unit": "client", "membership": attacks, "holds": False}])
    row = table.splitlines()[-1]
    allowed = "" if promise == "none" else " (0.050)"
    verdict = "nothing is promised" if promise == "none" else "BEATEN"
    assert row == f"| m | {promise} | 0.020, 0.007{allowed} | – | AUC 0.90 | {verdict} |"


def test_rows_learnt_by_heart_are_found_far_more_often_than_a_small_epsilon_would_allow(tmp_path):
    """The plain method on these rows is what an attack finds; the same share would refute ε = 2 at once."""
    rows_to_learn_by_heart(tmp_path / "rows.npz")
    made = {one.name: one for one in experiments(tmp_path / "rows.npz")}
    target = Target(experiment=made["fedavg"], folder=tmp_path)
    (loss, user) = attack_target(target, tmp_path / "fedavg", attacks=(), shadows=0)["membership"]
    allowed = Claim({GaussianDpEvent(1.4): 1}, "zero-out", DELTA)
    assert allowed.epsilon() == pytest.approx(EPSILON, abs=0.2)
    assert loss["tpr"]["0.01"] > 5 * allowed.curve().found(0.01)
    assert (user["members"], user["non_members"]) == (CLIENTS, OTHERS // (ROWS // CLIENTS))
    assert user["tpr_at_least"]["0.01"] > 5 * allowed.curve().found(0.01)

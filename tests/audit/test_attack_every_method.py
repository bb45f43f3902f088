"""Membership inference on every method: the table, and that the bound stands beside what was found."""

import pytest

from sordino.audit.attacks.every_method import CLIENTS, experiments, rows_to_learn_by_heart
from sordino.methods import METHODS
from sordino.report.attack_table import every_method_markdown

ROC = {"auc": 0.6, "tpr": {"0.01": 0.02}, "allowed_tpr": {"0.01": 0.05}, "bounded": True}


def test_every_method_is_attacked_and_all_but_the_plain_one_promise_the_same(tmp_path):
    rows_to_learn_by_heart(tmp_path / "rows.npz")
    made = list(experiments(tmp_path / "rows.npz"))
    assert [one.name for one in made] == [member.name for member in METHODS]
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
    assert row == f"| m | {promise} | 0.020{allowed} | – | AUC 0.90 | {verdict} |"

"""The figures beside accuracy are those that scikit-learn computes."""

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, balanced_accuracy_score, confusion_matrix, f1_score, log_loss
from torch.testing import assert_close

from sordino.engine.class_scores import NAMES, calibration_error, class_scores


def drawn(classes: int, seed: int, rows: int = 200) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (rows,), generator=generator)
    logits = torch.randn(rows, classes, generator=generator).round(decimals=1) + torch.eye(classes)[labels]
    return logits, labels


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_figures_agree_with_scikit_learn(classes, seed):
    logits, labels = drawn(classes, seed)
    found = class_scores(logits, labels)
    called, chances, truth = logits.argmax(1).numpy(), logits.double().softmax(1).numpy(), labels.numpy()
    one_hot = np.eye(classes)[truth]
    precision = (
        average_precision_score(truth, chances[:, 1]) if classes == 2 else average_precision_score(one_hot, chances)
    )
    expected = {
        "loss": log_loss(truth, chances),
        "f1": f1_score(truth, called, average="macro"),
        "balanced_accuracy": balanced_accuracy_score(truth, called),
        "auprc": precision,
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value), name
    assert found["confusion"] == confusion_matrix(truth, called).tolist()


def test_calibration_is_the_gap_between_confidence_and_accuracy():
    confident = torch.tensor([[0.9, 0.1]] * 10)
    half_right = torch.tensor([0] * 5 + [1] * 5)
    assert calibration_error(confident, half_right) == pytest.approx(0.4)
    assert calibration_error(torch.tensor([[0.5, 0.5]] * 10), half_right) == pytest.approx(0.0)


def test_a_class_without_rows_is_left_out_of_means():
    logits, labels = drawn(3, 4)
    kept = labels != 2
    found = class_scores(logits[kept], labels[kept])
    recalls = [float((logits[labels == one].argmax(1) == one).double().mean()) for one in (0, 1)]
    assert_close(found["balanced_accuracy"], sum(recalls) / 2)
    assert found["confusion"][2] == [0, 0, 0]


def test_a_model_that_diverged_has_figures_and_no_loss():
    logits = torch.full((4, 3), torch.nan)
    found = class_scores(logits, torch.tensor([0, 1, 2, 0]))
    assert found["loss"] is None
    assert set(found) == set(NAMES)


def test_many_classes_have_no_matrix():
    logits, labels = drawn(21, 5)
    assert "confusion" not in class_scores(logits, labels)

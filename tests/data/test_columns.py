"""Columns become the numbers that were declared for them, however the file writes its values."""

import numpy as np
import pandas
import pytest
from numpy.testing import assert_allclose

from sordino.data.columns import Category, Number, columns_of, tables_of
from sordino.data.evaluation_rows import SeparateSource
from sordino.data.source import SourceSettings, describe, labels_and_columns, load

AGE = {"kind": "number", "low": 0, "high": 100}


def read(path, text, **options):
    """All rows of a table, in the order of the file."""
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    rest = path.with_name("rest.csv")
    settings = SourceSettings(source=str(path), visibility="public", **options)
    rest.write_bytes(path.read_bytes())
    return load(settings, test=SeparateSource(source=str(rest)))


@pytest.fixture
def table(tmp_path):
    return tmp_path / "t.csv"


def test_public_bounds_bring_numbers_to_minus_one_and_one(table):
    found = read(table, "age,label\n0,0\n25,1\n50,0\n100,1\n", columns={"age": AGE})
    assert found.train.inputs[:, 0].tolist() == [-1.0, -0.5, 0.0, 1.0]


def test_missing_numbers_become_the_declared_one_and_outsiders_are_clipped(table):
    column = {**AGE, "missing": 75, "outside": "clip"}
    found = read(table, "age,label\nNA,0\n,1\n140,0\n-3,1\n", columns={"age": column})
    assert found.train.inputs[:, 0].tolist() == [0.5, 0.5, 1.0, -1.0]


def test_words_become_one_number_each_and_strange_ones_count_as_other(table):
    column = {"kind": "category", "values": ["a", "b", "other"], "missing": "b", "other": "other"}
    found = read(table, "x,label\na,0\n,1\nzzz,0\n b ,1\n", columns={"x": column})
    assert found.train.inputs.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 0]]


def test_a_value_that_is_called_NA_is_a_value(table):
    found = read(table, "x,label\nNA,0\nEU,1\n", columns={"x": {"kind": "category", "values": ["EU", "NA"]}})
    assert found.train.inputs.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("x,label\n1234.5,0\n2,1\n", {}),
        ("x;label\n1234.5;0\n2;1\n", {}),
        ("x\tlabel\n1234.5\t0\n2\t1\n", {}),
        ("x|label\n1234.5|0\n2|1\n", {"separator": "|"}),
        ("x;label\n1234,5;0\n2;1\n", {"decimal": ","}),
        ("x;label\n1.234,5;0\n2;1\n", {"decimal": ",", "thousands": "."}),
        ('x,label\n"1,234.5",0\n2,1\n', {"thousands": ","}),
        ("x;label\n1 234.5;0\n2;1\n", {"thousands": " "}),
        ("x,label\r\n1234.5,0\r\n2,1\r\n", {}),
        (b"\xef\xbb\xbfx,label\n1234.5,0\n2,1\n", {}),
        ('"x","label"\n"1234.5","0"\n"2","1"\n', {}),
        ("x,label\n 1234.5 ,0\n2,1\n\n", {}),
        ("x,label\n1.2345e3,0\n2,1\n", {}),
    ],
)
def test_numbers_in_many_dialects(table, text, options):
    found = read(table, text, **options)
    assert_allclose(found.train.inputs[:, 0], [1234.5, 2.0])
    assert found.train.labels.tolist() == [0, 1]


def test_words_that_stand_for_missing_values_are_the_persons_choice(table):
    found = read(table, "age,label\n-9,0\n50,1\n", columns={"age": {**AGE, "missing": 100}}, na=("-9",))
    assert found.train.inputs[:, 0].tolist() == [1.0, 0.0]


def test_declared_categories_keep_zeros_in_front(table):
    found = read(table, "code,label\n01,0\n1,1\n", columns={"code": {"kind": "category", "values": ["1", "01"]}})
    assert found.train.inputs.tolist() == [[0, 1], [1, 0]]


def test_a_class_that_nobody_holds_changes_nothing(table):
    found = read(table, "age,label\n1,yes\n2,no\n", classes=("no", "yes", "perhaps"))
    assert (found.classes, found.class_names, found.train.labels.tolist()) == (3, ("no", "yes", "perhaps"), [1, 0])


def test_class_names_that_are_numbers_are_looked_up_and_not_counted(table):
    found = read(table, "age,label\n1,3\n2,1\n", classes=("1", "2", "3"))
    assert found.train.labels.tolist() == [2, 0]


def test_true_and_false_are_words(tmp_path):
    pandas.DataFrame({"a": [1.0, 2.0, 3.0], "label": [True, False, True]}).to_parquet(tmp_path / "t.parquet")
    found = load(SourceSettings(source=str(tmp_path / "t.parquet"), visibility="public"))
    assert found.class_names == ("False", "True")


def test_declared_columns_leave_others_out_and_keep_their_order(table):
    found = read(table, "id,b,a,label\nx,1,2,0\ny,3,4,1\n", columns={"a": {"kind": "number"}, "b": {"kind": "number"}})
    assert found.train.inputs.tolist() == [[2, 1], [4, 3]]
    assert list(found.layout) == ["a", "b"]


def test_a_separate_test_file_is_read_by_the_columns_of_the_training_file(tmp_path):
    (tmp_path / "train.csv").write_text("age,x,label\n0,b,no\n100,a,yes\n")
    (tmp_path / "test.csv").write_text("x,label,age\na,yes,25\n")
    settings = SourceSettings(
        source=str(tmp_path / "train.csv"),
        visibility="private",
        columns={"age": AGE, "x": {"kind": "category", "values": ["a", "b"]}},
    )
    found = load(settings, test=SeparateSource(source=str(tmp_path / "test.csv")))
    assert found.public_test.inputs.tolist() == [[-0.5, 1, 0]]


def test_blank_lines_have_numbers_and_are_left_out(table):
    found = read(table, "a,b,label\n1,2,0\n\n3,4,1\n")
    assert found.train.inputs.tolist() == [[1, 2], [3, 4]]


def test_columns_without_bounds_and_undeclared_words_are_noted(table):
    table.write_text("age,height,town,label\n1,2,Ulm,yes\n3,4,Bonn,no\n5,6,Ulm,yes\n")
    asked = SourceSettings(source=str(table), visibility="private")
    unscaled, taken = describe(asked).notes
    assert unscaled.startswith("Columns used as they stand, without public bounds: age, height.")
    assert taken.startswith("Columns whose words were taken from the data, as if they were public: town, label.")
    declared = {"age": AGE, "height": AGE, "town": {"kind": "category", "values": ["Bonn", "Ulm"]}}
    all_said = SourceSettings(source=str(table), visibility="private", columns=declared, classes=("no", "yes"))
    assert describe(all_said).notes == load(all_said).notes == ()


def test_columns_come_back_from_their_tables():
    columns = {"age": Number(low=0, high=9, missing=4), "sex": Category(values=("f", "m"), other="m"), "x": Number()}
    assert columns_of(tables_of(columns)) == columns


def test_clients_that_are_plain_numbers_are_ordered_as_numbers(table):
    table.write_text("a,site,label\n1,10,0\n2,9,1\n3,10,0\n4,9,1\n5,10,0\n")
    asked = SourceSettings(source=str(table), visibility="private", client_column="site")
    assert describe(asked).group_names == {"site": ("9", "10")}
    _, columns = labels_and_columns(asked)
    assert columns["site"].dtype == np.int64


def test_clients_with_zeros_in_front_stay_apart(table):
    table.write_text("a,site,label\n1,01,0\n2,1,1\n3,01,0\n4,1,1\n5,01,0\n")
    asked = SourceSettings(source=str(table), visibility="private", client_column="site")
    assert describe(asked).group_names == {"site": ("01", "1")}

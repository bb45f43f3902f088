# ruff: noqa: E501 (a case is easiest to read on one line)
"""Wrong tables and wrong columns: each gets one sentence that names the file, the section, the key or the row."""

import re

import pandas
import pytest

from sordino.core import SordinoError
from sordino.data.source import SourceSettings, load
from sordino.engine.resolved import resolve
from sordino.experiment import experiment

GOOD = "age,sex,label\n10,f,no\n20,m,yes\n30,f,no\n40,m,yes\n50,f,no\n"
AGE = {"kind": "number", "low": 0, "high": 100}
SEX = {"kind": "category", "values": ["f", "m"]}
BOTH = {"age": AGE, "sex": SEX}


def columns(**changes):
    """Declared columns of the good table, with changes; None takes a setting away."""
    return {"columns": {name: {**BOTH.get(name, {}), **change} for name, change in {**BOTH, **changes}.items()}}


def number(**settings):
    return {"columns": {"age": {"kind": "number", **settings}}}


def words(**settings):
    return {"columns": {"sex": {"kind": "category", **settings}}}


def changed(old, new):
    return GOOD.replace(old, new, 1)


SETTINGS = {
    "a kind that is none": ({"columns": {"age": {"kind": "real"}}}, r"\[data.options.columns.age\] needs a kind, one of number, category, but got 'real'"),
    "no kind": ({"columns": {"age": {"low": 0, "high": 1}}}, r"\[data.options.columns.age\] needs a kind"),
    "a column that is a number": ({"columns": {"age": 3}}, r"\[data.options.columns.age\] should be a table such as .*, but got 3"),
    "columns that are a word": ({"columns": "age"}, r"In \[data.options\], columns should be a list or .*, but got 'age'"),
    "a bound in words": (number(low="zero", high=1), r"In \[data.options.columns.age\], low should be a valid number, but got 'zero'"),
    "a bound without end": (number(low=0, high=float("inf")), r"columns.age.*high should be a finite number|finite number, but got inf"),
    "one bound alone": (number(low=0), r"In \[data.options.columns.age\]: low and high belong together, but got low alone"),
    "the other bound alone": (number(high=9), "belong together, but got high alone"),
    "bounds the wrong way round": (number(low=9, high=1), "low should be below high, but got 9 and 1"),
    "bounds that are one": (number(low=1, high=1), "low should be below high"),
    "a filling out of bounds": (number(low=0, high=10, missing=50), "missing should lie between low and high, but got 50; choose a value from 0 to 10"),
    "a filling in words": (number(low=0, high=10, missing="ten"), r"In \[data.options.columns.age\], missing should be a valid number"),
    "a way outside that is none": (number(low=0, high=1, outside="wrap"), r"columns.age\], outside should be 'refuse' or 'clip', but got 'wrap'"),
    "a setting of the other kind": (number(values=["a"]), r"setting in \[data.options.columns.age\] called 'values'|no setting in .* called 'values'"),
    "a misspelt setting": (number(low=0, hihg=1), "called 'hihg'; did you mean 'high'"),
    "words without values": (words(), r"\[data.options.columns.sex\] needs values, which is missing"),
    "no values": (words(values=[]), r"In \[data.options.columns.sex\]: values should list the words of the column, but it is empty"),
    "values that are numbers": (words(values=[1, 2]), r"In \[data.options.columns.sex\], values\[0\] should be a valid string, but got 1"),
    "a value twice": (words(values=["f", "f"]), "values should list every word once, but got 'f' twice"),
    "a filling that is no value": (words(values=["f", "m"], missing="x"), "missing should be one of values, but got 'x'"),
    "an other that is no value": (words(values=["f", "m"], other="x"), "other should be one of values, but got 'x'"),
    "the label among the columns": ({"columns": ["age", "label"]}, "columns should list what is learnt from, but got 'label', which is the label_column"),
    "the label declared": ({"columns": {"label": SEX}}, "but got 'label', which is the label_column"),
    "the client among the columns": ({"columns": ["age", "sex"], "client_column": "sex"}, "but got 'sex', which is the client_column"),
    "a column declared twice": ({**columns(), "categories": {"sex": ["f"]}}, "columns.sex and categories both declare 'sex'"),
    "columns and a text": ({"columns": ["age"], "text_column": "sex"}, "columns and text_column were both given"),
    "a decimal sign that is none": ({"decimal": "·"}, r"In \[data.options\]: decimal should be '.' or ','"),
    "a sign for two things": ({"decimal": ",", "thousands": ","}, "thousands should be .* and not the decimal sign ','"),
    "a long separator": ({"separator": ";;"}, "separator should be one sign other than the decimal one"),
    "a separator that is the decimal sign": ({"separator": ",", "decimal": ","}, "separator should be one sign other than the decimal one"),
    "na that is a word": ({"na": "NA"}, r"In \[data.options\], na should be a list, but got 'NA'"),
    "a class twice": ({"classes": ["yes", "yes"]}, "classes should list every class once, but got 'yes' twice"),
    "one class": ({"classes": ["yes"]}, "classes must be at least 2"),
    "classes of numbers": ({"classes": [0, 1]}, r"In \[data.options\], classes.* should be "),
    "classes listed twice over": ({"classes": ["no", "yes"], "class_names": ["no", "yes"]}, "classes and class_names both list the classes"),
    "a number of other classes": ({"classes": 3, "class_names": ["no", "yes"]}, "classes is 3 but class_names lists 2"),
}  # fmt: skip

TABLES = {
    "a column that is not there": (GOOD, {"columns": {"weight": AGE}}, "no column in .*t.csv called 'weight'"),
    "a listed column that is not there": (GOOD, {"columns": ["agee"]}, "no column in .*t.csv called 'agee'; did you mean 'age'"),
    "another label column": (changed("label", "outcome"), {}, r"no column in .*t.csv called 'label'; .*\[data.options\] label_column names it"),
    "no client column": (GOOD, {"client_column": "site"}, r"called 'site'; .*\[data.options\] client_column names it"),
    "no text column": (GOOD, {"text_column": "note"}, r"called 'note'; .*\[data.options\] text_column names it"),
    "NA in a column of numbers": (changed("20,", "NA,"), {}, r"Column 'age' of .*t.csv has no value in row 2 below the header \('NA' stands for a missing one\)"),
    "NA in a declared column": (changed("20,", "NA,"), columns(), "Column 'age' of .* has no value in row 2 .*declare columns.age = .*missing = NUMBER"),
    "an empty word": (changed("m,", ","), columns(), "Column 'sex' of .* has no value in row 2 .*missing = WORD"),
    "an empty word in an undeclared column": (changed("m,", ","), {}, "Column 'sex' of .* has no value in row 2"),
    "words among numbers": (changed("20,", "old,"), {}, "Column 'age' of .*t.csv holds numbers, but got 'old' in row 2 .*add it to na"),
    "a word in a column of numbers": (changed("30,", "old,"), columns(), "Column 'age' of .* should hold numbers, but got 'old' in row 3"),
    "a decimal comma": ("age;label\n1,5;no\n2;yes\n", {}, r"holds numbers, but got '1,5' in row 1 .*set decimal = ',' in \[data.options\]"),
    "a decimal comma in a declared column": (
        "age;label\n1,5;no\n2;yes\n", {"columns": {"age": AGE}}, "should hold numbers, but got '1,5' in row 1 .*set decimal = ','",
    ),
    "a sign between thousands": ('age,label\n"1,234",no\n2,yes\n', {}, "got '1,234' in row 1 .*set decimal = ','|set thousands = ','"),
    "thousands and decimals": ("age;label\n1.234,5;no\n2;yes\n", {}, "got '1.234,5' in row 1 .*set decimal = ',' and thousands = '.'"),
    "thousands in groups of two": ('age;label\n"12,34";no\n2;yes\n', {"thousands": ","}, "got '12,34' in row 1"),
    "a point where commas are decimals": ("age;label\n1.5;no\n2;yes\n", {"decimal": ","}, "got '1.5' in row 1"),
    "a number that is too high": (changed("20,", "200,"), columns(), "Column 'age' of .* should hold numbers from 0 to 100, but got '200' in row 2"),
    "a number that is too low": (changed("20,", "-1,"), columns(), "numbers from 0 to 100, but got '-1' in row 2 .*outside = \"clip\""),
    "an infinite number": (changed("20,", "inf,"), {}, "Column 'age' of .* should hold finite numbers, but got 'inf' in row 2"),
    "a word that is no value": (changed("m,", "w,"), columns(), "Column 'sex' of .* should hold one of f, m, but got 'w' in row 2"),
    "another spelling of a value": (changed("m,", "M,"), columns(), "should hold one of f, m, but got 'M' in row 2"),
    "a class that is not declared": (changed("m,yes", "m,maybe"), {"classes": ["no", "yes"]}, "Column 'label' of .* declared classes, but got 'maybe' in row 2"),
    "a label that is missing": (changed("m,yes", "m,"), {}, "Column 'label' of .* has no value in row 2"),
    "a label NA": (changed("m,yes", "m,NA"), {}, r"Column 'label' of .* has no value in row 2 below the header \('NA'"),
    "numbers and words as labels": ("a,label\n1,0\n2,1\n3,x\n", {}, "Column 'label' of .* should hold class numbers, but got 'x' in row 3"),
    "a target on a scale": ("a,label\n1,0.5\n2,1.25\n", {}, r"Column 'label' of .* should hold classes, but got '0.5' in row 1 .*: declare target = \{ kind = 'number'"),
    "a class number that is not declared": ("a,label\n1,1\n2,4\n", {"classes": ["1", "2"]}, "declared classes, but got '4' in row 2"),
    "a client without a name": ("a,site,label\n1,x,0\n2,,1\n", {"client_column": "site"}, "The client column 'site' of .* has no value in row 2"),
    "a row that is cut short": ("a,b,label\n1,2,0\n3\n", {}, "t.csv has 1 fields in row 2 below the header, which names 3"),
    "a row that is too long": ("a,b,label\n1,2,0\n3,4,1,5\n", {}, "t.csv has 4 fields in row 2 below the header, which names 3"),
    "all rows too long": ("a,label\n1,0,\n2,1,\n", {}, "t.csv has 3 fields in row 1 below the header, which names 2"),
    "two columns of one name": ("a,a,label\n1,2,0\n", {}, "t.csv has two columns called 'a'"),
    "a column without a name": (",a,label\n0,1,0\n1,2,1\n", {}, "t.csv has no name over column 1 in its header .*index=False"),
    "nothing but a header": ("a,label\n", {}, "t.csv holds no examples, only a header"),
    "nothing but blank lines": ("a,b,label\n\n\n", {}, "t.csv holds no examples"),
    "a header of nothing": ("\n1,2\n", {}, "t.csv should begin with a header of column names"),
    "a column of nothing": ("a,b,label\n1,,0\n2,,1\n", {}, "Column 'b' of .*t.csv holds no value at all"),
    "a column of many words": ("a,label\n" + "".join(f"w{i},0\n" for i in range(300)), {}, "Column 'a' of .* holds 300 different words"),
    "a column and no other": ("label\n1\n0\n", {}, "There is no column in .*t.csv besides label and client"),
    "another separator than told": (GOOD, {"separator": ";"}, "no column in .*t.csv called 'label'"),
    "quotes that never end": ('a,label\n"1,0\n2,1\n', {}, "t.csv has 1 fields in row 1 below the header"),
}  # fmt: skip


def settings(path, options) -> SourceSettings:
    table = {"rounds": 1, "data": {"source": str(path), "options": options}, "model": "mlp", "method": "fedavg"}
    return resolve(experiment(table)).source


def refused(path, options, sentence) -> None:
    with pytest.raises(SordinoError, match=sentence) as caught:
        load(settings(path, options))
    told = str(caught.value)
    assert "\n" not in told and (told[0].isupper() or told[0] in "[/")
    assert re.search(r"\[data|t\.csv|classes|columns|separator", told), told


@pytest.fixture
def write(tmp_path):
    def written(text: str):
        (tmp_path / "t.csv").write_text(text)
        return tmp_path / "t.csv"

    return written


def test_the_good_table_is_taken(write):
    source = load(settings(write(GOOD), columns()))
    assert sorted(source.train.inputs[:, 0].tolist() + source.public_test.inputs[:, 0].tolist()) == pytest.approx(
        [-0.8, -0.6, -0.4, -0.2, 0.0]
    )


@pytest.mark.parametrize("case", SETTINGS)
def test_wrong_settings_are_refused_by_section_and_key(write, case):
    options, sentence = SETTINGS[case]
    refused(write(GOOD), options, sentence)


@pytest.mark.parametrize("case", TABLES)
def test_wrong_tables_are_refused_by_file_and_row(write, case):
    text, options, sentence = TABLES[case]
    refused(write(text), options, sentence)


BYTES = {
    "a spreadsheet by another name": (b"PK\x03\x04" + bytes(range(256)), "t.csv should be a CSV file, but got a ZIP archive, as spreadsheets are; save the sheet as CSV"),
    "UTF-16": (GOOD.encode("utf-16"), "t.csv should be text in UTF-8, but got zero bytes, as UTF-16 has; save it as UTF-8"),
    "Latin letters": (GOOD.replace("m,yes", "m,üb", 1).encode("latin-1"), "t.csv should be text in UTF-8, but got other bytes in row 2 below the header"),
    "Latin letters in the header": (GOOD.replace("age", "âge").encode("latin-1"), "t.csv should be text in UTF-8, but got other bytes in its header"),
    "Latin letters in a row that is too long": (GOOD.replace("m,yes", "m,yes,é", 1).encode("latin-1"), "other bytes in row 2 below the header"),
}  # fmt: skip


@pytest.mark.parametrize("case", BYTES)
def test_files_that_are_no_text_are_refused_without_noise(case, tmp_path, capfd):
    content, sentence = BYTES[case]
    (tmp_path / "t.csv").write_bytes(content)
    refused(tmp_path / "t.csv", {}, sentence)
    assert capfd.readouterr().err == ""


def test_a_file_of_no_format_says_how_to_save_it(tmp_path):
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    with pytest.raises(
        SordinoError, match=r"t.xlsx is of no known format; save a table as .csv or .parquet \(spreadsheets"
    ):
        load(settings(tmp_path / "t.xlsx", {}))


def test_tabs_between_columns_are_taken_from_the_header(tmp_path):
    (tmp_path / "t.tsv").write_text(GOOD.replace(",", "\t"))
    assert len(load(settings(tmp_path / "t.tsv", columns())).train) == 4


def test_dates_are_refused_by_column(tmp_path):
    frame = pandas.DataFrame({"day": pandas.to_datetime(["2020-01-01", "2020-01-02"]), "label": [0, 1]})
    frame.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(SordinoError, match=r"Column 'day' of .*t.parquet holds dates or times"):
        load(settings(tmp_path / "t.parquet", {}))


def test_the_table_is_long_enough():
    assert len(SETTINGS) + len(TABLES) >= 60

"""Made-up records of five hospitals: mixed columns, missing values, a label in words. No patient is real.

python examples/hospital/make_data.py            # writes patients.csv, test.csv, new-patients.csv and sites/NAME.csv beside this file
python examples/hospital/make_data.py DIR        # or into DIR
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas

SITES = {"Bergen": 900, "Lyon": 2400, "Porto": 1500, "Turku": 700, "Wien": 1800}
WARDS = ("medicine", "surgery", "geriatrics")
OUTCOMES = ("home", "rehab", "readmitted")


def patients(count: int, rng: np.random.Generator, *, sickness: float) -> pandas.DataFrame:
    """So many records of one hospital; `sickness` moves how its patients fare."""
    age = rng.normal(64, 17, count).clip(18, 104).round()
    sex = rng.choice(["f", "m"], count)
    ward = rng.choice(WARDS, count, p=[0.5, 0.35, 0.15])
    smoker = rng.choice(["yes", "no", "former"], count, p=[0.2, 0.55, 0.25])
    pressure = rng.normal(125 + 0.25 * (age - 60), 15, count).clip(70, 240).round()
    creatinine = np.exp(rng.normal(4.4 + 0.004 * (age - 60), 0.35, count)).clip(20, 1200).round(1)
    stay = np.exp(rng.normal(1.4 + 0.01 * (age - 60), 0.6, count)).clip(1, 90).round()
    risk = (
        0.05 * (age - 64)
        + 1.5 * (np.log(creatinine) - 4.4)
        + 0.06 * (stay - 4)
        + 0.8 * (smoker == "yes")
        + 0.9 * (ward == "geriatrics")
        + sickness
        + rng.logistic(0, 0.6, count)
    )
    outcome = np.select([risk < 0.4, risk < 1.8], OUTCOMES[:2], OUTCOMES[2])
    frame = pandas.DataFrame(
        {
            "patient": [f"p{number:06d}" for number in rng.integers(0, 1_000_000, count)],
            "age": age.astype(int),
            "sex": sex,
            "ward": ward,
            "smoker": smoker,
            "pressure": pressure.astype(int).astype(str),
            "creatinine": [f"{value:.1f}" for value in creatinine],
            "stay": stay.astype(int),
            "outcome": outcome,
        }
    )
    frame.loc[rng.random(count) < 0.06, "pressure"] = "NA"
    frame.loc[rng.random(count) < 0.10, "smoker"] = ""
    extra = np.random.default_rng([count, 7]).normal(
        0, 1.5, count
    )  # draws of its own, so that other columns stay as they were
    frame["cost"] = (2 + 0.7 * stay + 4 * (ward == "surgery") + 0.02 * creatinine + extra).clip(0.5, 60).round(1)
    return frame


def tables(rng: np.random.Generator) -> dict[str, pandas.DataFrame]:
    """Records of all sites to train on, and others to test on and to predict."""
    parts = []
    for number, (site, count) in enumerate(SITES.items()):
        frame = patients(count, rng, sickness=0.2 * number - 0.4)
        frame.insert(1, "hospital", site)
        parts.append(frame)
    test = patients(1500, rng, sickness=0.0)
    new = patients(20, rng, sickness=0.0).drop(columns=["outcome", "cost"])
    return {
        "patients.csv": pandas.concat(parts).sample(frac=1, random_state=1),
        "test.csv": test,
        "new-patients.csv": new,
    }


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    folder.mkdir(parents=True, exist_ok=True)
    made = tables(np.random.default_rng(7))
    for name, frame in made.items():
        frame.to_csv(folder / name, sep=";", index=False)
    (folder / "sites").mkdir(exist_ok=True)
    for site, own in made["patients.csv"].groupby("hospital"):
        own.to_csv(folder / "sites" / f"{site}.csv", sep=";", index=False)


if __name__ == "__main__":
    main()

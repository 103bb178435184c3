"""Writes stays.csv, an invented export of 600 stays as a German hospital's system would write it.

Run ``python examples/hospital_export.py``; docs/how-to/export.md goes on from there. The file has semicolons, decimal
commas and Windows-1252, case numbers with leading zeros, dates and times of day in a local form, limits of measurement,
a code beside its label, free text, and holes of several kinds.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

WARDS = {"0101": "Innere Medizin", "0203": "Chirurgie", "0305": "Intensivstation", "0622": "Geriatrie"}
NOTES = ("Aufnahme über die Notaufnahme", "elektive Aufnahme", "Zustand nach Sturz", "Angehörige informiert")
HEADER = (
    *("Fallnr", "Aufnahme", "Entlassung", "Erste Gabe", "Geschlecht", "Station", "Stationsname", "Alter"),
    *("CRP", "Kreatinin", "Beatmet", "Beatmungstage", "Bemerkung"),
)


def stays(rows: int = 600) -> list[list[str]]:
    """The rows of the export, as texts."""
    random = np.random.default_rng(0)
    ages = random.normal(66, 17, rows).clip(18, 101).round()
    wards = random.choice(list(WARDS), rows, p=[0.4, 0.3, 0.15, 0.15])
    ventilated = np.where(wards == "0305", random.random(rows) < 0.6, random.random(rows) < 0.02)
    days = random.gamma(1.6, 4, rows) * (0.7 + ages / 150) * np.where(ventilated, 1.8, 1)
    crp = np.exp(random.normal(2.2, 1.4, rows) + 0.6 * ventilated)
    creatinine = np.exp(random.normal(0, 0.35, rows) + (ages - 60) / 200)
    admitted = np.datetime64("2023-01-01T00:00") + random.integers(0, 730 * 24 * 60, rows)
    first_dose = random.normal(9.5 * 60, 150, rows).astype(int) % 1440

    def with_holes(cells: list[str], share: float) -> list[str]:
        return ["" if hole else cell for cell, hole in zip(cells, random.random(rows) < share, strict=True)]

    numbers = random.choice(900_000, rows, replace=False) + 4_100_000
    pressures = random.integers((95, 50), (190, 100), (rows, 2))
    notes = zip(random.choice(NOTES, rows), pressures, strict=True)
    columns = [
        [f"{number:010}" for number in numbers],
        [_date(time) for time in admitted],
        with_holes([_date(time) for time in admitted + (days * 1440).astype(int) + 60], 0.06),
        with_holes([f"{minute // 60:02}:{minute % 60:02}" for minute in first_dose], 0.15),
        with_holes(random.choice(["m", "w"], rows).tolist(), 0.03),
        wards.tolist(),
        with_holes([WARDS[ward] for ward in wards], 0.04),
        with_holes(["> 89" if age > 89 else f"{age:.0f}" for age in ages], 0.05),
        with_holes(["<0,6" if value < 0.6 else f"{value:.1f}".replace(".", ",") for value in crp], 0.2),
        [
            "?" if unknown else f"{value:.2f}".replace(".", ",")
            for value, unknown in zip(creatinine, random.random(rows) < 0.1, strict=True)
        ],
        ["ja" if one else "nein" for one in ventilated],
        [f"{max(1, length * 0.5):.0f}" if one else "" for length, one in zip(days, ventilated, strict=True)],
        with_holes([f"{note}; RR {upper}/{lower}" for note, (upper, lower) in notes], 0.2),
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def _date(time: np.datetime64) -> str:
    return str(time.astype("datetime64[m]").item().strftime("%d.%m.%Y %H:%M"))


def main() -> None:
    """Write the file."""
    path = Path("stays.csv")
    with path.open("w", encoding="cp1252", newline="") as stream:
        writer = csv.writer(stream, delimiter=";", lineterminator="\r\n")
        writer.writerow(HEADER)
        writer.writerows(stays())
    print(f"{path}: 600 stays, {len(HEADER)} columns")


if __name__ == "__main__":
    main()

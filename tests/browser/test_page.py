"""The dashboard's page in a real Chromium, with messages that a fold has made; tests/broker has it on a broker."""

import csv
import io
import json
import random
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page

from explain_client import Explanation, Prediction
from explain_client.fields import utc
from explain_client.words import day, estimator_name, figure, loss_name, minute, rough, second
from explain_core.losses import NAMED
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.http.dashboard import Dashboard
from explain_sidecar.http.views import VIEWS
from explain_sidecar.settings import Settings
from explain_sidecar.settings.dependence import DependenceSettings
from tests import feeds
from tests.browser import AXE, HOSTILE, START, Visit, served, take

FORMULA = "=HYPERLINK(0)"
HOUR = 3_600_000


def settings() -> Settings:
    return feeds.settings(
        EXPLAIN_EXPLAINERS='[{"kind": "ipfi", "alpha": 0.02, "reservoir": {"size": 20}, "by": "plan"}]',
        EXPLAIN_EMIT__EVERY="10",
        EXPLAIN_HTTP__SHOW_PAYLOADS="true",
        EXPLAIN_CHALLENGER__FACTORY="river.tree:HoeffdingTreeClassifier",
    )


@cache
def outputs(partition: int) -> list[Any]:
    """What a fold publishes of records whose label follows the hostile feature, then another; every 50th is bad."""
    state, rng = PartitionState(settings(), partition), random.Random(partition)
    found: list[Any] = []
    for offset in range(600):
        x: dict[str, Any] = {name: rng.gauss(0, 1) for name in (HOSTILE, FORMULA, "turned", "calm")}
        x["plan"] = rng.choice([HOSTILE, "gold"])
        x["label"] = int(x[HOSTILE if offset < 300 else "turned"] > 0)
        value = HOSTILE.encode() if offset % 50 == 49 else json.dumps(x).encode()
        found += state.step(InputRecord(offset, START + offset * HOUR, f"<b>{partition}</b>".encode(), value))
    return found


@pytest.fixture
def site() -> Iterator[tuple[Dashboard, str]]:
    """A dashboard that has read two partitions, and its address."""
    with served(settings()) as (made, where):
        for partition in (0, 1):
            take(made, partition, outputs(partition))
        yield made, where


def test_the_page_writes_losses_times_and_numbers_as_every_command_does(
    site: tuple[Dashboard, str], browser: Browser
) -> None:
    """words.js has the tables of explain_client.words."""
    page = browser.new_page()
    page.goto(site[1])
    losses = [*NAMED, "late_by_hours"]
    estimators = ["ipfi", "isage", "of_others"]
    numbers = [0.0, 0.5, -0.0123, 22.73, 999.4, 14_925.66, -6_881.4, 0.00052, 1.2e-7, 3.21e12, -2.5e-12]
    times = [1_368_511_507_000, 0, 10**18]
    found = page.evaluate(
        """async ([losses, estimators, numbers, times]) => {
          const words = await import("/static/words.js");
          const days = times.map((time) => words.day(time / 1000));
          return [losses.map(words.lossName), estimators.map(words.estimatorName), numbers.map(words.figure), numbers.map(words.rough), times.map(words.minute), times.slice(0, 2).map(words.moment), days.slice(0, 2)];
        }""",
        [losses, estimators, numbers, times],
    )
    page.close()
    assert found[0] == [loss_name(loss) for loss in losses]
    assert found[1] == [estimator_name(name) for name in estimators]
    assert [text.replace("−", "-") for text in found[2]] == [figure(value) for value in numbers]
    assert [text.replace("−", "-") for text in found[3]] == [rough(value) for value in numbers]
    assert found[4] == [minute(time) for time in times]
    assert found[5] == [second(utc(time)) for time in times[:2]]
    assert found[6] == [day(time) for time in times[:2]]


def opened_texts(page: Page) -> list[str]:
    return page.locator("#opened .step .name").all_inner_texts()


def test_every_view_is_accessible_and_fits(site: tuple[Dashboard, str], browser: Browser) -> None:
    shown = {
        "overview": "#multiples tbody tr",
        "changes": "#opened .step",
        "importance": "#challenger tbody tr",
        "partitions": "#segments tbody tr",
        "predictions": "#lookup",
        "integrity": "#chains td",
    }
    assert list(shown) == list(VIEWS)
    for view, some in shown.items():
        visit = Visit(browser, site[1], f"view={view}&partition=1", color_scheme="dark", viewport={"width": 400, "height": 800})  # fmt: skip
        page = visit.page
        page.wait_for_selector(some)
        page.evaluate(AXE.read_text())
        for scheme, width in (("dark", 400), ("light", 1440)):
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            page.set_viewport_size({"width": width, "height": 800})
            found = page.evaluate("axe.run().then((result) => result.violations)")
            assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == [], view
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
        visit.end()


def test_the_keyboard_leads_from_the_overview_to_a_waterfall_and_back(
    site: tuple[Dashboard, str], browser: Browser
) -> None:
    visit = Visit(browser, site[1])
    page = visit.page
    assert page.locator("#multiples tbody th a").all_inner_texts() == ["<b>0</b>", "<b>1</b>"]
    page.locator("#multiples tbody th a").nth(1).press("Enter")
    page.wait_for_selector("#changes:not([hidden]) .strip button")
    assert "view=changes" in page.url and "partition=1" in page.url
    page.locator("#risk-chart .canvas").focus()
    page.keyboard.press("End")
    newest = page.locator("#risk-chart .readout").inner_text()
    page.keyboard.press("ArrowLeft")
    assert "model" in newest and page.locator("#risk-chart .readout").inner_text() != newest
    page.locator("#risk-chart .strip button").nth(1).press("Enter")
    page.wait_for_selector("#opened h3")
    assert page.evaluate("document.activeElement.id") == "opened"
    assert {"the concept", "the model itself", "before", "after"} <= set(opened_texts(page))
    assert "hypothesis" not in page.inner_text("main")
    values = page.locator("#opened .waterfall .value, #opened .waterfall td.number").all_inner_texts()
    decimals = {len(text.partition(".")[2]) for text in values}
    assert len(values) > 5 and decimals == {3}, values
    opened = page.inner_text("#opened h3")
    page.locator("#risk-chart .marks button").first.press("Enter")
    page.wait_for_function(
        "(before) => document.querySelector('#opened h3').textContent !== before", arg=opened
    )
    told = page.inner_text("#opened")
    assert "began on" in told and " to 0." in told and "→" not in page.inner_text("main")
    page.go_back()
    page.wait_for_function(
        "(before) => document.querySelector('#opened h3').textContent === before", arg=opened
    )
    page.go_back()
    page.go_back()
    page.wait_for_selector("#overview:not([hidden])")
    visit.end()


def test_ranks_and_the_map_of_all_features_are_read_by_the_keyboard(
    site: tuple[Dashboard, str], browser: Browser
) -> None:
    visit = Visit(browser, site[1], "view=importance&partition=1")
    page = visit.page
    page.wait_for_selector("#ranks path[d]")
    ranked = page.locator("#features tbody th button").all_inner_texts()
    assert len(ranked) == page.locator("#ranks path").count() == 5
    said = {}
    page.locator("#ranks .canvas").focus()
    for key in ("End", "Home"):
        page.keyboard.press(key)
        said[key] = page.inner_text("#ranks .readout").partition(": ")[2]
    assert said["End"] == ", ".join(f"{place} {name}" for place, name in enumerate(ranked, start=1))
    assert said["Home"] != said["End"]
    page.locator("#heat .cells").focus()
    read = []
    for key in ("End", "ArrowDown", "ArrowLeft", "Home", "ArrowUp"):
        page.keyboard.press(key)
        read.append(page.inner_text("#heat .readout"))
    assert len(set(read)) == len(read)
    assert [ranked[0] in text for text in read] == [True, False, False, False, True]
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "(name) => document.querySelector('#focus-title').textContent === name", arg=ranked[1]
    )
    assert page.locator("#ranks path.main").count() == 1
    assert page.locator("#ranks .names [aria-pressed=true]").inner_text() == f"2\n{ranked[1]}"
    visit.end()


def test_the_page_rests_on_request_and_a_line_stops_where_no_records_came(
    site: tuple[Dashboard, str], browser: Browser
) -> None:
    visit = Visit(browser, site[1], "view=overview", viewport={"width": 400, "height": 800})
    page = visit.page
    chart = page.locator("#multiples .spark").first.bounding_box()
    assert chart is not None and chart["y"] < 600  # on a phone the first chart needs no scrolling
    path = "document.querySelector('#multiples .spark path.model').getAttribute('d').split('M').length"
    assert page.evaluate(path) == 2
    page.click("#pause")
    body = json.loads([one.value for one in outputs(0) if one.destination == "explanations"][-1])
    with site[0].feed.lock:
        later = {"seq": body["seq"] + 1, "timestamp": body["timestamp"] + HOUR * 400}
        site[0].feed.explanation(0, json.dumps(body | later).encode())
        site[0].feed.version += 1
    assert page.evaluate(path) == 2
    page.click("#pause")
    deadline = time.monotonic() + 30.0  # the next update may be older than what has just come
    while page.evaluate(path) != 3:
        assert time.monotonic() < deadline
        page.wait_for_timeout(50)
    page.select_option("#last", "6h")
    assert "last=6h" in page.url
    # What no line leads to is a point: the newest one stands at the right edge.
    page.goto(f"{site[1]}#view=changes")
    page.wait_for_selector("#risk-chart .main")
    drawn = page.evaluate(
        """() => {
          const canvas = document.querySelector("#risk-chart canvas"), label = document.querySelector("#risk-chart .labels .main");
          const scale = canvas.width / canvas.clientWidth, [left, top] = [label.offsetLeft - 12, label.offsetTop].map((place) => place * scale);
          const { data } = canvas.getContext("2d").getImageData(left, top, 12 * scale, 18 * scale);
          return data.some((value, index) => index % 4 === 2 && value > 120 && data[index - 2] < 60 && data[index + 1] > 100);
        }"""
    )
    assert drawn
    visit.end()


def test_windows_outside_of_the_time_shown_are_counted_and_an_axis_that_is_cut_says_so(
    site: tuple[Dashboard, str], browser: Browser
) -> None:
    visit = Visit(browser, site[1], "view=changes&partition=1")
    assert "the axis is cut" in visit.page.inner_text("#opened .waterfall")
    visit.page.select_option("#last", "1h")
    visit.page.wait_for_selector("#events-none:has-text('ended before or after it')")
    visit.end()


def test_why_the_risk_changed_is_shown_with_the_alarm_that_asked(
    site: tuple[Dashboard, str], browser: Browser
) -> None:
    alarm = next(json.loads(output.value) for output in outputs(0) if output.destination == "alarms")
    change = next(json.loads(output.value) for output in outputs(0) if output.destination == "drift")
    asked = {name: alarm[name] for name in ("seq", "offset", "cause")}
    site[0].feed.change(0, json.dumps(change | {"alarm": asked, "seq": 99}).encode())
    visit = Visit(browser, site[1], f"view=changes&at=alarm-0.{alarm['seq']}")
    assert "began on" in visit.page.inner_text("#opened")
    assert "Why: before and since the onset" in visit.page.inner_text("#opened")
    assert "the model itself" in opened_texts(visit.page)
    visit.end()


def test_no_waterfall_is_drawn_of_a_change_that_is_not_attributable(
    site: tuple[Dashboard, str], browser: Browser
) -> None:
    message = [json.loads(output.value) for output in outputs(0) if output.destination == "drift"][-1]
    message["change"]["target"]["matched"] = 0.0
    site[0].feed.change(0, json.dumps(message | {"seq": 99, "sentence": "nothing alike"}).encode())
    visit = Visit(browser, site[1], f"view=changes&at=window-{message['epoch']}.99")
    visit.page.wait_for_selector("#opened:not([hidden])")
    shown = visit.page.inner_text("#opened")
    assert "Not attributable" in shown and "Nothing alike." in shown and "records before" in shown
    assert visit.page.locator("#opened .waterfall, #opened details").count() == 0
    visit.end()


def test_what_was_served_is_compared_where_records_say_it(
    site: tuple[Dashboard, str], browser: Browser
) -> None:
    visit = Visit(browser, site[1], "view=changes")
    page = visit.page
    page.wait_for_selector("#risk-chart canvas")
    assert page.locator("#served").is_hidden()
    body = json.loads([one.value for one in outputs(0) if one.destination == "explanations"][-1])
    with site[0].feed.lock:
        for step, differing in ((1, 0), (2, 30)):
            skew = {"checked": 100 * step, "differing": differing, "largest": 0.25, "tolerance": 0.001}
            later = {"seq": body["seq"] + step, "timestamp": body["timestamp"] + HOUR * step, "skew": skew}
            site[0].feed.explanation(0, json.dumps(body | later).encode())
        site[0].feed.version += 1
    page.wait_for_selector("#served-chart canvas")
    assert "30 of 200 served predictions are not the model’s" in page.inner_text("#served")
    assert "by 0.250 at the most" in page.inner_text("#served")
    page.locator("#served-chart .canvas").focus()
    page.keyboard.press("End")
    assert "differing 0.300" in page.inner_text("#served-chart .readout")
    page.evaluate(AXE.read_text())
    assert page.evaluate("axe.run().then((result) => result.violations.length)") == 0
    visit.end()


def test_where_the_values_of_a_feature_are_is_drawn_below_its_curve(browser: Browser) -> None:
    chosen = settings().model_copy(
        update={"partial_dependence": DependenceSettings(features=["turned"], every=5, points=4)}
    )
    state, rng, told = PartitionState(chosen, 0), random.Random(3), []
    for offset in range(200):
        x = {"turned": rng.gauss(0, 1), "calm": rng.random(), "label": rng.random() > 0.5}
        told += state.step(InputRecord(offset, START + offset * HOUR, b"k", json.dumps(x).encode()))
    (curve,) = Explanation.from_json(told[-1].value).partial_dependence
    with served(chosen) as (site, where):
        take(site, 0, told)
        page = browser.new_page()
        page.goto(f"{where}#view=importance&feature=turned")
        bars = page.locator("#dependence .shares span")
        bars.nth(2).wait_for()
        heights = bars.evaluate_all("bars => bars.map((bar) => bar.getBoundingClientRect().height)")
        most, height = max(curve.shares[1:-1]), max(heights)
        assert heights == pytest.approx([height * share / most for share in curve.shares[1:-1]], abs=1.0)
        assert height > 20 and len(set(heights)) > 1
        below, above = page.locator("#dependence .shares-ends li").all_inner_texts()
        assert below.endswith(f"({100 * curve.shares[0]:.0f} % below)")
        assert above.endswith(f"({100 * curve.shares[-1]:.0f} % from here on)")
        page.close()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 400)])
def test_a_prediction_is_looked_up_by_its_id(browser: Browser, scheme: str, width: int) -> None:
    told = [Prediction.from_json(one.value) for one in feeds.predicted() if one.destination == "predictions"]
    event, settled = told[40], told[61]
    with served(feeds.settings(**feeds.PREDICTED)) as (made, where):
        take(made, 0, feeds.predicted())
        look: dict[str, Any] = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}}
        visit = Visit(browser, where, "view=predictions", **look)
        page = visit.page
        page.wait_for_selector("#sentence:has-text('the newest 61 predictions')")
        field = page.get_by_label("Look up a prediction: id")
        field.fill(HOSTILE)
        page.get_by_role("button", name="Look up").click()
        page.wait_for_selector("#sentence:has-text('No prediction of this id')")
        field.fill("r40")
        field.press("Enter")
        page.wait_for_selector("#found article")
        assert page.inner_text("#sentence").replace("−", "-") == f"P{settled.sentence()[1:]}."
        first, second = page.locator("#found article").all()
        assert f"offset {settled.offset}" in first.inner_text() and "offset 40," in second.inner_text()
        assert settled.earlier is not None and event.output is not None and event.predicted is not None
        facts = first.locator("dl").inner_text()
        for text in (
            f"{settled.label}; log loss {figure(settled.losses['cross_entropy'])}",
            f"{settled.output}: {figure(settled.earlier.probabilities[settled.output])}; log loss {figure(settled.earlier.losses['cross_entropy'])}; offset 40",
            f"{settled.background_rows} rows, digest {settled.background_digest}",
            "of epoch 0",
        ):
            assert text in facts, facts
        assert "has not come" in second.locator("dl").inner_text()
        names = [one.feature for one in event.reasons]
        assert len(names) == 5
        steps = second.locator(".step:not(.axis) .name").all_inner_texts()
        assert steps == ["average", *names, "all other features", "predicted"]
        values = second.locator(".step:not(.axis) .value").all_inner_texts()
        shown = [float(text.replace("−", "-")) for text in values]
        expected = [event.baseline, *(one.value for one in event.reasons), event.rest, event.predicted]
        assert shown == pytest.approx(expected, abs=5.1e-4)
        second.locator("summary").click()
        assert second.locator("tbody th").all_inner_texts() == [*names, "all other features"]
        page.evaluate(AXE.read_text())
        found = page.evaluate("axe.run().then((result) => result.violations)")
        assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        other = Visit(browser, where, page.url.partition("#")[2], **look)
        other.page.wait_for_selector("#found article")
        assert other.page.input_value("#record-id") == "r40"
        for part in ("#sentence", "#found"):
            assert other.page.text_content(part) == page.text_content(part)
        page.click("#views a[data-view=overview]")
        page.wait_for_selector("#overview:not([hidden])")
        assert "r40" not in page.url  # an address of another view tells no id
        page.go_back()
        page.wait_for_selector("#found article")
        page.go_back()
        page.wait_for_selector("#sentence:has-text('No prediction of this id')")
        assert page.locator("#found article").count() == 0
        for visitor in (visit, other):
            visitor.end()


def test_an_address_that_is_shared_shows_the_same(site: tuple[Dashboard, str], browser: Browser) -> None:
    visit = Visit(browser, site[1], "view=importance&partition=1")
    page = visit.page
    page.locator("#features").get_by_role("button", name="turned", exact=True).click()
    page.wait_for_selector("#focus-title:text-is('turned')")
    page.select_option("#last", "own")
    page.fill("#from", "2023-11-20T00:00")
    page.fill("#to", "2023-12-01T00:00")
    page.keyboard.press("Tab")
    page.wait_for_function("() => location.hash.includes('to=2023-12-01')")
    other = Visit(browser, site[1], page.url.partition("#")[2])
    for part in ("#focus-title", "#focus-caption", "#features", "#title"):
        assert other.page.inner_text(part) == page.inner_text(part)
    assert other.page.input_value("#from") == "2023-11-20T00:00"
    whole = Visit(browser, site[1], "view=importance&partition=1&feature=turned")
    assert whole.page.inner_text("#features") != page.inner_text("#features")
    for visitor in (visit, other, whole):
        visitor.end()


def test_drawing_across_a_chart_chooses_the_time_and_a_double_click_all_of_it(
    site: tuple[Dashboard, str], browser: Browser
) -> None:
    visit = Visit(browser, site[1], "view=changes")
    page = visit.page
    whole = page.input_value("#from"), page.input_value("#to")
    box = page.locator("#risk-chart .u-over").bounding_box()
    assert box is not None
    for move, share in ((page.mouse.move, 0.25), (page.mouse.move, 0.75)):
        move(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
        page.mouse.down() if share < 0.5 else page.mouse.up()
    page.wait_for_selector("#own:not([hidden])")
    assert whole[0] < page.input_value("#from") < page.input_value("#to") < whole[1]
    page.mouse.dblclick(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector("#own", state="hidden")
    assert "from=" not in page.url
    visit.end()


def test_what_is_seen_is_saved_as_a_table_and_as_a_picture(
    site: tuple[Dashboard, str], browser: Browser, tmp_path: Path
) -> None:
    visit = Visit(browser, site[1], "view=partitions")
    visit.page.wait_for_selector("#grid td")
    with visit.page.expect_download() as download:
        visit.page.click("#save-table")
    rows = list(csv.reader(io.StringIO(Path(download.value.path()).read_text())))
    named = {row[0]: row for row in rows}
    assert rows[0][:4] == ["feature", "average", "standard_error", "spread"] and rows[0][4:] == [
        "<b>0</b>",
        "<b>1</b>",
    ]
    assert {HOSTILE, f"'{FORMULA}", "turned", "calm"} <= set(
        named
    )  # a spreadsheet computes no formula of a topic
    newest = [output for output in outputs(1) if output.destination == "explanations"][-1]
    cell = json.loads(newest.value)["importance"]["ipfi"]["cross_entropy"]["turned"]
    assert float(named["turned"][5]) == pytest.approx(cell["value"], rel=1e-3)
    for view in ("changes", "importance", "overview", "integrity"):
        visit.page.click(f"#views a[data-view={view}]")
        visit.page.wait_for_selector(f"#{view}:not([hidden])")
        visit.page.wait_for_selector("body:not([data-waiting])")
        with visit.page.expect_download() as download:
            visit.page.click("#save-table")
        assert len(Path(download.value.path()).read_text().splitlines()) > 2
        with visit.page.expect_download() as download:
            visit.page.click("#save-picture")
        image = Image.open(download.value.path()).convert("RGB")
        box = visit.page.locator("main").bounding_box()
        assert box is not None and abs(image.width - 2 * box["width"]) <= 2
        colours = image.getcolors(1 << 24)
        assert colours is not None and len(colours) > 50 and max(colours)[1] == (255, 255, 255)
    # What is hidden is not painted, and a long word ends where it does on the page.
    visit.page.click("#views a[data-view=importance]")
    visit.page.wait_for_selector("#ranks path[d]")
    same, gap = visit.page.evaluate(
        """async () => {
          const { paint } = await import("/static/export.js");
          const ranks = document.querySelector("#ranks svg"), sentence = document.getElementById("sentence");
          const before = paint(ranks).toDataURL();
          ranks.querySelector(".cursor").remove();
          sentence.textContent = `${"n".repeat(30)} n`;
          const painted = paint(sentence), { data } = painted.getContext("2d").getImageData(0, 0, painted.width, painted.height);
          const inked = Array.from({ length: painted.width }, (_, x) => x).filter((x) => Array.from({ length: painted.height }, (_, y) => data[4 * (y * painted.width + x)]).some((red) => red < 128));
          return [before === paint(ranks).toDataURL(), Math.max(...inked.slice(1).map((x, index) => x - inked[index]))];
        }"""
    )
    assert same and gap > 8
    visit.end()


def test_messages_of_others_are_told_and_what_follows_is_shown(
    site: tuple[Dashboard, str], browser: Browser
) -> None:
    dashboard, where = site
    visit = Visit(browser, where, "view=integrity")
    page = visit.page
    page.wait_for_selector("#letters td")
    assert HOSTILE in page.inner_text("#letters")
    body = json.loads([output for output in outputs(0) if output.destination == "explanations"][-1].value)
    foreign = [{"seq": "x"}, {"epoch": None}, {"timestamp": HOSTILE}, {"estimators": {"a": 1}}]
    with dashboard.feed.lock:
        for change in foreign:
            dashboard.feed.explanation(0, json.dumps(body | change).encode())
        dashboard.feed.alarm(0, b"[1]")
        dashboard.feed.change(0, b"\xff")
        dashboard.feed._set_problem(HOSTILE)
        dashboard.feed._set_problem(None)
        dashboard.feed.version += 1
    page.wait_for_selector("#foreign td")
    assert "4 messages" in page.inner_text("#problem") or "6 messages" in page.inner_text("#problem")
    assert HOSTILE in page.inner_text("#problems") and "over after 1 second" in page.inner_text("#problems")
    with dashboard.feed.lock:  # nanoseconds, and fields that this version does not know
        later = body | {
            "seq": body["seq"] + 1,
            "timestamp": START * 1_000_000,
            "not_known_yet": {"a": 1},
            "nor_this": [1],
        }
        dashboard.feed.explanation(0, json.dumps(later).encode())
        dashboard.feed.version += 1
    for view in VIEWS:
        page.click(f"#views a[data-view={view}]")
        page.wait_for_selector(f"#{view}:not([hidden]) h2")
        page.wait_for_selector("#state :text('is no date')")
    visit.end()


@pytest.mark.parametrize("unit", [1e12, 1e-9])
@pytest.mark.parametrize("width", [1440, 360])
def test_numbers_of_any_size_and_long_names_have_room(browser: Browser, unit: float, width: int) -> None:
    chosen = feeds.settings(
        EXPLAIN_MODEL__TASK="regression",
        EXPLAIN_MODEL__NAME="linear",
        EXPLAIN_DRIFT__FACTORISATION="per_feature",
        EXPLAIN_EMIT__EVERY="100",
    )
    state, rng, told = PartitionState(chosen, 0), random.Random(3), []
    for offset in range(600):
        x = {f"customer.address.of.delivery.{name}": rng.random() for name in ("street", "zip")}
        x["label"] = unit * (sum(x.values()) + (offset > 300))
        told += state.step(InputRecord(offset, START + offset * 60_000, b"k", json.dumps(x).encode()))
    with served(chosen) as (site, where):
        take(site, 0, told)
        for view, some in {"overview": ".drivers .cut", "changes": "#opened .name", "importance": "#heat .cut", "partitions": "#grid tbody .cut"}.items():  # fmt: skip
            visit = Visit(browser, where, f"view={view}", viewport={"width": width, "height": 800})
            visit.page.locator(some).first.wait_for()
            assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
            # What is drawn of a name is its end, and no number is wider than the panel that it is in.
            assert visit.page.evaluate(
                """() => [...document.querySelectorAll(".cut:not([hidden])")].filter((place) => place.offsetParent)
                  .every((place) => place.firstChild.getBoundingClientRect().right <= place.getBoundingClientRect().right + 1)"""
            ), view
            assert visit.page.evaluate(
                """() => [...document.querySelectorAll("#opened .value")].every((value) => value.getBoundingClientRect().right <= document.getElementById("opened").getBoundingClientRect().right)"""
            ), view
            # A time does not run into what is beside it, and a name is not broken in its middle where there is a place for it.
            assert visit.page.evaluate(
                """() => [...document.querySelectorAll(".events .when")].every((time) => time.scrollWidth <= time.clientWidth)"""
            ), view
            assert view != "overview" or visit.page.locator(".events .when").count()
            assert (
                view != "partitions"
                or visit.page.locator("#comparison tbody th").bounding_box()["width"] >= 72
            )  # type: ignore[index]
            table = "document.getElementById('comparison')"
            assert view != "partitions" or visit.page.evaluate(
                f"{table}.scrollWidth <= {table}.parentElement.clientWidth"
            )
            if view == "importance":
                bar = "document.querySelector('#features .bar')?.getBoundingClientRect().width"
                assert width < 700 or visit.page.evaluate(bar) > 20
                assert visit.page.locator("#ranks svg").bounding_box()["height"] == 2 * 24  # type: ignore[index]
            visit.end()
        page = browser.new_page()
        page.goto(where)
        written = page.evaluate("import('/static/words.js').then((words) => [words.ticks([0, 1.5e27]), words.ticks([-2.5e-15, 0]), words.ticks([0, 0.05]), words.ticks([0, 2500000])])")  # fmt: skip
        assert written == [["0", "1.5e+27"], ["−2.5e-15", "0"], ["0", "0.05"], ["0", "2,500,000"]]
        page.close()


def test_records_that_all_came_at_one_time_have_a_chart(browser: Browser) -> None:
    """As those of a file that was written to a topic at once; the times of some minutes have seconds."""
    values = [output.value for output in outputs(0) if output.destination == "explanations"][:20]
    with served(settings()) as (site, where):
        for value in values:
            site.feed.explanation(0, json.dumps(json.loads(value) | {"timestamp": START}).encode())
        visit = Visit(browser, where, "view=changes", color_scheme="light")
        visit.page.wait_for_selector("#risk-chart .main")
        drawn = """() => {
          const canvas = document.querySelector("#risk-chart canvas");
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          return data.some((value, index) => index % 4 === 2 && value > 120 && data[index - 2] < 60 && data[index + 1] > 100);
        }"""
        visit.page.wait_for_function(drawn)
        assert visit.page.evaluate("import('/static/words.js').then((words) => [words.day(1.7e9, 60), words.day(1.7e9, 3600)])") == ["22:13:20", "2023-11-14 22:13"]  # fmt: skip
        visit.end()


def test_before_there_is_anything_the_page_says_so_and_then_begins(browser: Browser) -> None:
    with served(settings()) as (made, where):
        page = browser.new_page()
        page.goto(where)
        page.wait_for_selector("#nothing")
        page.wait_for_selector("#sentence:has-text('No explanation yet')")
        for part in range(0, 400, 100):
            take(made, 0, outputs(0)[part : part + 100])
        page.wait_for_selector("#multiples tbody tr")
        assert page.locator("#nothing").is_hidden()
        page.close()

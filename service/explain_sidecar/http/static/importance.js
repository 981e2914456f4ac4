// What drives the model: every feature with its band, its course with the alarms, and its rank then and now.
import { Chart, Course } from "./chart.js";
import { byId, element, fill, rowsOf, set, svg } from "./elements.js";
import { HeatMap } from "./heatmap.js";
import { Ranks } from "./ranks.js";
import { bounds, drawSpark, makeSpark } from "./spark.js";
import { banded, estimatorMeaning, figure, lossName, many, moment, number, rough, signed } from "./words.js";

const FAINT = 7;
const course = new Course();
let chart = null;
let heat = null;
let ranks = null;
let alarms = [];
let seen = [];

export function show(body, page) {
  course.take(body);
  if (body.whole) alarms = body.alarms.filter((alarm) => alarm.subject === "importance" && alarm.estimator === body.chosen.estimator && alarm.loss === body.chosen.loss && (alarm.version ?? "") === body.chosen.version && !alarm.segment);
  const range = page.range(course.times[0] ?? 0, course.times.at(-1) ?? 1);
  seen = rowsAt(body, range);
  const wanted = page.selection.search.toLowerCase();
  const matching = seen.filter((row) => row.feature.toLowerCase().includes(wanted));
  const focus = seen.find((row) => row.feature === page.selection.feature) ?? seen[0];
  const choose = (feature) => page.choose({ feature });
  byId("importance").classList.toggle("meaningless", body.state.worse);
  fill(byId("importance-title"), `What drives the model of ${page.nameOf(body.chosen.partition)}`);
  fill(byId("importance-caption"), `${estimatorMeaning(body.chosen.estimator)}, in units of ${lossName(body.chosen.loss)}. ± is half of the confidence band; without it the band is not settled yet.`);
  fill(byId("importance-none"), !seen.length ? "No feature is known yet." : !matching.length ? `No feature is called like “${page.selection.search}”.` : "");
  if (!focus) return;
  showFocus(focus, range, page);
  showDependence(body.curves.find((curve) => curve.feature === focus.feature));
  const low = Math.min(0, ...seen.map((row) => (row.value ?? 0) - (row.half ?? 0)));
  const high = Math.max(0, ...seen.map((row) => (row.value ?? 0) + (row.half ?? 0)));
  const ends = bounds(seen.map((row) => row.values));
  rowsOf(byId("features").tBodies[0], matching, makeRow, (row, one) => updateRow(row, one, { low, high, ends: [Math.min(0, ends[0]), ends[1]], range, focus, choose }));
  fill(byId("others"), body.other.count ? `${many(body.other.count, "more feature")}, together ${figure(body.other.value)}; find one by its name.` : "");
  rowsOf(byId("periods"), body.periods, () => element("li"), (item, one) => fill(item, one));
  showChallenger(body.challenger);
  heat ??= new HeatMap(byId("heat"), choose);
  byId("heat").hidden = course.times.length < 2;
  ranks ??= new Ranks(byId("ranks"), choose);
  byId("ranks").hidden = course.times.length < 2;
  if (course.times.length < 2) return;
  heat.update({ times: course.times, rows: matching, range, focus: focus.feature });
  ranks.update({ times: course.times, rows: seen, range, focus: focus.feature });
}

// Which way the feature in focus moves the prediction, where that is asked for: the curve over its values, where these are, and a sentence.
function showDependence(curve) {
  const place = byId("dependence");
  place.hidden = !curve;
  if (!curve) return;
  if (!place.querySelector("svg")) place.prepend(makeSpark(["model"]), element("div", { class: "shares" }), element("ul", { class: "shares-ends dim" }, element("li"), element("li")));
  const [low, high] = bounds([curve.values]);
  const sentence = `${curve.sentence.charAt(0).toUpperCase()}${curve.sentence.slice(1)}.`;
  drawSpark(place.firstChild, { times: curve.points, lines: [curve.values], marks: [], range: [curve.points[0], curve.points.at(-1)], low, high, label: sentence });
  fill(place.lastChild, sentence);
  showShares(place.querySelector(".shares"), place.querySelector(".shares-ends"), curve);
}

// How many of the remembered records have the feature between two points of the curve; what is beyond its ends is said in words.
function showShares(bars, ends, { feature, points, shares }) {
  const [below, ...between] = shares.slice(0, -1);
  const above = shares.at(-1);
  bars.hidden = ends.hidden = shares.length === 0;
  if (!shares.length) return;
  const most = Math.max(...between, 1e-9);
  const percent = (share) => `${Math.round(100 * share)} %`;
  rowsOf(bars, between, () => element("span"), (bar, share, place) => {
    bar.style.height = `${(100 * share) / most}%`;
    set(bar, { title: `${percent(share)} of the records: ${feature} from ${rough(points[place])} to ${rough(points[place + 1])}` });
  });
  set(bars, { role: "img", "aria-label": `Where the values of ${feature} are: ${between.map((share, place) => `${percent(share)} from ${rough(points[place])} to ${rough(points[place + 1])}`).join(", ")}` });
  fill(ends.children[0], `${rough(points[0])} (${percent(below)} below)`);
  fill(ends.children[1], `${rough(points.at(-1))} (${percent(above)} from here on)`);
}

// The second model, where there is one, and what it uses more or less than the first.
function showChallenger(challenger) {
  const place = byId("challenger");
  place.hidden = !challenger;
  if (!challenger) return;
  fill(byId("challenger-title"), `Against the challenger ${challenger.name}`);
  const sentence = challenger.difference?.sentence ?? "it is not compared under this loss";
  const said = [sentence, challenger.shift].filter(Boolean).map((one) => `${one.charAt(0).toUpperCase()}${one.slice(1)}.`);
  fill(byId("challenger-sentence"), said.join(" "));
  const rows = challenger.rows.map((row) => ({ ...row, half: row.low === null || row.high === null ? null : (row.high - row.low) / 2 }));
  const reach = Math.max(0, ...rows.map((row) => Math.abs(row.value ?? 0) + (row.half ?? 0)));
  rowsOf(place.querySelector("tbody"), rows, () => element("tr", {}, element("th", { scope: "row" }), element("td", { class: "number" }), element("td", { class: "wide" }, makeBand())), (line, one) => {
    fill(line.children[0], one.feature);
    fill(line.children[1], one.value === null ? "–" : `${one.value > 0 ? "+" : ""}${banded(one.value, one.half)}`);
    drawBand(line.children[2].firstChild, one, -reach, reach);
  });
}

// Every feature at the end of the range, the largest first, and its place among the others then and at the beginning.
function rowsAt({ rows, lines }, range) {
  const { times, series } = course;
  const [first, last] = [times.findIndex((time, index) => time >= range[0] && series.some(([values]) => values[index] !== null)), times.findLastIndex((time) => time <= range[1])];
  const newest = last === times.length - 1;
  const found = lines.map((feature, index) => {
    const [values, halves] = series[index];
    const marks = alarms.filter((alarm) => alarm.feature === feature);
    const now = newest || last < 0 ? rows[index] : { value: values[last], half: halves[last] };
    return { feature, value: now.value, half: now.half, floor: newest ? rows[index].floor : null, before: first < 0 ? null : values[first], values, halves, marks };
  });
  const order = (key) => [...found].sort((a, b) => (b[key] ?? -Infinity) - (a[key] ?? -Infinity));
  order("before").forEach((row, index) => (row.was = row.before === null ? null : index + 1));
  const sorted = order("value");
  sorted.forEach((row, index) => (row.rank = index + 1));
  return sorted;
}

function showFocus(focus, range, page) {
  fill(byId("focus-title"), focus.feature);
  const marks = focus.marks.map((alarm) => ({ from: alarm.onset / 1000, text: alarm.direction === "up" ? "+" : "−", label: `${alarm.direction === "up" ? "+" : "−"} Alarm of ${moment(alarm.onset)}: ${alarm.title}`, pressed: null, open: () => page.choose({ view: "changes", at: `alarm-${alarm.id}` }) }));
  fill(byId("focus-caption"), `${banded(focus.value, focus.half)}, ${rankText(focus)}${marks.length ? `; ${many(marks.length, "alarm")}` : ""}. ${focus.floor === null ? "" : `A lasting change of ${figure(focus.floor)} or more would raise an alarm. `}The thin lines are the other features that matter most.`);
  chart ??= new Chart(byId("importance-chart"), "Importance over time", page.chooseRange);
  byId("importance-chart").hidden = !course.times.length;
  if (!course.times.length) return;
  const end = (sign) => focus.values.map((value, index) => (value === null || focus.halves[index] === null ? null : value + sign * focus.halves[index]));
  const others = seen.filter((row) => row !== focus).slice(0, FAINT);
  chart.update({
    times: course.times,
    lines: [...others.map((row) => ({ name: row.feature, values: row.values, kind: "faint" })), { name: focus.feature, values: focus.values, kind: "main" }],
    band: { low: end(-1), high: end(1) },
    range,
    zero: true,
    marks,
    windows: [],
  });
}

function rankText({ rank, was }) {
  if (was === null) return `rank ${rank}, new`;
  return was === rank ? `rank ${rank} as at first` : `rank ${rank}, at first ${was}`;
}

const makeBand = () =>
  svg("svg", { class: "band", viewBox: "0 0 100 14", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("rect", { class: "reach", y: 4, height: 6, rx: 1 }), svg("rect", { class: "bar", y: 5.5, height: 3 }), svg("rect", { class: "zero", y: 0, height: 14, width: 0.5 }));

function makeRow() {
  return element(
    "tr",
    {},
    element("td", { class: "rank" }, element("span"), element("span", { class: "moved" })),
    element("th", { scope: "row" }, element("button", { type: "button" })),
    element("td", { class: "number" }),
    element("td", { class: "wide" }, makeBand()),
    element("td", { class: "course" }, makeSpark(["model"])),
  );
}

function updateRow(row, one, { low, high, ends, range, focus, choose }) {
  const [rank, name, value, band, line] = row.children;
  fill(rank.firstChild, String(one.rank));
  const by = one.was === null ? 0 : one.was - one.rank;
  fill(rank.lastChild, by > 0 ? `up ${number(by)}` : by < 0 ? `down ${number(-by)}` : "");
  set(rank, { "aria-label": rankText(one), title: rankText(one) });
  const button = name.firstChild;
  fill(button, one.feature);
  button.onclick = () => choose(one.feature);
  set(button, { "aria-pressed": String(one === focus) });
  fill(value, banded(one.value, one.half));
  drawBand(band.firstChild, one, low, high);
  const marks = one.marks.map((alarm) => alarm.onset / 1000);
  drawSpark(line.firstChild, { times: course.times, lines: [one.values], marks, range, low: ends[0], high: ends[1], label: `Course of ${one.feature}: now ${figure(one.value)}, ${rankText(one)}; ${many(marks.length, "alarm")}` });
}

function drawBand(drawing, { value, half }, low, high) {
  const at = (x) => (100 * (x - low)) / (high - low || 1);
  const [reach, bar, zero] = drawing.children;
  const ends = [at(0), at(value ?? 0)].sort((a, b) => a - b);
  set(bar, { x: ends[0], width: ends[1] - ends[0] });
  set(zero, { x: at(0) });
  set(reach, { x: at((value ?? 0) - (half ?? 0)), width: half === null ? 0 : at((value ?? 0) + half) - at((value ?? 0) - half) });
}

export function table() {
  return [["feature", "time", "importance", "half_of_band"], ...seen.flatMap((row) => course.times.map((time, index) => [row.feature, moment(time * 1000), row.values[index], row.halves[index]]))];
}

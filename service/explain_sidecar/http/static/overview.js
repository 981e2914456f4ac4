// All partitions: risk against no model, what drives each, its state, and its alarms; small multiples over the same time.
import { byId, element, fill, fillName, rowsOf, set } from "./elements.js";
import { bounds, drawSpark, makeSpark } from "./spark.js";
import { day, figure, lossName, many, number } from "./words.js";

const ALARMS = 12;
const ORDERS = {
  "": (a, b) => a.partition - b.partition,
  worst: (a, b) => worth(a) - worth(b),
  alarm: (a, b) => (b.alarms.at(-1) ?? 0) - (a.alarms.at(-1) ?? 0),
  lag: (a, b) => (b.lag ?? -1) - (a.lag ?? -1),
};
const worth = (one) => (one.model === null || one.empty === null ? Infinity : 1 - one.model / one.empty);

// The first and the last moment of all partitions, in seconds.
export function extent({ partitions }) {
  const times = partitions.flatMap((one) => [one.course.times[0], one.course.times.at(-1)]).filter((time) => time !== undefined);
  return times.length ? [Math.min(...times), Math.max(...times)] : [0, 1];
}

export function show(body, page) {
  const range = page.range(...extent(body));
  const sorted = [...body.partitions].sort((a, b) => (ORDERS[page.selection.order] ?? ORDERS[""])(a, b) || a.partition - b.partition);
  const series = body.partitions.flatMap((one) => [one.course.model, one.course.empty]);
  const [low, high] = bounds(series);
  drawAxis(range);
  rowsOf(byId("multiples").tBodies[0], sorted, makeRow, (row, one) => updateRow(row, one, { range, low, high, page }));
  const alarms = body.alarms.filter((alarm) => alarm.onset / 1000 <= range[1] && alarm.noticed / 1000 >= range[0]);
  fill(byId("newest-title"), alarms.length > ALARMS ? `The newest ${ALARMS} of ${many(alarms.length, "alarm")}` : "Alarms");
  fill(byId("newest-none"), alarms.length ? "" : body.watched.alarms ? "No alarm in this time." : "Alarms are off. Set alarms.enabled, and the sidecar says when a loss or an importance changed.");
  rowsOf(byId("newest"), alarms.slice(0, ALARMS), makeAlarm, (item, alarm) => {
    const [when, link, where] = item.children;
    fill(when, day(alarm.onset / 1000, range[1] - range[0]));
    fill(link, alarm.title);
    link.href = page.link({ view: "changes", partition: String(alarm.partition), at: `alarm-${alarm.id}` });
    fill(where, `${page.nameOf(alarm.partition)}: from ${figure(alarm.before[0])} to ${figure(alarm.after[0])}`);
  });
}

const makeAlarm = () => element("li", {}, element("span", { class: "when" }), element("a"), element("span", { class: "dim" }));

function drawAxis(range) {
  const places = byId("multiples").querySelectorAll(".ends span");
  const [from, to] = range;
  [from, (from + to) / 2, to].forEach((time, index) => fill(places[index], day(time, to - from)));
}

function makeRow() {
  const cell = (name, ...children) => element("td", { role: "cell", class: name }, ...children);
  return element(
    "tr",
    { role: "row" },
    element("th", { role: "rowheader", scope: "row" }, element("a"), element("span", { class: "state" })),
    cell("course", makeSpark(["empty", "model"])),
    cell("worth", element("strong"), element("span", { class: "dim" })),
    cell("drivers"),
    cell("alarms"),
  );
}

function updateRow(row, one, { range, low, high, page }) {
  const [head, course, value, drivers, alarms] = row.children;
  const name = page.nameOf(one.partition);
  const here = { partition: String(one.partition) };
  fill(head.firstChild, name);
  head.firstChild.href = page.link({ view: "changes", at: "", feature: "", ...here });
  const [state, said] = stateOf(one);
  fill(head.lastChild, said);
  head.lastChild.className = `state ${state}`;
  const marks = one.alarms.map((time) => time / 1000);
  const seen = marks.filter((time) => time >= range[0] && time <= range[1]).length;
  const gain = worth(one);
  const share = Number.isFinite(gain) ? `${Math.abs(100 * gain).toFixed(0)} % ${gain >= 0 ? "below" : "above"} no model` : "not known yet";
  const label = `${name}: ${lossName(one.loss)} ${figure(one.model)}, ${share}; ${many(seen, "alarm")}`;
  drawSpark(course.firstChild, { times: one.course.times, lines: [one.course.empty, one.course.model], marks, range, low, high, label });
  fill(value.firstChild, figure(one.model));
  fill(value.lastChild, share);
  value.classList.toggle("bad", gain < 0);
  rowsOf(drivers, one.drivers, () => element("a"), (link, driver) => {
    fillName(link, driver.feature);
    link.href = page.link({ view: "importance", feature: driver.feature, ...here });
    set(link, { title: `${driver.feature}: importance ${figure(driver.value)}${driver.sure ? "" : ", which may be chance"}`, class: `cut ${driver.sure ? "sure" : "unsure"}` });
  });
  fill(alarms, seen ? many(seen, "alarm") : "none");
  alarms.classList.toggle("some", seen > 0);
}

function stateOf(one) {
  if (one.broken) return ["bad", "chain broken"];
  if (one.status === "rejecting") return ["bad", `${number(one.rejected)} of the last 1,000 records unusable`];
  if (one.status === "warming") return ["waiting", "warming up"];
  if (one.worse) return ["bad", "worse than no model"];
  if (one.lag === null) return ["good", "ready"];
  return ["good", one.lag > 0 ? `ready, ${many(one.lag, "record")} behind` : "ready, up to date"];
}

export function table(body, page) {
  const head = ["partition", "name", "state", "records", "lag", "loss", "risk", "risk_no_model", "drivers", "alarms"];
  return [head, ...body.partitions.map((one) => [one.partition, page.nameOf(one.partition), stateOf(one)[1], one.records, one.lag, one.loss, one.model, one.empty, one.drivers.map((driver) => driver.feature).join(" "), one.alarms.length])];
}

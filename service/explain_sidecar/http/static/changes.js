// What changed: the risk over time, with alarms above it and windows below; one of them is open.
import { Chart, Course } from "./chart.js";
import { byId, element, fill, renew, rowsOf, set } from "./elements.js";
import { CAUSES, day, estimatorName, figure, lossName, many, moment, number, signed } from "./words.js";
import { showServed } from "./served.js";
import { makeWaterfall, waterfallTable } from "./waterfall.js";

const course = new Course();
let chart = null;
let alarms = [];
let windows = [];
let opening = false;

export function show(body, page) {
  course.take(body);
  if (body.whole) {
    alarms = grouped(body.alarms, body.stories, body.changes);
    // What an alarm asked for is shown with the alarm, as long as that is known.
    windows = body.changes.filter((one) => !alarms.some((group) => group.why.includes(one))).map((one) => ({ ...one, at: `window-${one.id}` }));
  }
  const [model, empty, shares] = course.series;
  const range = page.range(course.times[0] ?? 0, course.times.at(-1) ?? 1);
  const within = (from, to) => to >= range[0] && from <= range[1];
  const shownAlarms = alarms.filter((group) => within(group.onset / 1000, group.onset / 1000));
  const shownWindows = windows.filter((one) => within(one.target.first_timestamp / 1000, one.target.last_timestamp / 1000));
  const open = found(page.selection.at) ?? shownWindows.find((one) => one.steps?.length && one.cause !== "none") ?? shownWindows.find((one) => one.steps) ?? shownAlarms[0] ?? null;
  const press = (at) => {
    opening = true;
    page.choose({ at });
  };
  fill(byId("changes-title"), `What changed in ${page.nameOf(body.chosen.partition)}`);
  fill(byId("risk-caption"), `Smoothed ${lossName(body.chosen.loss)} of the model before it learns from a record, and of always predicting how frequent the labels are`);
  chart ??= new Chart(byId("risk-chart"), "Risk over time", page.chooseRange);
  byId("risk-chart").hidden = !course.times.length;
  fill(byId("risk-none"), course.times.length ? "" : "No record with a date has come yet.");
  if (course.times.length) {
    chart.update({
      times: course.times,
      lines: [{ name: "model", values: model, kind: "main" }, { name: "no model", values: empty, kind: "other" }],
      band: null,
      range,
      marks: shownAlarms.map((group) => ({ from: group.onset / 1000, text: String(group.alarms.length), label: `${many(group.alarms.length, "alarm")} of ${moment(group.onset)}: ${group.alarms.map((alarm) => alarm.title).join("; ")}`, pressed: String(group === open), open: () => press(group.at) })),
      windows: [...shownWindows.map((one) => [one, one]), ...shownAlarms.flatMap((group) => group.why.map((one) => [one, group]))].map(([one, event]) => ({ from: one.target.first_timestamp / 1000, to: one.target.last_timestamp / 1000, cause: one.cause, text: CAUSES[one.cause][2], label: windowLabel(one), pressed: String(event === open), open: () => press(event.at) })),
    });
  }
  showServed(body, course.times, shares, range, page.chooseRange);
  const causes = [...new Set([...shownWindows, ...shownAlarms.flatMap((group) => group.why)].map((one) => one.cause))];
  rowsOf(byId("causes"), causes, () => element("li", {}, element("span", { class: "key" }), element("span")), (item, cause) => {
    item.firstChild.className = `key ${cause}`;
    fill(item.lastChild, `${CAUSES[cause][0]}: ${CAUSES[cause][1]}`);
  });
  showOpen(open);
  const versions = body.versions.filter((one) => within(one.since / 1000, one.since / 1000)).map((one) => ({ ...one, kind: "version" }));
  showList([...shownAlarms, ...shownWindows, ...versions], open, { event: press, version: (name) => page.choose({ version: name, at: "" }) });
  fill(byId("events-none"), noneOf(body.watched, shownAlarms, shownWindows));
}

// Alarms of one story belong together; the newest first, as windows are.
function grouped(all, stories, changes) {
  const groups = new Map();
  for (const alarm of all) {
    const group = groups.get(alarm.story) ?? { kind: "alarm", alarms: [], onset: Infinity, story: stories.find((one) => one.key === alarm.story) };
    group.alarms.push(alarm);
    group.onset = Math.min(group.onset, alarm.onset);
    group.at = `alarm-${alarm.id}`;
    group.why = [...(group.why ?? []), ...changes.filter((one) => one.alarm === alarm.id)];
    groups.set(alarm.story, group);
  }
  return [...groups.values()];
}

// What an address names: a window by its id, an alarm by that of any of its group.
function found(at) {
  return alarms.find((group) => group.alarms.some((alarm) => at === `alarm-${alarm.id}`)) ?? windows.find((one) => one.at === at);
}

const windowLabel = (one) => `${CAUSES[one.cause][2]}: window until ${moment(one.target.last_timestamp)}${one.steps ? `, risk ${signed(one.to - one.from)}` : ""}`;

function noneOf(watched, someAlarms, someWindows) {
  const texts = [];
  if (!watched.alarms) texts.push("Alarms are off: set alarms.enabled to be told when a loss or an importance changed.");
  else if (!someAlarms.length) texts.push("No alarm in this time.");
  if (!watched.drift) texts.push("Causes are not looked for: set drift.enabled to learn why the risk changed from window to window.");
  else if (!windows.length && !watched.on_alarm) texts.push("No two windows of drift.window records have ended yet.");
  else if (!someWindows.length && !watched.on_alarm) texts.push(`No window has ended in this time; ${many(windows.length, "window")} ended before or after it.`);
  return texts.join(" ");
}

function showOpen(open) {
  const place = byId("opened");
  place.hidden = open === null;
  if (open === null) return;
  renew(place, [open.at, open.kind === "alarm" ? [open.alarms.length, open.why.length, open.story?.sentence] : open.sentence], () => (open.kind === "alarm" ? alarmDetails(open) : windowDetails(open)));
  if (!opening) return;
  opening = false;
  place.focus();
  place.scrollIntoView({ block: "nearest" });
}

function windowDetails(one, heading = element("h3", { id: "opened-title" }, `Window until ${moment(one.target.last_timestamp)}`)) {
  const parts = [
    heading,
    element("p", { class: "verdict" }, element("span", { class: `key ${one.cause}` }), `${CAUSES[one.cause][0]}: ${CAUSES[one.cause][1]}`),
    element("p", {}, sentenceOf(one)),
  ];
  if (!one.steps) return parts;
  const caption = `${lossName(one.loss)} of ${number(one.baseline.records)} records before, and of the ${number(one.target.records)} of this window`;
  parts.push(element("p", { class: "caption" }, caption));
  if (!one.steps.length) return parts; // not attributable
  return [...parts, makeWaterfall(one), element("details", {}, element("summary", {}, "As a table"), waterfallTable(one))];
}

export const sentenceOf = (one) => `${one.sentence.charAt(0).toUpperCase()}${one.sentence.slice(1)}.`;

function alarmDetails(group) {
  const first = group.alarms.at(-1);
  const under = (alarm) => [alarm.loss && lossName(alarm.loss), alarm.estimator && estimatorName(alarm.estimator), alarm.version && `version ${alarm.version}`].filter(Boolean).join(", ");
  const rows = group.alarms.map((alarm) => element("tr", {}, element("th", { scope: "row" }, alarm.title), ...[spanOf(alarm.before), spanOf(alarm.after), under(alarm)].map((text) => element("td", {}, text))));
  const [from, to] = [Math.min(...group.alarms.map((alarm) => alarm.earliest)), Math.max(...group.alarms.map((alarm) => alarm.latest))];
  const between = from < to ? `, or at any time from ${moment(from)} to ${moment(to)}` : "";
  return [
    element("h3", { id: "opened-title" }, group.alarms.length > 1 ? `${many(group.alarms.length, "alarm")} that probably have one cause` : first.title),
    ...(group.story ? [element("p", {}, group.story.sentence)] : []),
    element("p", {}, `The change began on ${moment(group.onset)}${between}. It was noticed on ${moment(first.noticed)}. At most one in ${number(first.one_in)} records raises an alarm without a change.`),
    element("table", {}, element("thead", {}, element("tr", {}, ...["What", "Before", "After", "Under"].map((name) => element("th", { scope: "col" }, name)))), element("tbody", {}, ...rows)),
    ...group.why.flatMap((one) => windowDetails(one, element("h3", {}, "Why: before and since the onset"))),
  ];
}

const spanOf = ([value, low, high]) => `${figure(value)} (${figure(low)} to ${figure(high)})`;

function showList(events, open, press) {
  const time = (event) => event.since ?? event.onset ?? event.target.last_timestamp;
  events.sort((a, b) => time(b) - time(a));
  byId("events").hidden = !events.length;
  rowsOf(byId("events").tBodies[0], events, () => element("tr", {}, element("td", { class: "when" }), element("th", { scope: "row" }, element("button", { type: "button" })), element("td")), (row, event) => {
    const [when, what, why] = row.children;
    fill(when, day(time(event) / 1000));
    const button = what.firstChild;
    if (event.kind === "version") {
      fill(button, `Version ${event.name}`);
      fill(why, "its first explanation");
      button.onclick = () => press.version(event.name);
      set(button, { "aria-pressed": null });
      return;
    }
    fill(button, event.kind === "alarm" ? `Alarm: ${event.alarms.map((alarm) => alarm.title).join("; ")}` : `Risk ${event.steps ? signed(event.to - event.from) : "not compared"}`);
    button.onclick = () => press.event(event.at);
    set(button, { "aria-pressed": String(event === open) });
    fill(why, event.kind === "alarm" ? [...(event.story?.over ? ["over"] : []), ...event.alarms.map((alarm) => `${figure(alarm.before[0])} to ${figure(alarm.after[0])}`), ...event.why.map((one) => CAUSES[one.cause][0])].join("; ") : CAUSES[event.cause][0]);
  });
}

export function table() {
  const date = (milliseconds) => moment(milliseconds);
  const [model, empty, shares] = course.series;
  return [
    ["kind", "from", "to", "name", "value", "other", "text"],
    ...course.times.map((time, index) => ["risk", date(time * 1000), "", "model, no model", model[index], empty[index], ""]),
    ...course.times.flatMap((time, index) => (shares[index] === null ? [] : [["served", date(time * 1000), "", "share that is not the model’s", shares[index], "", ""]])),
    ...alarms.flatMap((group) => group.alarms.map((alarm) => ["alarm", date(alarm.onset), date(alarm.noticed), alarm.title, alarm.after[0], alarm.before[0], alarm.sentence])),
    ...windows.flatMap((one) => (one.steps ?? []).map((step) => ["step", date(one.target.first_timestamp), date(one.target.last_timestamp), step.name, step.value, "", one.sentence])),
  ];
}

// Everything on this page comes from /events. Names in it are not ours: they are set as text, never as HTML.
import { Chart } from "./chart.js";
import { colours, element, figure, fill, moment, number, rowsOf, svg } from "./elements.js";

const VIEWS = ["importance", "performance", "drift", "partitions", "integrity"];
const byId = (id) => document.getElementById(id);
const selection = { view: "importance", partition: "", estimator: "", loss: "", search: "", focus: "" };
const charts = { importance: new Chart(byId("importance-chart")), performance: new Chart(byId("performance-chart")) };
let source = null;
let shown = null;

function connect() {
  source?.close();
  source = new EventSource(`/events?${new URLSearchParams(selection)}`);
  source.onmessage = (event) => {
    try {
      update(JSON.parse(event.data));
    } catch (error) {
      say(`This message cannot be shown: ${error}`); // the next one may
    }
  };
  source.onerror = () => {
    // A browser goes on by itself after a broken connection, but not after an answer that is an error, and it hides which.
    const refused = source.readyState === EventSource.CLOSED;
    say(refused ? "The server refuses this page: a token is missing, or too many pages are open (http.max_streams); trying again." : "The connection is lost; trying again.");
    if (refused) setTimeout(connect, 2000);
  };
}

function choose(change) {
  Object.assign(selection, change);
  history.replaceState(null, "", `#${new URLSearchParams(selection)}`);
  for (const view of VIEWS) byId(view).hidden = view !== selection.view;
  for (const button of byId("views").children) {
    if (button.value === selection.view) button.setAttribute("aria-current", "page");
    else button.removeAttribute("aria-current");
  }
  connect();
}

function update(body) {
  const started = performance.now();
  say(body.problem);
  fill(byId("sentence"), body.sentence);
  if (!body.state) return;
  shown = body;
  fill(byId("title"), `${body.app}: ${body.topic}, ${nameOf(body.chosen.partition)}`);
  document.title = `${body.app} · explanation sidecar`;
  updateState(body.state);
  for (const [name, options] of Object.entries(body.choices)) updateChoice(byId(name), options, body.chosen[name], name === "partition" ? nameOf : String);
  ({ importance: updateImportance, performance: updatePerformance, drift: updateDrift, partitions: updateGrid, integrity: updateIntegrity })[selection.view](body);
  document.body.dataset.updates = Number(document.body.dataset.updates ?? 0) + 1;
  document.body.dataset.milliseconds = (performance.now() - started).toFixed(1);
}

function say(problem) {
  byId("problem").hidden = !problem;
  fill(byId("problem"), problem ?? "");
}

function updateState(state) {
  const { group } = state;
  const facts = [
    ["Status", state.status === "rejecting" ? `rejecting: ${number(state.rejected_recently)} of the last 1,000` : state.status === "warming" ? `warming up: ${number(Math.min(state.records, state.warm_up))} of ${number(state.warm_up)}` : state.status],
    ["Records", number(state.records)],
    ["Explained", number(state.explained)],
    ["Lag", state.lag === null ? "unknown" : number(state.lag)],
    ["Last record", moment(state.timestamp)],
    ["Partitions", group.warming ? `${group.partitions}, ${group.warming} warming up` : number(group.partitions)],
    ["Records in all", number(group.records)],
    ["Lag in all", group.lag === null ? "unknown" : number(group.lag)],
    ["Dead letters", number(group.rejected)],
    ...state.notices.map((notice) => ["Notice", notice]),
  ];
  rowsOf(byId("state"), facts, () => element("div", {}, element("dt"), element("dd")), (row, [name, text]) => {
    fill(row.children[0], name);
    fill(row.children[1], text);
  });
}

const nameOf = (partition) => shown.names[partition] ?? `partition ${partition}`;

function updateChoice(select, options, chosen, said) {
  rowsOf(select, options, () => element("option"), (option, value) => {
    fill(option, said(value));
    option.value = value;
  });
  if (document.activeElement !== select) select.value = chosen;
}

function updateImportance(body) {
  const all = [...body.rows, ...body.found];
  const low = Math.min(0, ...all.map((row) => (row.value ?? 0) - (row.half ?? 0)));
  const high = Math.max(1e-9, ...all.map((row) => (row.value ?? 0) + (row.half ?? 0)));
  const focus = body.lines.includes(selection.focus) ? selection.focus : body.lines[0];
  const rows = [...body.rows.map((row) => ({ ...row, line: body.lines.indexOf(row.feature) })), ...body.found.map((row) => ({ ...row, line: body.lines.indexOf(row.feature) }))];
  if (body.other.count > 0) rows.push({ feature: null, label: `other (${body.other.count})`, value: body.other.value, half: null, line: -1 });
  rowsOf(byId("features").tBodies[0], rows, makeFeature, (row, one) => {
    const [button, name] = [row.firstChild.firstChild, row.firstChild.firstChild.lastChild];
    fill(name, one.label ?? one.feature);
    button.disabled = one.feature === null;
    button.onclick = () => choose({ focus: one.feature });
    button.setAttribute("aria-pressed", String(one.feature === focus));
    button.firstChild.style.backgroundColor = one.line < 0 ? "transparent" : colours()[one.line % 8];
    fill(row.children[1], one.half === null ? figure(one.value) : `${figure(one.value)} ± ${figure(one.half)}`);
    drawBand(row.children[2].firstChild, one, low, high);
  });
  charts.importance.update(body, focus);
}

function makeFeature() {
  const button = element("button", { type: "button" }, element("span", { class: "key" }), element("span"));
  const band = element("td", { class: "wide" }, svg("svg", { class: "band", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("rect", { y: 2, height: 6, fill: "var(--line)" }), svg("rect", { y: 1, height: 8, width: 0.6, fill: "var(--ink)" }), svg("rect", { y: 3.5, height: 3, fill: "var(--accent)", opacity: 0.8 })));
  return element("tr", {}, element("th", { scope: "row" }, button), element("td", { class: "number" }), band);
}

function drawBand(drawing, { value, half }, low, high) {
  const at = (x) => (100 * (x - low)) / (high - low);
  const [bar, zero, band] = drawing.children;
  const ends = [at(0), at(value ?? 0)].sort((a, b) => a - b);
  bar.setAttribute("x", ends[0]);
  bar.setAttribute("width", ends[1] - ends[0]);
  zero.setAttribute("x", at(0));
  band.setAttribute("x", at((value ?? 0) - (half ?? 0)));
  band.setAttribute("width", half === null ? 0 : at((value ?? 0) + half) - at((value ?? 0) - half));
}

function updatePerformance(body) {
  const rows = Object.entries(body.losses);
  rowsOf(byId("losses").tBodies[0], rows, () => element("tr", {}, element("th", { scope: "row" }), ...[0, 1, 2].map(() => element("td", { class: "number" }))), (row, [name, [model, empty]]) => {
    fill(row.children[0], name);
    fill(row.children[1], figure(model));
    fill(row.children[2], figure(empty));
    fill(row.children[3], model === null || empty === null ? "–" : figure(empty - model));
  });
  charts.performance.update(body, "model");
}

function updateDrift(body) {
  const key = JSON.stringify(body.changes.map((change) => change.sentence + change.timestamp));
  const place = byId("changes");
  if (place.dataset.key === key) return;
  place.dataset.key = key;
  place.replaceChildren(...(body.changes.length ? body.changes.map(makeChange) : [element("p", {}, "No window has ended yet, or drift.enabled is off.")]));
}

function makeChange(change) {
  const windows = change.target ? `Window ${change.target.number}: ${number(change.target.records)} records until ${moment(change.target.last_timestamp)}` : "";
  const article = element("article", {}, element("h3", {}, windows), element("p", {}, change.sentence));
  if (change.steps) {
    article.append(drawWaterfall(change), element("details", {}, element("summary", {}, "As a table"), waterfallTable(change)));
  }
  return article;
}

function drawWaterfall(change) {
  const rows = [{ name: "before", value: change.from, total: true }, ...change.steps, { name: "after", value: change.to, total: true }];
  let at = change.from;
  const bars = rows.map((row) => {
    if (row.total) return { ...row, from: 0, to: row.value };
    const from = at;
    at += row.value;
    return { ...row, from, to: at };
  });
  const steps = bars.filter((bar) => !bar.total).flatMap((bar) => [bar.from, bar.to]);
  // Risks are far from 0 and their change is small: the axis begins where the change does.
  const ends = [change.from, change.to, ...steps];
  const margin = 0.1 * (Math.max(...ends) - Math.min(...ends) || 1e-3);
  const [low, high] = [Math.min(...ends) - margin, Math.max(...ends) + margin];
  const x = (value) => 210 + (300 * (Math.max(value, low) - low)) / (high - low);
  const drawing = svg("svg", { class: "waterfall", viewBox: `0 0 600 ${22 * bars.length}`, role: "img", "aria-label": change.sentence });
  bars.forEach((bar, index) => {
    const [left, right] = [x(bar.from), x(bar.to)].sort((a, b) => a - b);
    const paint = bar.total ? "var(--dim)" : bar.value > 0 ? "var(--more)" : "var(--less)";
    const name = bar.name.length > 30 ? `${bar.name.slice(0, 29)}…` : bar.name;
    drawing.append(
      svg("text", { x: 202, y: 22 * index + 15, "text-anchor": "end", "font-size": 12, fill: "var(--ink)" }, name),
      svg("rect", { x: left, y: 22 * index + 3, width: Math.max(right - left, 1), height: 16, fill: paint }),
      svg("text", { x: right + 6, y: 22 * index + 15, "font-size": 12, fill: "var(--ink)" }, bar.total ? figure(bar.value) : signed(bar.value)),
    );
  });
  return drawing;
}

function waterfallTable(change) {
  const rows = change.steps.map((step) => element("tr", {}, element("th", { scope: "row" }, step.name), element("td", { class: "number" }, signed(step.value)), element("td", { class: "number" }, step.low === null ? "–" : `${signed(step.low)} to ${signed(step.high)}`)));
  return element("table", {}, element("thead", {}, element("tr", {}, ...["Cause", "Change of risk", "95 % interval"].map((name) => element("th", { scope: "col" }, name)))), element("tbody", {}, ...rows));
}

const signed = (value) => `${value > 0 ? "+" : ""}${figure(value)}`;

function updateGrid({ grid }) {
  const table = byId("grid");
  const numbers = byId("numbers").checked;
  table.classList.toggle("numbers", numbers);
  const left = grid.warming ? `; left out: ${number(grid.warming)} warming up` : "";
  fill(byId("average"), `First column: ${grid.label}, ± its standard error, by their shares of the newest records${left}. Spread: how far the partition models lie apart.`);
  const partitions = grid.partitions.map(nameOf);
  const names = JSON.stringify([partitions, grid.features]);
  if (table.dataset.names !== names) {
    table.dataset.names = names;
    const head = element("tr", {}, ...["Feature", "Average", "Spread"].map((name) => element("th", { scope: "col" }, name)), ...partitions.map((name) => element("th", { scope: "col" }, name)));
    const rows = grid.features.map((name) => element("tr", {}, element("th", { scope: "row", title: name }, name), element("td", { class: "figure" }), element("td", { class: "figure" }), ...partitions.map(() => element("td"))));
    table.replaceChildren(element("caption", {}, "Importance of a feature (row) in a partition (column); the darker the larger"), element("thead", {}, head), element("tbody", {}, ...rows));
  }
  const most = Math.max(1e-12, ...grid.values.flat().map((value) => Math.abs(value ?? 0)));
  const strongest = numbers ? 0.3 : 0.95;
  grid.values.forEach((row, index) => {
    const cells = table.tBodies[0].rows[index].cells;
    const [value, std, spread] = grid.average[index];
    fill(cells[1], std === null ? figure(value) : `${figure(value)} ± ${figure(std)}`);
    fill(cells[2], figure(spread));
    row.forEach((value, column) => {
      const cell = cells[column + 3];
      // Text that nobody sees would have the whole table laid out anew.
      const text = numbers ? (value === null ? "–" : figure(value)) : "";
      const colour = `rgba(${getHeat()}, ${((strongest * Math.max(value ?? 0, 0)) / most).toFixed(3)})`;
      fill(cell, text);
      if (cell.dataset.colour !== colour) {
        cell.dataset.colour = colour;
        cell.style.backgroundColor = colour;
      }
    });
  });
}

let heat = null;
const getHeat = () => (heat ??= getComputedStyle(document.documentElement).getPropertyValue("--heat").trim());

function updateIntegrity({ chains, foreign, letters }) {
  byId("foreign").hidden = !foreign.length;
  rowsOf(byId("foreign").tBodies[0], foreign, () => element("tr", {}, element("th", { scope: "row" }), element("td"), element("td", { class: "number" }), element("td")), (row, one) => {
    [one.topic, nameOf(one.partition), number(one.count), one.newest].forEach((text, index) => fill(row.children[index], text));
  });
  rowsOf(byId("chains").tBodies[0], chains, () => element("tr", {}, element("th", { scope: "row" }), element("td", { class: "number" }), element("td"), element("td", { class: "wide" })), (row, chain) => {
    fill(row.children[0], nameOf(chain.partition));
    fill(row.children[1], number(chain.verified));
    fill(row.children[2], chain.broken ?? (chain.verified ? "whole" : "nothing read yet"));
    row.children[2].className = chain.broken ? "more" : "";
    fill(row.children[3], chain.digest ?? "–");
  });
  rowsOf(byId("letter-classes"), Object.entries(letters.classes), () => element("div", {}, element("dt"), element("dd")), (row, [name, count]) => {
    fill(row.children[0], name);
    fill(row.children[1], number(count));
  });
  rowsOf(byId("letters").tBodies[0], letters.newest, () => element("tr", {}, ...[0, 1, 2, 3, 4].map((index) => element("td", index === 4 ? { class: "wide" } : {}))), (row, letter) => {
    const details = letter.details === null ? "hidden; http.show_payloads shows it" : `${letter.details.message} · ${letter.details.value}`;
    const texts = [letter.error_class, nameOf(letter.partition), String(letter.offset), moment(letter.timestamp), details];
    texts.forEach((text, index) => fill(row.children[index], text));
  });
}

for (const button of byId("views").children) button.onclick = () => choose({ view: button.value });
for (const name of ["partition", "estimator", "loss"]) byId(name).onchange = (event) => choose({ [name]: event.target.value });
byId("choices").onsubmit = (event) => event.preventDefault();
let typing = 0;
byId("search").oninput = (event) => {
  clearTimeout(typing);
  typing = setTimeout(() => choose({ search: event.target.value }), 250);
};
byId("numbers").onchange = () => shown?.grid && updateGrid(shown);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  heat = null;
  for (const chart of Object.values(charts)) chart.rebuild();
  if (shown?.grid) updateGrid(shown);
});
const wanted = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
for (const name of Object.keys(selection)) selection[name] = wanted[name] ?? selection[name];
if (!VIEWS.includes(selection.view)) selection.view = VIEWS[0];
byId("search").value = selection.search;
choose({});

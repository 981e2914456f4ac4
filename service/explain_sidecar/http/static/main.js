// Everything on this page comes from /events. Names in it are not ours: they are set as text, never as HTML.
import * as changes from "./changes.js";
import { byId, element, fill, rowsOf, set } from "./elements.js";
import { saveTable, savePicture } from "./export.js";
import * as importance from "./importance.js";
import * as integrity from "./integrity.js";
import { address, asksOther, chosenRange, DEFAULTS, fromAddress, minute, query, VIEWS } from "./link.js";
import * as overview from "./overview.js";
import * as partitions from "./partitions.js";
import * as predictions from "./predictions.js";
import { estimatorName, lossName, moment, number } from "./words.js";

const SHOWN = { overview, changes, importance, partitions, predictions, integrity };
// What has no place in a view is not chosen there.
const CHOICES = { overview: ["estimator", "loss", "order", "last"], changes: ["partition", "version", "loss", "last"], importance: ["partition", "version", "estimator", "loss", "last"], partitions: ["partition", "estimator", "loss"], predictions: [], integrity: [] };
let selection = fromAddress();
let source = null;
let shown = null;
let paused = false;

// What a view may ask of the page.
const page = {
  get selection() {
    return selection;
  },
  choose,
  chooseRange: (range) => choose({ last: "", from: range ? minute(range[0]) : "", to: range ? minute(range[1] + 59) : "" }),
  link: (change) => address({ ...selection, ...change }),
  nameOf: (partition) => shown?.names[partition] ?? `partition ${partition}`,
  range(first, last) {
    page.extent = [first, last];
    return chosenRange(selection, first, last);
  },
  extent: [0, 1],
};

function connect() {
  source?.close();
  source = new EventSource(`/events?${query(selection)}`);
  source.onmessage = (event) => {
    try {
      update(JSON.parse(event.data));
      if (paused) source.close(); // what was chosen since is here
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
  const before = selection;
  selection = { ...selection, ...change };
  const to = address(selection);
  if (to === location.hash) return;
  // Back leads to what was looked at, not through every letter of a search.
  const looked = ["view", "partition", "feature", "at", "id"].some((name) => before[name] !== selection[name]);
  history[looked ? "pushState" : "replaceState"](null, "", to);
  follow(before);
}

// Shows what is selected now: from the server, or by what is here already.
function follow(before) {
  furnish();
  if (!source || asksOther(before, selection)) {
    if (before.view !== selection.view || before.partition !== selection.partition) document.body.dataset.waiting = "";
    connect();
  } else if (shown && shown.state) draw({ ...shown, whole: false, times: [], series: shown.series?.map((line) => (Array.isArray(line[0]) ? line.map(() => []) : [])) });
}

function furnish() {
  for (const view of VIEWS) byId(view).hidden = view !== selection.view;
  for (const link of byId("views").querySelectorAll("a")) {
    link.href = page.link({ view: link.dataset.view, at: "", id: "" });
    set(link, { "aria-current": link.dataset.view === selection.view ? "page" : null });
  }
  for (const label of byId("choices").querySelectorAll("[data-choice]")) label.hidden = !CHOICES[selection.view].includes(label.dataset.choice) || (label.dataset.choice === "version" && !shown?.choices?.version.length);
  byId("order").value = selection.order;
  byId("last").value = selection.from || selection.to ? "own" : selection.last;
  byId("own").hidden = byId("last").value !== "own" || !CHOICES[selection.view].includes("last");
  if (document.activeElement !== byId("search")) byId("search").value = selection.search;
  if (document.activeElement !== byId("record-id")) byId("record-id").value = selection.id;
}

function update(body) {
  const started = performance.now();
  say(body.problem);
  fill(byId("sentence"), body.sentence);
  byId("nothing").hidden = Boolean(body.state);
  byId("content").hidden = !body.state;
  if (!body.state) return;
  shown = body;
  delete document.body.dataset.waiting;
  const { app, topic, chosen, state } = body;
  const one = ["changes", "importance"].includes(selection.view);
  fill(byId("title"), one ? `${app} · ${topic} · ${page.nameOf(chosen.partition)}` : `${app} · ${topic}`);
  document.title = `${document.querySelector(`#views [aria-current]`)?.textContent ?? ""} · ${app}`;
  updateState(state, one);
  updateChoice(byId("partition"), body.choices.partition, chosen.partition, page.nameOf);
  updateChoice(byId("version"), body.choices.version, chosen.version, (name) => name || "not named");
  byId("partition").parentElement.hidden = !one && !body.segments;
  byId("version").parentElement.hidden = !one || !body.choices.version.length;
  updateChoice(byId("estimator"), body.choices.estimator, chosen.estimator, estimatorName);
  updateChoice(byId("loss"), body.choices.loss, chosen.loss, lossName);
  draw(body);
  document.body.dataset.updates = Number(document.body.dataset.updates ?? 0) + 1;
  document.body.dataset.milliseconds = (performance.now() - started).toFixed(1);
}

function draw(body) {
  SHOWN[selection.view].show(body, page);
  const [first, last] = page.range(...page.extent);
  for (const [name, time] of [["from", first], ["to", last]]) {
    if (document.activeElement !== byId(name)) byId(name).value = minute(time);
  }
}

function say(problem) {
  byId("problem").hidden = !problem;
  fill(byId("problem"), problem ?? "");
}

function updateState(state, one) {
  const { group } = state;
  const status = state.status === "rejecting" ? `${number(state.rejected_recently)} of the last 1,000 records unusable` : state.status === "warming" ? `warming up: ${number(Math.min(state.records, state.warm_up))} of ${number(state.warm_up)}` : state.worse ? "worse than no model" : state.status;
  const lag = (value) => (value === null ? "unknown" : value === 0 ? "none" : `${number(value)} records`);
  const facts = one
    ? [["Status", status], ["Records", number(state.records)], ["Explained", number(state.explained)], ...(state.made_of ? [["Model", state.made_of]] : []), ["Behind", lag(state.lag)], ["Last record", moment(state.timestamp)], ...servedFacts(state)]
    : [["Partitions", group.warming ? `${number(group.partitions)}, ${number(group.warming)} warming up` : number(group.partitions)], ["Records", number(group.records)], ["Behind", lag(group.lag)], ["Rejected", number(group.rejected)]];
  rowsOf(byId("state"), [...facts, ...state.notices.map((notice) => ["Notice", notice])], () => element("div", {}, element("dt"), element("dd")), (row, [name, text]) => {
    fill(row.children[0], name);
    fill(row.children[1], text);
  });
}

function servedFacts({ version, skew }) {
  return [
    ...(version ? [["Model version", `${version.name}, which served ${number(version.records)} records`]] : []),
    ...(skew ? [["Served predictions", skew.differing ? `${number(skew.differing)} of ${number(skew.checked)} are not the model’s` : "the model’s"]] : []),
  ];
}

function updateChoice(select, options, chosen, said) {
  rowsOf(select, options, () => element("option"), (option, value) => {
    fill(option, said(value));
    option.value = value;
  });
  if (document.activeElement !== select) select.value = chosen;
}

const nameOfFile = () => [shown?.app ?? "explanations", selection.view, ...(["changes", "importance"].includes(selection.view) ? [page.nameOf(shown?.chosen.partition ?? 0)] : [])].join("-");

for (const name of ["partition", "version", "estimator", "loss", "order"]) byId(name).onchange = (event) => choose({ [name]: event.target.value, ...(name === "partition" ? { at: "", version: "" } : {}) });
byId("last").onchange = (event) => (event.target.value === "own" ? page.chooseRange(page.range(...page.extent)) : choose({ last: event.target.value, from: "", to: "" }));
for (const name of ["from", "to"]) byId(name).onchange = (event) => choose({ last: "", [name]: event.target.value });
byId("choices").onsubmit = (event) => event.preventDefault();
byId("lookup").onsubmit = (event) => {
  event.preventDefault();
  choose({ id: byId("record-id").value.trim() });
};
byId("numbers").onchange = () => shown?.grid && draw(shown);
let typing = 0;
byId("search").oninput = (event) => {
  clearTimeout(typing);
  typing = setTimeout(() => choose({ search: event.target.value }), 250);
};
byId("pause").onclick = (event) => {
  paused = !paused;
  event.currentTarget.setAttribute("aria-pressed", String(paused));
  fill(event.currentTarget, paused ? "Paused: go on" : "Pause");
  if (paused) source?.close();
  else connect();
};
byId("save-table").onclick = () => shown?.state && saveTable(SHOWN[selection.view].table(shown, page), nameOfFile());
byId("save-picture").onclick = () => savePicture(document.querySelector("main"), nameOfFile());
byId("copy-link").onclick = async (event) => {
  const button = event.currentTarget;
  try {
    await navigator.clipboard.writeText(location.href); // there is no clipboard without HTTPS, but on localhost
    fill(byId("told"), "The link is copied.");
  } catch {
    fill(byId("told"), "Copy the address: it leads to what is shown.");
  }
  button.focus();
};
const moved = () => {
  const before = selection;
  selection = fromAddress();
  if (address(before) !== address(selection)) follow(before);
};
addEventListener("popstate", moved);
addEventListener("hashchange", moved);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => follow(selection));
follow(DEFAULTS);

// The steps from one risk to the other, as bars and as a table.
import { element, fillName } from "./elements.js";
import { among } from "./words.js";

// Each is `{ from, to, steps, sentence }`; its ends and the columns of its table are called as a change of the risk is, unless others are given.
export function makeWaterfall(change, ends = ["before", "after"]) {
  const rows = [{ name: ends[0], value: change.from, total: true }, ...change.steps, { name: ends[1], value: change.to, total: true }];
  let at = change.from;
  const bars = rows.map((row) => {
    if (row.total) return { ...row, from: null, to: row.value };
    const from = at;
    at += row.value;
    return { ...row, from, to: at };
  });
  // Risks are far from 0 and their change is small: the axis begins where the change does and says so, and risks are marks on it, not lengths.
  const edges = bars.flatMap((bar) => (bar.from === null ? [bar.to] : [bar.from, bar.to]));
  const margin = 0.1 * (Math.max(...edges) - Math.min(...edges) || 1e-3);
  const [low, high] = [Math.min(...edges) - margin, Math.max(...edges) + margin];
  const written = writtenOf(change);
  const share = (value) => (100 * (value - low)) / (high - low);
  return element("div", { class: "waterfall", role: "img", "aria-label": change.sentence }, ...bars.map((bar) => makeBar(bar, share(bar.from ?? bar.to), share(bar.to), written)), makeAxis(written(low), written(high)));
}

const writtenOf = (change) => among([change.from, change.to, ...change.steps.map((step) => step.value)]);

const makeAxis = (low, high) => element("div", { class: "step axis" }, element("span", { class: "name" }, "the axis is cut"), element("span", { class: "track" }, element("span", {}, low), element("span", {}, high)));

function makeBar(bar, from, to, written) {
  const [left, right] = [from, to].sort((a, b) => a - b);
  const kind = bar.total ? "total" : bar.value > 0 ? "more" : "less";
  const shape = element("span", { class: `bar ${kind}` });
  shape.style.left = `${left}%`;
  shape.style.width = `${Math.max(right - left, 0.4)}%`;
  const value = element("span", { class: "value" }, written(bar.value, bar.total ? "" : "+"));
  value.style.left = `${right}%`;
  const name = element("span", { class: "name", title: bar.name });
  fillName(name, bar.name);
  return element("div", { class: bar.total ? "step total" : "step" }, name, element("span", { class: "track" }, shape, value));
}

export function waterfallTable(change, columns = ["What", "Change of the risk", "95 % interval"]) {
  const signed = (value) => writtenOf(change)(value, "+");
  const rows = change.steps.map((step) =>
    element("tr", {}, element("th", { scope: "row" }, step.name), element("td", { class: "number" }, signed(step.value)), element("td", { class: "number" }, step.low === null ? "–" : `${signed(step.low)} to ${signed(step.high)}`)),
  );
  const head = columns.map((name, index) => element("th", { scope: "col", ...(index ? { class: "number" } : {}) }, name));
  return element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
}

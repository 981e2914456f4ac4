// Single predictions with their reasons, looked up by the id of their record.
import { sentenceOf } from "./changes.js";
import { byId, element, renew } from "./elements.js";
import { figure, lossName, many, moment } from "./words.js";
import { makeWaterfall, waterfallTable } from "./waterfall.js";

const METHODS = { exact: "exact", rescaled: "those of the margin, rescaled", sampled: "from random orders of the features" };
let found = [];

export function show({ lookup }, page) {
  found = lookup.predictions;
  renew(byId("found"), found.map((one) => [one.digest, page.nameOf(one.partition)]), () => found.map((one) => makeFound(one, page)));
}

function makeFound(one, page) {
  const heading = element("h3", {}, `${page.nameOf(one.partition)}, offset ${one.offset}, ${moment(one.timestamp)}`);
  const facts = factsOf(one).map(([name, text]) => element("div", {}, element("dt", {}, name), element("dd", {}, text)));
  return element("article", {}, heading, element("p", {}, sentenceOf(one)), ...(one.predicted === null ? [] : reasonsOf(one)), element("dl", {}, ...facts));
}

function reasonsOf(one) {
  const ends = (value, std) => (one.method === "sampled" ? { low: value - std, high: value + std } : { low: null, high: null });
  const steps = [...one.reasons.map(({ feature, value, std }) => ({ name: feature, value, ...ends(value, std) })), { name: "all other features", value: one.rest, low: null, high: null }];
  const change = { from: one.baseline, to: one.predicted, steps, sentence: sentenceOf(one) };
  return [makeWaterfall(change, ["average", "predicted"]), element("details", {}, element("summary", {}, "As a table"), waterfallTable(change, ["Feature", "Adds", "± its standard error"]))];
}

function factsOf(one) {
  const losses = (of) => Object.entries(of).map(([name, loss]) => `${lossName(name)} ${figure(loss)}`);
  const { earlier } = one;
  const label = one.label ?? (one.target === null ? null : figure(one.target));
  const before = earlier && (earlier.value ?? earlier.probabilities[one.output]);
  return [
    ["Predicted", `${one.output === null ? "" : `${one.output}: `}${figure(one.predicted)}${one.space === "margin" ? ", in the margin" : ""}`],
    ["On average (baseline)", figure(one.baseline)],
    ["Label", label === null ? "has not come" : [label, ...losses(one.losses)].join("; ")],
    ...(earlier ? [["Before the label came", [`${one.output === null ? "" : `${one.output}: `}${figure(before)}`, ...losses(earlier.losses), `offset ${earlier.offset}`, moment(earlier.timestamp)].join("; ")]] : []),
    ["Reasons", METHODS[one.method] ?? "none yet"],
    ["Model", one.version === null ? `after ${many(one.records, "record")} of epoch ${one.epoch}` : `version ${one.version}`],
    ["Background", `${many(one.background_rows, "row")}, digest ${one.background_digest}`],
  ];
}

export function table(body, page) {
  return [["partition", "offset", "time", "feature", "value", "standard_error"], ...found.flatMap((one) => one.reasons.map(({ feature, value, std }) => [page.nameOf(one.partition), one.offset, moment(one.timestamp), feature, value, std]))];
}

// Numbers, times and terms in words: those of explain_client/words.py, which a test holds them against.
export function figure(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  return `${value < 0 ? "−" : ""}${sized(size)}`;
}

// Three decimals where they say something, else three significant digits.
function sized(size) {
  if (size === 0 || (size >= 0.001 && size < 1e3)) return size.toFixed(3);
  return roughly(size);
}

function roughly(size) {
  if (size >= 1e3 && size < 1e9) return size.toLocaleString("en", { maximumFractionDigits: 0 });
  return size === 0 || isShort(size) ? String(Number(size.toPrecision(3))) : powers(size, 3);
}

// Whether a size is written without a power of ten.
const isShort = (size) => size >= 1e-4 && size < 1e9;
const powers = (size, digits) => (size === 0 ? "0" : Number(size.toPrecision(digits)).toExponential().replace(/[+-]\d$/, (power) => `${power[0]}0${power[1]}`));

// Three significant digits, or as many as there are before the point.
export const rough = (value) => `${value < 0 ? "−" : ""}${roughly(Math.abs(value))}`;

// How numbers are written that are compared with each other: all with the decimals that the largest of them asks for.
export function among(values) {
  const largest = Math.max(...values.map(Math.abs)) || 1;
  const decimals = Math.max(2 - Math.floor(Math.log10(largest)), 0);
  const shown = (size) => (isShort(largest) ? size.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals }) : powers(size, 3));
  return (value, plus = "") => `${value < 0 ? "−" : value > 0 ? plus : ""}${shown(Math.abs(value))}`;
}

// The numbers of an axis, which have the same distance.
export function ticks(values) {
  const short = isShort(Math.max(...values.map(Math.abs)) || 1);
  return values.map((value) => `${value < 0 ? "−" : ""}${short ? Math.abs(value).toLocaleString("en", { maximumSignificantDigits: 6 }) : powers(Math.abs(value), 6)}`);
}

export const signed = (value) => `${value > 0 ? "+" : ""}${figure(value)}`;
export const number = (value) => value.toLocaleString("en");
export const many = (count, name) => `${number(count)} ${name}${count === 1 ? "" : "s"}`;

// A value ± half of its band, both rounded to the place of its second digit.
export function banded(value, half) {
  if (half === null || half === undefined) return figure(value);
  const place = half > 0 ? 1 - Math.floor(Math.log10(half)) : 3;
  if (Math.abs(place) > 9) return `${figure(value)} ± ${figure(half)}`;
  const decimals = Math.max(place, 0);
  const rounded = (one) => (place < 0 ? Math.round(one * 10 ** place) / 10 ** place : one);
  const shown = (one) => rounded(one).toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  return `${value < 0 && shown(-value) !== shown(0) ? "−" : ""}${shown(Math.abs(value))} ± ${shown(half)}`;
}

// The first characters of a time in ISO 8601, from milliseconds since 1970; what is no date is shown as it is.
function written(milliseconds, length) {
  const date = new Date(milliseconds);
  return Number.isNaN(date.getTime()) ? null : date.toISOString().slice(0, length).replace("T", " ");
}

// A time in UTC to the second, and to the minute.
export const moment = (milliseconds) => (written(milliseconds, 19) ?? `${milliseconds} ms`).replace(/:\d\d$/, "$& UTC");
export const minute = (milliseconds) => (written(milliseconds, 16) ?? `${milliseconds} ms`).replace(/:\d\d$/, "$& UTC");

// The date, or the minute where the times shown span a few days only, or the second of some minutes; seconds since 1970.
export const day = (seconds, span = Infinity) => (span < 600 ? written(seconds * 1000, 19)?.slice(11) : written(seconds * 1000, span < 4 * 86400 ? 16 : 10)) ?? "–";

const LOSSES = { cross_entropy: "log loss", zero_one: "error rate" };
const ESTIMATORS = { ipfi: ["iPFI", "what the loss gains when the feature is permuted"], isage: ["iSAGE", "the feature’s share of what the model knows"] };
export const lossName = (loss) => LOSSES[loss] ?? `${loss.replaceAll("_", " ")} loss`;
export const estimatorName = (name) => ESTIMATORS[name]?.[0] ?? name;
export const estimatorMeaning = (name) => (ESTIMATORS[name] ? `${ESTIMATORS[name][0]}: ${ESTIMATORS[name][1]}` : name);

// What changed most between two windows of records.
export const CAUSES = {
  concept: ["The concept", "how the label follows from the inputs", "concept"],
  inputs: ["The inputs", "other records than before", "inputs"],
  model: ["The model itself", "what it learnt", "model itself"],
  none: ["Nothing stands out", "within the noise", "noise"],
  unknown: ["Not attributable", "the windows have too little in common", "unclear"],
};

// Numbers, times and terms in words.
export function figure(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  return `${value < 0 && size >= 1e-9 ? "−" : ""}${sized(size)}`;
}

function sized(size) {
  if (size >= 1000) return size.toLocaleString("en", { maximumFractionDigits: 0 });
  if (size >= 10) return size.toFixed(1);
  return size >= 0.0005 || size < 1e-9 ? size.toFixed(3) : size.toPrecision(1);
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

// A time in UTC to the second, from milliseconds since 1970; what is no date is shown as it is.
export function moment(milliseconds) {
  const date = new Date(milliseconds);
  return Number.isNaN(date.getTime()) ? `${milliseconds} ms` : date.toISOString().replace("T", " ").replace(/\.\d+Z/, " UTC");
}

const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });
const HOUR = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", timeZone: "UTC" });

// The date, or the minute where the times shown span a few days only; seconds since 1970.
export function day(seconds, span = Infinity) {
  const date = new Date(seconds * 1000);
  if (Number.isNaN(date.getTime())) return "–";
  return (span < 4 * 86400 ? HOUR : DAY).format(date);
}

const LOSSES = { cross_entropy: "log loss", zero_one: "error rate", squared: "squared error", absolute: "absolute error" };
const ESTIMATORS = { ipfi: ["iPFI", "what the loss gains when the feature is permuted"], isage: ["iSAGE", "the feature’s share of what the model knows"] };
export const lossName = (loss) => LOSSES[loss] ?? loss.replaceAll("_", " ");
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

export const SUBJECTS = {
  loss: ["The model’s loss rose", "The model’s loss fell"],
  gain: ["The gain over no model rose", "The gain over no model fell"],
  importance: ["matters more", "matters less"],
  missing: ["is missing more often", "is missing less often"],
  rejected: ["More records are rejected", "Fewer records are rejected"],
};

// The records with one value of a feature, or with all those that are not kept apart.
export const segmentName = (feature, value) => (value === null ? `${feature} is another` : `${feature} is ${value}`);

export function alarmTitle(alarm) {
  const words = (SUBJECTS[alarm.subject] ?? ["changed", "changed"])[alarm.direction === "down" ? 1 : 0];
  const where = alarm.segment ? ` where ${segmentName(alarm.segment.feature, alarm.segment.value)}` : "";
  return alarm.feature === null ? `${words}${where}` : `${alarm.feature} ${words}${where}`;
}

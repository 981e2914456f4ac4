// Does the model that is explained make the predictions that were served?
import { Chart } from "./chart.js";
import { byId, fill } from "./elements.js";
import { figure, lossName, number } from "./words.js";

let chart = null;

// The newest comparison, and for each point the share of the predictions since the one before that differ.
export function showServed({ state, served, losses, chosen }, times, shares, range, choose) {
  const { skew } = state;
  byId("served").hidden = !skew;
  if (!skew) return;
  const differing = skew.differing ? `${number(skew.differing)} of ${number(skew.checked)} served predictions are not the model’s: they differ by more than ${skew.tolerance}, by ${figure(skew.largest)} at the most` : `The model makes all of the ${number(skew.checked)} predictions that were served, within ${skew.tolerance}`;
  const loss = served === null ? "" : ` The ${lossName(chosen.loss)} of what was served is ${figure(served)}, that of the model ${figure(losses[chosen.loss]?.[0])}.`;
  fill(byId("served-caption"), `${differing}.${loss}`);
  byId("served-chart").hidden = !skew.differing || times.length < 2;
  if (byId("served-chart").hidden) return;
  chart ??= new Chart(byId("served-chart"), "Share of served predictions that are not the model’s", choose);
  chart.update({ times, lines: [{ name: "differing", values: shares, kind: "main" }], band: null, range, zero: true, marks: [], windows: [] });
}

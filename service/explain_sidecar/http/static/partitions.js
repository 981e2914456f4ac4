// Partitions side by side: one feature with its bands, and all features as a grid.
import { byId, colour, element, fill, fillName, rowsOf, set, svg } from "./elements.js";
import { banded, figure, lossName, many, number } from "./words.js";

export function show({ grid, segments, chosen }, page) {
  const place = grid.features.indexOf(grid.compared);
  fill(byId("partitions-none"), grid.features.length ? "" : "No partition has an importance yet.");
  byId("comparison").hidden = place < 0;
  if (place >= 0) compare(grid, place, chosen, page);
  compareSegments(segments, chosen, page);
  drawGrid(grid, page);
}

function compare(grid, place, chosen, page) {
  const [average, error, spread] = grid.average[place];
  fill(byId("compared-title"), `${grid.compared} in each partition`);
  const left = grid.warming ? ` Left out: ${number(grid.warming)} warming up.` : "";
  fill(byId("average"), `The ${grid.label}, by their shares of the newest records, is ${banded(average, error)} (its standard error). The partitions spread by ${figure(spread)} around it.${left}`);
  const rows = grid.partitions.map((partition, index) => ({
    name: page.nameOf(partition),
    href: page.link({ view: "importance", partition: String(partition), feature: grid.compared }),
    value: grid.values[place][index],
    half: grid.halves[index],
    losses: grid.losses[index],
  }));
  rows.sort((a, b) => (b.value ?? -Infinity) - (a.value ?? -Infinity));
  drawComparison(byId("comparison"), rows, average, spread, chosen.loss);
}

// The records of a partition by the value of a feature, where they are kept apart.
function compareSegments(segments, chosen, page) {
  byId("segments").hidden = !segments;
  if (!segments) return;
  fill(byId("segments-title"), `${segments.compared} in ${page.nameOf(chosen.partition)}, by ${segments.by}`);
  fill(byId("segments-average"), segments.average === null ? "" : `The average over the segments, by their records, is ${figure(segments.average)}. They spread by ${figure(segments.spread)} around it.`);
  const rows = segments.rows.map((row) => ({ name: `${row.value ?? "all others"} (${many(row.records, "record")})`, href: null, value: row.importance, half: row.half, losses: row.losses }));
  drawComparison(byId("segments-comparison"), rows, segments.average, segments.spread, chosen.loss);
}

function drawComparison(table, rows, average, spread, loss) {
  const low = Math.min(0, ...rows.map((row) => (row.value ?? 0) - (row.half ?? 0)));
  const high = 1.02 * Math.max(0, ...rows.map((row) => (row.value ?? 0) + (row.half ?? 0)));
  const at = (x) => (100 * (x - low)) / (high - low || 1);
  fill(table.querySelector(".risk"), `${lossName(loss)}, against no model`);
  rowsOf(table.tBodies[0], rows, makeCompared, (row, one) => {
    const [name, value, bar, risk] = row.children;
    fill(name.firstChild, one.name);
    set(name.firstChild, { href: one.href });
    fill(value, banded(one.value, one.half));
    const [spreads, mean, zero, reach, dot] = bar.firstChild.children;
    set(spreads, average === null ? { width: 0 } : { x: at(Math.max(average - spread, low)), width: at(Math.min(average + spread, high)) - at(Math.max(average - spread, low)) });
    set(mean, average === null ? { width: 0 } : { x: at(average), width: 0.4 });
    set(zero, { x: at(0) });
    set(reach, one.half === null || one.value === null ? { width: 0 } : { x: at(one.value - one.half), width: at(one.value + one.half) - at(one.value - one.half) });
    set(dot, one.value === null ? { width: 0 } : { x: at(one.value) - 0.5, width: 1 });
    const [model, empty] = one.losses;
    fill(risk, model === null || empty === null ? "–" : `${figure(model)}, ${figure(Math.abs(empty - model))} ${empty >= model ? "better" : "worse"}`);
  });
}

function makeCompared() {
  const rect = (name, y, height, more = {}) => svg("rect", { class: name, y, height, ...more });
  const bar = svg("svg", { class: "band", viewBox: "0 0 100 14", preserveAspectRatio: "none", "aria-hidden": "true" }, rect("spread", 0, 14), rect("mean", 0, 14), rect("zero", 0, 14, { width: 0.3 }), rect("reach", 4, 6), rect("dot", 2, 10));
  return element("tr", {}, element("th", { scope: "row" }, element("a")), element("td", { class: "number" }), element("td", { class: "wide" }, bar), element("td", { class: "number" }));
}

function drawGrid(grid, page) {
  const table = byId("grid");
  const numbers = byId("numbers").checked;
  table.classList.toggle("numbers", numbers);
  const named = (partition) => page.nameOf(partition).replace(/^partition /, "");
  const head = ["Feature", "Average", "Spread", ...grid.partitions.map(named)];
  if (!table.tHead) table.append(element("thead", {}, element("tr")), element("tbody"));
  rowsOf(table.tHead.rows[0], head, () => element("th", { scope: "col" }, element("span")), (cell, text, index) => {
    fillName(cell.firstChild, text);
    set(cell, { title: index < 3 ? null : page.nameOf(grid.partitions[index - 3]) });
  });
  let most = 0;
  for (const row of grid.values) for (const value of row) most = Math.max(most, value ?? 0);
  // Behind numbers the colour stays light enough to read them.
  const strongest = numbers ? 0.3 : 0.9;
  const heat = colour("heat");
  rowsOf(table.tBodies[0], grid.features, () => element("tr", {}, element("th", { scope: "row" }, element("button", { type: "button" })), element("td", { class: "figure" }), element("td", { class: "figure" })), (row, feature, place) => {
    const button = row.firstChild.firstChild;
    fillName(button, feature);
    set(button, { title: feature, "aria-pressed": String(feature === grid.compared) });
    button.onclick = () => page.choose({ feature });
    const [value, error, spread] = grid.average[place];
    fill(row.children[1], banded(value, error));
    fill(row.children[2], figure(spread));
    const cells = [...row.children].slice(3);
    grid.values[place].forEach((one, index) => {
      const cell = cells[index] ?? row.appendChild(element("td"));
      // Text that nobody sees would have the whole table laid out anew.
      fill(cell, numbers ? figure(one) : "");
      const shade = `rgba(${heat}, ${(strongest * Math.sqrt(Math.max(one ?? 0, 0) / (most || 1))).toFixed(2)})`;
      if (cell.dataset.shade === shade) return;
      cell.dataset.shade = shade;
      cell.style.backgroundColor = shade;
    });
    for (const cell of cells.slice(grid.values[place].length)) cell.remove();
  });
}

export function table({ grid }, page) {
  const head = ["feature", "average", "standard_error", "spread", ...grid.partitions.map(page.nameOf)];
  return [head, ...grid.features.map((feature, place) => [feature, ...grid.average[place], ...grid.values[place]])];
}

// Small charts: lines over the same time, as paths of an SVG that is as wide as its place.
import { fill, longestStep, rowsOf, set, svg } from "./elements.js";

const [WIDTH, HEIGHT, TICK, MOST] = [200, 40, 14, 120];

export function makeSpark(lines) {
  return svg("svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" }, svg("title"), svg("g", { class: "ticks" }), ...lines.map((name) => svg("path", { class: name })));
}

// Each line is its values at the times; times and marks outside of the range are left out.
export function drawSpark(drawing, { times, lines, marks, range, low, high, label }) {
  const [from, to] = range;
  const x = (time) => (WIDTH * (time - from)) / (to - from || 1);
  const y = (value) => HEIGHT - 2 - ((HEIGHT - 4) * (value - low)) / (high - low || 1);
  fill(drawing.children[0], label);
  const seen = marks.filter((time) => time >= from && time <= to);
  rowsOf(drawing.children[1], seen, () => svg("path"), (tick, time) => set(tick, { d: `M${x(time).toFixed(1)} 0V${TICK}` }));
  const step = Math.max(1, Math.floor(times.length / MOST));
  const drawn = times.filter((_, i) => i % step === (times.length - 1) % step);
  const longest = longestStep(drawn);
  lines.forEach((values, index) => {
    let path = "";
    let pen = "M";
    let before = -Infinity;
    for (let i = (times.length - 1) % step; i < times.length; i += step) {
      if (values[i] === null || times[i] < from || times[i] > to) {
        pen = values[i] === null ? "M" : pen;
        continue;
      }
      if (times[i] - before > longest) pen = "M";
      before = times[i];
      path += `${pen}${x(times[i]).toFixed(1)} ${y(values[i]).toFixed(1)}`;
      pen = "L";
    }
    set(drawing.children[2 + index], { d: path });
  });
}

export function bounds(series) {
  let [low, high] = [Infinity, -Infinity];
  for (const values of series) {
    for (const value of values) {
      if (value === null) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return low <= high ? [low, high] : [0, 1];
}

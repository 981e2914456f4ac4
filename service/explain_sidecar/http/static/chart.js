// Lines over time by uPlot, with alarms above them and windows below, which are buttons.
import { colour, element, fill, fillName, longestStep, rowsOf, set, stepped } from "./elements.js";
import { banded, figure, minute, ticks } from "./words.js";

const MAX_POINTS = 500;
const HEIGHT = 300;
// 24 hours, and the date where it changes: increment, format, and formats at a new year, month, day, hour, minute, second.
const TIMES = [
  [31536000, "{YYYY}", null, null, null, null, null, null, 1],
  [2419200, "{YYYY}-{MM}", null, null, null, null, null, null, 1],
  [86400, "{YYYY}-{MM}-{DD}", null, null, null, null, null, null, 1],
  [60, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", null, "\n{YYYY}-{MM}-{DD}", null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", "\n{YYYY}-{MM}-{DD}", null, "\n{YYYY}-{MM}-{DD}", null, null, null, 1],
  [0.001, "{ss}.{fff}", "\n{YYYY}-{MM}-{DD} {HH}:{mm}", null, "\n{YYYY}-{MM}-{DD} {HH}:{mm}", null, "\n{HH}:{mm}", null, 1],
];

// The places of the times that no line leads to or from.
function alone(times) {
  const longest = longestStep(times);
  const near = (a, b) => b - a <= longest;
  return times.map((_, index) => index).filter((index) => !near(times[index - 1], times[index]) && !near(times[index], times[index + 1]));
}

// The points of a stream: what has come, and what comes. Each line has values and, where there are bands, halves.
export class Course {
  times = [];
  series = [];

  take({ whole, times, series }) {
    if (whole) {
      this.times = times;
      this.series = series;
      return;
    }
    this.times.push(...times);
    this.flat().forEach((kept, index) => kept.push(...this.flat(series)[index]));
    if (this.times.length > MAX_POINTS) this.thin();
  }

  flat(series = this.series) {
    return series.flatMap((line) => (Array.isArray(line[0]) ? line : [line]));
  }

  // Every second point goes, the newest stays.
  thin() {
    const odd = (this.times.length - 1) % 2;
    const half = (values) => values.filter((_, index) => index % 2 === odd);
    this.times = half(this.times);
    this.series = this.series.map((line) => (Array.isArray(line[0]) ? line.map(half) : half(line)));
  }
}

export class Chart {
  // `choose` takes the range, in seconds, that somebody drew; null for all.
  constructor(place, label, choose) {
    this.choose = choose;
    this.place = place;
    this.canvas = element("div", { class: "canvas", tabindex: "0", role: "group", "aria-label": `${label}. The arrow keys read the values.` });
    this.labels = element("div", { class: "labels", "aria-hidden": "true" });
    this.marks = element("div", { class: "marks" });
    this.strip = element("div", { class: "strip" });
    this.readout = element("output", { class: "readout", "aria-live": "polite" });
    this.canvas.append(this.labels);
    place.replaceChildren(this.marks, this.canvas, this.strip, this.readout);
    place.classList.add("chart");
    this.canvas.addEventListener("keydown", (event) => this.step(event));
    this.plot = null;
    this.shape = "";
    this.given = null;
    new ResizeObserver(() => this.plot && this.plot.width !== this.size().width && this.plot.setSize(this.size())).observe(place);
  }

  // lines: [{ name, values, kind }]; band: { low, high } or null; marks and windows: [{ from, to, … }] in seconds.
  update(given) {
    const [from, to] = given.range;
    this.given = from < to ? given : { ...given, range: [from - 1, to + 1] }; // all at one time
    const shape = JSON.stringify([given.lines.map(({ name, kind }) => [name, kind]), given.band !== null, matchMedia("(prefers-color-scheme: dark)").matches]);
    if (typeof uPlot === "undefined") {
      fill(this.readout, "Charts are not installed: the sidecar was installed with SIDECAR_CHARTS=none.");
      return;
    }
    const data = this.data();
    if (shape !== this.shape || this.plot === null) this.build(data, shape);
    else {
      this.plot.batch(() => {
        this.plot.setData(data, false);
        this.plot.setScale("x", { min: this.given.range[0], max: this.given.range[1] });
      });
      this.lay();
    }
  }

  data() {
    const { times, lines, band } = this.given;
    return [times, ...(band ? [band.high, band.low] : []), ...lines.map((line) => line.values)];
  }

  size() {
    return { width: Math.max(240, this.place.clientWidth), height: HEIGHT };
  }

  build(data, shape) {
    this.plot?.destroy();
    this.shape = shape;
    const { lines, band } = this.given;
    const axis = { stroke: colour("dim"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const gaps = (plot, series, from, to, found) => found.concat(this.gaps(plot, from, to)).sort((a, b) => a[0] - b[0]);
    const strokes = { main: colour("accent"), other: colour("dim"), faint: colour("faint") };
    this.plot = new uPlot(
      {
        ...this.size(),
        padding: [8, 84, 0, 0],
        tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
        legend: { show: false },
        cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
        scales: { x: { range: () => this.given.range }, y: { range: (_, low, high) => this.ends(low, high) } },
        axes: [{ ...axis, grid: { show: false }, values: TIMES, space: 75 }, { ...axis, size: (_, texts) => 12 + 7 * Math.max(6, ...(texts ?? []).map((text) => text.length)), values: (_, values) => ticks(values) }],
        bands: band ? [{ series: [1, 2], fill: colour("band") }] : [],
        series: [
          {},
          ...(band ? [0, 1].map(() => ({ stroke: "transparent", points: { show: false }, gaps })) : []),
          ...lines.map(({ name, kind }) => ({ label: name, stroke: strokes[kind], width: kind === "main" ? 2.25 : kind === "other" ? 1.5 : 1, dash: kind === "other" ? [6, 4] : [], points: { show: data[0].length < 3, filter: (plot, _, shown) => (shown ? null : alone(plot.data[0])), size: 5 }, gaps })),
        ],
        hooks: {
          setSelect: [(plot) => this.drawn(plot)],
          setCursor: [(plot) => this.read(plot.cursor.idx)],
          setSize: [() => this.lay()],
        },
      },
      data,
      this.canvas,
    );
    this.plot.over.ondblclick = () => this.choose(null);
    this.lay();
  }

  // Where no records came, in pixels of the canvas.
  gaps(plot, from, to) {
    const times = plot.data[0];
    const longest = longestStep(times);
    const at = (time) => Math.round(plot.valToPos(time, "x", true));
    return times.slice(from, to + 1).flatMap((time, index) => (index && time - times[from + index - 1] > longest ? [[at(times[from + index - 1]), at(time)]] : []));
  }

  ends(low, high) {
    if (low === null || high === null) return [0, 1];
    const margin = 0.08 * (high - low) || 0.01 * Math.abs(high) || 0.01;
    return [this.given.zero && low >= 0 ? 0 : low - margin, high + margin];
  }

  drawn(plot) {
    if (plot.select.width < 4) return;
    const [from, to] = [plot.select.left, plot.select.left + plot.select.width].map((left) => plot.posToVal(left, "x"));
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.choose([from, to]);
  }

  step(event) {
    if (this.plot === null || event.target !== this.canvas) return;
    const [times, [from, to]] = [this.given.times, this.given.range];
    const seen = times.map((_, index) => index).filter((index) => times[index] >= from && times[index] <= to);
    const place = stepped(event, seen.indexOf(this.plot.cursor.idx), seen.length);
    if (place === null) return;
    const next = seen[place];
    const shown = this.given.lines.find((line) => line.values[next] !== null);
    this.plot.setCursor({ left: this.plot.valToPos(times[next], "x"), top: shown ? this.plot.valToPos(shown.values[next], "y") : 0 }, false);
    this.read(next);
  }

  read(index) {
    const { times, lines, band } = this.given;
    if (index === null || index === undefined || times[index] === undefined) return;
    const half = band && band.high[index] !== null ? (band.high[index] - band.low[index]) / 2 : null;
    const texts = lines.filter((line) => line.kind !== "faint").map((line, order) => `${line.name} ${order === 0 && line.values[index] !== null ? banded(line.values[index], half) : figure(line.values[index])}`);
    fill(this.readout, `${minute(times[index] * 1000)}: ${texts.join(", ")}`);
  }

  // Puts what is no canvas where its time is.
  lay() {
    if (!this.plot) return;
    const { range, marks, windows, lines, times } = this.given;
    const left = this.plot.over.offsetLeft;
    const width = this.plot.over.clientWidth;
    const x = (time) => left + (width * (Math.min(Math.max(time, range[0]), range[1]) - range[0])) / (range[1] - range[0] || 1);
    const seen = marks.filter((mark) => mark.from >= range[0] && mark.from <= range[1]);
    this.marks.hidden = !seen.length;
    rowsOf(this.marks, seen, () => element("button", { type: "button", class: "mark" }, element("span", { class: "stem" }), element("span", { class: "flag" })), (button, mark) => {
      set(button, { "aria-label": mark.label, title: mark.label, "aria-pressed": mark.pressed });
      fill(button.lastChild, mark.text);
      button.onclick = mark.open;
      button.style.left = `${x(mark.from)}px`;
    });
    const shown = windows.filter((window) => window.to > range[0] && window.from < range[1]);
    this.strip.hidden = !shown.length;
    rowsOf(this.strip, shown, () => element("button", { type: "button" }, element("span")), (button, window) => {
      const [start, end] = [x(window.from), x(window.to)];
      set(button, { "aria-label": window.label, title: window.label, "aria-pressed": window.pressed, class: `window ${window.cause}` });
      fill(button.firstChild, end - start > 6.5 * window.text.length + 8 ? window.text : "");
      button.onclick = window.open;
      button.style.left = `${start}px`;
      button.style.width = `${Math.max(end - start - 2, 6)}px`;
    });
    const named = lines.filter((line) => line.kind !== "faint").flatMap((line) => {
      const last = line.values.findLastIndex((value, index) => value !== null && times[index] <= range[1]);
      return last < 0 ? [] : [{ ...line, top: this.plot.valToPos(line.values[last], "y") }];
    });
    named.sort((a, b) => a.top - b.top).forEach((line, index) => (line.top = Math.max(line.top, index ? named[index - 1].top + 16 : 0)));
    rowsOf(this.labels, named, () => element("span"), (label, line) => {
      label.className = line.kind;
      fillName(label, line.name);
      label.style.left = `${left + width + 6}px`;
      label.style.top = `${this.plot.over.offsetTop + line.top - 9}px`;
    });
  }
}

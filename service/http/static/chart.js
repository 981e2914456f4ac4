// Lines over time by uPlot; the line that has the focus has its confidence band.
import { colours, figure } from "./elements.js";

const MAX_POINTS = 500;
// 24 hours, and the date where it changes: increment, format, and formats at a new year, month, day, hour, minute, second.
const TIMES = [
  [31536000, "{YYYY}", null, null, null, null, null, null, 1],
  [2419200, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [86400, "{D} {MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", "\n{D} {MMM} {YYYY}", null, "\n{D} {MMM}", null, null, null, 1],
  [0.001, "{HH}:{mm}:{ss}", "\n{D} {MMM} {YYYY}", null, "\n{D} {MMM}", null, null, null, 1],
];
const DASHES = [[], [8, 4], [2, 3]];

export class Chart {
  constructor(place) {
    this.place = place;
    this.times = [];
    this.series = [];
    this.lines = [];
    this.focus = null;
    this.plot = null;
    new ResizeObserver(() => this.plot?.setSize(this.size())).observe(place);
  }

  update({ whole, times, series, lines }, focus) {
    const same = !whole && this.plot !== null && JSON.stringify(lines) === JSON.stringify(this.lines) && focus === this.focus;
    if (whole) {
      this.times = times;
      this.series = series;
    } else {
      this.times.push(...times);
      this.series.forEach((kept, index) => kept.forEach((values, part) => values.push(...series[index][part])));
      if (this.times.length > MAX_POINTS) this.thin();
    }
    this.lines = lines;
    this.focus = focus;
    if (same) this.plot.setData(this.data());
    else this.rebuild();
  }

  // Every second point goes, the newest stays.
  thin() {
    const odd = (this.times.length - 1) % 2;
    const half = (values) => values.filter((_, index) => index % 2 === odd);
    this.times = half(this.times);
    this.series = this.series.map((parts) => parts.map(half));
  }

  data() {
    const [values, halves] = this.series[Math.max(0, this.lines.indexOf(this.focus))] ?? [[], []];
    const end = (sign) => values.map((value, index) => (value === null || halves[index] == null ? null : value + sign * halves[index]));
    return [this.times, end(1), end(-1), ...this.series.map(([line]) => line)];
  }

  size() {
    return { width: Math.max(200, this.place.clientWidth), height: 320 };
  }

  rebuild() {
    this.plot?.destroy();
    this.plot = null;
    this.place.classList.toggle("empty", typeof uPlot === "undefined");
    if (typeof uPlot === "undefined" || !this.series.length) return;
    const style = getComputedStyle(document.documentElement);
    const [ink, line] = [style.getPropertyValue("--dim").trim(), style.getPropertyValue("--line").trim()];
    const palette = colours();
    const focused = Math.max(0, this.lines.indexOf(this.focus));
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line } };
    const options = {
      ...this.size(),
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      legend: { show: false },
      cursor: { drag: { x: true, y: false } },
      axes: [{ ...axis, values: TIMES }, { ...axis, size: 60, values: (_, ticks) => ticks.map(figure) }],
      bands: [{ series: [1, 2], fill: `${palette[focused % 8]}33` }],
      series: [
        {},
        { stroke: "transparent", points: { show: false } },
        { stroke: "transparent", points: { show: false } },
        ...this.lines.map((name, index) => ({
          label: name,
          stroke: palette[index % 8],
          width: index === focused ? 2.5 : 1.25,
          dash: DASHES[index % 3],
          points: { show: this.times.length < 3 },
        })),
      ],
    };
    this.plot = new uPlot(options, this.data(), this.place);
  }
}

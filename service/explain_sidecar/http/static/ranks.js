// The place of each feature among all of them over time: a line for each of those that are first at the end.
import { element, fill, fillName, rowsOf, set, stepped, svg } from "./elements.js";
import { day } from "./words.js";

const MOST = 10;
const MOMENTS = 24;
const ROW = 24;
const WIDTH = 100;
const y = (place) => ROW * (Math.min(place, MOST + 1) - 0.5);

export class Ranks {
  constructor(place, choose) {
    this.choose = choose;
    this.lines = svg("g");
    this.cursor = svg("line", { class: "cursor", y1: 0 });
    this.drawing = svg("svg", { preserveAspectRatio: "none", "aria-hidden": "true" }, this.lines, this.cursor);
    this.canvas = element("div", { class: "canvas", tabindex: "0", role: "group", "aria-label": "Ranks over time. The arrow keys read the order at each moment." }, this.drawing);
    this.names = element("div", { class: "names" });
    this.ends = element("div", { class: "ends" }, element("span"), element("span"), element("span"));
    this.readout = element("output", { class: "readout", "aria-live": "polite" });
    place.replaceChildren(element("div", {}, this.canvas, this.ends), this.names, this.readout);
    this.canvas.onkeydown = (event) => {
      const next = stepped(event, this.here, this.moments.length);
      if (next !== null) this.read(next);
    };
    this.canvas.onmousemove = (event) => {
      const box = this.canvas.getBoundingClientRect();
      this.read(Math.round(((event.clientX - box.left) / box.width) * (this.moments.length - 1)));
    };
    this.here = -1;
    this.moments = [];
  }

  // rows: [{ feature, values }], the largest at the end first; times in seconds.
  update({ times, rows, range, focus }) {
    const seen = times.map((_, index) => index).filter((index) => times[index] >= range[0] && times[index] <= range[1]);
    const count = Math.min(seen.length, MOMENTS);
    const indexes = Array.from({ length: count }, (_, place) => seen[count > 1 ? Math.round((place * (seen.length - 1)) / (count - 1)) : 0]);
    this.moments = indexes.map((index) => ({ time: times[index], order: rows.filter((row) => row.values[index] !== null).sort((a, b) => b.values[index] - a.values[index]).map((row) => row.feature) }));
    const shown = rows.slice(0, MOST);
    const height = ROW * Math.min(rows.length, MOST + 1);
    set(this.drawing, { viewBox: `0 0 ${WIDTH} ${height}` });
    set(this.cursor, { y2: height });
    this.drawing.style.height = `${height}px`;
    rowsOf(this.names, shown, () => element("button", { type: "button" }, element("span"), element("span")), (button, { feature }, index) => {
      fill(button.firstChild, String(index + 1));
      fillName(button.lastChild, feature);
      set(button, { title: feature, "aria-pressed": String(feature === focus) });
      button.onclick = () => this.choose(feature);
      button.onmouseenter = button.onfocus = () => this.light(index);
      button.onmouseleave = button.onblur = () => this.light(-1);
    });
    rowsOf(this.lines, shown, () => svg("path"), (line, { feature }) => set(line, { d: this.path(feature), class: feature === focus ? "main" : null }));
    [0, (count - 1) >> 1, count - 1].forEach((place, index) => fill(this.ends.children[index], count ? day(this.moments[place].time, range[1] - range[0]) : ""));
    if (this.here >= count) this.here = -1;
    set(this.cursor, { visibility: this.here < 0 ? "hidden" : null });
  }

  x(place) {
    return this.moments.length > 1 ? (WIDTH * place) / (this.moments.length - 1) : WIDTH;
  }

  // From moment to moment; what is below the last line shown goes along the lower edge.
  path(feature) {
    let path = "";
    let before = null;
    this.moments.forEach(({ order }, place) => {
      const rank = order.indexOf(feature);
      const to = rank < 0 ? null : [this.x(place), y(rank + 1)];
      if (to && before) path += `C${(before[0] + to[0]) / 2} ${before[1]} ${(before[0] + to[0]) / 2} ${to[1]} ${to[0]} ${to[1]}`;
      else if (to) path += `M${to[0]} ${to[1]}`;
      before = to;
    });
    return path;
  }

  light(index) {
    [...this.lines.children].forEach((line, place) => line.classList.toggle("lit", place === index));
  }

  read(place) {
    const moment = this.moments[place];
    if (!moment) return;
    this.here = place;
    set(this.cursor, { x1: this.x(place), x2: this.x(place), visibility: null });
    fill(this.readout, `${day(moment.time)}: ${moment.order.slice(0, MOST).map((feature, index) => `${index + 1} ${feature}`).join(", ")}`);
  }
}

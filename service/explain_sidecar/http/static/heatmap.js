// Features × time as coloured cells on a canvas, with the features as buttons beside it.
import { colour, element, fill, fillName, rowsOf, set, stepped } from "./elements.js";
import { day, figure } from "./words.js";

const ROW = 20;
const MOST_COLUMNS = 160;

export class HeatMap {
  constructor(place, choose) {
    this.choose = choose;
    this.names = element("div", { class: "names" });
    this.canvas = element("canvas", { "aria-hidden": "true" });
    this.cells = element("div", { class: "cells", tabindex: "0", role: "group" }, this.canvas);
    this.ends = element("div", { class: "ends" }, element("span"), element("span"), element("span"));
    this.readout = element("output", { class: "readout", "aria-live": "polite" });
    place.replaceChildren(this.names, element("div", {}, this.cells, this.ends), this.readout);
    this.given = null;
    this.row = this.column = -1; // the cell that is read
    this.canvas.onmousemove = (event) => this.read(...this.at(event));
    this.canvas.onclick = (event) => this.choose(this.given.rows[this.at(event)[0]]?.feature ?? this.given.focus);
    this.cells.onkeydown = (event) => this.step(event);
    new ResizeObserver(() => this.given && this.draw()).observe(place);
  }

  // rows: [{ feature, values }], in their order; times in seconds.
  update(given) {
    this.given = given;
    rowsOf(this.names, given.rows, () => element("button", { type: "button" }), (button, row) => {
      fillName(button, row.feature);
      set(button, { title: row.feature, "aria-pressed": String(row.feature === given.focus) });
      button.onclick = () => this.choose(row.feature);
    });
    this.draw();
  }

  draw() {
    const { times, rows, range } = this.given;
    const [from, to] = range;
    const width = Math.max(this.canvas.parentElement.clientWidth, 80);
    const scale = devicePixelRatio || 1;
    this.canvas.width = width * scale;
    this.canvas.height = ROW * rows.length * scale;
    this.canvas.style.height = `${ROW * rows.length}px`;
    const seen = times.map((_, index) => index).filter((index) => times[index] >= from && times[index] <= to);
    const step = Math.max(1, Math.ceil(seen.length / MOST_COLUMNS));
    this.columns = seen.filter((_, index) => index % step === (seen.length - 1) % step);
    let most = 0;
    for (const { values } of rows) for (const index of this.columns) most = Math.max(most, values[index] ?? 0);
    const pen = this.canvas.getContext("2d");
    pen.scale(scale, scale);
    const x = (time) => (width * (time - from)) / (to - from || 1);
    const heat = colour("heat");
    this.columns.forEach((index, place) => {
      const left = place ? (x(times[index]) + x(times[this.columns[place - 1]])) / 2 : 0;
      const right = place + 1 < this.columns.length ? (x(times[index]) + x(times[this.columns[place + 1]])) / 2 : width;
      rows.forEach(({ values }, row) => {
        const value = values[index];
        if (value === null || value <= 0) return;
        // The root shows what is small too.
        pen.fillStyle = `rgba(${heat}, ${(0.95 * Math.sqrt(value / most)).toFixed(3)})`;
        pen.fillRect(left, ROW * row + 1, Math.max(right - left, 1), ROW - 2);
      });
    });
    if (rows[this.row] && this.columns.length > this.column && document.activeElement === this.cells) {
      const middle = x(times[this.columns[this.column]]);
      pen.strokeStyle = colour("ink");
      pen.lineWidth = 2;
      pen.strokeRect(Math.min(Math.max(middle - 4, 1), width - 9), ROW * this.row + 2, 8, ROW - 4);
    }
    set(this.cells, { "aria-label": `Importance of ${rows.length} features over time, the darkest ${figure(most)}. The arrow keys read the values, Enter chooses the feature.` });
    [from, (from + to) / 2, to].forEach((time, index) => fill(this.ends.children[index], day(time, to - from)));
  }

  // Row and column under the mouse.
  at(event) {
    const { times, range } = this.given;
    const box = this.canvas.getBoundingClientRect();
    const time = range[0] + ((range[1] - range[0]) * (event.clientX - box.left)) / box.width;
    const nearest = this.columns.reduce((best, index, place) => (Math.abs(times[index] - time) < Math.abs(times[this.columns[best]] - time) ? place : best), 0);
    return [Math.floor((event.clientY - box.top) / ROW), nearest];
  }

  step(event) {
    const { rows, focus } = this.given;
    if (event.key === "Enter" && rows[this.row]) this.choose(rows[this.row].feature);
    if (this.row < 0) this.row = rows.findIndex((row) => row.feature === focus);
    const row = stepped(event, this.row, rows.length, ["ArrowUp", "ArrowDown"]);
    const column = stepped(event, this.column, this.columns.length);
    if (row === null && column === null) return;
    this.read(row ?? this.row, column ?? (this.column < 0 ? this.columns.length - 1 : this.column));
    this.draw();
  }

  read(row, column) {
    const [one, index] = [this.given.rows[row], this.columns[column]];
    if (!one || index === undefined) return;
    [this.row, this.column] = [row, column];
    fill(this.readout, `${day(this.given.times[index])}: ${one.feature} ${figure(one.values[index])}`);
  }
}

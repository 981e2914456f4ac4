// Features × time as coloured cells on a canvas, with the features as buttons beside it.
import { colour, element, fill, rowsOf, set } from "./elements.js";
import { day, figure } from "./words.js";

const ROW = 20;
const MOST_COLUMNS = 160;

export class HeatMap {
  constructor(place, choose) {
    this.choose = choose;
    this.names = element("div", { class: "names" });
    this.canvas = element("canvas", { role: "img" });
    this.ends = element("div", { class: "ends" }, element("span"), element("span"), element("span"));
    this.readout = element("output", { class: "readout" });
    place.replaceChildren(this.names, element("div", {}, this.canvas, this.ends), this.readout);
    this.given = null;
    this.canvas.onmousemove = (event) => this.read(event);
    this.canvas.onclick = (event) => this.at(event) && this.choose(this.at(event).feature);
    new ResizeObserver(() => this.given && this.draw()).observe(place);
  }

  // rows: [{ feature, values }], in their order; times in seconds.
  update(given) {
    this.given = given;
    rowsOf(this.names, given.rows, () => element("button", { type: "button" }), (button, row) => {
      fill(button, row.feature);
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
    let most = 1e-12;
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
    const label = `Importance of ${rows.length} features over time, the darkest ${figure(most)}; the table above has the values`;
    set(this.canvas, { "aria-label": label });
    [from, (from + to) / 2, to].forEach((time, index) => fill(this.ends.children[index], day(time, to - from)));
  }

  at(event) {
    const { times, rows, range } = this.given;
    const box = this.canvas.getBoundingClientRect();
    const time = range[0] + ((range[1] - range[0]) * (event.clientX - box.left)) / box.width;
    const row = rows[Math.floor((event.clientY - box.top) / ROW)];
    if (!row || !this.columns.length) return null;
    const index = this.columns.reduce((best, one) => (Math.abs(times[one] - time) < Math.abs(times[best] - time) ? one : best));
    return { feature: row.feature, text: `${day(times[index])}: ${row.feature} ${figure(row.values[index])}` };
  }

  read(event) {
    fill(this.readout, this.at(event)?.text ?? "");
  }
}

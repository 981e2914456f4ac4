// What is seen, as a table of comma-separated values and as a picture.

// Pixels of a side that browsers paint.
const LONGEST = 16_000;

// A spreadsheet takes some texts for formulas, and texts in messages are not ours.
function cell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export const csv = (rows) => rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");

export function saveTable(rows, name) {
  save(new Blob([csv(rows)], { type: "text/csv" }), `${name}.csv`);
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name.replace(/[^\w.-]+/g, "_");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function savePicture(place, name) {
  document.body.classList.add("saved"); // what is of use on a screen only is not there while it is painted
  const canvas = paint(place);
  document.body.classList.remove("saved");
  canvas.toBlob((blob) => save(blob, `${name}.png`));
}

// Paints an element and what is in it as it lies on the page: backgrounds, borders, texts, canvases and shapes.
export function paint(place) {
  const box = place.getBoundingClientRect();
  const scale = Math.min(2, LONGEST / Math.max(box.width, box.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(box.width * scale);
  canvas.height = Math.ceil(box.height * scale);
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.fillStyle = getComputedStyle(document.body).backgroundColor;
  pen.fillRect(0, 0, box.width, box.height);
  pen.translate(-box.left, -box.top);
  paintElement(pen, place);
  return canvas;
}

function paintElement(pen, one) {
  const style = getComputedStyle(one);
  const box = one.getBoundingClientRect();
  if (style.display === "none" || style.visibility === "hidden" || style.opacity === "0") return;
  if (one instanceof SVGElement) {
    paintShapes(pen, one);
    return;
  }
  paintBox(pen, style, box);
  if (one instanceof HTMLCanvasElement) {
    if (one.width && one.height) pen.drawImage(one, box.left, box.top, box.width, box.height);
    return;
  }
  if (one instanceof HTMLSelectElement || one instanceof HTMLInputElement) {
    write(pen, style, one instanceof HTMLSelectElement ? (one.selectedOptions[0]?.textContent ?? "") : one.value, box.left + 8, box.top + box.height / 2 + 5);
    return;
  }
  const clips = style.overflowX !== "visible";
  if (clips) {
    pen.save();
    pen.beginPath();
    pen.rect(box.left, box.top, box.width, box.height);
    pen.clip();
  }
  for (const child of one.childNodes) {
    if (child instanceof Text) paintText(pen, style, child);
    else if (child instanceof Element) paintElement(pen, child);
  }
  if (clips) pen.restore();
}

function paintBox(pen, style, box) {
  if (style.backgroundColor !== "rgba(0, 0, 0, 0)") {
    pen.fillStyle = style.backgroundColor;
    pen.beginPath();
    pen.roundRect(box.left, box.top, box.width, box.height, Number.parseFloat(style.borderTopLeftRadius) || 0);
    pen.fill();
  }
  const sides = { Top: [box.left, box.top, box.width, 0], Bottom: [box.left, box.bottom, box.width, 0], Left: [box.left, box.top, 0, box.height], Right: [box.right, box.top, 0, box.height] };
  for (const [side, [x, y, width, height]] of Object.entries(sides)) {
    const thick = Number.parseFloat(style[`border${side}Width`]);
    if (!thick || style[`border${side}Style`] === "none") continue;
    pen.fillStyle = style[`border${side}Color`];
    pen.fillRect(side === "Right" ? x - thick : x, side === "Bottom" ? y - thick : y, width || thick, height || thick);
  }
}

// Word by word, as the browser broke the lines; a word that it broke, letter by letter.
function paintText(pen, style, text) {
  for (const word of text.data.matchAll(/\S+/g)) paintPart(pen, style, text, word.index, word[0]);
}

function paintPart(pen, style, text, start, part) {
  const range = document.createRange();
  range.setStart(text, start);
  range.setEnd(text, start + part.length);
  const boxes = range.getClientRects();
  if (boxes.length > 1 && part.length > 1) [...part].reduce((at, letter) => (paintPart(pen, style, text, at, letter), at + letter.length), start);
  else if (boxes.length && boxes[0].width > 0) write(pen, style, part, boxes[0].left, boxes[0].top + 0.78 * boxes[0].height);
}

function write(pen, style, text, x, y) {
  pen.font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  pen.letterSpacing = style.letterSpacing === "normal" ? "0px" : style.letterSpacing;
  pen.fillStyle = style.color;
  pen.fillText(text, x, y);
}

function paintShapes(pen, drawing) {
  for (const shape of drawing.querySelectorAll("path, rect, line, text")) {
    const style = getComputedStyle(shape);
    const matrix = shape.getScreenCTM();
    if (!matrix || style.display === "none" || style.visibility === "hidden") continue;
    if (shape.localName === "text") {
      const [x, y] = ["x", "y"].map((name) => Number(shape.getAttribute(name)));
      const at = new DOMPoint(x, y).matrixTransform(matrix);
      pen.font = `${style.fontWeight} ${Number.parseFloat(style.fontSize) * matrix.d}px ${style.fontFamily}`;
      pen.fillStyle = style.fill;
      pen.textAlign = style.textAnchor === "end" ? "right" : "left";
      pen.fillText(shape.textContent, at.x, at.y);
      pen.textAlign = "left";
      continue;
    }
    const path = new Path2D();
    path.addPath(new Path2D(outline(shape)), matrix);
    pen.globalAlpha = Number(style.opacity);
    if (style.fill !== "none") {
      pen.fillStyle = style.fill;
      pen.fill(path);
    }
    if (style.stroke !== "none") {
      pen.strokeStyle = style.stroke;
      pen.lineWidth = Number.parseFloat(style.strokeWidth);
      pen.setLineDash(style.strokeDasharray === "none" ? [] : style.strokeDasharray.split(/[ ,]+/).map(Number.parseFloat));
      pen.stroke(path);
      pen.setLineDash([]);
    }
    pen.globalAlpha = 1;
  }
}

function outline(shape) {
  const value = (name) => Number(shape.getAttribute(name));
  if (shape.localName === "path") return shape.getAttribute("d") ?? "";
  if (shape.localName === "line") return `M${value("x1")} ${value("y1")}L${value("x2")} ${value("y2")}`;
  return `M${value("x")} ${value("y")}h${value("width")}v${value("height")}h${-value("width")}z`;
}

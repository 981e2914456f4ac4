// Making and changing elements, as text nodes and attributes only.
const LIGHT = ["#0a5cad", "#b3261e", "#176b3a", "#8a4b00", "#6b2fa0", "#00707a", "#a0186b", "#4d5763"];
const DARK = ["#7db8f5", "#ff9d94", "#7fd6a1", "#f0b35e", "#cda4f7", "#6fd3dc", "#f79ad0", "#a9b4c0"];

export const colours = () => (matchMedia("(prefers-color-scheme: dark)").matches ? DARK : LIGHT);

export function element(name, attributes = {}, ...children) {
  return furnished(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return furnished(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function furnished(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function fill(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

// As many children as there are rows: kept ones stay where they are, and so does the keyboard's focus.
export function rowsOf(place, rows, make, update) {
  while (place.children.length > rows.length) place.lastElementChild.remove();
  while (place.children.length < rows.length) place.append(make());
  rows.forEach((row, index) => update(place.children[index], row));
}

export function figure(value) {
  if (value === null || value === undefined) return "–";
  return Math.abs(value) >= 0.0005 || Math.abs(value) < 1e-9 ? value.toFixed(3) : value.toPrecision(1);
}

export const number = (value) => value.toLocaleString("en");

// A time in UTC to the second, from milliseconds since 1970; what is no date is shown as it is.
export function moment(milliseconds) {
  const date = new Date(milliseconds);
  return Number.isNaN(date.getTime()) ? `${milliseconds} ms` : date.toISOString().replace("T", " ").replace(/\.\d+Z/, " UTC");
}

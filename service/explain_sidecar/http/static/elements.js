// Making and changing elements, as text nodes and attributes only: names in messages are never HTML.
export const byId = (id) => document.getElementById(id);

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

// A name whose beginning is cut off where there is no room for it: names of nested fields differ at their ends.
export function fillName(place, name) {
  place.classList.add("cut");
  if (place.textContent !== name) place.replaceChildren(element("bdi", {}, name));
}

export function set(place, attributes) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined) place.removeAttribute(key);
    else if (place.getAttribute(key) !== String(value)) place.setAttribute(key, value);
  }
}

// As many children as there are rows: kept ones stay where they are, and so does the keyboard's focus.
export function rowsOf(place, rows, make, update) {
  while (place.children.length > rows.length) place.lastElementChild.remove();
  while (place.children.length < rows.length) place.append(make());
  rows.forEach((row, index) => update(place.children[index], row, index));
}

// The place that an arrow key leads to, of `count` in a row; null for other keys.
export function stepped(event, here, count, keys = ["ArrowLeft", "ArrowRight", "Home", "End"]) {
  const by = [-1, 1, -Infinity, Infinity][keys.indexOf(event.key)];
  if (by === undefined || !count) return null;
  event.preventDefault();
  return Math.min(count - 1, Math.max(0, here < 0 ? count - 1 : here + by));
}

// How long may pass between two points of a line: with five times the usual step between them there was nothing, such as a night.
export function longestStep(times) {
  const steps = times.slice(1).map((time, index) => time - times[index]).sort((a, b) => a - b);
  return steps.length ? 5 * steps[Math.floor(steps.length / 2)] : Infinity;
}

// Makes the children anew where the key is another than before.
export function renew(place, key, make) {
  const text = JSON.stringify(key);
  if (place.dataset.key === text) return false;
  place.dataset.key = text;
  place.replaceChildren(...make());
  return true;
}

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

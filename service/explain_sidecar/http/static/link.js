// What is shown, as the part of the address after #: it can be shared, and Back leads to what was before.
export const VIEWS = ["overview", "changes", "importance", "partitions", "predictions", "integrity"];
export const DEFAULTS = { view: VIEWS[0], partition: "", estimator: "", loss: "", feature: "", version: "", id: "", search: "", order: "", last: "", from: "", to: "", at: "" };
const ASKED = ["view", "partition", "estimator", "loss", "search", "feature", "version", "id"];
export const LASTS = { "1h": 3600, "6h": 6 * 3600, "1d": 86400, "7d": 7 * 86400, "30d": 30 * 86400 };

export function fromAddress() {
  const found = { ...DEFAULTS };
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
    if (name in DEFAULTS) found[name] = value;
  }
  if (!VIEWS.includes(found.view)) found.view = DEFAULTS.view;
  if (!(found.last in LASTS)) found.last = "";
  return found;
}

export function address(selection) {
  const parts = Object.entries(selection).filter(([name, value]) => name === "view" || value !== "");
  return `#${new URLSearchParams(parts)}`;
}

// What the server has to know of it.
export const query = (selection) => String(new URLSearchParams(ASKED.map((name) => [name, selection[name]])));
export const asksOther = (before, after) => ASKED.some((name) => before[name] !== after[name]);

// From when until when, in seconds since 1970: of what there is, what is chosen.
export function chosenRange(selection, first, last) {
  if (selection.last) return [last - LASTS[selection.last], last];
  const at = (text, otherwise) => {
    const seconds = Date.parse(text.endsWith("Z") ? text : `${text}Z`) / 1000;
    return Number.isNaN(seconds) ? otherwise : seconds;
  };
  const [from, to] = [at(selection.from, first), at(selection.to, last)];
  return from < to ? [from, to] : [first, last];
}

export const minute = (seconds) => {
  const date = new Date(seconds * 1000);
  return Number.isNaN(date.getTime()) ? "" : date.toISOString().slice(0, 16);
};

// Is the stream whole: the chains, what could not be read, dead letters, and problems that were met and survived.
import { byId, element, fill, rowsOf } from "./elements.js";
import { many, moment, number } from "./words.js";

const row = (cells) => () => element("tr", {}, element("th", { scope: "row" }), ...cells.map((name) => element("td", name ? { class: name } : {})));

export function show({ chains, foreign, letters, problems }, page) {
  rowsOf(byId("chains").tBodies[0], chains, row(["number", "", "wide digest"]), (line, chain) => {
    const verdict = chain.broken ?? (chain.verified ? "whole" : "nothing read yet");
    write(line, [page.nameOf(chain.partition), number(chain.verified), verdict, chain.digest ?? "–"]);
    line.children[2].className = chain.broken ? "bad" : chain.verified ? "good" : "dim";
  });
  const count = foreign.reduce((sum, one) => sum + one.count, 0);
  fill(byId("foreign-none"), count ? `${many(count, "message")} of the output topics could not be read and ${count === 1 ? "is" : "are"} left out. Everything else is shown.` : "Every message of the output topics could be read.");
  byId("foreign").hidden = !foreign.length;
  rowsOf(byId("foreign").tBodies[0], foreign, row(["", "number", ""]), (line, one) => write(line, [one.topic, page.nameOf(one.partition), number(one.count), one.newest]));
  fill(byId("problems-none"), problems.length ? "" : "This page’s server has met no problem since it started.");
  byId("problems").hidden = !problems.length;
  rowsOf(byId("problems").tBodies[0], problems, row(["", ""]), (line, one) => write(line, [moment(one.since), one.until === null ? "lasts" : `over after ${many(Math.max(1, Math.round((one.until - one.since) / 1000)), "second")}`, one.text]));
  const classes = Object.entries(letters.classes);
  fill(byId("letters-none"), classes.length ? "Records that could not be used, by what is wrong with them:" : "No record was rejected.");
  byId("letter-classes").hidden = !classes.length;
  rowsOf(byId("letter-classes"), classes, () => element("div", {}, element("dt"), element("dd")), (item, [name, total]) => {
    fill(item.children[0], name.replaceAll("_", " "));
    fill(item.children[1], number(total));
  });
  byId("letters").hidden = !letters.newest.length;
  rowsOf(byId("letters").tBodies[0], letters.newest, row(["", "number", "", "wide"]), (line, letter) => {
    const details = letter.details === null ? "hidden; http.show_payloads shows it" : `${letter.details.message} · ${letter.details.value}`;
    write(line, [letter.error_class.replaceAll("_", " "), page.nameOf(letter.partition), String(letter.offset), moment(letter.timestamp), details]);
  });
}

const write = (line, texts) => texts.forEach((text, index) => fill(line.children[index], text));

export function table({ chains }, page) {
  return [["partition", "name", "messages_checked", "verdict", "digest"], ...chains.map((chain) => [chain.partition, page.nameOf(chain.partition), chain.verified, chain.broken ?? (chain.verified ? "whole" : "nothing read yet"), chain.digest])];
}

// node validate.mjs FILE...: the operations of the first AsyncAPI document, and what is wrong with each; the status is how many are broken.
import { basename } from "node:path";
import { Parser, fromFile } from "@asyncapi/parser";

const files = process.argv.slice(2);
const parser = new Parser();
let broken = 0;
for (const file of files) {
  const { document, diagnostics } = await fromFile(parser, file).parse();
  const errors = diagnostics.filter((one) => one.severity === 0);
  for (const one of errors) console.error(`${basename(file)}: ${one.path.join(".")}: ${one.message}`);
  if (!document || errors.length) broken += 1;
  else for (const one of document.allOperations().all()) console.log(one.action(), one.channels().all()[0].address());
}
process.exit(broken);

// npm run unpack: Chromium, its libraries and its fonts from the package into node_modules/.unpacked.
import { mkdir, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL("node_modules/.unpacked", import.meta.url));
await mkdir(folder, { recursive: true });
process.env.TMPDIR = folder; // where the package unpacks to; it is read at the import
const { default: chromium, inflate } = await import("@sparticuz/chromium");
await chromium.executablePath();
await inflate(fileURLToPath(new URL("node_modules/@sparticuz/chromium/bin/al2023.tar.br", import.meta.url)));
// The package's own file names folders of AWS Lambda alone.
await writeFile(
  `${folder}/fonts/fonts.conf`,
  `<?xml version="1.0"?><fontconfig><dir>${folder}/fonts/fonts</dir><cachedir>${folder}/fonts/cache</cachedir></fontconfig>\n`,
);

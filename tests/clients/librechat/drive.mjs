// Drives the real npm package @librechat/agents against a real server, with real programs.
//   BASE_URL=... NARROW_URL=... CLIENT_DIR=<package folder> WORKBOOK=<an .xlsx file> TABLE=<a .csv file>
//   DOWNLOADS=<folder> [CJS=1] node drive.mjs
// One line of JSON for each scenario on stdout: {"name", "ok", "ms", "calls", "said"}.
import { readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const { BASE_URL: BASE, NARROW_URL: NARROW, CLIENT_DIR, CJS, WORKBOOK, TABLE, DOWNLOADS } = process.env;
const KEY = 'test-key';
process.env.LIBRECHAT_CODE_BASEURL = BASE; // 3.0.x reads it while it is imported
const require = createRequire(path.join(CLIENT_DIR, 'package.json'));
const agents = CJS
  ? require(path.join(CLIENT_DIR, 'dist/cjs/main.cjs'))
  : await import(pathToFileURL(path.join(CLIENT_DIR, 'dist/esm/main.mjs')));
const isOld = require(path.join(CLIENT_DIR, 'package.json')).version.startsWith('3.0.');

// ---- tools on the client's side
const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const object = (properties) => ({ type: 'object', properties, required: Object.keys(properties) });
const string = { type: 'string' };
const integer = { type: 'integer' };
const tools = {
  get_weather: [object({ city: string }), ({ city }) => ({ city, temp: { SF: 61, NY: 41, LA: 75 }[city] ?? 50 })],
  'get-forecast': [object({ city: string, days: integer }), ({ days }) => Array.from({ length: days }, (_, day) => ({ day }))],
  boom: [object({ why: string }), ({ why }) => { throw new Error(`boom: ${why}`); }],
  for: [object({ n: integer }), ({ n }) => n * 2],
  slow: [object({ n: integer }), async ({ n }) => { await sleep(1500); return n; }],
  search_mcp_srv: [object({ q: string }), ({ q }) => [[{ type: 'text', text: JSON.stringify({ q, hits: 2 }) }], undefined]],
};
let calls = 0;
const toolMap = new Map(Object.entries(tools).map(([name, [, run]]) => [
  name, { name, mcp: name.includes('_mcp_'), invoke: async (input) => { calls += 1; return run(input); } },
]));
const toolDefs = Object.entries(tools).map(([name, [parameters]]) => ({
  name, description: `Does ${name}.`, parameters, allowed_callers: ['code_execution'],
}));

// ---- the client under test, called as LibreChat's ToolNode calls it
const headersOf = (key) => ({ 'X-API-Key': key });
function programmatic(code, { key = KEY, base = BASE, args = {}, inject = {}, config = {}, bash = false, ...options } = {}) {
  const create = bash ? agents.createBashProgrammaticToolCallingTool : agents.createProgrammaticToolCallingTool;
  const tool = create({
    baseUrl: base, ...(isOld ? { apiKey: key } : { authHeaders: () => headersOf(key) }), ...options,
  });
  return tool.invoke({ name: tool.name, args: { code, ...args }, id: 'tc', type: 'tool_call', toolMap, toolDefs, ...inject }, config);
}
function plain(args, inject = {}) {
  const tool = agents.createCodeExecutionTool(
    isOld ? { LIBRECHAT_CODE_API_KEY: KEY } : { baseUrl: BASE, authHeaders: headersOf(KEY) },
  );
  return tool.invoke({ name: tool.name, args, id: 'tc', type: 'tool_call', ...inject });
}
async function upload(name, content) {
  const form = new FormData();
  form.append('kind', 'user');
  form.append('id', 'u1');
  form.append('file', new Blob([content]), name);
  const response = await fetch(`${BASE}/upload`, { method: 'POST', headers: headersOf(KEY), body: form });
  return response.json();
}
const text = (message) => (typeof message.content === 'string' ? message.content : JSON.stringify(message.content));
const thrown = (promise) => promise.then((value) => `NOT THROWN ${text(value)}`, (error) => `${error.name} ${error.message}`);
const fetched = (file) => fetch(
  `${BASE}/download/${file.storage_session_id ?? file.session_id}/${file.id}`, { headers: headersOf(KEY) });
const download = async (file) => (await fetched(file)).text();
// 3.0.x lists the session's files itself; 3.9.x is given references by LibreChat.
function withUpload(stored) {
  const session = stored.storage_session_id;
  const files = stored.files.map(({ fileId: id, filename: name }) => (
    { id, resource_id: id, name, storage_session_id: session, kind: 'user' }));
  return isOld ? { args: { session_id: session } } : { inject: { session_id: session, _injected_files: files } };
}
const running = async () => {
  const metrics = await (await fetch(`${BASE}/metrics`, { headers: headersOf(KEY) })).text();
  return Number(/^toolfold_http_running (\d+)$/m.exec(metrics)[1]);
};
async function untilRunning(count, began) {
  while (await running() !== count && performance.now() - began < 15000) await sleep(50);
}

// ---- scenarios: each gives what the model would read, and the pattern it must have
const run = (code, pattern, options) => async () => [text(await programmatic(code, options)), pattern];
const fails = (code, pattern, options) => async () => [await thrown(programmatic(code, options)), pattern];
const scenarios = {
  basic: run('w = await get_weather(city="SF")\nprint(w["temp"])', /stdout:\n61/),
  gather: run('a, b, f = await asyncio.gather(get_weather(city="SF"), get_weather(city="NY"), get_forecast(city="LA", days=2))\nprint(a["temp"] + b["temp"], len(f))', /102 2/),
  sequential: run('t = 0\nfor c in ["SF", "NY", "LA"]:\n    t += (await get_weather(city=c))["temp"]\nprint(t)', /177/),
  mcp_result: run('r = await search_mcp_srv(q="x")\nprint(r["hits"])', /stdout:\n2/),
  reserved_name: run('print(await for_tool(n=21))', /42/),
  error_caught: run('try:\n    await boom(why="x")\nexcept Exception as e:\n    print("caught", e)', /caught boom: x/),
  error_uncaught: fails('print("before")\nawait boom(why="y")', /boom: y[^]*before/),
  partial_failure: run('r = await asyncio.gather(get_weather(city="SF"), boom(why="z"), return_exceptions=True)\nprint(r[0]["temp"], type(r[1]).__name__)', /61 ToolError/),
  syntax_error: fails('print("x"\nawait get_weather(city="SF")', /SyntaxError/),
  multiline_string: run('s = """a\nb"""\nprint(repr(s)); await get_weather(city="SF")', /'a\\nb'/),
  empty_output: run('await get_weather(city="SF")', /stdout: Empty/),
  unknown_tool: fails('await get_wether(city="SF")', /no tool 'get_wether'; did you mean 'get_weather'/),
  too_many_rounds: fails('for i in range(25):\n    await get_weather(city="SF")', /Exceeded maximum round trips \(20\)/),
  timeout: fails('print("so far", flush=True)\nawait get_weather(city="SF")\nwhile True: pass', /so far/, { args: { timeout: 1000 } }),
  data_libraries: run('await get_weather(city="SF")\nprint(pd.DataFrame({"a": [1, 2]}).a.sum(), np.arange(4).sum())', /3 6/),
  exec: async () => [text(await plain({ lang: 'py', code: 'print(6 * 7)' })), /42/],
  exec_error: async () => [text(await plain({ lang: 'py', code: '1 / 0' })), /ZeroDivisionError/],
  files_out: async () => {
    const message = await programmatic('await get_weather(city="SF")\nopen("/mnt/data/out.csv", "w").write("a,b")\nprint("saved")');
    const file = message.artifact.files.find((one) => one.name === 'out.csv');
    return [`${text(message)} ${await download(file)}`, /saved[^]*Generated files[^]*a,b/];
  },
  files_in: async () => {
    const stored = await upload('data.csv', 'x\n7\n');
    const code = 'await get_weather(city="SF")\nprint(open("/mnt/data/data.csv").read().split())';
    return [text(await programmatic(code, withUpload(stored))), /\['x', '7'\]/];
  },
  // Together they take longer than the timeout, the program itself does not.
  slow_tools: run('print(sum([await slow(n=n) for n in (1, 2, 3)]))', /stdout:\n6/, { args: { timeout: 4000 } }),
  long_output: run('await get_weather(city="SF")\nprint("x" * 200_000)', /x\n\.\.\. \(truncated\) 134465 more bytes/),
  workbook: async () => {
    const stored = await upload('sales.xlsx', await readFile(WORKBOOK));
    const code = 'frame = pd.read_excel("/mnt/data/sales.xlsx")\nframe["price"] *= (await get_weather(city="SF"))["temp"]\nframe.to_excel("/mnt/data/changed.xlsx", index=False)\nprint("sum", frame["price"].sum())';
    const message = await programmatic(code, withUpload(stored));
    const file = message.artifact.files.find((one) => one.name === 'changed.xlsx');
    const again = await upload('again.xlsx', await (await fetched(file)).arrayBuffer());
    const read = 'await get_weather(city="SF")\nprint(pd.read_excel("/mnt/data/again.xlsx").to_dict("list"))';
    const seen = text(await programmatic(read, withUpload(again)));
    return [`${text(message)} ${seen}`, /sum 183[^]*\{'item': \['a', 'b'\], 'price': \[61, 122\]\}/];
  },
  // Described, read, changed, written and downloaded: what arrives is compared with what pandas makes of the same here.
  tables: async () => {
    const book = await upload('sales.xlsx', await readFile(WORKBOOK));
    const inBook = await programmatic(`print(describe_files())
frame = pd.read_excel("/mnt/data/sales.xlsx")
frame["price"] *= (await get_weather(city="SF"))["temp"]
frame.to_excel("/mnt/data/changed.xlsx", index=False)`, withUpload(book));
    const table = await upload('stock.csv', await readFile(TABLE));
    const inTable = await programmatic(`print(describe_files())
frame = pd.read_csv("/mnt/data/stock.csv")
frame["price"] *= (await get_weather(city="SF"))["temp"]
frame.sort_values("name").to_csv("/mnt/data/changed.csv", index=False)`, withUpload(table));
    for (const message of [inBook, inTable]) {
      const file = message.artifact.files.find((one) => one.name.startsWith('changed.'));
      await writeFile(path.join(DOWNLOADS, file.name), Buffer.from(await (await fetched(file)).arrayBuffer()));
    }
    return [`${text(inBook)} ${text(inTable)}`,
      /sales.xlsx \(\d+ bytes\): sheet Sheet1: 2 rows of item str, price int[^]*stock.csv \(\d+ bytes\): 3 rows of name str, price float, since date/];
  },
  deleted_file: async () => {
    const stored = await upload('gone.txt', 'old');
    const code = 'import os\nawait get_weather(city="SF")\nos.remove("/mnt/data/gone.txt")\nprint("removed")';
    const message = await programmatic(code, withUpload(stored));
    const named = isOld ? ['gone.txt'] : message.artifact.deleted_files;
    const files = await (await fetch(`${BASE}/files/${stored.storage_session_id}`, { headers: headersOf(KEY) })).json();
    return [`${text(message)} named=${named} left=${files.length}`, /removed[^]* named=gone.txt left=0/];
  },
  session_kept: async () => {
    const first = await programmatic('await get_weather(city="SF")\nopen("/mnt/data/kept.txt", "w").write("still here")\nprint(1)');
    const session = first.artifact.session_id;
    const code = 'print(open("/mnt/data/kept.txt").read())';
    const options = isOld ? { args: { session_id: session } }
      : { inject: { session_id: session, _injected_files: first.artifact.files.map((one) => ({ ...one, resource_id: one.id, kind: 'user' })) } };
    return [text(await programmatic(`await get_weather(city="SF")\n${code}`, options)), /still here/];
  },
  wrong_key: fails('await get_weather(city="SF")', isOld ? /401/ : /not authorized/, { key: 'wrong' }),
  rate_limited: async () => {
    await programmatic('print(1); await get_weather(city="SF")', { base: NARROW }).catch(() => {});
    return [await thrown(programmatic('print(1); await get_weather(city="SF")', { base: NARROW })), isOld ? /429/ : /Retry after \d+ seconds/];
  },
  seed_example: async () => {
    // The client of the protocol's own description, as it stands there, its indented program too.
    const apiKey = KEY;
    const send = async (body) => (await fetch(`${BASE}/exec/programmatic`, {
      method: 'POST', headers: { 'X-API-Key': apiKey, 'Content-Type': 'application/json' }, body: JSON.stringify(body),
    })).json();
    let result = await send({
      code: '\n      weather = await get_weather(city="SF")\n      forecast = await get_forecast(city="SF", days=7)\n      print(f"Current: {weather}, 7-day: {forecast}")\n    ',
      tools: [
        { name: 'get_weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } },
        { name: 'get_forecast', parameters: { type: 'object', properties: { city: { type: 'string' }, days: { type: 'integer' } } } },
      ],
      timeout: 60000,
    });
    while (result.status === 'tool_call_required') {
      const toolResults = await Promise.all(result.tool_calls.map(async (call) => {
        calls += 1;
        return { call_id: call.id, result: call.name === 'get_weather' ? 'sunny' : ['dry'], is_error: false };
      }));
      result = await send({ continuation_token: result.continuation_token, tool_results: toolResults });
    }
    return [JSON.stringify(result), /Current: sunny, 7-day: \['dry'\]/];
  },
};
if (!isOld) {
  scenarios.no_tools = run('print("hi")', /hi/, { args: { tool_manifest: [] } });
  scenarios.direct_only = fails('await get_weather(city="SF")', /requires a tool_manifest/, { inject: { disallowedToolDefs: [{ name: 'send_email' }] } });
  scenarios.collision = fails('await a_b()', /both become "a_b"/, { inject: { toolDefs: [{ name: 'a-b' }, { name: 'a_b' }] } });
  scenarios.longest_timeout = run('print((await get_weather(city="SF"))["temp"])', /61/, { args: { timeout: 300000 } });
  scenarios.profile = run('print((await get_weather(city="SF"))["temp"])', /61/, { executionProfile: 'stateful', runtimeSessionHint: 'v2:user:abc' });
  scenarios.tool_search = async () => { // its other mode sends JavaScript, and no key
    const found = { name: 'get_expenses_mcp_fin', description: 'List expenses', parameters: object({ team: string }), defer_loading: true };
    const tool = agents.createToolSearch({ mode: 'local', toolRegistry: new Map([[found.name, found]]) });
    return [text(await tool.invoke({ name: tool.name, args: { query: 'expenses' }, id: 'tc', type: 'tool_call' })), /get_expenses_mcp_fin/];
  };
  addBash();
  scenarios.manifest = run('print((await get_weather(city="SF"))["temp"])', /61/, { args: { tool_manifest: ['get_weather'] } });
  scenarios.cancel_by_abort = async () => {
    const began = performance.now();
    const said = await thrown(programmatic('import time\ntime.sleep(60)\nawait get_weather(city="SF")', { config: { signal: AbortSignal.timeout(400) } }));
    await untilRunning(0, began);
    return [`${said} running=${await running()} early=${performance.now() - began < 15000}`, /abort[^]*running=0 early=true/i];
  };
  scenarios.abort_in_round_2 = async () => {
    const began = performance.now();
    const controller = new AbortController();
    const code = 'import time\nawait get_weather(city="SF")\ntime.sleep(60)';
    const ended = thrown(programmatic(code, { args: { timeout: 15000 }, config: { signal: controller.signal } }));
    while (!calls) await sleep(20);
    await untilRunning(1, began);
    controller.abort();
    const said = await ended;
    await untilRunning(0, began);
    return [`${said} calls=${calls} running=${await running()} early=${performance.now() - began < 14000}`, /abort[^]*calls=1 running=0 early=true/i];
  };
  scenarios.deleted_by_node = async () => { // its ToolNode keeps the references, and sends them with every request
    const stored = await upload('gone.txt', 'old');
    const tool = agents.createCodeExecutionTool({ baseUrl: BASE, authHeaders: headersOf(KEY) });
    const { session_id, _injected_files: files } = withUpload(stored).inject;
    const sessions = new Map([['execute_code', { session_id, files, lastUpdated: Date.now() }]]);
    const node = new agents.ToolNode({ tools: [tool], sessions });
    const ask = async (code) => {
      const asked = new agents.AIMessage({ content: '', tool_calls: [{ name: tool.name, args: { lang: 'py', code }, id: `tc${Math.random()}`, type: 'tool_call' }] });
      return text((await node.invoke({ messages: [asked] })).messages.at(-1));
    };
    const first = await ask('import os\nos.remove("/mnt/data/gone.txt")\nprint("removed")');
    const names = sessions.get('execute_code').files.map((one) => one.name);
    const second = await ask('import os\nprint("left", os.listdir("/mnt/data"))');
    return [`${first} names=${JSON.stringify(names)} ${second}`, /removed[^]* names=\[\][^]*left \[\]/];
  };
}

// What LibreChat sends since spring 2026: `bash_tool` and `run_tools_with_bash`.
function addBash() {
  const bash = (code, pattern, options) => run(code, pattern, { bash: true, ...options });
  const broken = (code, pattern, options) => fails(code, pattern, { bash: true, ...options });
  const shell = (code, pattern, inject = {}, args = undefined) => async () => {
    const tool = agents.createBashExecutionTool({ baseUrl: BASE, authHeaders: headersOf(KEY) });
    const message = await tool.invoke({ name: tool.name, args: { command: code, code, ...(args && { args }) }, id: 'tc', type: 'tool_call', ...inject });
    return [text(message), pattern];
  };
  Object.assign(scenarios, {
    bash_call: bash(`get_weather '{"city":"SF"}'`, /stdout:\n\{"city":"SF","temp":61\}/),
    bash_parallel: bash(`{ sf=$(get_weather '{"city":"SF"}'); printf '%s\n' "$sf" > sf.json; } &
{ ny=$(get_weather '{"city":"NY"}'); printf '%s\n' "$ny" > ny.json; } &
wait
echo "$(jq .temp sf.json) $(jq .temp ny.json)"`, /61 41/),
    bash_loop: bash('t=0; for c in SF NY LA; do t=$((t + $(get_weather "{\\"city\\":\\"$c\\"}" | jq .temp))); done; echo $t', /177/),
    bash_pipeline: bash(`get_forecast '{"city":"LA","days":3}' | jq -c 'map(.day)'`, /\[0,1,2\]/),
    bash_hyphen: bash(`get_forecast '{"city":"LA","days":2}' | jq length`, /stdout:\n2/),
    bash_reserved: bash(`for_tool '{"n":21}'`, /stdout:\n42/),
    bash_mcp_result: bash(`search_mcp_srv '{"q":"x"}' | jq .hits`, /stdout:\n2/),
    bash_failure_caught: bash(`boom '{"why":"x"}' || echo "status $?"`, /status 1/),
    bash_failure_strict: broken(`set -e\necho before\nboom '{"why":"y"}'\necho never`, /boom: y[^]*before/),
    bash_strict_mode: bash(`set -euo pipefail\nw=$(get_weather '{"city":"SF"}')\necho "$w" | jq -r .city`, /stdout:\nSF/),
    bash_exit_code: broken('echo partial; exit 3', /exited with (code|status) 3[^]*partial/),
    bash_syntax_error: broken(`get_weather '{"city":"SF"}'\nif true; then`, /syntax error/),
    bash_pandas: bash(`get_weather '{"city":"SF"}' > w.json\npython3 - <<'EOF'\nimport json, pandas as pd\nframe = pd.DataFrame([json.load(open("w.json"))])\nprint(frame.temp.sum() + 1)\nEOF`, /stdout:\n62/),
    bash_python_tools: bash(`get_weather '{"city":"SF"}' > /dev/null\npython3 -c 'import tools; print(tools.get_weather(city="NY")["temp"])'`, /stdout:\n41/),
    bash_heredoc_argument: bash(`get_weather "$(cat <<EOF\n{"city": "SF"}\nEOF\n)" | jq .temp`, /stdout:\n61/),
    bash_xargs: bash(`printf '{"city":"%s"}\n' SF NY | xargs -d '\n' -P 2 -n 1 get_weather | jq -s 'map(.temp) | add'`, /stdout:\n102/),
    bash_long_output: bash(`get_weather '{"city":"SF"}' > /dev/null; head -c 200000 /dev/zero | tr '\\0' x`, /x\n\.\.\. \(truncated\) 134464 more bytes/),
    bash_empty_output: bash(`get_weather '{"city":"SF"}' > /dev/null`, /stdout: Empty/),
    bash_too_many_rounds: broken(`for i in $(seq 25); do get_weather '{"city":"SF"}'; done`, /Exceeded maximum round trips \(20\)/),
    bash_timeout: broken('echo "so far"; sleep 30', /so far/, { args: { timeout: 1000 } }),
    bash_slow_tools: bash(`for n in 1 2 3; do slow "{\\"n\\":$n}"; done | paste -sd+ | bc`, /stdout:\n6/, { args: { timeout: 4000 } }),
    bash_no_tools: bash('echo hi', /hi/, { args: { tool_manifest: [] } }),
    bash_files_out: async () => {
      const message = await programmatic(`get_weather '{"city":"SF"}' > /mnt/data/w.json; echo x > /tmp/scratch; echo saved`, { bash: true });
      const file = message.artifact.files.find((one) => one.name === 'w.json');
      return [`${text(message)} ${message.artifact.files.length} ${await download(file)}`, /saved[^]* 1 \{"city":"SF","temp":61\}/];
    },
    bash_failed_registers_nothing: async () => {
      const said = await thrown(programmatic('echo x > /mnt/data/lost.txt; exit 1', { bash: true }));
      return [said, /^(?![^]*Generated files)[^]*(status|code) 1/];
    },
    bash_files_in: async () => {
      const stored = await upload('data.csv', 'x\n7\n');
      return [text(await programmatic(`get_weather '{"city":"SF"}' > /dev/null; tail -1 /mnt/data/data.csv`, { bash: true, ...withUpload(stored) })), /stdout:\n7/];
    },
    bash_deleted_file: async () => {
      const stored = await upload('gone.txt', 'old');
      const message = await programmatic(`get_weather '{"city":"SF"}' > /dev/null; rm gone.txt; echo removed`, { bash: true, ...withUpload(stored) });
      return [`${text(message)} named=${message.artifact.deleted_files}`, /removed[^]*named=gone.txt/];
    },
    bash_two_sessions: async () => {
      const one = (n) => programmatic(`echo ${n} > mine; get_weather '{"city":"SF"}' > /dev/null; sleep 0.2; cat mine; ls`, { bash: true });
      const said = (await Promise.all([one(1), one(2)])).map(text).join(' ');
      return [said, /stdout:\n1\nmine[^]*stdout:\n2\nmine/];
    },
    bash_cancel_in_round_2: async () => {
      const began = performance.now();
      const controller = new AbortController();
      const ended = thrown(programmatic(`get_weather '{"city":"SF"}'; sleep 60`, { bash: true, args: { timeout: 15000 }, config: { signal: controller.signal } }));
      while (!calls) await sleep(20);
      await untilRunning(1, began);
      controller.abort();
      const said = await ended;
      await untilRunning(0, began);
      return [`${said} calls=${calls} running=${await running()} early=${performance.now() - began < 14000}`, /abort[^]*calls=1 running=0 early=true/i];
    },
    bash_exec: shell('echo $((6 * 7)); uname -n', /42\nsandbox/),
    bash_exec_error: shell('echo out; ls /nowhere', /No such file or directory/),
    bash_exec_git_identity: shell('export GIT_AUTHOR_NAME="A B"\necho "$GIT_AUTHOR_NAME"', /A B/),
    // As LibreChat's own tools send them: `read_file`, its images, `write_file`, and the request that warms a sandbox.
    bash_read_file: async () => {
      const stored = await upload('note.txt', 'line 1\nline 2\n');
      return shell("cat '/mnt/data/note.txt'", /line 1\nline 2/, withUpload(stored).inject)();
    },
    bash_write_file: shell("python3 - <<'PY'\nimport base64, json, os\npath = '/mnt/data/a/b.txt'\nos.makedirs(os.path.dirname(path), exist_ok=True)\nopen(path, 'wb').write(base64.b64decode('aGk='))\nprint('WROTE 2 bytes to', path)\nPY", /WROTE 2 bytes to \/mnt\/data\/a\/b.txt/),
    bash_prewarm: shell('true', /stdout: Empty/),
  });
}

for (const [name, scenario] of Object.entries(scenarios)) {
  calls = 0;
  const began = performance.now();
  let said, ok;
  try {
    const [got, pattern] = await scenario();
    [said, ok] = [got, pattern.test(got)];
  } catch (error) { [said, ok] = [`THROWN ${error.name}: ${error.message}`, false]; }
  console.log(JSON.stringify({ name, ok, ms: Math.round(performance.now() - began), calls, said: said.slice(0, 600) }));
}
process.exit(0);

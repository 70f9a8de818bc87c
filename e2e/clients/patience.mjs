// A client of the official TypeScript SDKs that the tests steer: each line of
// stdin is an order, each line of stdout says how one ended.
//
//   {"do": "connect", "sdk": "1" | "2" | "2-modern", "url": …, "key": …}
//                          over streamable HTTP; of SDK 2.x with sessions, or as of MCP 2026-07-28
//   {"do": "connect", "sdk": …, "command": [program, argument, …], "env": {…}}
//                          over stdio
//   {"do": "list"}         the names of all tools
//   {"do": "call", "tool": …, "arguments": …, "timeout": milliseconds, "reset": true | false}
//                          no timeout: the SDK's own; reset: progress begins it anew
//   {"do": "heard"}        the methods of the notifications so far
//   {"do": "fetch", "url": …, "key": …, "body": …}
//                          a POST by Node's fetch and nothing else
//   {"do": "close"}        ends the session, and connects no more
//   {"do": "abandon"}      drops the connection without a word

import { createInterface } from 'node:readline';

const self = { name: 'patience', version: '1.0.0' };
const listChanged = 'notifications/tools/list_changed';

// What differs between the SDKs. Of the two only the one that is needed is loaded.
const sdks = {
  async 1() {
    const [{ Client }, { StdioClientTransport }, { StreamableHTTPClientTransport }, types] = await Promise.all([
      import('@modelcontextprotocol/sdk/client/index.js'),
      import('@modelcontextprotocol/sdk/client/stdio.js'),
      import('@modelcontextprotocol/sdk/client/streamableHttp.js'),
      import('@modelcontextprotocol/sdk/types.js'),
    ]);
    return {
      HTTP: StreamableHTTPClientTransport,
      Stdio: StdioClientTransport,
      client: () => new Client(self),
      listen: (c) => c.setNotificationHandler(types.ToolListChangedNotificationSchema, hear),
      call: (c, params, options) => c.callTool(params, undefined, options),
    };
  },
  async 2(options) {
    const [{ Client, StreamableHTTPClientTransport }, { StdioClientTransport }] = await Promise.all([
      import('@modelcontextprotocol/client'),
      import('@modelcontextprotocol/client/stdio'),
    ]);
    return {
      HTTP: StreamableHTTPClientTransport,
      Stdio: StdioClientTransport,
      client: () => new Client(self, options),
      listen: (c) => c.setNotificationHandler(listChanged, hear),
      call: (c, params, options) => c.callTool(params, options),
    };
  },
  '2-modern': () => sdks[2]({ versionNegotiation: { mode: { pin: '2026-07-28' } } }),
};

let client;
let transport;
let sdk;
const heard = [];
const hear = ({ method }) => void heard.push(method);

const orders = {
  async connect({ sdk: version = '1', url, key, command, env }) {
    sdk = await sdks[version]();
    client = sdk.client();
    sdk.listen(client);
    transport = command
      ? new sdk.Stdio({ command: command[0], args: command.slice(1), env, stderr: 'inherit' })
      : new sdk.HTTP(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${key}` } } });
    await client.connect(transport);
    return { session: transport.sessionId ?? null };
  },
  async list() {
    const names = [];
    let cursor;
    do {
      const page = await client.listTools(cursor ? { cursor } : undefined);
      names.push(...page.tools.map(({ name }) => name));
      cursor = page.nextCursor;
    } while (cursor);
    return { names };
  },
  async call({ tool, arguments: args, timeout, reset }) {
    const options = {};
    if (timeout) options.timeout = timeout;
    let progress = 0;
    if (reset) Object.assign(options, { resetTimeoutOnProgress: true, onprogress: () => progress++ });
    try {
      return { result: await sdk.call(client, { name: tool, arguments: args }, options), progress };
    } catch (error) {
      // The cancellation that the SDK sends of its own accord goes ahead of this.
      await client.listTools();
      throw error;
    }
  },
  async heard() {
    return { names: heard };
  },
  async fetch({ url, key, body }) {
    const began = Date.now();
    const response = await fetch(url, {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        Accept: 'application/json, text/event-stream',
        Authorization: `Bearer ${key}`,
      },
      body,
    });
    const text = await response.text();
    return { text, seconds: (Date.now() - began) / 1000 };
  },
  async close() {
    await transport.terminateSession?.();
    await client.close();
    return {};
  },
  async abandon() {
    await client.close();
    return {};
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  let said;
  try {
    said = await orders[order.do](order);
  } catch (error) {
    said = { error: { code: error.code ?? null, message: String(error.message ?? error) } };
  }
  process.stdout.write(`${JSON.stringify(said)}\n`);
}

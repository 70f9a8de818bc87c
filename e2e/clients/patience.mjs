// A client of the official TypeScript SDK that the tests steer: each line of
// stdin is an order, each line of stdout says how one ended.
//
//   {"do": "connect", "url": …, "key": …}
//   {"do": "call", "tool": …, "arguments": …, "timeout": milliseconds}
//   {"do": "close"}        ends the session, and connects no more
//   {"do": "abandon"}      drops the connection without a word

import { createInterface } from 'node:readline';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

let client;
let transport;

const orders = {
  async connect({ url, key }) {
    client = new Client({ name: 'patience', version: '1.0.0' });
    transport = new StreamableHTTPClientTransport(new URL(url), {
      requestInit: { headers: { Authorization: `Bearer ${key}` } },
    });
    await client.connect(transport);
    return { session: transport.sessionId ?? null };
  },
  async call({ tool, arguments: args, timeout }) {
    try {
      return { result: await client.callTool({ name: tool, arguments: args }, undefined, { timeout }) };
    } catch (error) {
      await client.ping(); // the cancellation that the SDK sends of its own accord goes ahead of this
      throw error;
    }
  },
  async close() {
    await transport.terminateSession();
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

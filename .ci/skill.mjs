import { createInterface } from "node:readline";
const answers = {
  initialize: (p) => ({ protocolVersion: p.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "who", version: "1" } }),
  "tools/list": () => ({ tools: [{ name: "who", inputSchema: { type: "object" } }] }),
  "tools/call": () => ({ content: [{ type: "text", text: `node ${process.version} as ${process.getuid()}` }] }),
};
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  const reply = answers[method] ? { result: answers[method](params) } : { error: { code: -32601, message: "unknown method" } };
  if (id !== undefined) process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, ...reply }) + "\n");
});

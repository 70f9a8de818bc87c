// The way from an agent to the skill server: one session, kept connections, and no more of MCP than a call needs, so that the figures
// show the agent and not its client.
import http from "node:http";

const agent = new http.Agent({ keepAlive: true, maxSockets: 64 });

function post(url, session, message) {
  const body = JSON.stringify(message);
  const headers = {
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
    "Content-Length": Buffer.byteLength(body),
  };
  if (session) {
    headers["Mcp-Session-Id"] = session;
    headers["Mcp-Protocol-Version"] = "2025-11-25";
  }
  return new Promise((resolve, reject) => {
    const request = http.request(url, { method: "POST", agent, headers }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (part) => (text += part));
      response.on("end", () => resolve({ status: response.statusCode, headers: response.headers, text }));
      response.on("error", reject);
    });
    request.on("error", reject);
    request.end(body);
  });
}

// openSkill starts a session and returns a function that calls the tool "echo" with a text and returns its answer.
export async function openSkill(url) {
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "bench", version: "1" } };
  const opened = await post(url, "", { jsonrpc: "2.0", id: 0, method: "initialize", params });
  const session = opened.headers["mcp-session-id"];
  if (opened.status !== 200 || !session) {
    throw new Error(`initialize: HTTP ${opened.status}: ${opened.text}`);
  }
  await post(url, session, { jsonrpc: "2.0", method: "notifications/initialized" });
  let calls = 0;
  return async (text) => {
    const message = { jsonrpc: "2.0", id: ++calls, method: "tools/call", params: { name: "echo", arguments: { text } } };
    const answer = await post(url, session, message);
    const result = answer.status === 200 && JSON.parse(answer.text).result;
    if (!result || result.isError) {
      throw new Error(`call echo: HTTP ${answer.status}: ${answer.text}`);
    }
    return result.content[0].text;
  };
}

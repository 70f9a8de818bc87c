// The door of an agent that is measured: POST /runs with {"text": ...} starts a run, which parks, and answers with its ID once that is
// stored. POST /api/v1/approvals/ID/approve, Holdpoint's own path, approves it and answers when the run has ended.
import http from "node:http";

async function readBody(request) {
  let text = "";
  request.setEncoding("utf8");
  for await (const part of request) text += part;
  return JSON.parse(text);
}

// serveRuns prints its address. It ends with its parent process.
export function serveRuns({ park, approve }) {
  const server = http.createServer(async (request, response) => {
    let status = 200;
    let answer;
    try {
      const body = await readBody(request);
      const approval = request.url.match(/^\/api\/v1\/approvals\/([^/]+)\/approve$/);
      answer = approval ? await approve(approval[1]) : { id: await park(body.text) };
    } catch (error) {
      status = 500;
      answer = { error: String(error?.stack ?? error) };
    }
    const text = JSON.stringify(answer);
    response.writeHead(status, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(text) });
    response.end(text);
  });
  server.keepAliveTimeout = 10 * 60 * 1000; // the clients keep their connections between rounds
  server.listen(0, "127.0.0.1", () => console.log(`127.0.0.1:${server.address().port}`));
  process.stdin.on("end", () => process.exit()).resume();
  process.on("SIGTERM", () => process.exit());
}

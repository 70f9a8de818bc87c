// An agent that speaks AG-UI, and a client of it. A call that waits for approval interrupts the run. The client resumes the run to look
// again: the answer to the interrupt decides nothing, because a reviewer decides in Holdpoint.
import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';
import { HttpAgent } from '@ag-ui/client';
import { EventType } from '@ag-ui/core';
import { EventEncoder } from '@ag-ui/encoder';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const { ENDPOINT, AGENT_KEY } = process.env;
const holdpoint = new Client({ name: 'billing', version: '1.0.0' });
await holdpoint.connect(new StreamableHTTPClientTransport(new URL(ENDPOINT), {
  requestInit: { headers: { Authorization: `Bearer ${AGENT_KEY}` } },
}));

// A run makes the call that its state names, or continues to wait for it.
async function* runAgent({ threadId, runId, state, resume }) {
  yield { type: EventType.RUN_STARTED, threadId, runId };
  const call = resume?.length
    ? { name: 'holdpoint_await', arguments: { call_id: resume[0].interruptId } }
    : state;
  const toolCallId = runId;
  yield { type: EventType.TOOL_CALL_START, toolCallId, toolCallName: call.name };
  yield { type: EventType.TOOL_CALL_ARGS, toolCallId, delta: JSON.stringify(call.arguments) };
  yield { type: EventType.TOOL_CALL_END, toolCallId };
  const { content, _meta } = await holdpoint.callTool(call);
  const { id, code, deadline } = _meta?.['dev.holdpoint/call'] ?? {};
  yield { type: EventType.TOOL_CALL_RESULT, toolCallId, messageId: `${runId}-result`, content: content[0].text };
  if (code === 'pending') {
    const interrupt = { id, reason: 'tool_call', toolCallId, message: content[0].text, expiresAt: deadline };
    yield { type: EventType.RUN_FINISHED, threadId, runId, outcome: { type: 'interrupt', interrupts: [interrupt] } };
    return;
  }
  yield { type: EventType.RUN_FINISHED, threadId, runId, outcome: { type: 'success' } };
}

const server = createServer(async (request, response) => {
  const encoder = new EventEncoder({ accept: request.headers.accept });
  response.setHeader('Content-Type', encoder.getContentType());
  for await (const event of runAgent(await json(request))) response.write(encoder.encode(event));
  response.end();
});
server.listen(0, '127.0.0.1', async () => {
  const client = new HttpAgent({ url: `http://127.0.0.1:${server.address().port}`, initialState: JSON.parse(process.argv[2]) });
  let resume;
  do {
    let outcome;
    await client.runAgent({ resume }, { onRunFinishedEvent: ({ event }) => { outcome = event.outcome; } });
    resume = outcome.type === 'interrupt' ? outcome.interrupts.map(({ id }) => ({ interruptId: id, status: 'resolved' })) : undefined;
    if (resume) console.error(`interrupted until ${outcome.interrupts[0].expiresAt}`);
  } while (resume);
  console.log(client.messages.at(-1).content);
  await holdpoint.close();
  server.close();
});

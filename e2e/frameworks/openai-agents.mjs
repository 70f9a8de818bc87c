// An agent of the OpenAI Agents SDK whose tools are those of an endpoint of Holdpoint.
import { Agent, MCPServerStreamableHttp, run, setOpenAIAPI, setTracingDisabled } from '@openai/agents';

const { ENDPOINT, AGENT_KEY } = process.env;
setOpenAIAPI('chat_completions'); // for model servers without the Responses API
setTracingDisabled(true); // traces go to OpenAI
const holdpoint = new MCPServerStreamableHttp({
  name: 'holdpoint',
  url: ENDPOINT,
  requestInit: { headers: { Authorization: `Bearer ${AGENT_KEY}` } },
  timeout: 330_000, // milliseconds, of a tool call: longer than the agent's wait_budget
});
await holdpoint.connect();
const agent = new Agent({ name: 'billing', instructions: 'You file invoices.', model: 'some-model', mcpServers: [holdpoint] });
const { finalOutput } = await run(agent, process.argv[2], { maxTurns: 30 }); // the default is 10
console.log(finalOutput);
await holdpoint.close();

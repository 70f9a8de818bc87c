// An agent of LangGraph whose tools are those of an endpoint of Holdpoint.
import { createReactAgent } from '@langchain/langgraph/prebuilt';
import { MultiServerMCPClient } from '@langchain/mcp-adapters';
import { ChatOpenAI } from '@langchain/openai';

const { ENDPOINT, AGENT_KEY } = process.env;
const client = new MultiServerMCPClient({
  mcpServers: {
    holdpoint: {
      transport: 'http',
      url: ENDPOINT,
      headers: { Authorization: `Bearer ${AGENT_KEY}` },
      defaultToolTimeout: 330_000, // milliseconds: longer than the agent's wait_budget
    },
  },
});
const agent = createReactAgent({ llm: new ChatOpenAI({ model: 'some-model' }), tools: await client.getTools() });
const { messages } = await agent.invoke(
  { messages: [{ role: 'user', content: process.argv[2] }] },
  { recursionLimit: 60 }, // a turn of the model takes two steps; the default is 25
);
console.log(messages.at(-1).content);
await client.close();

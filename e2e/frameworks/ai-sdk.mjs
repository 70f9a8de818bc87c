// An agent of the AI SDK whose tools are those of an endpoint of Holdpoint.
import { createMCPClient } from '@ai-sdk/mcp';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, isStepCount } from 'ai';

const { ENDPOINT, AGENT_KEY, OPENAI_BASE_URL, OPENAI_API_KEY } = process.env;
const holdpoint = await createMCPClient({
  transport: { type: 'http', url: ENDPOINT, headers: { Authorization: `Bearer ${AGENT_KEY}` } },
});
const provider = createOpenAICompatible({ name: 'example', baseURL: OPENAI_BASE_URL, apiKey: OPENAI_API_KEY });
const { text } = await generateText({
  model: provider('some-model'),
  tools: await holdpoint.tools(),
  stopWhen: isStepCount(30), // the default is one step: the model would never see a result
  prompt: process.argv[2],
});
console.log(text);
await holdpoint.close();

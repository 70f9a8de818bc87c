// An OpenAI Agents JS agent whose tool needs approval. The SDK hands out the state of an interrupted run as text and leaves storing it
// to the application: here a row of a table, claimed by one UPDATE, so that a second approval finds nothing to run.
import { Agent, RunState, Runner, Usage, tool } from "@openai/agents";
import pg from "pg";
import { z } from "zod";
import { serveRuns } from "./serve.mjs";
import { openSkill } from "./skill.mjs";

const callEcho = await openSkill(process.env.SKILL_URL);
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
await pool.query(`CREATE TABLE runs (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  status text NOT NULL DEFAULT 'pending',
  state text NOT NULL,
  result text,
  created_at timestamptz NOT NULL DEFAULT now())`);

// The model asks for the tool with the user's text, and repeats the answer.
const model = {
  async getResponse({ input }) {
    const last = typeof input === "string" ? { role: "user", content: input } : input.at(-1);
    const output =
      last.type === "function_call_result"
        ? { type: "message", role: "assistant", status: "completed", content: [{ type: "output_text", text: "done" }] }
        : { type: "function_call", callId: "call_1", name: "echo", status: "completed", arguments: JSON.stringify({ text: last.content }) };
    return { usage: new Usage(), output: [output] };
  },
};

const agent = new Agent({
  name: "bench",
  model,
  tools: [
    tool({
      name: "echo",
      description: "Returns the text.",
      parameters: z.object({ text: z.string() }),
      needsApproval: true,
      errorFunction: null, // an error fails the run
      execute: ({ text }) => callEcho(text),
    }),
  ],
});
const runner = new Runner({ tracingDisabled: true });

serveRuns({
  async park(text) {
    const result = await runner.run(agent, text);
    if (result.interruptions.length !== 1) throw new Error("the run was not interrupted");
    const stored = await pool.query("INSERT INTO runs (state) VALUES ($1) RETURNING id", [result.state.toString()]);
    return stored.rows[0].id;
  },
  async approve(id) {
    const claimed = await pool.query("UPDATE runs SET status = 'approved' WHERE id = $1 AND status = 'pending' RETURNING state", [id]);
    if (claimed.rowCount !== 1) throw new Error(`run ${id} is not pending`);
    const state = await RunState.fromString(agent, claimed.rows[0].state);
    for (const interruption of state.getInterruptions()) state.approve(interruption);
    const result = await runner.run(agent, state);
    await pool.query("UPDATE runs SET status = 'completed', result = $2 WHERE id = $1", [id, result.finalOutput]);
    return { status: "completed" };
  },
});

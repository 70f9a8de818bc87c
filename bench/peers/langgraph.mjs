// A LangGraph.js agent whose tool call waits in an interrupt, with the PostgreSQL checkpointer. Durability is the default.
import { randomUUID } from "node:crypto";
import { Annotation, Command, END, START, StateGraph, interrupt } from "@langchain/langgraph";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { serveRuns } from "./serve.mjs";
import { openSkill } from "./skill.mjs";

const callEcho = await openSkill(process.env.SKILL_URL);
const checkpointer = PostgresSaver.fromConnString(process.env.DATABASE_URL);
await checkpointer.setup();

const State = Annotation.Root({ text: Annotation(), result: Annotation() });
const graph = new StateGraph(State)
  .addNode("call", async ({ text }) => {
    const approved = interrupt({ tool: "echo", arguments: { text } });
    return { result: approved ? await callEcho(text) : "rejected" };
  })
  .addEdge(START, "call")
  .addEdge("call", END)
  .compile({ checkpointer });

const thread = (id) => ({ configurable: { thread_id: id } });

serveRuns({
  async park(text) {
    const id = randomUUID();
    const state = await graph.invoke({ text }, thread(id));
    if (!state.__interrupt__?.length) throw new Error(`run ${id} was not interrupted`);
    return id;
  },
  async approve(id) {
    const state = await graph.invoke(new Command({ resume: true }), thread(id));
    if (typeof state.result !== "string") throw new Error(`run ${id} has no result`);
    return { status: "completed" };
  },
});

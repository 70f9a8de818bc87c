// Holdpoint's plugin for OpenCode, in ~/.config/opencode/plugins or /etc/opencode/plugins. Before each tool it asks Holdpoint, and throws
// unless the answer is an explicit "allow": only a throw keeps OpenCode from running the tool.
import { spawn } from "node:child_process"

const command = ["COMMAND"]

// freeze makes a value constant, so that no plugin after this one changes what was approved.
const freeze = (value) => {
  if (value !== null && typeof value === "object") {
    Object.values(value).forEach(freeze)
    Object.freeze(value)
  }
  return value
}

// ask runs the command with a message and returns its exit code and output.
const ask = (message) =>
  new Promise((resolve, reject) => {
    const child = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "pipe"] })
    const out = []
    const err = []
    child.stdout.on("data", (part) => out.push(part))
    child.stderr.on("data", (part) => err.push(part))
    child.stdin.on("error", () => {}) // it ended early; its exit code counts
    child.on("error", (error) => reject(new Error("Holdpoint: the hook could not be started; the call was not run: " + error.message)))
    child.on("close", (code) => resolve({ code, out: Buffer.concat(out).toString("utf8"), err: Buffer.concat(err).toString("utf8").trim() }))
    child.stdin.end(JSON.stringify(message))
  })

const isAllowed = ({ code, out }) => {
  if (code !== 0) return false
  try {
    return JSON.parse(out).decision === "allow"
  } catch {
    return false
  }
}

export const Holdpoint = async ({ directory }) => ({
  "tool.execute.before": async (input, output) => {
    const args = freeze(output.args)
    Object.defineProperty(output, "args", { value: args, writable: false, configurable: false, enumerable: true })
    const answer = await ask({
      hook_event_name: "before", tool_name: input.tool, tool_use_id: input.callID, session_id: input.sessionID, cwd: directory, tool_input: args,
    })
    if (!isAllowed(answer)) throw new Error(answer.err || "Holdpoint: the hook failed; the call was not run")
  },
  "tool.execute.after": async (input, output) => {
    await ask({
      hook_event_name: "after", tool_name: input.tool, tool_use_id: input.callID, session_id: input.sessionID, cwd: directory,
      tool_input: input.args ?? {}, tool_response: String(output?.output ?? ""),
    }).catch(() => {}) // the tool has ended: only its outcome stays unreported
  },
})

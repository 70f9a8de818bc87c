import json, os, platform, sys

answers = {
    "initialize": lambda p: {"protocolVersion": p["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "who", "version": "1"}},
    "tools/list": lambda p: {"tools": [{"name": "who", "inputSchema": {"type": "object"}}]},
    "tools/call": lambda p: {"content": [{"type": "text", "text": f"python {platform.python_version()} as {os.getuid()}"}]},
}
for line in sys.stdin:
    message = json.loads(line)
    answer = answers.get(message["method"])
    reply = {"result": answer(message.get("params", {}))} if answer else {"error": {"code": -32601, "message": "unknown method"}}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)

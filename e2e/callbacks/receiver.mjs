// A receiver of callbacks. It needs Node 20 or later, and no packages.
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const tolerance = 5 * 60; // seconds

// verify returns the message of a request. It throws if the signature is invalid or too old.
// The body is the bytes as they arrived: parsing and encoding them again would change them.
export function verify(secret, headers, body, now = Date.now() / 1000) {
  const id = headers["webhook-id"];
  const timestamp = headers["webhook-timestamp"];
  if (!id || !(Math.abs(now - Number(timestamp)) <= tolerance)) throw new Error("no id, or too old");
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const expected = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest();
  const signatures = (headers["webhook-signature"] ?? "").split(" "); // one for each secret that is valid
  const valid = signatures.some((signature) => {
    const [version, text] = signature.split(",");
    const given = Buffer.from(text ?? "", "base64");
    return version === "v1" && given.length === expected.length && timingSafeEqual(given, expected);
  });
  if (!valid) throw new Error("no signature is valid");
  return JSON.parse(body);
}

const seen = new Set(); // ids. A real system stores them together with the effects of messages

const server = createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  try {
    const message = verify(process.env.CALLBACK_SECRET, request.headers, Buffer.concat(parts));
    const id = request.headers["webhook-id"];
    if (!seen.has(id)) console.log(JSON.stringify(message)); // handle each message once
    seen.add(id);
    response.writeHead(204).end();
  } catch (error) {
    console.error(error.message);
    response.writeHead(400).end();
  }
});
server.listen(Number(process.env.PORT), "127.0.0.1");

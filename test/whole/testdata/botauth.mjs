// Verifies signed requests, and the answer of their directory, with two packages of npm.
import { createPublicKey } from "crypto";
import { readFileSync } from "fs";
import signatures from "http-message-signatures";
import { verify } from "web-bot-auth";
import { verifierFromJWK } from "web-bot-auth/crypto";

const seen = JSON.parse(readFileSync(0));
const jwks = new Map(seen.directory.keys.map((k) => [k.kid, k]));
const keyLookup = async ({ keyid }) => ({
  id: keyid,
  algs: ["ed25519"],
  verify: signatures.createVerifier(createPublicKey({ key: jwks.get(keyid), format: "jwk" }), "ed25519"),
});
for (const { URL: url, Header: headers } of seen.requests) {
  const id = /keyid="([^"]*)"/.exec(headers["Signature-Input"])[1];
  await verify(new Request(url, { headers }), await verifierFromJWK(jwks.get(id)));
  if (!(await signatures.httpbis.verifyMessage({ keyLookup }, { method: "GET", url, headers }))) throw new Error(url);
}
const answer = { status: 200, headers: seen.head };
if (!(await signatures.httpbis.verifyMessage({ keyLookup, all: true }, answer, { method: "GET", url: seen.at, headers: {} })))
  throw new Error("the directory's answer");

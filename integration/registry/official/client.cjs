// Encodes with the npm package @kafkajs/confluent-schema-registry. Each line of stdin is a request
// in JSON, each line of stdout is its answer.
"use strict";

const readline = require("node:readline");
const { SchemaRegistry, SchemaType, COMPATIBILITY } = require("@kafkajs/confluent-schema-registry");

const TYPES = { avro: SchemaType.AVRO, protobuf: SchemaType.PROTOBUF, json: SchemaType.JSON };

// connect returns a client that does not repeat failed requests.
function connect(request) {
  const auth = request.user ? { username: request.user, password: request.password ?? "" } : undefined;
  const options = { [SchemaType.PROTOBUF]: { messageName: messageName(request) }, [SchemaType.JSON]: { strict: false } };
  return new SchemaRegistry({ host: request.registry_url, auth, retry: { retries: 0 } }, options);
}

// messageName returns the name of the message without the package, as the client wants it.
function messageName(request) {
  const found = /^\s*package\s+([\w.]+)\s*;/m.exec(request.schema);
  const name = request.message || undefined;
  return found && name?.startsWith(found[1] + ".") ? name.slice(found[1].length + 1) : name;
}

// build returns the object that a description means.
function build(description) {
  if (Array.isArray(description)) return description.map(build);
  if (description === null || typeof description !== "object") return description;
  const entries = Object.entries(description);
  if (entries.length === 1 && entries[0][0].startsWith("$")) return special(...entries[0]);
  return Object.fromEntries(entries.map(([name, content]) => [name, build(content)]));
}

function special(name, content) {
  switch (name) {
    case "$bytes":
      return Buffer.from(content, "base64");
    case "$float":
      return Number(content);
    case "$tuple": // a branch of a union
      return { [content[0]]: build(content[1]) };
    default:
      throw new Error(`the client for Node has no values of ${name}`);
  }
}

// registerReferences registers the referenced schemas in order. A schema refers to the ones before
// it that it names.
async function registerReferences(request) {
  const done = [];
  for (const { name, subject, schema } of request.references ?? []) {
    const registry = connect({ ...request, schema, message: "" });
    const references = done.filter((ref) => mentions(schema, ref.name, request.format));
    await registry.register({ type: TYPES[request.format], schema, references }, { subject, compatibility: COMPATIBILITY.BACKWARD });
    done.push({ name, subject, version: await latestVersion(registry, subject) });
  }
  return done;
}

// mentions reports whether a schema names another one. Within a namespace, Avro names are short.
function mentions(text, name, format) {
  return text.includes(name) || (format === "avro" && text.includes(name.split(".").at(-1)));
}

async function latestVersion(registry, subject) {
  const response = await registry.api.Subject.latestVersion({ subject });
  return response.data().version;
}

async function encode(request) {
  if ((request.framing || "prefix") !== "prefix") throw new Error("the client for Node writes only prefixes");
  const references = await registerReferences(request);
  const registry = connect(request);
  const schema = { type: TYPES[request.format], schema: request.schema };
  if (references.length > 0) schema.references = references;
  const { id } = await registry.register(schema, { subject: `${request.topic}-${request.part}` });
  const value = request.format === "json" ? request.value : build(request.value);
  const raw = await registry.encode(id, value);
  return { value_base64: raw.toString("base64"), headers: [] };
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin, crlfDelay: Infinity })) {
    const answer = await encode(JSON.parse(line)).catch((error) => ({ error: String(error?.message || error) }));
    process.stdout.write(JSON.stringify(answer) + "\n");
  }
}

main();

// JSON as text: it is checked, laid out and searched by its tokens, never parsed into values, because numbers such as
// 12345678901234567890, 1.0 and 1e400 must keep their text.

const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const string = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const word = /true|false|null/y;
const space = /[ \t\r\n]*/y;

const match = (pattern, text, at) => {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0] ?? "";
};

// scan returns the tokens of a text up to its first problem, the members with their paths, and that problem or null.
export function scan(text) {
  const tokens = [], members = [], open = []; // open: the objects and arrays around the current place
  let at = 0, want = "value"; // value, first (value or ]), name, member (name or }), colon, next (comma or end), end
  const path = () => "$" + open.map((o) => (o.kind === "[" ? `[${o.count}]` : o.name === null ? "" : `.${o.name}`)).join("");
  const fail = (message, to = at + 1) => ({
    tokens, members, problem: { from: Math.min(at, Math.max(0, text.length - 1)), to: Math.min(Math.max(to, at + 1), text.length), message, path: path() },
  });
  const take = (kind, length) => {
    tokens.push({ kind, from: at, to: at + length });
    at += length;
  };
  const closed = () => {
    open.pop();
    want = open.length ? "next" : "end";
  };
  for (;;) {
    at += match(space, text, at).length;
    if (at >= text.length) break;
    const c = text[at], inside = open.at(-1);
    if (want === "end") return fail("there is more after the value", text.length);
    if (want === "colon") {
      if (c !== ":") return fail("a colon is missing");
      take(":", 1);
      want = "value";
    } else if (want === "next") {
      if (c === ",") {
        take(",", 1);
        if (inside.kind === "[") inside.count++;
        want = inside.kind === "[" ? "value" : "name";
      } else if (c === (inside.kind === "[" ? "]" : "}")) {
        take(c, 1);
        closed();
      } else return fail(`a comma or ${inside.kind === "[" ? "]" : "}"} is missing`);
    } else if (want === "member" && c === "}" || want === "first" && c === "]") {
      take(c, 1);
      closed();
    } else if (want === "name" || want === "member") {
      const name = match(string, text, at);
      if (!name) return fail(c === "}" ? "there is a comma before }" : c === '"' ? "this text does not end, or has a wrong escape" : "a name in double quotes is missing");
      inside.name = name.slice(1, -1);
      members.push({ name: inside.name, path: path(), from: at, to: at + name.length });
      take("name", name.length);
      want = "colon";
    } else if (c === "{" || c === "[") {
      take(c, 1);
      open.push({ kind: c, name: null, count: 0 });
      want = c === "{" ? "member" : "first";
    } else {
      const value = match(string, text, at) || match(number, text, at) || match(word, text, at);
      if (!value) return fail(c === '"' ? "this text does not end, or has a wrong escape" : c === "]" ? "there is a comma before ]" : "a value is missing");
      if (/[\w.+-]/.test(text[at + value.length] ?? "") && value[0] !== '"') return fail("this is no number, true, false or null");
      take("value", value.length);
      want = open.length ? "next" : "end";
    }
  }
  if (want === "end") return { tokens, members, problem: null };
  at = Math.max(0, text.trimEnd().length - 1);
  return fail(tokens.length ? "the text ends too early" : "there is no value");
}

// format writes one value a line, indented by two spaces; minify writes no space between tokens.
export function format(text, tokens) {
  const out = [];
  let depth = 0;
  const line = (by) => {
    depth += by;
    out.push("\n", "  ".repeat(depth));
  };
  tokens.forEach((token, i) => {
    const source = text.slice(token.from, token.to), before = tokens[i - 1]?.kind, next = tokens[i + 1]?.kind;
    switch (token.kind) {
      case "{": case "[":
        out.push(source);
        if (next !== (token.kind === "{" ? "}" : "]")) line(1);
        break;
      case "}": case "]":
        if (before !== (token.kind === "}" ? "{" : "[")) line(-1);
        out.push(source);
        break;
      case ",": out.push(source); line(0); break;
      case ":": out.push(": "); break;
      default: out.push(source);
    }
  });
  return out.join("");
}

export function minify(text, tokens) {
  return tokens.map((token) => text.slice(token.from, token.to)).join("");
}

// place returns the line and the column of an offset, both from 1.
export function place(text, offset) {
  const before = text.slice(0, offset);
  const start = before.lastIndexOf("\n") + 1;
  return { line: before.split("\n").length, column: [...before.slice(start)].length + 1 };
}

// named returns the members that a text names, at most most of them: names of at least three letters, as whole words.
export function named(members, text, most) {
  const words = new Set(text.toLowerCase().match(/[\p{L}\p{N}_-]{3,}/gu) ?? []);
  const parts = new Set([...words].flatMap((w) => w.split(/[_-]/)).concat(...words));
  const found = [];
  for (const member of members) {
    const name = member.name.toLowerCase();
    if (name.length >= 3 && (words.has(name) || parts.has(name)) && !found.some((other) => other.path === member.path)) found.push(member);
    if (found.length === most) break;
  }
  return found;
}

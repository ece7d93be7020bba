// Prints where a person signs in, reads the code that they come back with, and prints what the client was told.
import { createInterface } from "node:readline/promises";
import { ask } from "./client.mjs";

const given = JSON.parse(process.argv[2]);
const settings = { ...given, kept: {}, open: (url) => console.log(url.href) };
const lines = createInterface({ input: process.stdin });
if ((await ask(settings)) !== null) throw new Error("It did not have to sign in");
for await (const code of lines) {
  console.log(JSON.stringify(await ask({ ...settings, code })));
  break;
}
lines.close();

// Asks models in folders with transformers.js: JSON on standard input, answers on standard output.

import { readFileSync } from "node:fs";
import { env, pipeline } from "@huggingface/transformers";

const { folder, asked } = JSON.parse(readFileSync(0, "utf-8"));
env.allowRemoteModels = false;
env.localModelPath = folder;
const answers = [];
for (const { model, task, dtype, inputs, options = {} } of asked) {
  const ask = await pipeline(task, model, { dtype });
  const said = await ask(...inputs, options);
  answers.push(said.tolist ? said.tolist() : said);
}
console.log(JSON.stringify({ version: env.version, answers }));

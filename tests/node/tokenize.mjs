// Ids of lines by the tokenizer of the page: a folder and lines in, lists of ids out.

import { readFileSync } from "node:fs";
import { Tokenizer } from "@huggingface/tokenizers";

const { folder, lines } = JSON.parse(readFileSync(0, "utf-8"));
const read = (name) => JSON.parse(readFileSync(`${folder}/${name}`, "utf-8"));
const tokenizer = new Tokenizer(read("tokenizer.json"), read("tokenizer_config.json"));
console.log(JSON.stringify(lines.map((line) => tokenizer.encode(line).ids)));
